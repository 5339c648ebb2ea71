package audit_test

import (
	"math"
	"strings"
	"testing"

	"interlude/audit"
	"interlude/audit/audittest"
	"interlude/results"
)

// TestFewerByHand: 1 of 5 against 5 of 5 is 5·1/C(10,6) + 0 = 5/210; nothing is less
// than nothing.
func TestFewerByHand(t *testing.T) {
	for _, c := range []struct {
		a, n, b, m int
		want       float64
	}{{1, 5, 5, 5, 5.0 / 210}, {0, 3, 3, 3, 1.0 / 20}, {3, 3, 0, 3, 1}, {2, 4, 2, 4, 53.0 / 70}, {0, 0, 4, 4, 1}, {4, 4, 0, 0, 1}} {
		if got := audit.Fewer(c.a, c.n, c.b, c.m); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%d of %d against %d of %d: %g, want %g", c.a, c.n, c.b, c.m, got, c.want)
		}
	}
}

// TestRatesOfAnEngineThatDiffersByItself: where an engine need not say the same twice,
// canaries and long answers that differ more often with the flag on are a doubt, and
// such as differ with the flag off as well are told.
func TestRatesOfAnEngineThatDiffersByItself(t *testing.T) {
	other := func(b *audittest.Build, request string, arms ...string) {
		b.Run.Emulated = ""
		first := true
		for i := range b.Records {
			r := &b.Records[i]
			if r.Request != request {
				continue
			}
			if first { // the reference
				first = false
				continue
			}
			for _, arm := range arms {
				if r.Arm == arm && !r.AA || arm == "aa" && r.AA {
					audittest.Say(r, strings.Replace(r.Text, " ", "-", i%7+1))
				}
			}
		}
	}
	for _, c := range []struct {
		name, check, request string
		arms                 []string
		aa                   int
		weight, says         string
	}{
		{"canaries of on alone", "canary", "canary-1", []string{results.On}, 0, results.Doubt, "0 of 8"},
		{"canaries of both", "canary", "canary-1", []string{results.Off, results.On}, 0, results.Note, "differs from"},
		{"long answers, and no off/off pairs", "identical_long_answers", "A1", []string{results.On}, 0, results.Note, "no off/off pairs say"},
		{"long answers of on, not of off/off", "identical_long_answers", "A1", []string{results.On}, 3, results.Doubt, "between off and off it is 3 of 3"},
		{"long answers of off/off, too", "identical_long_answers", "A1", []string{results.On, "aa"}, 3, results.Note, "between off and off it is 0 of 3"},
	} {
		r := fabricate(t, audittest.Options{Pairs: 8, AA: c.aa}, func(b *audittest.Build) { other(b, c.request, c.arms...) }, nil)
		worst, said := "", false
		for _, f := range failed(r, c.check) {
			if f.Weight == results.Doubt || worst == "" {
				worst = f.Weight
			}
			said = said || strings.Contains(f.Text, c.says)
		}
		if worst != c.weight || !said {
			t.Errorf("%s: %q (%q said: %v)\n%s", c.name, worst, c.says, said, dump(r))
		}
	}
}
