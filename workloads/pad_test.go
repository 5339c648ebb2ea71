package workloads

import (
	"strings"
	"testing"
)

// TestPadHitsEveryLength: whatever a tokenizer makes of words, the promised length
// is met exactly or refused, never missed.
func TestPadHitsEveryLength(t *testing.T) {
	counters := map[string]func(string) int{
		"a token a word": func(s string) int { return len(strings.Fields(s)) },
		"long words cost two": func(s string) int {
			n := 0
			for _, w := range strings.Fields(s) {
				n += 1 + len(w)/6
			}
			return n
		},
		"a token three letters": func(s string) int { return (len(s) + 2) / 3 },
		"a token a byte":        func(s string) int { return len(s) },
	}
	for name, count := range counters {
		for want := 60; want < 400; want += 7 {
			build := func(filler string) string {
				if filler == "" {
					return "Say 3 words by rule x."
				}
				return "Notes:" + filler + "\nSay 3 words by rule x."
			}
			text, err := pad(stream(uint64(want), "t"), want, build, count)
			if err != nil && name == "a token a byte" {
				continue // no word fills a gap of one byte
			}
			if err != nil || count(text) != want {
				t.Errorf("%s: wanted %d, got %d (%v)", name, want, count(text), err)
			}
		}
	}
}

func TestPadRefusesTheImpossible(t *testing.T) {
	even := func(s string) int { return 2 * len(strings.Fields(s)) }
	build := func(f string) string { return "x" + f }
	if _, err := pad(stream(1, "t"), 31, build, even); err == nil || !strings.Contains(err.Error(), "31") {
		t.Errorf("an odd length of even words: %v", err)
	}
	if _, err := pad(stream(1, "t"), 1, build, even); err == nil || !strings.Contains(err.Error(), "needs 2 tokens") {
		t.Errorf("a length below the text itself: %v", err)
	}
}
