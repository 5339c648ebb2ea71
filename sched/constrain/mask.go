package constrain

import (
	"cmp"
	"errors"
	"slices"
)

// Vocabulary is a tokenizer's pieces in the order of their bytes, so that tokens
// with a common beginning are walked once. It may be shared.
type Vocabulary struct {
	words  int // 32-bit words of a mask
	tokens []entry
	ends   []int32
	call   int32 // −1: written as text
	close  int32
	think  int32 // </think>; −1: written as text
}

type entry struct {
	id    int32
	piece string
	same  int // bytes shared with the entry before
}

// NewVocabulary lists a vocabulary of size ids. special gives the ids of markup
// words; ends finish an answer.
func NewVocabulary(size int, piece func(id int32) string, special func(text string) (int32, bool), ends []int32) *Vocabulary {
	v := &Vocabulary{words: (size + 31) / 32, ends: ends}
	word := func(text string) int32 {
		if id, ok := special(text); ok {
			return id
		}
		return -1
	}
	v.call, v.close, v.think = word("<tool_call>"), word("</tool_call>"), word("</think>")
	markup := []int32{v.call, v.close, v.think}
	for _, w := range []string{"<think>", "<tool_response>", "</tool_response>", "<|im_start|>", "<|image_pad|>"} {
		markup = append(markup, word(w))
	}
	for id := range int32(size) {
		if p := piece(id); p != "" && !slices.Contains(markup, id) && !slices.Contains(ends, id) {
			v.tokens = append(v.tokens, entry{id: id, piece: p})
		}
	}
	slices.SortFunc(v.tokens, func(a, b entry) int { return cmp.Or(cmp.Compare(a.piece, b.piece), cmp.Compare(a.id, b.id)) })
	for i := 1; i < len(v.tokens); i++ {
		a, b := v.tokens[i-1].piece, v.tokens[i].piece
		n := 0
		for n < len(a) && n < len(b) && a[n] == b[n] {
			n++
		}
		v.tokens[i].same = n
	}
	return v
}

// Plain tells that the markup of calls is text in this vocabulary.
func (v *Vocabulary) Plain() bool { return v.call < 0 || v.close < 0 }

// ErrForm says that a form cannot be followed any further: its parts can be read in
// too many ways at once.
var ErrForm = errors.New("the form is too ambiguous to be enforced")

// Mask says what the next token may be.
type Mask struct {
	Err   error    // ErrForm; nothing else is set then
	Cut   []int32  // with no Words: anything, and the accepted run ends at these
	Words []uint32 // bit v%32 of word v/32 allows token v; the mask keeps them
}

// Run holds one answer to a form. It follows the emitted ids; it may be asked for
// any answer that begins with what it has seen, and starts over for another.
type Run struct {
	g       *Grammar
	v       *Vocabulary
	thought bool // the answer begins inside a thought
	piece   func(id int32) string

	seen     []int32
	at       int32
	thinking bool
	masks    map[int32][]uint32
}

// NewRun starts an answer; thought tells that the prompt left a thought open. A
// grammar may be used by one run at a time.
func NewRun(g *Grammar, v *Vocabulary, piece func(id int32) string, thought bool) *Run {
	r := &Run{g: g, v: v, piece: piece, thought: thought && v.think >= 0, masks: map[int32][]uint32{}}
	r.restart()
	return r
}

func (r *Run) restart() {
	r.seen, r.thinking = r.seen[:0], r.thought
	r.at = r.g.start(false)
}

// Mask is the mask after these ids: a function of them alone.
func (r *Run) Mask(emitted []int32) Mask {
	if len(emitted) < len(r.seen) || !slices.Equal(emitted[:len(r.seen)], r.seen) {
		r.restart()
	}
	for _, id := range emitted[len(r.seen):] {
		r.take(id)
		if r.at != dead && r.g.full() {
			r.at = r.g.forget(r.at)
			clear(r.masks)
		}
	}
	if r.thinking {
		return Mask{Cut: []int32{r.v.think}}
	}
	words := r.words()
	if r.g.over {
		return Mask{Err: ErrForm}
	}
	return Mask{Words: words}
}

func (r *Run) take(id int32) {
	r.seen = append(r.seen, id)
	switch {
	case r.thinking:
		if id == r.v.think {
			r.thinking = false
			r.at = r.g.start(true)
		}
	case r.at == dead || slices.Contains(r.v.ends, id):
	case id == r.v.call:
		r.at = r.g.step(r.at, symCall)
	case id == r.v.close:
		r.at = r.g.step(r.at, symCallEnd)
	default:
		p := r.piece(id)
		for i := 0; i < len(p) && r.at != dead; i++ {
			r.at = r.g.step(r.at, int(p[i]))
		}
	}
}

// keptMasks bounds the memory of a run: a mask of a large vocabulary has 31 KB.
const keptMasks = 64

// words computes the mask of the present state. Where the form is complete, or an
// engine has left it, only an end is allowed.
func (r *Run) words() []uint32 {
	if m, ok := r.masks[r.at]; ok {
		return m
	}
	m := make([]uint32, r.v.words)
	some := r.at != dead && r.walk(m)
	if !some || r.g.states[r.at].accept {
		for _, e := range r.v.ends {
			allow(m, e)
		}
	}
	if len(r.masks) >= keptMasks {
		clear(r.masks)
	}
	r.masks[r.at] = m
	return m
}

func allow(m []uint32, id int32) {
	if w := int(id) >> 5; id >= 0 && w < len(m) {
		m[w] |= 1 << (uint(id) & 31)
	}
}

// walk allows every token whose bytes the grammar takes from here. path[n] is the
// state behind n bytes of the present entry.
func (r *Run) walk(m []uint32) (some bool) {
	g := r.g
	if r.v.call >= 0 && g.step(r.at, symCall) != dead {
		allow(m, r.v.call)
		some = true
	}
	if r.v.close >= 0 && g.step(r.at, symCallEnd) != dead {
		allow(m, r.v.close)
		some = true
	}
	path := []int32{r.at}
	for i := range r.v.tokens {
		t := &r.v.tokens[i]
		path = path[:min(len(path), t.same+1)]
		if path[len(path)-1] == dead {
			continue // shares the beginning that led nowhere
		}
		for n := len(path) - 1; n < len(t.piece) && path[n] != dead; n++ {
			path = append(path, g.step(path[n], int(t.piece[n])))
		}
		if path[len(path)-1] != dead {
			allow(m, t.id)
			some = true
		}
	}
	return some
}
