package sched

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// engines are the capabilities that change what a policy may do.
func engines() map[string]Engine {
	return map[string]Engine{
		"stop":      {CacheMiB: 8192},
		"nocache":   {},
		"resume":    {CacheMiB: 8192, ResumePrefill: true, PrefillChunk: worldChunk},
		"sequences": {CacheMiB: 8192, ResumePrefill: true, PrefillChunk: worldChunk, Sequences: 3},
	}
}

func policies() []string { return []string{FIFO, Quantum, Budget} }

func testConfig(policy string) Config {
	c := DefaultConfig()
	c.Policy = policy
	c.Queue = 20
	c.Silence = 60 * time.Second
	return c
}

// TestRandomWorlds: every invariant after every Step, under random requests,
// clients and engines, with and without faults.
func TestRandomWorlds(t *testing.T) {
	t.Parallel()
	stalls, stops := uint64(0), 0
	seeds := uint64(30)
	if testing.Short() || raceOn {
		seeds = 6
	}
	for _, policy := range policies() {
		for name, e := range engines() {
			for seed := range seeds {
				for _, chaos := range []bool{false, true} {
					cfg := testConfig(policy)
					cfg.Replay = seed%3 == 0
					if seed%5 == 1 {
						cfg.ForceParkEvery = 40
					}
					w := newWorld(seed, cfg, e, 40, chaos)
					w.fallsMute(chaos && seed%2 == 0)
					if err := w.run(); err != nil {
						t.Fatalf("%s on %s, seed %d, chaos %v: %v\n%s", policy, name, seed, chaos, err, tail(w.trace.String()))
					}
					stalls += w.check.m.counters.Stalls
					stops += strings.Count(w.trace.String(), " stalled\n")
				}
			}
		}
	}
	if stops == 0 || stalls <= uint64(stops) {
		t.Errorf("%d stalls, %d of them stopped: the worlds do not meet both", stalls, stops)
	}
}

func tail(s string) string {
	if len(s) > 6000 {
		s = s[len(s)-6000:]
	}
	return fmt.Sprintf("…%s", s)
}
