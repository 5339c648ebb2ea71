package audit_test

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"interlude/audit"
	"interlude/audit/audittest"
	"interlude/results"
)

// summarise judges and summarises a fabricated run as cmd does.
func summarise(t *testing.T, o audittest.Options, plant func(*audittest.Build)) (string, *audit.Report, results.Summary) {
	t.Helper()
	dir, err := audittest.Make(t.TempDir(), o, plant)
	if err != nil {
		t.Fatal(err)
	}
	r, s, err := audittest.Judge(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, r, s
}

func TestRecheckAgreesWithStats(t *testing.T) {
	cut := func(b *audittest.Build) {
		r := b.Find(2, results.On, "P1")
		r.Outcome, r.Finishes, r.FinishReason, r.Terminal = results.Truncated, 0, "", 0
	}
	for _, c := range []struct {
		o     audittest.Options
		plant func(*audittest.Build)
	}{
		{o: audittest.Options{}},
		{o: audittest.Options{Pairs: 3}},
		{o: audittest.Options{Manifest: "paired-short", Pairs: 8, AA: 2}},
		{o: audittest.Options{Manifest: "paired-null", Pairs: 6}},
		{o: audittest.Options{Pairs: 6}, plant: cut},
		{o: audittest.Options{}, plant: func(b *audittest.Build) { b.Run.Slots[7].Complete = false }},
		{o: audittest.Options{}, plant: func(b *audittest.Build) { delete(b.Run.Slots[2].Witness, "strata:solo_switch_seconds_total") }},
		{o: audittest.Options{}, plant: func(b *audittest.Build) { b.Run.Slots[1].Witness["strata:solo_forced_parks_total"] = 5 }},
	} {
		dir, r, s := summarise(t, c.o, c.plant)
		found, err := audit.Recheck(os.DirFS(dir), r.Judgements, s)
		if err != nil {
			t.Fatal(err)
		}
		if found[0].Status != audit.Pass {
			t.Errorf("%+v: %s\n%s", c.o, found[0].Text, found[0].Evidence)
		}
	}
}

// TestRecheckNamesEachNumber changes every number of a summary in turn.
func TestRecheckNamesEachNumber(t *testing.T) {
	dir, r, s := summarise(t, audittest.Options{Pairs: 6}, nil)
	if s.Verdict != results.VerdictBetter {
		t.Fatalf("verdict %s: %v", s.Verdict, s.Reasons)
	}
	data, err := results.Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil {
		t.Fatal(err)
	}
	n := 0
	var walk func(path string, v any)
	walk = func(path string, v any) {
		m, ok := v.(map[string]any)
		if !ok {
			return
		}
		for k, x := range m {
			at := path + "." + k
			if f, ok := x.(float64); ok {
				if at == ".schema" || at == ".speed" || strings.Contains(at, "client_added_delay") {
					continue
				}
				n++
				m[k] = f + 1
				changed, _ := json.Marshal(tree)
				var lie results.Summary
				if err := json.Unmarshal(changed, &lie); err != nil {
					t.Fatal(err)
				}
				if found := audit.RecheckData(data, r.Judgements, lie); found[0].Status != audit.Fail {
					t.Errorf("%s may be changed unseen", at)
				}
				m[k] = f
			}
			walk(at, x)
		}
	}
	walk("", tree)
	if n < 60 {
		t.Errorf("only %d numbers were tried", n)
	}
}

// TestNoLieEndsBetter runs the lies that leave the records readable through the
// statistics.
func TestNoLieEndsBetter(t *testing.T) {
	for name, plant := range map[string]func(*audittest.Build){
		"doubled": func(b *audittest.Build) { r := b.Find(1, results.On, "A1"); audittest.Say(r, twice(r.Text, 100)) },
		"dropped": func(b *audittest.Build) { r := b.Find(1, results.On, "A1"); audittest.Say(r, drop(r.Text, 100)) },
		"role":    func(b *audittest.Build) { r := b.Find(1, results.On, "P1"); r.FirstToken = r.Sent + 1_000_000 },
		"cut": func(b *audittest.Build) {
			r := b.Find(1, results.On, "P1")
			r.Outcome, r.Finishes, r.FinishReason, r.Terminal = results.Truncated, 0, "", 0
		},
		"cut long": func(b *audittest.Build) {
			r := b.Find(1, results.On, "A1")
			r.Outcome, r.Finishes, r.FinishReason, r.Terminal = results.Truncated, 0, "", 0
		},
		"swapped": func(b *audittest.Build) {
			a, c := b.Find(1, results.On, "A2"), b.Find(1, results.On, "B3")
			x, y := a.Text, c.Text
			audittest.Say(a, y)
			audittest.Say(c, x)
		},
		"flag":    func(b *audittest.Build) { f := false; b.Run.Slots[1].Flag = &f },
		"idle":    func(b *audittest.Build) { b.Run.Slots[1].Witness["strata:solo_preemptions_total"] = 0 },
		"deleted": func(b *audittest.Build) { b.Records = append(b.Records[:9], b.Records[10:]...) },
		"only on": func(b *audittest.Build) { audittest.Say(b.Find(3, results.On, "A2"), "{}") },
		"both": func(b *audittest.Build) {
			for _, arm := range []string{results.Off, results.On} {
				audittest.Say(b.Find(3, arm, "A2"), "{}")
			}
		},
		"both doubled": func(b *audittest.Build) {
			for _, arm := range []string{results.Off, results.On} {
				r := b.Find(3, arm, "P1")
				audittest.Say(r, twice(r.Text, 4))
			}
		},
		"both cut": func(b *audittest.Build) {
			for _, arm := range []string{results.Off, results.On} {
				r := b.Find(3, arm, "P1")
				r.Outcome, r.Finishes, r.FinishReason, r.Terminal = results.Truncated, 0, "", 0
			}
		},
	} {
		_, _, s := summarise(t, audittest.Options{Pairs: 6}, plant)
		if s.Verdict == results.VerdictBetter || s.Verdict == results.VerdictNoDifference {
			t.Errorf("%s ends %s", name, s.Verdict)
		}
		t.Log(name, s.Verdict, s.Reasons)
	}
}

func TestTPoint(t *testing.T) {
	for _, c := range []struct{ df, want float64 }{{1, 12.7062047}, {2, 4.30265273}, {6, 2.44691185}, {14, 2.14478669}, {30, 2.04227246}} {
		if got := audit.TPoint(c.df); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("t(%g) = %.8f, want %.8f", c.df, got, c.want)
		}
	}
}
