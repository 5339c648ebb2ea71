package workloads_test

import (
	"strings"
	"testing"
	"time"

	"interlude/workloads"
)

// TestControlIsTheBeginning: a control is sent requests of the soak itself, exactly
// those that are due in its time or follow from them, and each of its calls gets
// its results.
func TestControlIsTheBeginning(t *testing.T) {
	c := builtin()
	for _, name := range []string{"soak", "L1"} {
		m, err := workloads.Load(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if m, err = m.For(8 * time.Minute); err != nil {
			t.Fatal(err)
		}
		all, err := workloads.Expand(m, 1, 1, c)
		if err != nil {
			t.Fatal(err)
		}
		const length = 3 * time.Minute
		part := workloads.Beginning(m, all, length, c)
		whole := map[string]bool{}
		for _, r := range all {
			whole[r.TemplateHash+r.ID] = true
		}
		taken, turns, probes := map[string]bool{}, 0, 0
		for _, r := range part {
			taken[r.ID] = true
			turns = max(turns, r.Turn)
			if !whole[r.TemplateHash+r.ID] {
				t.Errorf("%s: %s is not the soak's", name, r.ID)
			}
			if r.After.Request != "" && !taken[r.After.Request] {
				t.Errorf("%s: %s waits for %s, which is not sent", name, r.ID, r.After.Request)
			}
		}
		for _, r := range all {
			own := r.After.Request == "" && r.Class != workloads.Warmup && r.Class != workloads.Canary
			if due := time.Duration(r.After.Delay) < length; own && due != taken[r.ID] {
				t.Errorf("%s: %s is due at %v, taken: %v", name, r.ID, time.Duration(r.After.Delay), taken[r.ID])
			}
			if r.Class == workloads.Probe && taken[r.ID] {
				probes++
			}
			if len(r.Results) > 0 && taken[r.After.Request] && !taken[r.ID] {
				t.Errorf("%s: the calls of %s get no results", name, r.After.Request)
			}
		}
		if len(part) >= len(all)/2 || turns < 3 || probes < 10 {
			t.Errorf("%s: %d of %d requests, up to turn %d, %d probes", name, len(part), len(all), turns, probes)
		}
	}
}

// TestControlOfAPlan: the option adds one slot behind the others and its time, and
// changes nothing else; without it a plan is what it was.
func TestControlOfAPlan(t *testing.T) {
	c := builtin()
	m, err := workloads.Load("soak", nil)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = m.For(4 * time.Minute); err != nil {
		t.Fatal(err)
	}
	plan := func(kind, control string) (*workloads.Plan, error) {
		o := workloads.PlanOptions{Kind: kind, Seed: 1, Speed: 2}
		if kind == "ab" {
			o.Pairs = 4
		}
		if control != "" {
			o.Options = map[string]string{"control": control}
		}
		return workloads.NewPlan(m, o, c)
	}
	bare, err := plan("soak", "")
	if err != nil {
		t.Fatal(err)
	}
	if bare.Control() != 0 || len(bare.Slots) != 1 || strings.Contains(string(bare.Encode()), "control") {
		t.Errorf("without: %+v", bare.Slots)
	}
	with, err := plan("soak", "2m")
	if err != nil {
		t.Fatal(err)
	}
	if with.Control() != 2*time.Minute || len(with.Slots) != 2 || with.Slots[1] != (workloads.Slot{Slot: 2, Arm: "off"}) {
		t.Errorf("%v, %+v", with.Control(), with.Slots)
	}
	if more := time.Duration(with.Expected - bare.Expected); more < 45*time.Second || more > 90*time.Second {
		t.Errorf("two minutes at ×2 take %v", more)
	}
	with.Slots, with.Options, with.Expected = bare.Slots, nil, bare.Expected
	if with.Hash() != bare.Hash() {
		t.Error("the option changes more than the slots")
	}
	for _, bad := range [][2]string{{"soak", "soon"}, {"soak", "0s"}, {"soak", "-1m"}, {"soak", "5m"}, {"ab", "1m"}} {
		if _, err := plan(bad[0], bad[1]); err == nil || !strings.Contains(err.Error(), "control") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
