package observe

import (
	"cmp"
	"context"
	"time"

	"interlude/results"
)

// Sampler takes a sample at once and then every Every until its context ends.
type Sampler struct {
	Observer *Observer
	Path     string                 // of the metrics; empty: processes only
	Keep     func(name string) bool // which numbers; nil: all
	Pids     func() map[string]int  // processes by their role; asked before each sample
	Self     int                    // our own pid; 0: not sampled
	Every    time.Duration          // > 0
	Now      func() results.Stamp   // stamps are the caller's
	Sink     func(results.Sample)   // gets each sample
}

// Run samples until ctx ends. A failed reading is a sample that says so.
func (s *Sampler) Run(ctx context.Context) {
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	for {
		sample := s.take(ctx)
		if ctx.Err() != nil {
			return // cut short: not a failure of the server
		}
		s.Sink(sample)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *Sampler) take(ctx context.Context) results.Sample {
	sample := results.Sample{At: s.Now(), Procs: map[string]results.Proc{}}
	if s.Path != "" {
		all, err := s.Observer.Metrics(ctx, s.Path)
		if err != nil {
			sample.Error = err.Error()
		}
		sample.Metrics = map[string]float64{}
		for name, v := range all {
			if s.Keep == nil || s.Keep(name) {
				sample.Metrics[name] = v
			}
		}
	}
	for role, pid := range s.Pids() {
		if p, err := Process(pid); err == nil {
			sample.Procs[role] = p
		}
	}
	if s.Self != 0 {
		sample.Procs["harness"] = Self(s.Self)
	}
	// Go servers tell their own heap and goroutines; they belong to the process. What
	// the last collection left, where it is told, is steadier than what is allocated.
	if p, ok := sample.Procs["server"]; ok {
		p.Heap = uint64(cmp.Or(sample.Metrics["go_gc_heap_live_bytes"], sample.Metrics["go_memstats_heap_alloc_bytes"]))
		p.Goroutines = int(sample.Metrics["go_goroutines"])
		sample.Procs["server"] = p
	}
	return sample
}
