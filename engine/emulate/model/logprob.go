package model

import (
	"math"

	"interlude/engine"
)

// token is the line that tells of id at absolute position at.
func (e *Engine) token(id int32, at int) engine.Reply {
	if e.job.Logprobs == 0 {
		return engine.Reply{Kind: engine.ReplyToken, ID: id}
	}
	return engine.Reply{Kind: engine.ReplyLogprob, ID: id, LP: score(id, at, e.job.Logprobs, e.said)}
}

// score invents the scores of a token from nothing but the token and its
// position, so that a park cannot move them. The token itself is the likeliest.
func score(id int32, at, k, index int) engine.Logprob {
	h := mix(mix(0x1f0a, uint64(id)), uint64(at))
	p := 0.5 + float64(h>>40)/float64(1<<24)*0.49
	lp := engine.Logprob{Index: index, ID: id, Logprob: logOf(p), Top: make([]engine.TopLogprob, 0, k)}
	lp.Top = append(lp.Top, engine.TopLogprob{ID: id, Logprob: lp.Logprob})
	rest := 1 - p
	for rival := int32(h % 1000); len(lp.Top) < k; rival++ {
		if rival == id {
			continue
		}
		rest /= 2
		lp.Top = append(lp.Top, engine.TopLogprob{ID: rival, Logprob: logOf(rest)})
	}
	return lp
}

// logOf is the natural logarithm to six places.
func logOf(p float64) float64 { return math.Round(math.Log(p)*1e6) / 1e6 }
