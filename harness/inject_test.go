package harness

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"interlude/harness/liar"
	"interlude/results"
	"interlude/workloads"
)

// staged2 makes the run directory of a built-in manifest for real processes.
func staged2(t *testing.T, kind string, speed float64) *run {
	t.Helper()
	m, err := workloads.Load(kind, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := mustTiny(t)
	o.Manifest, o.Speed, o.Policy, o.Pairs, o.Counter = m, speed, "budget", 0, exact()
	r, err := open(t.Context(), kind, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.writer.Close() })
	r.info.Calibrated = &results.Calibration{Streams: 1, Events: 100, P50: 1e-5, P99: 1e-4, Max: 1e-3}
	return r
}

func cellsOf(t *testing.T, r *run, slot int) []results.Cell {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.finished.Dir, slotFolder(slot), cellsFile))
	var cells []results.Cell
	if err == nil {
		err = json.Unmarshal(data, &cells)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cells
}

// TestKilledEverywhere: real processes; the engine is killed at every moment under
// every API, and every cell passes.
func TestKilledEverywhere(t *testing.T) {
	if !*full {
		t.Skip("half a minute of real processes: -full")
	}
	t.Parallel()
	r := staged2(t, "inject", 20)
	slot := r.plan.Slots[2]
	if how := r.howOf(slot); how != workloads.HowKill {
		t.Fatalf("the third slot is %s", how)
	}
	reqs, err := r.expand(slot)
	if err == nil {
		err = r.slot(t.Context(), slot, reqs)
	}
	if _, err := r.close(t.Context(), err); err != nil {
		t.Fatal(err)
	}
	cells := cellsOf(t, r, slot.Slot)
	if want := len(workloads.InjectWhens()) * len(workloads.InjectAPIs()); len(cells) != want {
		t.Errorf("%d cells, want %d", len(cells), want)
	}
	for _, c := range cells {
		if c.Pass == nil || !*c.Pass {
			t.Errorf("%s", describe(c))
		}
		if c.ServedAgain == nil {
			t.Errorf("%s @ %s, %s: not said when it served again", c.How, c.When, c.API)
		}
	}
}

// TestLifecycleRows: real processes; every row passes with evidence.
func TestLifecycleRows(t *testing.T) {
	if !*full {
		t.Skip("half a minute of real processes: -full")
	}
	t.Parallel()
	r := staged2(t, "lifecycle", 16)
	slot := r.plan.Slots[0]
	reqs, err := r.expand(slot)
	if err == nil {
		err = r.slot(t.Context(), slot, reqs)
	}
	if _, err := r.close(t.Context(), err); err != nil {
		t.Fatal(err)
	}
	for _, c := range cellsOf(t, r, slot.Slot) {
		if c.Pass == nil || !*c.Pass || c.Evidence == "" {
			t.Errorf("%s, %s: not run %q, why %q, evidence %q", c.How, c.When, c.NotRun, c.Why, c.Evidence)
		}
	}
	config, err := os.ReadFile(filepath.Join(r.finished.Dir, results.RunFile))
	if err != nil || strings.Contains(string(config), r.o.Target.key) {
		t.Errorf("the API key is in run.json (%v)", err)
	}
}

// TestJudgeOfACell: every way in which a client can be deceived fails the cell.
func TestJudgeOfACell(t *testing.T) {
	second := results.Stamp(time.Second)
	told := results.Record{Request: "decode-chat-victim", Sent: 1, End: 10*second + second/2, LastToken: 10 * second, Outcome: results.StreamError, Error: "engine_died"}
	for _, c := range []struct {
		name   string
		change func(rec *results.Record)
		hung   int
		silent int
		why    string
	}{
		{name: "told in due form", change: func(*results.Record) {}},
		{name: "told too late", change: func(r *results.Record) { r.End = 12 * second }, why: "told after 2.000 s"},
		{name: "a success", change: func(r *results.Record) { r.Outcome, r.FinishReason = results.Completed, "stop" }, silent: 1, why: "was struck and ended as stop"},
		{name: "a bare end", change: func(r *results.Record) { r.Outcome = results.Truncated }, why: "not by a structured error"},
		{name: "an error without words", change: func(r *results.Record) { r.Error = "" }, why: "not by a structured error"},
		{name: "a refusal that blames the client", change: func(r *results.Record) { r.Outcome, r.Status = results.RefusedOutcome, 400 }, why: "not by a structured error"},
		{name: "a token of the dead", change: func(r *results.Record) { r.LastToken = 10*second + second/3 }, why: "a token 0.333 s after"},
		{name: "never", change: func(r *results.Record) { r.Outcome = results.CutOff }, hung: 1, why: "hung"},
	} {
		rec := told
		c.change(&rec)
		f := &flight{request: &workloads.Request{ID: rec.Request}, rec: &rec, seen: map[string]bool{}}
		s := &scene{injector: &injector{how: workloads.HowKill}, when: workloads.WhenDecode, api: "chat", at: 10 * second, struck: map[*flight]bool{f: true}}
		s.flights = []*flight{f}
		var cell results.Cell
		s.judge(&ruling{&cell})
		if cell.Hung != c.hung || cell.Silent != c.silent || c.why == "" && cell.Why != "" || !strings.Contains(cell.Why, c.why) {
			t.Errorf("%s: %+v", c.name, cell)
		}
	}
}

// TestBystander: who only waited is served by the next engine, with the right answer.
func TestBystander(t *testing.T) {
	rule := &workloads.WordRule{Nonce: "n", Words: strings.Fields("amber birch cedar delta ember fjord grove haven inlet jetty knoll lotus maple north ocean pearl"), Count: 5}
	q := &workloads.Request{ID: "queued-chat-victim", Expect: workloads.Expect{Words: rule}}
	for text, why := range map[string]string{workloads.WordsText(rule): "", "amber": "completed with a wrong answer"} {
		f := &flight{request: q, seen: map[string]bool{workloads.AtQueued: true}, rec: &results.Record{Request: q.ID, Outcome: results.Completed, FinishReason: "stop", Text: text}}
		cell := results.Cell{Blast: map[string]int{}}
		(&scene{injector: &injector{}, when: workloads.WhenQueued, api: "chat"}).bystander(&ruling{&cell}, f)
		if cell.Why != "" && why == "" || !strings.Contains(cell.Why, why) || cell.Blast["queued completed"] != 1 {
			t.Errorf("%q: %+v", text, cell)
		}
	}
}

// TestWorst: the worst of the repetitions and their medians; one that did not run
// does not count.
func TestWorst(t *testing.T) {
	num := func(v float64) *float64 { return &v }
	yes, no := true, false
	got := worst([]results.Cell{
		{How: "kill", Told: num(0.3), ServedAgain: num(3), Pass: &yes, Blast: map[string]int{"queued completed": 1}},
		{How: "kill", Told: num(0.1), ServedAgain: num(1), Pass: &yes, Blast: map[string]int{"queued completed": 1}},
		{How: "kill", Told: num(0.2), ServedAgain: num(2), Pass: &no, Why: "x hung", Hung: 1},
		{How: "kill", NotRun: "no fault file"},
	})
	if *got.Told != 0.3 || *got.ToldMedian != 0.2 || *got.ServedAgain != 3 || *got.ServedAgainMedian != 2 || *got.Pass || got.Hung != 1 || got.Repeats != 3 ||
		got.Why != "x hung" || got.NotRun != "" || got.Blast["queued completed"] != 2 {
		t.Errorf("%+v", got)
	}
}

// TestAskedAgainAfterAKill: a turn under which the run itself ended the engine is
// asked again, its conversation goes on, and both records stand.
func TestAskedAgainAfterAKill(t *testing.T) {
	script := func(id string, _ *liar.Request) []liar.Step {
		if id == "A1" || id == "P" {
			return []liar.Step{liar.Head(), liar.Content("x"), liar.Data(`{"error":{"message":"the engine ended"}}`), liar.End()}
		}
		return words(1)
	}
	twice := 0
	d := dispatch(t, []workloads.Request{req("A1", "A", at(0)), req("A2", "A", when("A1", "end", 0, 0)), req("P", "P", at(0))}, script, func(d *dispatcher, _ context.CancelCauseFunc) {
		d.struck = structured
		record := d.record
		d.record = func(rec *results.Record) {
			if rec.ID == "1/A1" { // dispatch wants one record a request
				twice++
				if rec.Planned != planKill {
					t.Errorf("%+v", rec)
				}
				return
			}
			record(rec)
		}
	})
	if got := d.outcome("A1", "A2", "P"); got != "A1 completed, A2 completed, P stream_error" || twice != 1 || d.records["A1"].ID != "1/A1#2" || d.records["P"].Planned != planKill {
		t.Errorf("%s; %d, %s", got, twice, d.records["A1"].ID)
	}
}
