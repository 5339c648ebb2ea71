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

// pad finds the filler with which build's text counts exactly want tokens: by
// interpolation between a length that is too short and one that is too long, then
// by other last words. A word of the built-in vocabulary is one token, so that the
// second guess is right.
func pad(r *rand.Rand, want int, build func(filler string) string, count func(text string) int) (string, error) {
	p := newPadder(r)
	try := func(filler string) (string, int) {
		text := build(filler)
		return text, count(text)
	}
	text, got := try("")
	if got > want {
		return "", fmt.Errorf("the text needs %d tokens without any filler, %d are asked for: ask for more, or plant fewer facts", got, want)
	}
	low, lowCount, high := 0, got, want-got+1 // words; low is too short, high too long or unknown
	for n := want - got; got != want; {
		if text, got = try(p.filler(n)); got < want {
			low, lowCount = n, got
			high = max(high, n+want-got+1)
		} else {
			high = n
		}
		if high-low <= 1 {
			break
		}
		n = min(low+max(1, (want-lowCount)*9/10), high-1)
		if got < want {
			n = min(low+want-lowCount, high-1)
		}
	}
	if got == want {
		return text, nil
	}
	for back := range min(8, low+1) {
		for _, tail := range p.words {
			if text, got = try(p.filler(low-back) + " " + tail); got == want {
				return text, nil
			}
		}
	}
	return "", fmt.Errorf("no filler found that makes exactly %d tokens (%d words are too few, %d too many): ask for another length", want, low, high)
}
