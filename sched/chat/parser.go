package chat

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// DeltaKind says what a Delta adds to.
type DeltaKind uint8

// Kinds of deltas.
const (
	Content DeltaKind = iota + 1
	Reasoning
	ToolStart // Index, ID, Name
	ToolArgs  // Index, Text
	ToolEnd   // Index: the call is complete
)

// Delta is one step of what the client sees.
type Delta struct {
	Kind  DeltaKind
	Text  string
	Index int // of the tool call, from 0
	ID    string
	Name  string
}

// Reasons for the end of an answer, as clients know them.
const (
	ReasonStop      = "stop"
	ReasonLength    = "length"
	ReasonToolCalls = "tool_calls"
)

// ParserOptions say how an answer begins and what may stand in it.
type ParserOptions struct {
	Thinking bool     // the prompt left <think> open
	Tools    []Tool   // empty: call markup is ordinary text
	OneCall  bool     // stop after the first complete call
	Stop     []string // non-empty strings; they end the content, not the reasoning
	Seed     string   // unique for the request; call ids are derived from it
}

type mode uint8

const (
	inContent mode = iota
	inReasoning
	inCall
	afterCall // white space between calls
	stopped
)

// Parser turns the ids of one answer into deltas, one id at a time.
type Parser struct {
	tok  Tokenizer
	opts ParserOptions
	mode mode
	hold []byte // received and not given out

	think, thinkEnd, callOpen, callEnd int32 // -1: this vocabulary writes it as text
	ends                               []int32

	strip  int // newlines still to drop at the start of content
	said   bool
	call   callParser
	calls  int // opened, i.e. the index of the next one
	closed int // complete

	ended     bool
	tokens    int
	reasoning int
}

// NewParser starts the parsing of one answer.
func NewParser(tok Tokenizer, o ParserOptions) *Parser {
	p := &Parser{tok: tok, opts: o, ends: tok.EndIDs()}
	word := func(s string) int32 {
		if id, ok := tok.Special(s); ok {
			return id
		}
		return -1
	}
	p.think, p.thinkEnd, p.callOpen, p.callEnd = word(think), word(thinkEnd), word(toolCall), word(toolCallEnd)
	if o.Thinking {
		p.mode = inReasoning
	}
	return p
}

// Stopped tells that nothing more will be given out: a stop string matched, or
// the one allowed call is complete. The engine need not go on.
func (p *Parser) Stopped() bool { return p.mode == stopped }

// Tokens are the ids that belong to the answer: up to and including the one that
// ended it or completed a stop string, whatever came after.
func (p *Parser) Tokens() int { return p.tokens }

// ReasoningTokens are those of them that were read as reasoning.
func (p *Parser) ReasoningTokens() int { return p.reasoning }

// Push takes the next id of the answer and appends what it adds.
func (p *Parser) Push(id int32, out []Delta) []Delta {
	if p.mode == stopped || p.ended {
		return out
	}
	p.tokens++
	if p.mode == inReasoning {
		p.reasoning++
	}
	for _, e := range p.ends {
		if id == e {
			p.ended = true
			return out
		}
	}
	switch {
	case id == p.thinkEnd && p.mode == inReasoning:
		return p.endReasoning(out)
	case id == p.think && p.mode == inContent && !p.said && len(p.hold) == 0:
		p.mode = inReasoning // the model opened it itself
		p.strip = 1
		return out
	case id == p.callOpen && len(p.opts.Tools) > 0 && !(p.mode == inCall && p.call.open()):
		return p.openCall(out)
	case id == p.callEnd && p.mode == inCall:
		return p.closeCall(out)
	}
	return p.feed(p.tok.Piece(id), out)
}

// Close ends the answer with the engine's own word for it (stop, length, cancel,
// nonfinite) and gives out what was held back. Half a character at the end was
// never said and is dropped. The reason is tool_calls only if the model ended the
// answer itself and every call is complete.
func (p *Parser) Close(finish string, out []Delta) ([]Delta, string) {
	matched := p.mode == stopped
	switch p.mode {
	case inContent, inReasoning:
		out = p.emit(len(p.hold)-partialRune(p.hold), out)
	case inCall:
		out = p.closeCall(out)
	}
	p.mode, p.hold = stopped, nil
	switch {
	case p.calls > 0 && p.calls == p.closed && (matched || finish == "stop"):
		return out, ReasonToolCalls
	case matched || finish == "stop" || finish == "cancel":
		return out, ReasonStop
	}
	return out, ReasonLength
}

// feed takes ordinary text.
func (p *Parser) feed(text string, out []Delta) []Delta {
	for text != "" {
		switch p.mode {
		case inContent, inReasoning:
			return p.feedText(text, out)
		case afterCall:
			if blank(text) {
				p.hold = append(p.hold, text...)
				return out
			}
			if p.callOpen < 0 {
				if more, rest := p.reopen(text, &out); more {
					text = rest
					continue
				}
			}
			p.mode = inContent
		case inCall:
			var rest string
			out, rest = p.feedCall(text, out)
			text = rest
		default:
			return out
		}
	}
	return out
}

// feedText is content or reasoning.
func (p *Parser) feedText(text string, out []Delta) []Delta {
	for p.strip > 0 && len(p.hold) == 0 && text != "" {
		if text[0] != '\n' {
			p.strip = 0
			break
		}
		p.strip--
		text = text[1:]
	}
	if text == "" {
		return out
	}
	if len(p.hold) == 0 && p.plain() && utf8.ValidString(text) {
		p.said = true
		return append(out, Delta{Kind: Content, Text: text})
	}
	p.hold = append(p.hold, text...)
	return p.scan(out)
}

// plain tells that nothing is looked for in the content.
func (p *Parser) plain() bool {
	return p.mode == inContent && len(p.opts.Stop) == 0 && !p.textCalls()
}

// textCalls tells that this vocabulary writes the opening of a call as text.
func (p *Parser) textCalls() bool { return p.callOpen < 0 && len(p.opts.Tools) > 0 }

// scan looks in what is held for the words that change the mode and gives out
// all that cannot be the beginning of one.
func (p *Parser) scan(out []Delta) []Delta {
	keep := partialRune(p.hold)
	first, word := -1, "" // the match that is complete first
	look := func(w string) {
		at, tail := find(p.hold, w)
		keep = max(keep, tail)
		if at >= 0 && (first < 0 || at+len(w) < first+len(word)) {
			first, word = at, w
		}
	}
	if p.mode == inContent {
		for _, s := range p.opts.Stop {
			look(s)
		}
	} else if p.hold[len(p.hold)-1] == '\n' {
		keep = max(keep, 1) // the newline before </think> is not part of the reasoning
	}
	markup := func(w string) {
		look(w)
		if p.mode == inReasoning {
			_, tail := find(p.hold, "\n"+w)
			keep = max(keep, tail)
		}
	}
	if p.mode == inReasoning && p.thinkEnd < 0 {
		markup(thinkEnd)
	}
	if p.textCalls() {
		markup(toolCall)
	}
	if first < 0 {
		return p.emit(len(p.hold)-keep, out)
	}
	rest := string(p.hold[first+len(word):])
	p.hold = p.hold[:first]
	switch {
	case word == toolCall && p.textCalls():
		return p.feed(rest, p.openCall(out))
	case p.mode == inReasoning:
		return p.feed(rest, p.endReasoning(out))
	}
	out = p.emit(first, out)
	p.mode, p.hold = stopped, nil
	return out
}

// emit gives out the first n held bytes.
func (p *Parser) emit(n int, out []Delta) []Delta {
	if n <= 0 {
		return out
	}
	kind := Content
	if p.mode == inReasoning {
		kind = Reasoning
	} else {
		p.said = true
	}
	out = append(out, Delta{Kind: kind, Text: validText(p.hold[:n])})
	p.hold = append(p.hold[:0], p.hold[n:]...)
	return out
}

func (p *Parser) endReasoning(out []Delta) []Delta {
	n := len(p.hold) - partialRune(p.hold)
	if n > 0 && p.hold[n-1] == '\n' {
		n--
	}
	out = p.emit(n, out)
	p.mode, p.hold, p.strip = inContent, p.hold[:0], 2
	return out
}

// openCall begins a call; content before it is complete, white space between two
// calls is not content.
func (p *Parser) openCall(out []Delta) []Delta {
	switch p.mode {
	case inCall:
		if p.call.state == callDone {
			out = p.closeCall(out) // </tool_call> was left out; the function is complete
		}
	case inReasoning: // a call made while thinking is a call all the same
		out = p.endReasoning(out)
	case inContent:
		out = p.emit(len(p.hold)-partialRune(p.hold), out)
	}
	p.hold = p.hold[:0]
	p.mode = inCall
	p.call = callParser{index: p.calls, types: p.argumentTypes, id: p.callID(p.calls)}
	return out
}

func (p *Parser) callID(index int) string {
	h := sha256.Sum256([]byte(p.opts.Seed + "/" + strconv.Itoa(index)))
	return "call_" + hex.EncodeToString(h[:12])
}

// feedCall hands text to the open call and notices how it went on.
func (p *Parser) feedCall(text string, out []Delta) ([]Delta, string) {
	was := p.call.named
	out, rest := p.call.push(text, out)
	if p.call.named && !was {
		p.calls++
	}
	switch {
	case p.call.state == notACall:
		p.mode, p.said = inContent, true
		if p.textCalls() { // scan would take it for the opening again
			return append(out, Delta{Kind: Content, Text: toolCall}), string(p.call.hold)
		}
		return p.feedText(toolCall, out), string(p.call.hold)
	case p.call.state == callDone:
		// White space may stand before the word that closes the call. Where something
		// else does, it was left out: the function is complete.
		after := bytes.TrimLeft(append(p.call.hold, rest...), " \t\r\n")
		p.call.hold = after
		behind, whole := bytes.CutPrefix(after, []byte(toolCallEnd))
		asText := p.callEnd < 0
		switch {
		case len(after) == 0 || asText && !whole && bytes.HasPrefix([]byte(toolCallEnd), after):
			return out, "" // it may still come
		case asText && whole:
			return p.closeCall(out), string(behind)
		}
		return p.closeCall(out), string(after)
	}
	return out, rest
}

func (p *Parser) closeCall(out []Delta) []Delta {
	p.mode = afterCall
	p.hold = p.hold[:0]
	if p.call.state != callDone {
		return p.call.cut(out) // never complete: the answer cannot end as tool_calls
	}
	p.closed++
	out = append(out, Delta{Kind: ToolEnd, Index: p.call.index})
	if p.opts.OneCall {
		p.mode = stopped
	}
	return out
}

// reopen sees the next call's opening where it is written as text.
func (p *Parser) reopen(text string, out *[]Delta) (bool, string) {
	p.hold = append(p.hold, text...)
	at, tail := find(p.hold, toolCall)
	switch {
	case at >= 0 && blank(string(p.hold[:at])):
		rest := string(p.hold[at+len(toolCall):])
		*out = p.openCall(*out)
		return true, rest
	case tail > 0 && blank(string(p.hold[:len(p.hold)-tail])):
		return true, ""
	}
	p.hold = p.hold[:len(p.hold)-len(text)]
	return false, text
}

// argumentTypes finds the schema types of a function's arguments.
func (p *Parser) argumentTypes(function string) map[string]string {
	for _, t := range p.opts.Tools {
		if t.Name != function {
			continue
		}
		var s struct {
			Properties map[string]struct {
				Type any `json:"type"`
			} `json:"properties"`
		}
		if json.Unmarshal(t.Parameters, &s) != nil {
			return nil
		}
		types := make(map[string]string, len(s.Properties))
		for name, property := range s.Properties {
			types[name], _ = property.Type.(string)
		}
		return types
	}
	return nil
}
