package audit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlude/audit"
	"interlude/audit/audittest"
	"interlude/results"
)

// fabricate writes the run that plant has lied into and judges it.
func fabricate(t *testing.T, o audittest.Options, plant func(*audittest.Build), after func(dir string)) *audit.Report {
	t.Helper()
	dir, err := audittest.Make(t.TempDir(), o, plant)
	if err != nil {
		t.Fatal(err)
	}
	if after != nil {
		after(dir)
	}
	r, _, err := audittest.Judge(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// failed returns the failed findings of a check.
func failed(r *audit.Report, check string) []results.Finding {
	var list []results.Finding
	for _, f := range r.Findings {
		if f.Check == check && f.Status == audit.Fail {
			list = append(list, f)
		}
	}
	return list
}

func dump(r *audit.Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		b.WriteString(f.Status + " " + f.Weight + " " + f.Check + ": " + f.Text + "\n")
	}
	return b.String()
}

func TestCorrectRunHasNoFault(t *testing.T) {
	for _, o := range []audittest.Options{{}, {Manifest: "paired-short", Pairs: 4, AA: 2}, {Manifest: "paired-null"}, {Kind: "soak"}} {
		r := fabricate(t, o, nil, nil)
		if w := r.Worst(); w != "" {
			t.Errorf("%+v: a correct run is judged %s:\n%s", o, w, dump(r))
		}
		for _, j := range r.Judgements {
			if !j.Right {
				t.Errorf("%+v: %s is judged wrong: %v", o, j.Record, j.Faults)
			}
		}
		for _, check := range []string{"plan_hash", "plan_expands", "record_chain", "slots", "identity", "payloads", "flag", "witness", "ledger_client",
			"ledger_server", "stamps", "lateness", "answers_by_arm", "failures_by_arm", "canary", "identical_long_answers", "tokens_lost_or_doubled",
			"foreign_answers", "hang", "lost_prefix", "attempts"} {
			passed := false
			for _, f := range r.Findings {
				passed = passed || f.Check == check && f.Status == audit.Pass
			}
			if paired := map[string]bool{"identity": true, "answers_by_arm": true, "failures_by_arm": true, "identical_long_answers": true}; o.Kind != "" && paired[check] {
				continue // there is nothing to compare with
			}
			if !passed {
				t.Errorf("%+v: %s did not pass:\n%s", o, check, dump(r))
			}
		}
	}
}

// drop takes the n-th word out of text, twice says it twice.
func drop(text string, n int) string {
	parts := strings.SplitAfter(text, " ")
	return strings.Join(append(append([]string{}, parts[:n]...), parts[n+1:]...), "")
}

func twice(text string, n int) string {
	parts := strings.SplitAfter(text, " ")
	return strings.Join(append(append([]string{}, parts[:n+1]...), parts[n:]...), "")
}

func TestPlantedLies(t *testing.T) {
	both := []string{results.Off, results.On}
	edit := func(old, new string) func(dir string) {
		return func(dir string) {
			path := filepath.Join(dir, "records.jsonl")
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			s := strings.Replace(string(raw), old, new, 1)
			if s == string(raw) {
				t.Fatalf("nothing to edit: %q", old)
			}
			if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	lines := func(change func([]string) []string) func(dir string) {
		return func(dir string) {
			path := filepath.Join(dir, "records.jsonl")
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			list := change(strings.SplitAfter(strings.TrimSuffix(string(raw), "\n"), "\n"))
			if err := os.WriteFile(path, []byte(strings.TrimSuffix(strings.Join(list, ""), "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name   string
		plant  func(*audittest.Build)
		after  func(dir string)
		check  string // names it
		weight string
		record string
		worst  string // default weight
	}{
		{name: "a token doubled in the long answer of on", check: "tokens_lost_or_doubled", weight: results.Broken, record: "2/A1",
			plant: func(b *audittest.Build) { r := b.Find(1, results.On, "A1"); audittest.Say(r, twice(r.Text, 100)) }},
		{name: "a token dropped from the long answer of on", check: "tokens_lost_or_doubled", weight: results.Broken, record: "2/A1",
			plant: func(b *audittest.Build) { r := b.Find(1, results.On, "A1"); audittest.Say(r, drop(r.Text, 100)) }},
		{name: "a digit doubled in a short answer's JSON", check: "tokens_lost_or_doubled", weight: results.Broken, record: "2/B2",
			plant: func(b *audittest.Build) {
				r := b.Find(1, results.On, "B2")
				audittest.Say(r, strings.Replace(r.Text, `"]`, `""]`, 1))
			}},
		{name: "a token doubled in both arms alike", check: "tokens_lost_or_doubled", weight: results.Broken,
			plant: func(b *audittest.Build) {
				for _, arm := range both {
					for pair := 1; pair <= 4; pair++ {
						r := b.Find(pair, arm, "P1")
						audittest.Say(r, twice(r.Text, 5))
					}
				}
			}},
		{name: "a role chunk that stops the clock", check: "stamps", weight: results.Invalid, record: "2/P1",
			plant: func(b *audittest.Build) {
				r := b.Find(1, results.On, "P1")
				r.FirstEvent, r.FirstToken = r.Sent+2_000_000, r.Sent+2_000_000
			}},
		{name: "an answer seen before it was made", check: "first_output_possible", weight: results.Invalid, record: "2/P1",
			plant: func(b *audittest.Build) {
				r := b.Find(1, results.On, "P1")
				for _, s := range []*results.Stamp{&r.FirstEvent, &r.FirstToken, &r.FirstContent, &r.LastToken, &r.Terminal, &r.End} {
					*s -= 330_000_000
				}
				for i := range r.Chunks {
					r.Chunks[i].At -= 330_000_000
				}
			}},
		{name: "a role chunk early, not taken for output", check: "early_event", weight: results.Note, record: "2/P1",
			plant: func(b *audittest.Build) { r := b.Find(1, results.On, "P1"); r.FirstEvent = r.Sent + 2_000_000 }},
		{name: "a stream cut in on only", check: "failures_by_arm", weight: results.Doubt, record: "2/P1",
			plant: func(b *audittest.Build) {
				r := b.Find(1, results.On, "P1")
				r.Outcome, r.Finishes, r.FinishReason, r.Terminal = results.Truncated, 0, "", 0
			}},
		{name: "streams cut in on in every pair", check: "failures_by_arm", weight: results.Broken,
			plant: func(b *audittest.Build) {
				for pair := 1; pair <= 4; pair++ {
					for _, id := range []string{"P1", "A2"} {
						r := b.Find(pair, results.On, id)
						r.Outcome, r.Finishes, r.FinishReason, r.Terminal = results.Truncated, 0, "", 0
					}
				}
			}},
		{name: "two conversations swapped", check: "foreign_answers", weight: results.Broken, record: "2/A2",
			plant: func(b *audittest.Build) {
				a, c := b.Find(1, results.On, "A2"), b.Find(1, results.On, "B3")
				x, y := a.Text, c.Text
				audittest.Say(a, y)
				audittest.Say(c, x)
			}},
		{name: "the long answer of another pair", check: "foreign_answers", weight: results.Broken, record: "2/A1",
			plant: func(b *audittest.Build) {
				audittest.Say(b.Find(1, results.On, "A1"), b.Find(3, results.On, "A1").Text)
			}},
		{name: "one fact of another audit", check: "foreign_answers", weight: results.Broken, record: "2/A2",
			plant: func(b *audittest.Build) {
				r := b.Find(1, results.On, "A2")
				mine, theirs := b.Requests[1]["A2"].Expect.JSON.Fields, b.Requests[1]["B3"].Expect.JSON.Fields
				for _, f := range mine {
					if len(f.Value) > 6 && f.Value[0] == '"' {
						for _, g := range theirs {
							if g.Value[0] == '"' {
								audittest.Say(r, strings.Replace(r.Text, string(f.Value), string(g.Value), 1))
								return
							}
						}
					}
				}
			}},
		{name: "a flag that is not set", check: "flag", weight: results.Invalid,
			plant: func(b *audittest.Build) { off := false; b.Run.Slots[1].Flag = &off }},
		{name: "a flag that does nothing", check: "witness", weight: results.Invalid,
			plant: func(b *audittest.Build) { b.Run.Slots[1].Witness["strata:solo_preemptions_total"] = 0 }},
		{name: "preemptions in off", check: "witness", weight: results.Invalid,
			plant: func(b *audittest.Build) { b.Run.Slots[0].Witness["strata:solo_preemptions_total"] = 3 }},
		{name: "preemptions that no client saw", check: "witness", weight: results.Invalid,
			plant: func(b *audittest.Build) {
				long, short := b.Find(1, results.On, "A1"), b.Find(1, results.On, "P1")
				shift := long.End - short.Sent + 100_000_000_000
				for _, s := range []*results.Stamp{&short.Due, &short.Sent, &short.Headers, &short.FirstByte, &short.FirstEvent, &short.FirstToken, &short.FirstContent, &short.LastToken, &short.Terminal, &short.End} {
					*s += shift
				}
				for i := range short.Chunks {
					short.Chunks[i].At += shift
				}
			}},
		{name: "the same wrong audit in both arms", check: "wrong_in_both_arms", weight: results.Doubt,
			plant: func(b *audittest.Build) {
				for _, arm := range both {
					r := b.Find(1, arm, "A2")
					audittest.Say(r, strings.Replace(r.Text, "true", "false", 1))
					if !strings.Contains(r.Text, "false") {
						audittest.Say(r, "{}")
					}
				}
			}},
		{name: "a wrong audit in on only", check: "wrong_in_on_only", weight: results.Broken, record: "2/A2",
			plant: func(b *audittest.Build) { audittest.Say(b.Find(1, results.On, "A2"), "{}") }},
		{name: "a wrong audit in off only", check: "wrong_in_off_only", weight: results.Note, record: "1/A2",
			plant: func(b *audittest.Build) { audittest.Say(b.Find(1, results.Off, "A2"), "{}") }},
		{name: "another answer to the canary", check: "canary", weight: results.Broken, record: "2/canary-1",
			plant: func(b *audittest.Build) {
				r := b.Find(1, results.On, "canary-1")
				audittest.Say(r, strings.ToUpper(r.Text[:5])+r.Text[5:])
			}},
		{name: "an edited TTFT", after: edit(`"first_token_ns":3`, `"first_token_ns":4`), check: "record_chain", weight: results.Invalid},
		{name: "a deleted record", after: lines(func(l []string) []string { return append(l[:5], l[6:]...) }), check: "record_chain", weight: results.Invalid},
		{name: "the last record deleted", after: lines(func(l []string) []string { return l[:len(l)-1] }), check: "record_chain", weight: results.Invalid},
		{name: "the last record edited", check: "record_chain", weight: results.Invalid,
			after: lines(func(l []string) []string {
				l[len(l)-1] = strings.Replace(l[len(l)-1], `"status":200`, `"status":201`, 1)
				return l
			})},
		{name: "a request that left no record", check: "ledger_client", weight: results.Invalid,
			plant: func(b *audittest.Build) { b.Records = b.Records[:len(b.Records)-1] }},
		{name: "a record twice", check: "ledger_client", weight: results.Invalid,
			plant: func(b *audittest.Build) { b.Records = append(b.Records, b.Records[len(b.Records)-1]) }},
		{name: "another plan", check: "plan_hash", weight: results.Invalid,
			after: func(dir string) {
				path := filepath.Join(dir, "plan.json")
				raw, _ := os.ReadFile(path)
				s := strings.Replace(string(raw), `"margin": 0.05`, `"margin": 0.5`, 1)
				if s == string(raw) {
					s = strings.Replace(string(raw), `"margin":0.05`, `"margin":0.5`, 1)
				}
				if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
					t.Fatal(err)
				}
			}},
		{name: "a plan that this program does not expand so", check: "plan_expands", weight: results.Invalid, worst: results.Invalid,
			plant: func(b *audittest.Build) {
				for i := range b.Plan.Requests {
					b.Plan.Requests[i].TemplateHash = strings.Repeat("ee", 32)
				}
				b.Run.PlanHash = b.Plan.Hash()
				for i := range b.Records { // as another version had them sent and answered
					if r := &b.Records[i]; r.Class == "long" {
						audittest.Say(r, drop(r.Text, 100))
					}
				}
			}},
		{name: "another binary configuration in on", check: "identity", weight: results.Invalid,
			plant: func(b *audittest.Build) { b.Run.Slots[1].ConfigHash = strings.Repeat("ee", 32) }},
		{name: "an easier question in on", check: "payloads", weight: results.Invalid, record: "2/P1",
			plant: func(b *audittest.Build) { b.Find(1, results.On, "P1").TemplateHash = strings.Repeat("ee", 32) }},
		{name: "a prefix lost", check: "lost_prefix", weight: results.Broken,
			plant: func(b *audittest.Build) {
				log := b.Logs[2]
				at := strings.LastIndex(log, "= ") // the last GEN of the slot is not the continuation
				_ = at
				i := strings.Index(log, "restored")
				j := strings.Index(log[i:], "= ") + i
				k := strings.Index(log[j:], " reused") + j
				b.Logs[2] = log[:j+2] + "0" + log[k:]
			}},
		{name: "a server that ended fewer than were sent", check: "ledger_server", weight: results.Broken,
			plant: func(b *audittest.Build) { b.Run.Slots[1].Witness[`strata:requests_total{outcome="completed"}`]-- }},
		{name: "a probe sent late", check: "lateness", weight: results.Invalid, record: "2/P1",
			plant: func(b *audittest.Build) { b.Find(1, results.On, "P1").Due -= 400_000_000 }},
		{name: "a clock that jumped", check: "clock", weight: results.Invalid,
			plant: func(b *audittest.Build) {
				b.Events = append(b.Events, results.Event{Time: "2026-11-29T12:01:00.000Z", Kind: "clock_jump", Text: "the wall clock went back 3600 s"})
			}},
		{name: "slots that were never run", check: "slots", weight: results.Doubt,
			plant: func(b *audittest.Build) {
				b.Run.Slots, b.Run.Status, b.Run.Why = b.Run.Slots[:4], "aborted", "interrupted"
				var kept []results.Record
				for _, r := range b.Records {
					if r.Slot <= 4 {
						kept = append(kept, r)
					}
				}
				b.Records = kept
			}},
		{name: "an attempt taken out of the ledger", check: "attempts_gap", weight: results.Doubt,
			after: func(dir string) {
				path := filepath.Join(dir, results.AttemptsFile)
				raw, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(strings.Replace(string(raw), `"n":1`, `"n":3`, 1)), 0o644); err != nil {
					t.Fatal(err)
				}
			}},
		{name: "an engine that died in on", check: "engine_alive", weight: results.Doubt,
			plant: func(b *audittest.Build) {
				for i := range b.Run.Slots {
					b.Run.Slots[i].Witness["strata:engine_deaths_total"] = float64(i & 1)
				}
			}},
		{name: "a warm cache in on only", check: "cold_start", weight: results.Note, record: "2/A1",
			plant: func(b *audittest.Build) {
				cold, warm := 0, 512
				b.Find(1, results.Off, "A1").Usage.Cached, b.Find(1, results.On, "A1").Usage.Cached = &cold, &warm
			}},
		{name: "a hang in on", check: "hang", weight: results.Broken, record: "2/P1",
			plant: func(b *audittest.Build) {
				r := b.Find(1, results.On, "P1")
				r.Outcome, r.Finishes, r.FinishReason, r.Terminal = results.Timeout, 0, "", 0
			}},
		{name: "a shared tool index", check: "wrong_in_on_only", weight: results.Broken, record: "2/B1",
			plant: func(b *audittest.Build) { b.Find(1, results.On, "B1").Tools[0].Index = nil }},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			r := fabricate(t, audittest.Options{}, c.plant, c.after)
			found := failed(r, c.check)
			if len(found) == 0 {
				t.Fatalf("%s is not named by %s:\n%s", c.name, c.check, dump(r))
			}
			if found[0].Weight != c.weight {
				t.Errorf("%s weighs %q, want %q:\n%s", c.check, found[0].Weight, c.weight, dump(r))
			}
			if w := r.Worst(); c.worst != "" && w != c.worst {
				t.Errorf("the run is judged %s, want %s:\n%s", w, c.worst, dump(r))
			}
			if c.record != "" && (len(found[0].Records) == 0 || found[0].Records[0] != c.record) {
				t.Errorf("names %v, want %s:\n%s", found[0].Records, c.record, dump(r))
			}
			if found[0].Command == "" {
				t.Error("no command reproduces it")
			}
			t.Log(found[0].Text + " | " + found[0].Evidence)
		})
	}
}
