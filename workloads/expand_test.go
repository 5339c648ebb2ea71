package workloads

import (
	"strings"
	"testing"
	"time"
)

// wordCounter counts blank-separated words; a template costs ten more.
func wordCounter() Counter {
	text := func(s string) int { return len(strings.Fields(s)) }
	return Counter{Name: "words", Text: text, Count: func(system string, turns []Turn, tools []ToolSpec, thinking bool) int {
		n := 10 + text(system)
		for _, t := range turns {
			n += text(t.Text)
		}
		return n
	}}
}

func expand(t *testing.T, name string, seed uint64, pair int) []Request {
	t.Helper()
	m, err := Load(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.Generate != nil {
		if m, err = m.For(90 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	reqs, err := Expand(m, seed, pair, wordCounter())
	if err != nil {
		t.Fatal(err)
	}
	return reqs
}

func TestExpandBuiltins(t *testing.T) {
	for _, name := range Builtin() {
		t.Run(name, func(t *testing.T) {
			reqs := expand(t, name, 1, 1)
			again := expand(t, name, 1, 1)
			if a, b := mustJSON(reqs), mustJSON(again); string(a) != string(b) {
				t.Error("two expansions with the same seed differ")
			}
			if a, b := mustJSON(reqs), mustJSON(expand(t, name, 1, 2)); string(a) == string(b) {
				t.Error("pairs 1 and 2 are equal")
			}
		})
	}
}
