package main

import (
	"math"
	"testing"

	"interlude/sched"
	"interlude/sched/simulate"
	"interlude/workloads"
)

// TestPairedShort: the manifest of the paired run is predicted as the docs compute
// it.
func TestPairedShort(t *testing.T) {
	m, err := workloads.Load("paired-short", nil)
	if err != nil {
		t.Fatal(err)
	}
	reqs, err := workloads.Expand(m, 1, 1, builtinCounter())
	if err != nil {
		t.Fatal(err)
	}
	traffic := simulate.FromRequests(workloads.Measured(reqs), builtinCounter())
	short := func(policy string) float64 {
		h := simulate.Run(simulate.Cell{Policy: policy}.Options(simulate.DefaultBase(), traffic))
		if len(h.Outcomes) != len(traffic.Items) {
			t.Fatalf("%s: %d of %d requests were sent", policy, len(h.Outcomes), len(traffic.Items))
		}
		for _, o := range h.Outcomes {
			if o.Class == workloads.Probe {
				return o.TTFT.Seconds()
			}
		}
		t.Fatal("no probe")
		return 0
	}
	if off := short(sched.FIFO); math.Abs(off-20.1) > 0.4 {
		t.Errorf("off: %.2f s, documented 20.1", off)
	}
	for _, policy := range []string{sched.Quantum, sched.Budget} {
		if on := short(policy); on > 0.66 || on < 0.4 {
			t.Errorf("%s: %.3f s, documented 0.63", policy, on)
		}
	}
}
