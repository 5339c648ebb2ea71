package audit_test

import (
	"bytes"
	"strings"
	"testing"

	"interlude/audit/audittest"
	"interlude/results"
)

// TestScoredAnswersAreCompared: what a manifest only scores is held against neither
// arm while both fail at it, and against the arm that fails where the other does not.
func TestScoredAnswersAreCompared(t *testing.T) {
	scored := func(real bool, wrong ...string) func(b *audittest.Build) {
		return func(b *audittest.Build) {
			b.Plan.Manifest = append([]byte(`{"scored":true,`), bytes.TrimSpace(b.Plan.Manifest)[1:]...)
			b.Run.PlanHash = b.Plan.Hash()
			if real {
				b.Run.Emulated = ""
			}
			for _, arm := range wrong {
				r := b.Find(1, arm, "A2")
				audittest.Say(r, strings.TrimSuffix(r.Text, "}")+`,"more":1}`)
			}
		}
	}
	for _, c := range []struct {
		name   string
		plant  func(b *audittest.Build)
		check  string
		weight string // "": passes
	}{
		{"neither arm errs", scored(true), "answers_by_arm", ""},
		{"both err", scored(true, results.Off, results.On), "answers_by_arm", ""},
		{"on alone errs, a real engine", scored(true, results.On), "wrong_in_on_only", results.Doubt},
		{"on alone errs, an engine that cannot by itself", scored(false, results.On), "wrong_in_on_only", results.Broken},
		{"off alone errs", scored(true, results.Off), "wrong_in_off_only", results.Note},
	} {
		r := fabricate(t, audittest.Options{}, c.plant, nil)
		found := failed(r, c.check)
		if c.weight == "" {
			if len(found) > 0 || r.Worst() == results.Broken || r.Worst() == results.Invalid {
				t.Errorf("%s: %s", c.name, dump(r))
			}
			continue
		}
		if len(found) != 1 || found[0].Weight != c.weight || len(failed(r, "wrong_in_both_arms")) > 0 {
			t.Errorf("%s: %s", c.name, dump(r))
		}
	}
	_, _, s := summarise(t, audittest.Options{Pairs: 8}, scored(true, results.On))
	if s.Verdict != results.VerdictInconclusive {
		t.Errorf("a scored answer that only the flag gets wrong: %s %v", s.Verdict, s.Reasons)
	}
}

// TestOffOffPairsAreTold: no count of an arm holds the off/off pairs, so what fails in
// them is told by a check of its own.
func TestOffOffPairsAreTold(t *testing.T) {
	in := func(change func(r *results.Record)) func(b *audittest.Build) {
		return func(b *audittest.Build) {
			for i := range b.Records {
				if r := &b.Records[i]; r.AA && r.Request == "A2" {
					change(r)
					return
				}
			}
		}
	}
	for _, c := range []struct {
		name   string
		plant  func(b *audittest.Build)
		weight string // "": passes
	}{
		{"right", nil, ""},
		{"wrong", in(func(r *results.Record) { audittest.Say(r, strings.TrimSuffix(r.Text, "}")+`,"more":1}`) }), results.Doubt},
		{"cut", in(func(r *results.Record) {
			r.Outcome, r.Finishes, r.FinishReason, r.Terminal = results.Truncated, 0, "", 0
		}), results.Note},
	} {
		r := fabricate(t, audittest.Options{AA: 1}, c.plant, nil)
		found := failed(r, "off_off_answers")
		if c.weight == "" && !strings.Contains(dump(r), "pass  off_off_answers: 12 requests") || c.weight != "" && (len(found) != 1 || found[0].Weight != c.weight) {
			t.Errorf("%s: %s", c.name, dump(r))
		}
	}
}
