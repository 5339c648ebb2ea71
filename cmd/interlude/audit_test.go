package main

import (
	"testing"

	"interlude/results"
)

// What did not complete, and what is only scored, is not left to look like wrong
// answers.
func TestJudgedText(t *testing.T) {
	list := []results.Judgement{{Right: true}, {Faults: []string{"outcome:stream_error"}}, {Faults: []string{"wrong_field:a"}, Scored: true}}
	if got, want := judgedText(list), "1 of 3 judged answers right, 1 not completed; the manifest scores 1 of them and does not demand them"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := judgedText(list[:1]), "1 of 1 judged answers right"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
