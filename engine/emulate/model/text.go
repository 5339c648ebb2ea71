package model

import "interlude/engine/vocab"

// Text is a prompt and the answer that grows behind it, as the engine sees it:
// it asks for prefixes, not for words. IDs is the one that can be read; Spans
// stands for token ids where only lengths matter (virtual time).
type Text interface {
	// Len is the number of tokens.
	Len() int
	// Digest is equal for two texts exactly if their first n tokens are; 0 ≤ n ≤ Len.
	Digest(n int) uint64
	// Boundary is the first turn boundary at or after position from: the place
	// behind an <|im_start|>. 0 is none.
	Boundary(from int) int
	// LastBoundary is the last turn boundary; 0 is none.
	LastBoundary() int
	// Append adds one token of the answer.
	Append(id int32)
}

// IDs is a text of token ids.
type IDs struct {
	ids   []int32
	sums  []uint64 // sums[n] is the digest of the first n ids
	turns []int    // boundaries, ascending
}

// NewIDs copies ids and makes room for an answer of some length.
func NewIDs(ids []int32) *IDs {
	t := &IDs{ids: make([]int32, 0, len(ids)+256), sums: make([]uint64, 1, len(ids)+257)}
	for _, id := range ids {
		t.Append(id)
	}
	return t
}

// Len implements Text.
func (t *IDs) Len() int { return len(t.ids) }

// Digest implements Text.
func (t *IDs) Digest(n int) uint64 { return t.sums[n] }

// Append implements Text.
func (t *IDs) Append(id int32) {
	t.ids = append(t.ids, id)
	t.sums = append(t.sums, mix(t.sums[len(t.sums)-1], uint64(id)+1))
	if id == vocab.ImStart {
		t.turns = append(t.turns, len(t.ids))
	}
}

// Boundary implements Text.
func (t *IDs) Boundary(from int) int {
	for _, at := range t.turns {
		if at >= from {
			return at
		}
	}
	return 0
}

// LastBoundary implements Text.
func (t *IDs) LastBoundary() int {
	if len(t.turns) == 0 {
		return 0
	}
	return t.turns[len(t.turns)-1]
}

// Span is a stretch of N tokens that are known only by their origin: token i of
// source Source. Two texts share a prefix as far as their spans agree, so the
// same tokens must always be cut into spans at the same places.
type Span struct {
	Source uint64
	N      int
	Turn   bool // the first token is an <|im_start|>
}

// Spans is a text made of spans.
type Spans struct {
	spans  []Span
	n      int
	answer uint64
}

// NewSpans makes a text; its answer grows as tokens of source answer, and goes
// on where a last span of that source ends.
func NewSpans(answer uint64, spans ...Span) *Spans {
	t := &Spans{answer: answer, spans: append(make([]Span, 0, len(spans)+1), spans...)}
	for _, s := range spans {
		t.n += s.N
	}
	return t
}

// Len implements Text.
func (t *Spans) Len() int { return t.n }

// Digest implements Text.
func (t *Spans) Digest(n int) uint64 {
	var h uint64
	for _, s := range t.spans {
		if n <= 0 {
			break
		}
		k := min(n, s.N)
		if s.Turn { // this one token is the same in every text
			h = mix(h, uint64(vocab.ImStart))
		}
		if k > 1 || !s.Turn {
			h = mix(mix(h, s.Source), uint64(k))
		}
		n -= s.N
	}
	return h
}

// Boundary implements Text.
func (t *Spans) Boundary(from int) int {
	at := 0
	for _, s := range t.spans {
		if s.Turn && at+1 >= from {
			return at + 1
		}
		at += s.N
	}
	return 0
}

// LastBoundary implements Text.
func (t *Spans) LastBoundary() int {
	at, last := 0, 0
	for _, s := range t.spans {
		if s.Turn {
			last = at + 1
		}
		at += s.N
	}
	return last
}

// Append implements Text; the id does not matter.
func (t *Spans) Append(int32) {
	t.n++
	if last := len(t.spans) - 1; last >= 0 && t.spans[last].Source == t.answer {
		t.spans[last].N++
		return
	}
	t.spans = append(t.spans, Span{Source: t.answer, N: 1})
}

// mix folds v into h; for a fixed h it is one to one in v, and the other way round.
func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0x9e3779b97f4a7c15
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return h ^ h>>29
}
