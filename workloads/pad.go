package workloads

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// padder makes filler whose first n words do not depend on n.
type padder struct {
	r     *rand.Rand
	text  strings.Builder
	ends  []int // ends[i] is the length of i+1 words
	words []string
}

func newPadder(r *rand.Rand) *padder { return &padder{r: r, words: fillerWords()} }

// filler returns n words, each with a leading blank.
func (p *padder) filler(n int) string {
	for len(p.ends) < n {
		p.text.WriteByte(' ')
		p.text.WriteString(p.words[p.r.IntN(len(p.words))])
		p.ends = append(p.ends, p.text.Len())
	}
	if n == 0 {
		return ""
	}
	return p.text.String()[:p.ends[n-1]]
}

// pad finds the filler with which build's text counts exactly want tokens.
// A word is one token almost everywhere, so that the second guess is right; other
// tokenizers converge in a few, and the tails try the last step in other ways.
func pad(r *rand.Rand, want int, build func(filler string) string, count func(text string) int) (string, error) {
	p := newPadder(r)
	n, best := 0, 0
	for range 24 {
		text := build(p.filler(n))
		got := count(text)
		if got == want {
			return text, nil
		}
		if n == 0 && got > want {
			return "", fmt.Errorf("the text needs %d tokens without any filler, %d are asked for: ask for more, or plant fewer facts", got, want)
		}
		if got < want {
			best = max(best, n)
		}
		step := want - got
		if step < 0 && n+step < best {
			step = min(-1, (best-n)/2) // close in from above, not below what is known to be too short
		}
		n = max(0, n+step)
	}
	for _, tail := range []string{" a", " I", ".", " .", " ,", " ..", " a a", " o k", " x y z", " zyx", " qvx jkq"} {
		for back := range 4 {
			if text := build(p.filler(max(0, best-back)) + tail); count(text) == want {
				return text, nil
			}
		}
	}
	return "", fmt.Errorf("no filler found that makes exactly %d tokens: ask for another length", want)
}
