package serve

import (
	"math"
	"strconv"

	"interlude/engine"
	"interlude/sched/chat"
)

// leastScore stands for every score below it, minus infinity too: JSON has no
// infinity, and OpenAI writes the same number.
const leastScore = -9999

// appendScores writes the logprobs object of Chat Completions: one entry for each
// token of the answer, text, markup and end alike.
func appendScores(dst []byte, tok chat.Tokenizer, scores []engine.Logprob, top int) []byte {
	return append(appendEntries(append(dst, `{"content":`...), tok, scores, top), `,"refusal":null}`...)
}

// appendEntries writes the entries alone, as both APIs have them.
func appendEntries(dst []byte, tok chat.Tokenizer, scores []engine.Logprob, top int) []byte {
	dst = append(dst, '[')
	for i, s := range scores {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendScore(dst, tok, s.ID, s.Logprob)
		dst = append(dst, `,"top_logprobs":[`...)
		for j, t := range s.Top[:min(top, len(s.Top))] {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendScore(dst, tok, t.ID, t.Logprob), '}')
		}
		dst = append(dst, "]}"...)
	}
	return append(dst, ']')
}

// appendScore writes `{"token":…,"logprob":…,"bytes":…` without its end.
func appendScore(dst []byte, tok chat.Tokenizer, id int32, score float64) []byte {
	piece := tok.Piece(id)
	dst = chat.AppendEscaped(append(dst, `{"token":"`...), piece)
	if math.IsNaN(score) || score < leastScore {
		score = leastScore
	}
	dst = strconv.AppendFloat(append(dst, `","logprob":`...), min(score, 0), 'g', -1, 64)
	dst = append(dst, `,"bytes":[`...)
	for i := range len(piece) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(piece[i]), 10)
	}
	return append(dst, ']')
}
