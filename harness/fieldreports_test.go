package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"interlude/harness/liar"
	"interlude/results"
	"interlude/results/report"
	"interlude/results/stats"
	"interlude/workloads"
)

// The rows of the field reports that need a whole run, its statistics or its
// report: sections D, E and F, and what is left of C, G, H and I.

// page is the report of a run directory, written as cmd writes it.
func page(t *testing.T, dir string) (results.Summary, string) {
	t.Helper()
	s, judged := verdict(t, dir)
	for name, v := range map[string]any{results.SummaryFile: s, results.FindingsFile: judged.Findings, results.JudgementsFile: judged.Judgements} {
		if err := results.WriteJSON(dir, name, v); err != nil {
			t.Fatal(err)
		}
	}
	files, err := report.Render(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	return s, string(files["README.md"])
}

// refuse answers some requests of the measured part with a status.
func refuse(status int, which func(r *workloads.Request) bool) func(*workloads.Request, []liar.Step) []liar.Step {
	return func(r *workloads.Request, steps []liar.Step) []liar.Step {
		if r.Class != workloads.Warmup && r.Class != workloads.Canary && which(r) {
			return []liar.Step{liar.Data(fmt.Sprintf(`{"error":{"code":%d,"message":"no"}}`, status)), liar.Done(), liar.End()}
		}
		return steps
	}
}

func TestH52FailuresAreAlwaysPrinted(t *testing.T) {
	_, text := page(t, inMemory(t, staged(t, tiny, 4), nil))
	if !regexp.MustCompile(`failed[^|]*\|\s*0 of \d+`).MatchString(text) {
		t.Error("an honest run does not say that 0 requests failed")
	}
	_, text = page(t, inMemory(t, staged(t, tiny, 4), func(_ workloads.Slot, l *lookalike) {
		l.lie = refuse(500, func(r *workloads.Request) bool { return r.ID == "P1" })
	}))
	if !regexp.MustCompile(`failed[^|]*\|\s*4 of \d+`).MatchString(text) {
		t.Error("a run with 4 failures an arm does not say so")
	}
}

// An arm that refuses its slow work looks faster and is not better.
func TestH56RefusingArmIsNotBetter(t *testing.T) {
	dir := inMemory(t, staged(t, tiny, 4), func(s workloads.Slot, l *lookalike) {
		if s.Arm == results.On {
			l.lie = refuse(503, func(r *workloads.Request) bool { return r.ID == "A1" })
		}
	})
	s, text := page(t, dir)
	if s.Verdict == "BETTER" || s.Arms[results.On].Requests.StreamError == 0 {
		t.Errorf("verdict %s %v, requests %+v", s.Verdict, s.Reasons, s.Arms[results.On].Requests)
	}
	if !strings.Contains(text, "A1") {
		t.Error("the report does not name what was refused")
	}
}

// H73, H74: nothing succeeded: a verdict and a report all the same.
func TestH73NothingSucceeded(t *testing.T) {
	s, text := page(t, inMemory(t, staged(t, tiny, 4), func(_ workloads.Slot, l *lookalike) {
		l.lie = refuse(500, func(*workloads.Request) bool { return true })
	}))
	if s.Verdict == "BETTER" || s.Verdict == "NO DIFFERENCE" || len(text) < 1000 {
		t.Errorf("verdict %s with a report of %d bytes", s.Verdict, len(text))
	}
	if d := s.Arms[results.On].TTFTShort; d != nil && d.Median != nil {
		t.Errorf("a median of nothing: %g", *d.Median)
	}
}

func TestH74NoRequestSucceededInOneArm(t *testing.T) {
	s, _ := page(t, inMemory(t, staged(t, tiny, 4), func(slot workloads.Slot, l *lookalike) {
		if slot.Arm == results.Off {
			l.lie = refuse(500, func(*workloads.Request) bool { return true })
		}
	}))
	if s.Verdict == "BETTER" {
		t.Errorf("verdict %s %v against an arm without a single value", s.Verdict, s.Reasons)
	}
}

// percentile of 1..n, in the summary's own words.
func upTo(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(i + 1)
	}
	return out
}

func wantPercentile(t *testing.T, values []float64, p, want float64) {
	t.Helper()
	if got, ok := stats.Percentile(values, p); !ok || got != want {
		t.Errorf("p%g of %d values is %g (%t), want %g", 100*p, len(values), got, ok, want)
	}
}

func TestH77PercentilesOfFewSamples(t *testing.T) { wantPercentile(t, []float64{3, 1, 2}, 0.99, 3) }
func TestH80FractionalPercentiles(t *testing.T)   { wantPercentile(t, upTo(10000), 0.999, 9990) }
func TestH81PercentileOfThree(t *testing.T)       { wantPercentile(t, []float64{10, 20, 30}, 0.99, 30) }

func TestH78PercentileRanks(t *testing.T) {
	for p, want := range map[float64]float64{0.5: 5, 0.9: 9, 0.99: 10, 0: 1, 1: 10} {
		wantPercentile(t, upTo(10), p, want)
	}
}

func TestH82PercentilesOfOneSample(t *testing.T) {
	for _, p := range []float64{0.01, 0.5, 0.99} {
		wantPercentile(t, []float64{0.5}, p, 0.5)
	}
	if _, ok := stats.Percentile(nil, 0.5); ok {
		t.Error("a percentile of nothing")
	}
}

// H84, H85: an answer with fence, table, pipes and line ends of every kind breaks
// no row of the report.
func TestH84HostileAnswersBreakNoTable(t *testing.T) {
	_, text := page(t, inMemory(t, staged(t, tiny, 4), lieTo("A2", func(_ *lookalike, steps []liar.Step) []liar.Step {
		return append([]liar.Step{liar.Content("```\n| a | b |\r|---|\n<b>x</b> `y` \u2028 |||")}, steps[len(steps)-4:]...)
	})))
	wantTables(t, text)
}

func TestH85TablesAreNotCutBySections(t *testing.T) {
	_, text := page(t, inMemory(t, staged(t, tiny, 4), nil))
	wantTables(t, text)
}

// wantTables checks that every table has one separator row, right below its head,
// and as many cells in each row.
func wantTables(t *testing.T, text string) {
	t.Helper()
	cells := func(line string) int { return strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") }
	separator := regexp.MustCompile(`^\|(:?-+:?\|)+$`)
	lines, fenced, row, width, tables := strings.Split(text, "\n"), "", 0, 0, 0
	for n, line := range lines {
		if mark := regexp.MustCompile("^`{3,}").FindString(line); mark != "" && (fenced == "" || mark == fenced) {
			if fenced == "" {
				fenced = mark
			} else {
				fenced = ""
			}
		}
		if fenced != "" || !strings.HasPrefix(line, "|") {
			row = 0
			continue
		}
		switch row++; {
		case row == 1:
			width = cells(line)
			tables++
		case cells(line) != width:
			t.Errorf("line %d has %d bars, its table %d: %.200s", n+1, cells(line), width, line)
		}
		if separator.MatchString(line) != (row == 2) {
			t.Errorf("line %d: row %d of its table is %.80s", n+1, row, line)
		}
	}
	if tables < 5 {
		t.Errorf("only %d tables found", tables)
	}
}

// H97: nothing of one slot can be in the caches of the next: each pair has its own
// prompts, and a target that is not restarted must say so.
func TestH97EveryPairHasItsOwnPrompts(t *testing.T) {
	r := staged(t, tiny, 4)
	seen := map[string]int{}
	for pair := 1; pair <= 4; pair++ {
		reqs, err := r.expand(workloads.Slot{Pair: pair})
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range workloads.Measured(reqs) {
			if q.System == "" {
				continue
			}
			if head := q.System[:min(40, len(q.System))]; seen[head] != 0 && seen[head] != pair {
				t.Errorf("pairs %d and %d begin alike: %q", seen[head], pair, head)
			} else {
				seen[head] = pair
			}
		}
	}
	if _, err := ParseTarget([]byte(`{"schema":1,"name":"x","url":"http://127.0.0.1:1"}`)); err == nil || !strings.Contains(err.Error(), "shared_cache") {
		t.Errorf("a server that is not restarted, without shared_cache: %v", err)
	}
}

func TestH98WarmUpIsDisjoint(t *testing.T) {
	reqs, err := staged(t, tiny, 4).expand(workloads.Slot{Pair: 1})
	if err != nil {
		t.Fatal(err)
	}
	heads := map[string]string{}
	for _, q := range reqs {
		if q.System == "" {
			continue
		}
		head := q.System[:30]
		if other, ok := heads[head]; ok {
			t.Errorf("%s begins as %s does: %q", q.ID, other, head)
		}
		heads[head] = q.ID
	}
	if len(heads) < 5 {
		t.Errorf("only %d first turns found", len(heads))
	}
}

// sampled is tiny with long answers that may vary.
var sampled = strings.Replace(tiny, `"greedy"`, `"sampled"`, 1)

// aside adds to the first line of the long answer what its rule allows, so that
// it is another right answer.
func aside(l *lookalike, steps []liar.Step) []liar.Step {
	rule := l.requests["A1"].Expect.Lines
	answer := workloads.Answer(&l.requests["A1"].Expect)
	first, rest, _ := strings.Cut(answer, "\n")
	out := []liar.Step{}
	for _, p := range pieces(first + " (" + rule.Words[0] + ")\n" + rest) {
		out = append(out, l.between(l.requests["A1"]), liar.Content(p))
	}
	return append(out, steps[len(steps)-4:]...)
}

// H100: sampled answers that differ between the arms are facts to be checked, not
// bytes to be compared.
func TestH100DifferingAnswersAreNotBroken(t *testing.T) {
	s, judged := verdict(t, inMemory(t, staged(t, sampled, 4), func(slot workloads.Slot, l *lookalike) {
		l.info = "{}" // an engine that promises nothing about its bytes
		if slot.Arm == results.On {
			lieIn(l, "A1", aside)
		}
	}))
	if s.Verdict == "BROKEN" || s.Verdict == "INVALID" {
		t.Errorf("verdict %s %v\n  %s", s.Verdict, s.Reasons, failures(judged))
	}
	if s.Identical == nil || s.Identical.Equal == s.Identical.Total {
		t.Errorf("identical %+v: that they differ is said all the same", s.Identical)
	}
}

// H101: where equal servers answer differently, their identity rate stands beside
// that of the arms.
func TestH101IdentityRateOfEqualServers(t *testing.T) {
	n := 0
	dir := inMemory(t, stagedAA(t, 2), func(s workloads.Slot, l *lookalike) {
		l.info = "{}"
		if s.AA {
			n++
		}
		if s.Arm == results.On || s.AA && n == 2 {
			lieIn(l, "A1", aside)
		}
	})
	_, judged := verdict(t, dir)
	said := ""
	for _, f := range judged.Findings {
		if f.Check == "identical_long_answers" {
			said += f.Text
		}
	}
	if !strings.Contains(said, "0 of 4") || !strings.Contains(said, "off it is 1 of 2") {
		t.Errorf("identity rates: %q; want 0 of 4 between the arms and 1 of 2 between off and off", said)
	}
}

// H102: off/off slots inside the run give the noise of equal servers.
func TestH102NoiseBandFromEqualArms(t *testing.T) {
	n := 0
	dir := inMemory(t, stagedAA(t, 4), func(s workloads.Slot, l *lookalike) {
		if s.AA {
			n++
			l.step += time.Duration(n) * time.Millisecond
		}
	})
	_, text := page(t, dir)
	if strings.Contains(text, "A/A band: absent") {
		t.Error("A/A slots were run, and the report says that the band is absent")
	}
	_, text = page(t, inMemory(t, staged(t, tiny, 4), nil))
	if !strings.Contains(text, "A/A band: absent") {
		t.Error("no A/A slots were run, and the report does not say that the band is absent")
	}
}

func stagedAA(t *testing.T, aa int) *run {
	t.Helper()
	base := staged(t, sampled, 4)
	o := base.o
	o.AA, o.Runs = aa, t.TempDir()
	r, err := open(t.Context(), "ab", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.writer.Close() })
	r.info.Calibrated = base.info.Calibrated
	return r
}

// H104, H105: both orders of the arms are equally frequent and take turns.
func TestH104OrderIsBalanced(t *testing.T) {
	for _, pairs := range []int{4, 8, 16} {
		first := map[string]int{}
		slots := staged(t, tiny, pairs).plan.Slots
		for i := 0; i < len(slots); i += 2 {
			if slots[i].Pair != slots[i+1].Pair || slots[i].Arm == slots[i+1].Arm {
				t.Fatalf("slots %v and %v are no pair", slots[i], slots[i+1])
			}
			first[slots[i].Arm]++
		}
		if first[results.Off] != first[results.On] {
			t.Errorf("%d pairs: off first %d times, on %d times", pairs, first[results.Off], first[results.On])
		}
	}
}

// A machine that gets faster during the run favours whoever is measured last;
// here it is no difference, whichever arm came first.
func TestH105DriftMakesNoDifference(t *testing.T) {
	n := 0
	s, judged := verdict(t, inMemory(t, staged(t, tiny, 8), func(slot workloads.Slot, l *lookalike) {
		n++
		l.on = false
		l.status = fmt.Sprintf(`{"solo":{"enabled":%t},"engine":{"info":{"emulated":"lookalike"}}}`, slot.Arm == results.On)
		l.step += time.Duration(20-n) * 200 * time.Microsecond
	}))
	d := s.Deltas["ttft_short"]
	if s.Verdict == "BETTER" || s.Verdict == "WORSE" || d.Low != nil && (*d.Low > 1 || *d.High < 1) {
		t.Errorf("verdict %s, ratio %+v of equal arms under drift\n  %s", s.Verdict, d, failures(judged))
	}
}

// H92, see also package calibrate: the client's stamps are the true ones, so that two clients that drive the
// same server agree.
func TestH92ClientsAgreeOnTheSameServer(t *testing.T) {
	script := func(string, *liar.Request) []liar.Step { return words(50) }
	a, b := dispatch(t, openLoop(5, time.Second), script), dispatch(t, openLoop(5, time.Second), script)
	for id := range a.records {
		x, _ := a.records[id].E2E()
		y, _ := b.records[id].E2E()
		if x != 0.5 || y != 0.5 {
			t.Errorf("%s took %g and %g s, want the server's own 0.5", id, x, y)
		}
	}
}

// H132: a run with a fault shows no numbers up front and exits by its verdict.
func TestH132BadRunShowsNoNumbers(t *testing.T) {
	s, text := page(t, inMemory(t, staged(t, tiny, 4), func(slot workloads.Slot, l *lookalike) {
		if slot.Arm == results.On {
			l.on = false
			l.status = `{"solo":{"enabled":true},"engine":{"info":{"emulated":"lookalike"}}}`
		}
	}))
	if s.Verdict != "INVALID" || stats.ExitCode(s.Verdict) != 12 || len(s.Deltas) > 0 {
		t.Errorf("verdict %s, exit code %d, deltas %v", s.Verdict, stats.ExitCode(s.Verdict), s.Deltas)
	}
	head, _, _ := strings.Cut(text, "\n## ")
	if !strings.Contains(head, "INVALID") || strings.Contains(head, "÷") {
		t.Errorf("the first screen of an INVALID run:\n%s", head)
	}
}

// jsonLie puts another text in place of the audit's answer.
func jsonLie(wrap func(right string) string) func(workloads.Slot, *lookalike) {
	return lieTo("A2", func(l *lookalike, steps []liar.Step) []liar.Step {
		return append([]liar.Step{liar.Content(wrap(workloads.Answer(&l.requests["A2"].Expect)))}, steps[len(steps)-4:]...)
	})
}

// H140, H141, H142: the strict contract and the recoverable content are two verdicts.
func TestH140ParsingIsNotEnough(t *testing.T) {
	wantJSON(t, `{"a":1}`, func(string) string { return `{"a":1}` }, false, false)
}

func TestH141FenceBreaksTheStrictContract(t *testing.T) {
	wantJSON(t, "fence", func(right string) string { return "```json\n" + right + "\n```" }, false, true)
}

func TestH142ProseIsRecoverable(t *testing.T) {
	wantJSON(t, "prose", func(right string) string { return "Here you are:\n```\n" + right + "\n```\nAnything else?" }, false, true)
}

func wantJSON(t *testing.T, name string, wrap func(string) string, strict, recoverable bool) {
	t.Helper()
	s, judged := verdict(t, inMemory(t, staged(t, tiny, 4), jsonLie(wrap)))
	n := 0
	for _, j := range judged.Judgements {
		if !strings.HasSuffix(j.Record, "/A2") || j.Right {
			continue
		}
		n++
		if j.Strict == nil || *j.Strict != strict || j.Recoverable == nil || *j.Recoverable != recoverable || j.Excerpt == "" {
			raw, _ := json.Marshal(j)
			t.Errorf("%s: %s", name, raw)
		}
	}
	if n != 4 || s.Verdict != "BROKEN" {
		t.Errorf("%s: %d audits are wrong, verdict %s; want the 4 of arm on and BROKEN", name, n, s.Verdict)
	}
}

// A summary never holds NaN or infinity, however little there is to divide.
func TestH76NoNaNInASummary(t *testing.T) {
	s, _ := page(t, inMemory(t, staged(t, tiny, 4), func(_ workloads.Slot, l *lookalike) {
		l.step = 0
		l.lie = refuse(500, func(r *workloads.Request) bool { return r.Class != workloads.Long })
	}))
	raw, err := json.Marshal(s)
	if err != nil || bytes.Contains(raw, []byte("NaN")) || bytes.Contains(raw, []byte("Inf")) {
		t.Errorf("%v: %s", err, raw)
	}
	var check func(v any)
	check = func(v any) {
		switch v := v.(type) {
		case float64:
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Error("a number that is none")
			}
		case map[string]any:
			for _, e := range v {
				check(e)
			}
		}
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		t.Fatal(err)
	}
	check(tree)
}
