package harness

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"interlude/harness/liar"
	"interlude/results"
	"interlude/workloads"
)

// swapPiece says something else in place of piece k of an honest answer, whose
// pieces each stand behind the step that takes their time.
func swapPiece(steps []liar.Step, k int, with ...liar.Step) []liar.Step {
	at := 2*k + 1
	out := append([]liar.Step(nil), steps[:at]...)
	return append(append(out, with...), steps[at+1:]...)
}

// lieTo applies a lie to one request of arm on; everything else stays honest.
func lieTo(id string, lie func(l *lookalike, steps []liar.Step) []liar.Step) func(workloads.Slot, *lookalike) {
	return func(s workloads.Slot, l *lookalike) {
		if s.Arm != results.On {
			return
		}
		lieIn(l, id, lie)
	}
}

func lieIn(l *lookalike, id string, lie func(l *lookalike, steps []liar.Step) []liar.Step) {
	l.lie = func(r *workloads.Request, steps []liar.Step) []liar.Step {
		if r.ID == id {
			return lie(l, steps)
		}
		return steps
	}
}

// A server that lies is never BETTER, and the audit says which lie it was.
func TestPlantedLies(t *testing.T) {
	for name, row := range map[string]struct {
		change  func(workloads.Slot, *lookalike)
		verdict string // one of
		named   string // in a finding or a reason
	}{
		"a token doubled": {lieTo("A1", func(l *lookalike, steps []liar.Step) []liar.Step {
			piece := pieces(workloads.Answer(&l.requests["A1"].Expect))[5]
			return swapPiece(steps, 5, liar.Content(piece+piece))
		}), "BROKEN", "A1"},
		"a token dropped": {lieTo("A1", func(_ *lookalike, steps []liar.Step) []liar.Step { return swapPiece(steps, 5) }), "BROKEN", "A1"},
		"the stream cut": {lieTo("P1", func(_ *lookalike, steps []liar.Step) []liar.Step {
			return append(append([]liar.Step(nil), steps[:4]...), liar.End())
		}), "INCONCLUSIVE BROKEN", "P1"},
		"two conversations swapped": {lieTo("A1", func(l *lookalike, steps []liar.Step) []liar.Step {
			return swapPiece(steps, 5, liar.Content(workloads.Answer(&l.requests["P1"].Expect)))
		}), "BROKEN", "A1"},
		"another audit's facts": {lieTo("A2", func(l *lookalike, steps []liar.Step) []liar.Step { return l.answer(l.requests["B3"]) }), "BROKEN", "A2"},
		"a wrong answer in on": {lieTo("P1", func(_ *lookalike, steps []liar.Step) []liar.Step {
			return swapPiece(steps, 2, liar.Content("other words here "))
		}), "BROKEN", "P1"},
		"a tool call with other arguments": {lieTo("B1", func(_ *lookalike, steps []liar.Step) []liar.Step {
			return swapPiece(steps, 0, liar.Delta(`"tool_calls":[{"index":0,"id":"x","function":{"name":"stock_level","arguments":"{\"item\":\"nothing\"}"}}]`))
		}), "BROKEN", "B1"},
		"an audit in a code fence": {lieTo("A2", func(l *lookalike, steps []liar.Step) []liar.Step {
			fenced := "```json\n" + workloads.Answer(&l.requests["A2"].Expect) + "\n```"
			return append([]liar.Step{liar.Content(fenced)}, steps[len(steps)-4:]...)
		}), "BROKEN", "A2"},
		"half a character": {lieTo("P1", func(_ *lookalike, steps []liar.Step) []liar.Step {
			return swapPiece(steps, 2, liar.Data(liar.Chunk("\"content\":\"\xF0\x9F\"", "null")))
		}), "INCONCLUSIVE BROKEN", "P1"},
		"an error inside a 200": {lieTo("P1", func(_ *lookalike, steps []liar.Step) []liar.Step {
			return append(append([]liar.Step(nil), steps[:4]...), liar.Data(`{"error":{"message":"boom"}}`), liar.Done(), liar.End())
		}), "INCONCLUSIVE BROKEN", "P1"},
		"a flag claimed": {func(s workloads.Slot, l *lookalike) {
			if s.Arm == results.On {
				l.on = false
				l.status = `{"instance":"","solo":{"enabled":true},"engine":{"info":{"emulated":"lookalike"}}}`
			}
		}, "INVALID", "flag did nothing"},
		"the wrong flag": {func(s workloads.Slot, l *lookalike) { l.on = true }, "INVALID INCONCLUSIVE", "flag"},
		"another engine in on": {func(s workloads.Slot, l *lookalike) {
			if s.Arm == results.On {
				l.status = `{"instance":"","solo":{"enabled":true},"engine":{"info":{"emulated":"a faster one"}}}`
			}
		}, "INVALID", "INFO"},
		"parks claimed that nobody saw": {func(s workloads.Slot, l *lookalike) {
			if s.Arm == results.On {
				l.on, l.parks = false, 3
				l.status = `{"instance":"","solo":{"enabled":true},"engine":{"info":{"emulated":"lookalike"}}}`
			}
		}, "INVALID", "overtake"},
		"more requests booked than sent": {func(s workloads.Slot, l *lookalike) { l.ended = 2 }, "BROKEN INVALID", "ended"},
	} {
		t.Run(name, func(t *testing.T) {
			s, judged := verdict(t, inMemory(t, staged(t, tiny, 3), row.change))
			if !strings.Contains(row.verdict, s.Verdict) {
				t.Errorf("verdict %s, want one of %s; %v\n  %s", s.Verdict, row.verdict, s.Reasons, failures(judged))
			}
			said := failures(judged) + strings.Join(s.Reasons, "\n")
			for _, f := range judged.Findings {
				if f.Status == "fail" {
					said += strings.Join(f.Records, " ")
				}
			}
			if !strings.Contains(said, row.named) {
				t.Errorf("nobody names %q:\n%s", row.named, said)
			}
		})
	}
}

// The role chunk comes early in both arms of every honest run; here it comes at
// once although the token takes seconds. No TTFT is shortened by it.
func TestPlantedLieEarlyRole(t *testing.T) {
	dir := inMemory(t, staged(t, tiny, 3), func(s workloads.Slot, l *lookalike) {
		lieIn(l, "P1", func(_ *lookalike, steps []liar.Step) []liar.Step {
			return append([]liar.Step{liar.Role(), liar.Pause(2 * time.Second)}, steps...)
		})
	})
	s, _ := verdict(t, dir)
	if got := s.Arms[results.On].TTFTShort.Median; got == nil || *got < 2 {
		t.Errorf("median TTFT of on is %v, want the 2 s that the token took", got)
	}
	if s.Verdict == "BETTER" && s.Deltas["ttft_short"].Ratio != nil && *s.Deltas["ttft_short"].Ratio < 0.5 {
		t.Errorf("the role chunk made on %g times as long as off", *s.Deltas["ttft_short"].Ratio)
	}
}

// A lie in both arms alike makes neither arm better and is not dropped.
func TestPlantedLieInBothArms(t *testing.T) {
	dir := inMemory(t, staged(t, tiny, 3), func(_ workloads.Slot, l *lookalike) {
		lieIn(l, "A2", func(l *lookalike, steps []liar.Step) []liar.Step {
			return append([]liar.Step{liar.Content(`{"all": "wrong"}`)}, steps[len(steps)-4:]...)
		})
	})
	s, judged := verdict(t, dir)
	wrong := 0
	for _, j := range judged.Judgements {
		if strings.HasSuffix(j.Record, "/A2") && !j.Right {
			wrong++
		}
	}
	if wrong != 6 {
		t.Errorf("%d wrong audits are named, want all 6", wrong)
	}
	if a := s.Arms[results.On].Audits; a.Exact == a.Total {
		t.Errorf("audits %d of %d exact", a.Exact, a.Total)
	}
	if s.Verdict == "BETTER" || !strings.Contains(strings.Join(s.Reasons, " "), "both arms") {
		t.Errorf("verdict %s %v: wrong in both arms is no BETTER, and is named", s.Verdict, s.Reasons)
	}
}

// A record that was edited or taken away afterwards is named, whatever it said.
func TestPlantedLiesInTheFiles(t *testing.T) {
	for name, row := range map[string]struct {
		edit  func(lines []string) []string
		named string
	}{
		"an edited TTFT": {func(lines []string) []string {
			k := indexOf(lines, `"id":"1/P1"`)
			at := regexp.MustCompile(`"first_token_ns":\d+`).FindString(lines[k])
			lines[k] = strings.Replace(lines[k], at, `"first_token_ns":21000000`, 1)
			return lines
		}, "1/P1"},
		"an edited answer": {func(lines []string) []string {
			k := indexOf(lines, `"id":"2/P1"`)
			lines[k] = strings.Replace(lines[k], `"text":"`, `"text":"x`, 1)
			return lines
		}, "2/P1"},
		"a deleted record":   {func(lines []string) []string { k := indexOf(lines, `"id":"3/P1"`); return slices.Delete(lines, k, k+1) }, "P1"},
		"a deleted last one": {func(lines []string) []string { return lines[:len(lines)-1] }, "B3"},
		"two swapped": {func(lines []string) []string {
			lines[3], lines[4] = lines[4], lines[3]
			return lines
		}, "chain breaks"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := inMemory(t, staged(t, tiny, 3), nil)
			path := filepath.Join(dir, results.RecordsFile)
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := row.edit(strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n"))
			if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			s, judged := verdict(t, dir)
			said := failures(judged) + strings.Join(s.Reasons, "\n")
			if s.Verdict != "INVALID" && s.Verdict != "BROKEN" || !strings.Contains(said, row.named) {
				t.Errorf("verdict %s, want INVALID or BROKEN naming %q:\n%s", s.Verdict, row.named, said)
			}
		})
	}
}

func indexOf(lines []string, part string) int {
	return slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, part) })
}
