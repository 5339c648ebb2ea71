package simulate

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"interlude/engine/emulate/model"
	"interlude/results"
	"interlude/sched"
	"interlude/workloads"
)

func l1(t testing.TB) workloads.LoadShape {
	t.Helper()
	l, ok := workloads.NamedLoad("L1")
	if !ok {
		t.Fatal("no L1")
	}
	return l
}

// TestTargets: the table that the project promises (stand-in, L1, budget): over 50
// seeds with -full, else over fewer and with 5 % to spare.
func TestTargets(t *testing.T) {
	seeds, spare := 8, 1.05
	switch {
	case *full != "":
		seeds, spare = 50, 1
	case raceOn || testing.Short():
		seeds = 2
	}
	l := l1(t)
	hours := func(seed uint64) Traffic { return FromLoad(l, seed, time.Hour) }
	// Long requests with two sequences: 1.035 is the target, and 1.033 what 200 hours
	// give; 50 of them lie up to 0.003 beside that.
	targets := []struct {
		cell                              Cell
		median, p95, decode, hourly, cost float64
		long                              float64
	}{
		{Cell{Policy: sched.Budget, ReadSlice: 16_384}, 0.5, 4.5, 2.8, 9, 0.029, 1.085},
		{Cell{Policy: sched.Budget, ReadSlice: 8192}, 0.5, 3.8, 2.8, 7, 0.033, 1.085},
		{Cell{Policy: sched.Budget, ResumePrefill: true, Chunk: 8192}, 0.5, 3.7, 3.1, 7.2, 0.029, 1.085},
		{Cell{Policy: sched.Budget, ResumePrefill: true, Chunk: 2048}, 0.5, 3.4, 3.1, 7.2, 0.029, 1.085},
		{Cell{Policy: sched.Budget, ResumePrefill: true, Chunk: 8192, Sequences: 2}, 0.4, 2.3, 1.2, 4.7, 0.004, 1.037},
		{Cell{Policy: sched.Budget, ResumePrefill: true, Chunk: 2048, Sequences: 2}, 0.4, 1.9, 1.2, 3.7, 0.004, 1.037},
		{Cell{Policy: sched.Budget, ResumePrefill: true, Chunk: 8192, Sequences: 3}, 0.06, 2.0, 0.72, 4.3, 0.005, 1.035},
		{Cell{Policy: sched.Budget, ResumePrefill: true, Chunk: 2048, Sequences: 3}, 0.06, 1.6, 0.72, 2.6, 0.005, 1.035},
	}
	var cells []Cell
	for _, x := range targets {
		cells = append(cells, x.cell)
	}
	out := Table(cells, DefaultBase(), hours, seeds, l)
	t.Log("\n" + out.Text())
	if math.Abs(out.Floor-0.597) > 0.005 {
		t.Errorf("floor %.3f s, documented 0.597", out.Floor)
	}
	if seeds < 8 {
		return
	}
	for i, r := range out.Cells {
		x := targets[i]
		check := func(what string, got, limit float64) {
			if got > limit*spare {
				t.Errorf("%s, %s: %s is %.3f, at most %.3f", r.name(), r.policy(), what, got, limit)
			}
		}
		check("median", *r.TTFT.Median, out.Floor+x.median)
		check("p95", *r.TTFT.P95, x.p95)
		check("p95 of decode", *r.Found["decode"].P95, x.decode)
		check("hourly max", *r.MaxMean, x.hourly)
		check("cost", r.Cost, x.cost)
		check("long p95", *r.LongRatio, x.long)
		slice := time.Duration(max(r.ReadSlice*3/2, r.Chunk)) * time.Second / 2400
		check("longest pause", r.Pause, 8+slice.Seconds()+1.5)
		if r.LostPrefix > 0 {
			t.Errorf("%s, %s: %d tokens of prefix lost", r.name(), r.policy(), r.LostPrefix)
		}
	}
}

// TestNull: without probes nothing is parked and nothing costs.
func TestNull(t *testing.T) {
	l, _ := workloads.NamedLoad("null")
	for _, c := range Cells(Filter{}) {
		h := Run(c.Options(DefaultBase(), FromLoad(l, 3, 10*time.Minute)))
		fifo := Run(c.Baseline(false).Options(DefaultBase(), FromLoad(l, 3, 10*time.Minute)))
		if h.Counters.Preemptions > 0 || c.ReadSlice == 0 && h.Useful != fifo.Useful {
			t.Errorf("%+v: %d parks, useful %v, fifo %v", c, h.Counters.Preemptions, h.Useful, fifo.Useful)
		}
	}
}

// TestFlood: shorts without end do not starve the conversations.
func TestFlood(t *testing.T) {
	l, _ := workloads.NamedLoad("flood")
	for _, policy := range []string{sched.Quantum, sched.Budget} {
		o := Cell{Policy: policy}.Options(DefaultBase(), FromLoad(l, 3, 10*time.Minute))
		h := Run(o)
		long := 0
		for _, x := range h.Outcomes {
			if x.Class == workloads.Long && x.E2E > 0 {
				long++
			}
		}
		bound := o.Sched.Aging + o.Sched.Window + 5*time.Second
		if h.Pause > bound || long < 5 {
			t.Errorf("%s: longest pause %v (bound %v), %d turns ended", policy, h.Pause, bound, long)
		}
	}
}

// TestPredictsItself: a run recorded in virtual time is predicted exactly.
func TestPredictsItself(t *testing.T) {
	for _, cell := range []Cell{{Policy: sched.Budget, ReadSlice: sched.SliceAuto}, {Policy: sched.Budget, ResumePrefill: true, Chunk: 2048, Sequences: 3}} {
		l := l1(t)
		traffic := FromLoad(l, 5, 16*time.Minute)
		b := DefaultBase()
		b.Engine.CacheMiB, b.Engine.CacheSlots = 16_384, 4
		s := newRecorder(cell, b, traffic)
		rec, err := FromRun(s, 1)
		if err != nil {
			t.Fatal(err)
		}
		p := rec.Predict()
		if len(p.Probes) < 40 || p.MedianError == nil || *p.MedianError > 0.02 {
			t.Errorf("%s: %d probes, median error %v", cell.Policy, len(p.Probes), p.MedianError)
		}
		for _, q := range []struct{ m, p *float64 }{{p.Measured.Median, p.Predicted.Median}, {p.Measured.P95, p.Predicted.P95}} {
			if math.Abs(*q.p / *q.m - 1) > 0.05 {
				t.Errorf("%s: measured %.3f, predicted %.3f", cell.Policy, *q.m, *q.p)
			}
		}
	}
}

// newRecorder writes a simulated run as the harness would record it.
func newRecorder(c Cell, b Base, traffic Traffic) *results.Data {
	h := Run(c.Options(b, traffic))
	info := map[string]string{"emulated": "rtx3090-iq3s", "conversation_cache_mib": "16384", "conversation_cache_slots": "4"}
	if c.ResumePrefill {
		info["resume_prefill"], info["prefill_chunk"], info["sequences"] = "1", "2048", "3"
	}
	d := &results.Data{Run: results.Run{ID: "simulated", Speed: 2, Slots: []results.SlotInfo{{Slot: 1, Info: info,
		Config: json.RawMessage(`{"solo_priority": true, "solo_policy": "budget"}`)}}}}
	stamp := func(d time.Duration) results.Stamp { return results.Stamp(d/2) + 1 }
	var plan struct {
		Requests []workloads.Outline `json:"requests"`
	}
	for i, o := range h.Outcomes {
		if o.E2E == 0 || o.TTFT == 0 {
			continue
		}
		item := h.items[i]
		cached := max(0, item.Shared-1)
		plan.Requests = append(plan.Requests, workloads.Outline{ID: fmt.Sprint(i), MaxTokens: item.Budget})
		d.Records = append(d.Records, results.Record{ID: fmt.Sprint(i), Request: fmt.Sprint(i), Slot: 1, Class: o.Class, Conversation: item.Conversation,
			Sent: stamp(o.At), FirstToken: stamp(o.At + o.TTFT), End: stamp(o.At + o.E2E), Outcome: results.Completed,
			Usage: &results.Usage{Prompt: item.Prompt, Completion: item.Output, Cached: &cached}})
	}
	var err error
	if d.Plan, err = json.Marshal(plan); err != nil {
		panic(err)
	}
	return d
}

// TestOutputKeys: the documented keys of simulate --format json.
func TestOutputKeys(t *testing.T) {
	l := l1(t)
	out := Table(Cells(Filter{Policy: sched.Budget, ReadSlice: new(int)})[:2], DefaultBase(),
		func(seed uint64) Traffic { return FromLoad(l, seed, 2*time.Minute) }, 1, l)
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Floor float64                      `json:"floor_s"`
		Cells []map[string]json.RawMessage `json:"cells"`
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Fields(`engine policy resume_prefill prefill_chunk sequences read_slice hours ttft_short_s found
		hourly_max_mean_s cost cost_same_ckpt longest_pause_s long_e2e_p95_ratio parks`) {
		for _, c := range v.Cells {
			if _, ok := c[key]; !ok {
				t.Errorf("no key %s in %s", key, text)
			}
		}
	}
	var found map[string]Dist
	if err := json.Unmarshal(v.Cells[1]["found"], &found); err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Fields("nothing decode long_read cold_read restored_read short not_preemptible") {
		if _, ok := found[key]; !ok {
			t.Errorf("found has no %s", key)
		}
	}
}

// TestFilter: a flag narrows the table and keeps the FIFO baselines.
func TestFilter(t *testing.T) {
	yes, eight := true, 8
	for _, x := range []struct {
		f    Filter
		want int
	}{
		{Filter{}, 3*8 + 2},
		{Filter{Policy: sched.Quantum}, 2 * 8},
		{Filter{ResumePrefill: &yes}, 3 * 7},
		{Filter{Sequences: &eight}, 3},
	} {
		if got := Cells(x.f); len(got) != x.want {
			t.Errorf("%+v: %d cells, want %d: %+v", x.f, len(got), x.want, got)
		}
	}
}

func BenchmarkHour(b *testing.B) {
	l := l1(b)
	seed := uint64(0)
	for b.Loop() {
		seed++
		Run(Cell{Policy: sched.Budget, ReadSlice: 16_384}.Options(DefaultBase(), FromLoad(l, seed, time.Hour)))
	}
}

// TestReadLaw: the check values of the stand-in's read law hold for the engine
// that is simulated.
func TestReadLaw(t *testing.T) {
	p := model.RTX3090()
	for _, x := range []struct {
		tokens int
		want   float64
	}{{627, 0.56}, {230, 0.40}, {4, 0.064}} {
		if got := p.ReadTime(0, x.tokens).Seconds(); math.Abs(got-x.want) > 0.006 {
			t.Errorf("%d tokens: %.3f s, want %.3f", x.tokens, got, x.want)
		}
	}
}
