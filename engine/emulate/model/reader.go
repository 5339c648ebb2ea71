package model

import (
	"strings"

	"interlude/engine"
	"interlude/engine/vocab"
)

// writer produces a canonical answer piece by piece: each call says more through
// the reader, until it returns false. Pieces are cut where no token of the
// vocabulary spans the cut, so that they encode like the whole text.
type writer func(r *Reader) bool

// once writes a text that is known at once.
func once(text string) writer {
	done := false
	return func(r *Reader) bool {
		if done {
			return false
		}
		done = true
		r.say(text)
		return true
	}
}

// Reader is the voice that answers from token ids alone. It holds no memory
// from one GEN to the next: the same ids with the same seed continue the same
// way, wherever an answer was split. Ids that are no beginning of the answer
// derail it: every further one is drawn from all ids so far.
type Reader struct {
	text        *IDs
	temperature float64
	seed        uint64

	start  int     // position of the first token of the answer
	said   []int32 // canonical answer as far as it is written
	next   int     // in said
	stages []writer
	off    bool // derailed
}

// NewReader reads the prompt, and whatever of an answer stands behind it.
func NewReader(text *IDs, temperature float64, seed uint64) *Reader {
	r := &Reader{text: text, temperature: temperature, seed: seed}
	p := parsePrompt(text.ids)
	r.start, r.off = p.header, !p.answered
	if r.off {
		return r
	}
	if p.thinking {
		r.stages = append(r.stages, r.reasoning(&p))
	}
	r.stages = append(r.stages, p.answer(), func(r *Reader) bool {
		r.sayID(vocab.ImEnd)
		r.stages = nil
		return false
	})
	for _, id := range text.ids[p.header:] {
		if !r.fill() || r.said[r.next] != id {
			r.off = true
			break
		}
		r.next++
	}
	return r
}

// NewJob makes the job of a GEN; image is the digest of its image records.
func NewJob(g *engine.Gen, image uint64) Job {
	text := NewIDs(g.IDs)
	j := Job{Text: text, Voice: NewReader(text, g.Temperature, g.Seed), MaxNew: g.MaxNew, NoCheckpoint: g.NoCheckpoint,
		Pin: g.Pin, Cvec: 1, Image: image, Logprobs: g.Logprobs, Mask: g.Mask}
	if g.Cvec != nil {
		j.Cvec = *g.Cvec
	}
	return j
}

// say and sayID add to the canonical answer.
func (r *Reader) say(text string) { r.said = vocab.Encode(r.said, text) }
func (r *Reader) sayID(id int32)  { r.said = append(r.said, id) }

// at is the absolute position of the next token to be written.
func (r *Reader) at() int { return r.start + len(r.said) }

// fill makes sure that said[next] stands; false is the end of the answer.
func (r *Reader) fill() bool {
	for r.next == len(r.said) {
		if len(r.stages) == 0 {
			return false
		}
		stage := r.stages[0]
		if !stage(r) && len(r.stages) > 0 {
			r.stages = r.stages[1:]
		}
	}
	return true
}

// Next implements Voice.
func (r *Reader) Next(allow func(id int32) bool) int32 {
	if !r.off && !r.fill() {
		r.off = true
	}
	if !r.off {
		if id := r.said[r.next]; allow == nil || allow(id) {
			r.next++
			return id
		}
		r.off = true
	}
	return r.derailed(allow)
}

// derailWords are in no rule and in no answer.
const derailWords = "the of and to in is it that for was on are as with they at"

// derailed draws a word from all ids so far; one draw in 256 ends the answer.
// Under a mask that forbids the word it closes what is open.
func (r *Reader) derailed(allow func(id int32) bool) int32 {
	h := r.text.Digest(r.text.Len())
	id := vocab.ImEnd
	if h>>32&255 != 0 {
		words := strings.Fields(derailWords)
		id = vocab.Encode(nil, " "+words[h&15])[0]
	}
	if allow == nil || allow(id) {
		return id
	}
	for _, closer := range [...]int32{vocab.ImEnd, '}', ']', '"', ',', ':', '0', '{', '['} {
		if allow(closer) {
			return closer
		}
	}
	for i := range int32(vocab.Size) {
		if id := (int32(h%vocab.Size) + i) % vocab.Size; allow(id) {
			return id
		}
	}
	return vocab.ImEnd // nothing is allowed
}

// reasoning comes before the answer when <think> is open: the rule's name and 12
// to 40 words drawn from the prompt.
func (r *Reader) reasoning(p *prompt) writer {
	words := p.words()
	if words == nil {
		words = strings.Fields(derailWords)
	}
	h := r.text.Digest(p.header)
	left := 12 + int(h%29)
	begun := false
	return func(r *Reader) bool {
		switch {
		case !begun: // with the first word: a token spans the blank after the colon
			begun = true
			left--
			h = mix(h, uint64(left))
			r.say("Rule " + p.nonce() + ": " + words[h&15])
		case left > 0:
			left--
			h = mix(h, uint64(left))
			r.say(" " + words[h&15])
		default:
			r.say("\n")
			r.sayID(vocab.ThinkEnd)
			r.say("\n\n")
			return false
		}
		return true
	}
}
