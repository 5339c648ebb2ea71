package model

import (
	"bytes"
	"slices"
	"strings"

	"interlude/engine/vocab"
)

// turn is one turn of a prompt: its text without special ids, cut where they
// stood.
type turn struct {
	role    string
	text    string   // of a user or system turn, tool results left out
	results []string // contents of tool results
	calls   []string // insides of tool calls
}

// prompt is what the reader makes of the ids of a GEN.
type prompt struct {
	turns    []turn
	answered bool // it ends in the header of an answer, perhaps with the beginning of one
	thinking bool // that header leaves <think> open
	header   int  // position behind the header: what follows was emitted before
}

// parsePrompt reads ids alone: roles from what follows <|im_start|>, structure
// from the special ids, everything else from the pieces.
func parsePrompt(ids []int32) prompt {
	var p prompt
	last := -1
	for i := len(ids) - 1; i >= 0; i-- {
		if ids[i] == vocab.ImStart {
			last = i
			break
		}
	}
	if last < 0 {
		return p
	}
	p.parseHeader(ids, last+1)
	if !p.answered {
		return p
	}
	for i, end := 0, last; i < end; {
		if ids[i] != vocab.ImStart {
			i++
			continue
		}
		n := i + 1
		for n < end && ids[n] != vocab.ImStart && ids[n] != vocab.ImEnd {
			n++
		}
		p.turns = append(p.turns, parseTurn(ids[i+1:n]))
		i = n
	}
	return p
}

// parseHeader recognises the header of the answer behind the last <|im_start|>.
func (p *prompt) parseHeader(ids []int32, at int) {
	rest := ids[at:]
	name := vocab.Encode(nil, "assistant\n")
	if len(rest) < len(name) || !slices.Equal(rest[:len(name)], name) {
		return
	}
	p.answered, p.header = true, at+len(name)
	rest = rest[len(name):]
	if len(rest) == 0 || rest[0] != vocab.Think {
		return // a template without thinking
	}
	shut := append(append([]int32{vocab.Think}, vocab.Encode(nil, "\n\n")...), vocab.ThinkEnd)
	shut = vocab.Encode(shut, "\n\n")
	open := vocab.Encode([]int32{vocab.Think}, "\n")
	switch {
	case len(rest) >= len(shut) && slices.Equal(rest[:len(shut)], shut):
		p.header += len(shut)
	case len(rest) >= len(open) && slices.Equal(rest[:len(open)], open):
		p.header += len(open)
		p.thinking = true
	default:
		p.answered = false // cut inside the header
	}
}

// parseTurn reads what stands between <|im_start|> and <|im_end|>.
func parseTurn(ids []int32) turn {
	var t turn
	var outer, inner []byte
	within := int32(0)
	for _, id := range ids {
		switch id {
		case vocab.ToolCall, vocab.ToolResponse:
			within, inner = id, inner[:0]
		case vocab.ToolCallEnd:
			if within == vocab.ToolCall {
				t.calls = append(t.calls, string(inner))
			}
			within = 0
		case vocab.ToolResponseEnd:
			if within == vocab.ToolResponse {
				t.results = append(t.results, unframed(inner))
			}
			within = 0
		default:
			if within != 0 {
				inner = append(inner, vocab.Piece(id)...)
			} else {
				outer = append(outer, vocab.Piece(id)...)
			}
		}
	}
	role, text, _ := bytes.Cut(outer, []byte{'\n'})
	t.role = string(role)
	if t.role != "assistant" { // its own words plant nothing
		t.text = string(text)
	}
	return t
}

// unframed drops the line ends that the template puts around a tool result.
func unframed(b []byte) string {
	return strings.TrimSuffix(strings.TrimPrefix(string(b), "\n"), "\n")
}

// lines visits every line of the turn that may hold a directive: its text, then
// its tool results.
func (t *turn) lines(visit func(line string)) {
	for line := range strings.Lines(t.text) {
		visit(strings.TrimRight(line, "\r\n"))
	}
	for _, r := range t.results {
		for line := range strings.Lines(r) {
			visit(strings.TrimRight(line, "\r\n"))
		}
	}
}
