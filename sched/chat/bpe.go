package chat

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// byteLevel prepares byte-level BPE: text is cut into words, a word is its bytes,
// and neighbours are merged by rank until no pair has one.
func (m *trained) byteLevel() error {
	rule, ok := splitters()[m.split]
	if !ok {
		return fmt.Errorf("the pre-tokenizer %q is not supported; there are %s", m.split, strings.Join(splitterNames(), ", "))
	}
	m.whole = m.whole || rule.whole
	m.pieces = make([]string, len(m.texts))
	words := make(map[string]int32, len(m.texts))
	for id, text := range m.texts {
		m.pieces[id] = text
		if m.kinds[id] == normal || m.kinds[id] == unused {
			m.pieces[id] = decodeBytes(text)
			words[m.pieces[id]] = int32(id)
		}
	}
	var bytes [256]int32
	for b := range bytes {
		id, ok := words[string([]byte{byte(b)})]
		if !ok {
			id = -1 // small vocabularies lack bytes that their texts never had
		}
		bytes[b] = id
	}
	ranks := m.ranks()
	m.encode = func(dst []int32, text string, _ bool) []int32 {
		if m.compose {
			text = norm.NFC.String(text)
		}
		var work merger
		for _, part := range rule.parts(text) {
			for part != "" {
				n := rule.next(part)
				word := part[:n]
				part = part[n:]
				if id, ok := words[word]; ok && m.whole {
					dst = append(dst, id)
					continue
				}
				dst = work.word(dst, word, &bytes, ranks)
			}
		}
		return dst
	}
	return nil
}

// merge is what becomes of a pair.
type merge struct {
	rank float64 // lower is merged first
	id   int32
}

// ranks keys the merges by the ids of their parts. A merge of what is no token
// cannot happen, since all symbols of a word are tokens.
func (m *trained) ranks() map[[2]int32]merge {
	all := make(map[[2]int32]merge, len(m.merges))
	for rank, p := range m.merges {
		left, okLeft := m.ids[p[0]]
		right, okRight := m.ids[p[1]]
		id, ok := m.ids[p[0]+p[1]]
		pair := [2]int32{left, right}
		if _, again := all[pair]; okLeft && okRight && ok && !again {
			all[pair] = merge{float64(rank), id}
		}
	}
	return all
}

// symbol is a part of the text being merged: the bytes [from, to), linked to its
// neighbours. A merged-away symbol is empty.
type symbol struct {
	from, to   int
	prev, next int
	id         int32 // -1: no token has this text
}

// offer is a possible merge in the queue.
type offer struct {
	merge
	left, right, size int
}

// merger merges neighbours by rank, among equals the leftmost first.
type merger struct {
	symbols []symbol
	queue   []offer
}

// word encodes one word by its bytes.
func (w *merger) word(dst []int32, word string, bytes *[256]int32, ranks map[[2]int32]merge) []int32 {
	w.symbols = w.symbols[:0]
	for i := range len(word) {
		w.symbols = append(w.symbols, symbol{from: i, to: i + 1, prev: i - 1, next: i + 1, id: bytes[word[i]]})
	}
	w.run(func(a, b symbol) (merge, bool) {
		found, ok := ranks[[2]int32{a.id, b.id}]
		return found, ok
	})
	for i := 0; i >= 0; i = w.symbols[i].next {
		if id := w.symbols[i].id; id >= 0 {
			dst = append(dst, id)
		}
	}
	return dst
}

// run merges until no neighbours can be. The symbols are linked in order; the
// last one's next is set to -1 here.
func (w *merger) run(pair func(a, b symbol) (merge, bool)) {
	w.symbols[len(w.symbols)-1].next = -1
	w.queue = w.queue[:0]
	try := func(left, right int) {
		if left < 0 || right < 0 {
			return
		}
		a, b := w.symbols[left], w.symbols[right]
		if found, ok := pair(a, b); ok {
			w.push(offer{found, left, right, b.to - a.from})
		}
	}
	for i := 1; i < len(w.symbols); i++ {
		try(i-1, i)
	}
	for len(w.queue) > 0 {
		o := w.pop()
		a, b := &w.symbols[o.left], &w.symbols[o.right]
		if a.from == a.to || b.from == b.to || b.to-a.from != o.size || a.next != o.right {
			continue // one of them has been merged since
		}
		a.to, a.id, a.next = b.to, o.id, b.next
		b.from = b.to
		if a.next >= 0 {
			w.symbols[a.next].prev = o.left
		}
		try(a.prev, o.left)
		try(o.left, a.next)
	}
}

func (o offer) before(p offer) bool { return o.rank < p.rank || o.rank == p.rank && o.left < p.left }

// push and pop keep the queue a binary heap; container/heap would box every offer.
func (w *merger) push(o offer) {
	w.queue = append(w.queue, o)
	for i := len(w.queue) - 1; i > 0; {
		up := (i - 1) / 2
		if !w.queue[i].before(w.queue[up]) {
			return
		}
		w.queue[i], w.queue[up] = w.queue[up], w.queue[i]
		i = up
	}
}

func (w *merger) pop() offer {
	top := w.queue[0]
	last := len(w.queue) - 1
	w.queue[0] = w.queue[last]
	w.queue = w.queue[:last]
	for i := 0; ; {
		least := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < last && w.queue[child].before(w.queue[least]) {
				least = child
			}
		}
		if least == i {
			return top
		}
		w.queue[i], w.queue[least] = w.queue[least], w.queue[i]
		i = least
	}
}

// decodeBytes turns a token's text back into the bytes it stands for: byte-level
// BPE writes each byte as a printable character.
func decodeBytes(text string) string {
	var b []byte
	for _, r := range text {
		if v, ok := byteOf(r); ok {
			b = append(b, v)
			continue
		}
		b = utf8.AppendRune(b, r)
	}
	return string(b)
}

// byteOf is the inverse of GPT-2's map: printable Latin-1 stands for itself, the
// other 68 bytes stand in order from U+0100 on.
func byteOf(r rune) (byte, bool) {
	switch {
	case r >= '!' && r <= '~', r >= 0xA1 && r <= 0xAC, r >= 0xAE && r <= 0xFF:
		return byte(r), true
	case r >= 0x100 && r <= 0x120:
		return byte(r - 0x100), true
	case r >= 0x121 && r <= 0x142:
		return byte(r - 0x121 + 0x7F), true
	case r == 0x143:
		return 0xAD, true
	}
	return 0, false
}

// sentencePiece prepares SPM: the whole text is one word of characters, merged by
// the score of what they make; what is no token is written byte by byte.
func (m *trained) sentencePiece() error {
	m.split = ""
	if len(m.scores) < len(m.texts) {
		return fmt.Errorf("%d scores for %d tokens", len(m.scores), len(m.texts))
	}
	m.pieces = make([]string, len(m.texts))
	var bytes [256]int32
	for b := range bytes {
		bytes[b] = -1
		for _, text := range []string{fmt.Sprintf("<0x%02X>", b), string(rune(b))} {
			if id, ok := m.ids[text]; ok && (text[0] == '<' || b < utf8.RuneSelf) {
				bytes[b] = id
				break
			}
		}
	}
	for id, text := range m.texts {
		switch m.kinds[id] {
		case single:
			var b byte
			if _, err := fmt.Sscanf(text, "<0x%02X>", &b); err != nil {
				return fmt.Errorf("token %d is a byte and says %q", id, text)
			}
			m.pieces[id] = string([]byte{b})
		case own:
			m.pieces[id] = text
		default:
			m.pieces[id] = strings.ReplaceAll(text, "▁", " ")
		}
	}
	m.encode = func(dst []int32, text string, first bool) []int32 {
		if m.blank && first {
			text = " " + text
		}
		return m.merged(dst, strings.ReplaceAll(text, " ", "▁"), &bytes)
	}
	return nil
}

func (m *trained) merged(dst []int32, text string, bytes *[256]int32) []int32 {
	var work merger
	for i, r := range text {
		to := i + utf8.RuneLen(r)
		id, ok := m.ids[text[i:to]]
		if !ok {
			id = -1
		}
		n := len(work.symbols)
		work.symbols = append(work.symbols, symbol{from: i, to: to, prev: n - 1, next: n + 1, id: id})
	}
	work.run(func(a, b symbol) (merge, bool) {
		id, ok := m.ids[text[a.from:b.to]]
		if !ok {
			return merge{}, false
		}
		return merge{-float64(float32(m.scores[id])), id}, true
	})
	for i := 0; i >= 0; i = work.symbols[i].next {
		s := work.symbols[i]
		if s.id >= 0 {
			dst = append(dst, s.id)
			continue
		}
		for _, b := range []byte(text[s.from:s.to]) {
			if bytes[b] >= 0 {
				dst = append(dst, bytes[b])
			}
		}
	}
	return dst
}

func splitterNames() []string {
	var names []string
	for name := range splitters() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
