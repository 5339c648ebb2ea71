package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"interlude/harness/supervise"
	"interlude/results"
	"interlude/workloads"
)

// Soak runs the manifest once on one server, for as long as its requests last, and
// its beginning again on one with the flag off where the plan has a control.
// The error is what ended the run early; with a Finished beside it there is a run
// directory that can be judged, complete or not. When ctx ends, the run ends as
// interrupted.
func Soak(ctx context.Context, o Options) (*Finished, error) {
	r, err := open(ctx, "soak", o)
	if err != nil {
		return nil, fmt.Errorf("soak: %w", err)
	}
	if n := r.kills(); n > 0 && (r.manifest.Generate == nil || r.o.Target.URL != "") {
		err = fmt.Errorf("soak: %d kills need a manifest with a duration and a server that is started here", n)
		return r.close(ctx, err)
	}
	if r.plan.Control() > 0 && r.o.Target.URL != "" {
		err = errors.New("soak: the target is a URL, whose server has one state; a control needs a server that is started here")
		return r.close(ctx, err)
	}
	if err = r.pairs(ctx); err != nil {
		err = fmt.Errorf("soak: %w", err)
	}
	return r.close(ctx, err)
}

// kills ends the engine at moments drawn from the plan's seed, and remembers them.
type kills struct {
	run *run
	srv *server

	mu sync.Mutex
	at []results.Stamp
}

// strike ends the engine n times while the manifest lasts: never in the first or the
// last twentieth, where there may be nobody to notice.
func (k *kills) strike(ctx context.Context, slot, n int) {
	r := rand.New(rand.NewPCG(k.run.plan.Seed, 0x6b696c6c73))
	span := float64(k.run.manifest.Generate.Duration) / k.run.plan.Speed
	moments := make([]time.Duration, n)
	for i := range moments {
		moments[i] = time.Duration(span * (0.05 + 0.9*r.Float64()))
	}
	slices.Sort(moments)
	start := time.Now()
	for _, at := range moments {
		timer := time.NewTimer(time.Until(start.Add(at)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pid := k.srv.enginePid()
		k.mu.Lock()
		k.at = append(k.at, k.srv.client.Now())
		k.mu.Unlock()
		text := fmt.Sprintf("SIGKILL to the engine, process %d", pid)
		if err := k.srv.child.Signal(pid, supervise.Kill); err != nil {
			text = "not ended: " + err.Error()
		}
		k.run.eventAt(slot, k.srv.client.Now(), "kill", text)
	}
}

// shadow is how long after a kill a request may still meet the dead engine.
const shadow = results.Stamp(time.Second)

// struck tells whether a request was open when the engine was ended, or came
// before its server had noticed, and the server said so in due form.
func (k *kills) struck(rec *results.Record) bool {
	if !structured(rec) {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.at, func(at results.Stamp) bool { return rec.Sent <= at+shadow && rec.End >= at && rec.End <= at+2*shadow })
}

// overtime is how far past its duration a soak may run before what is left is cut
// off: a server that crawls must not hold the machine for a night.
const overtime = 1.5

// limit is when the requests of a slot have to be over; 0: never.
func (r *run) limit(s workloads.Slot) time.Duration {
	if r.plan.Kind != "soak" || r.manifest.Generate == nil {
		return 0
	}
	d := time.Duration(r.manifest.Generate.Duration)
	if s.Pair == 0 {
		d = r.plan.Control()
	}
	return time.Duration((float64(d)*overtime + float64(5*time.Minute)) / r.plan.Speed)
}

// Budgets are what a soak may use up, in the words of the summary: slopes an hour
// (bytes, counts) and times in seconds. A slope grows with speed, since the same
// work passes in less time; a time shrinks. The times are promised for the soak
// manifest on the stand-in, and depend on whether its reads can be stopped and kept.
// A p95 is judged by the upper end of its interval.
func Budgets(manifest, engine string, speed float64) map[string]float64 {
	if speed == 0 {
		speed = 1
	}
	budgets := map[string]float64{
		"harness_live_heap_bytes": 1e6 * speed,
		"server_live_heap_bytes":  8e6 * speed,
		"harness_rss_bytes":       32e6 * speed,
		"server_rss_bytes":        32e6 * speed,
		"engine_rss_bytes":        64e6 * speed,
		"server_goroutines":       10 * speed,
		"server_handles":          10 * speed,
		"harness_goroutines":      10 * speed,
		"harness_handles":         10 * speed,
	}
	words := strings.Fields(engine)
	if manifest != "soak" || len(words) == 0 || words[0] != "emulate" {
		return budgets
	}
	p95, most := 6.5, 20.0
	if slices.Contains(words, "--resume-prefill") {
		p95, most = 2, 9 // 1.6 s is promised; the upper end of an hour's p95 lies a fifth above it
	}
	budgets["ttft_short_p95_s"], budgets["ttft_short_max_s"] = p95/speed, most/speed
	return budgets
}

// kills is how often the plan wants the engine ended, in the soak's own slot.
func (r *run) kills() int {
	n, _ := strconv.Atoi(r.plan.Options["kills"]) // absent: 0
	return n
}
