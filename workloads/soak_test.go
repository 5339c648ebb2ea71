package workloads_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"interlude/workloads"
)

// TestSoakHour: an hour is at least as large as the reference's: 400 results, 90
// tool round trips, 25 audits of 20 fields, 14 cancellations in four states, four
// rollovers that read 100K tokens, of which two cold and one of 132K that keeps 16K.
func TestSoakHour(t *testing.T) {
	m, err := workloads.Load("soak", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := builtin()
	reqs, err := workloads.Expand(m, 1, 1, c)
	if err != nil {
		t.Fatal(err)
	}
	reqs = workloads.Measured(reqs)
	got, states, last := map[string]int{}, map[string]int{}, time.Duration(0)
	for i := range reqs {
		r := &reqs[i]
		got["requests"]++
		switch {
		case len(r.Results) > 0:
			got["round trips"]++
		case r.Class == workloads.Audit && len(r.Expect.JSON.Fields) == 20:
			got["audits"]++
		case r.Rollover && r.PromptTokens >= 100_000:
			got["big rollovers"]++
			if r.System != "" && r.PromptTokens == 110_000 {
				got["cold"]++
			} else if r.PromptTokens == 132_000 {
				got["kept"]++
			}
		case r.Class == workloads.Probe:
			got["probes"]++
			if !r.Stream {
				got["whole"]++
			}
			if r.Priority != nil {
				got["priority by "+r.PriorityBy]++
			}
			last = max(last, time.Duration(r.After.Delay))
		}
		if r.API == "responses" {
			got["responses"]++
		}
		if r.Thinking {
			got["thinking"]++
		}
		if r.Stop != nil {
			got["stop strings"]++
		}
		if r.Cancel != nil {
			got["cancellations"]++
			states[r.Cancel.Event]++
		}
		if r.Expect.JSON == nil && len(r.Expect.Calls) == 0 {
			t.Errorf("%s promises no JSON", r.ID)
		}
	}
	for what, least := range map[string]int{"requests": 400, "round trips": 90, "audits": 25, "cancellations": 14, "big rollovers": 4, "cold": 2, "kept": 1,
		"probes": 380, "whole": 50, "priority by ": 50, "priority by header": 50, "responses": 100, "thinking": 20, "stop strings": 10} {
		if got[what] < least {
			t.Errorf("%d %s, want at least %d", got[what], what, least)
		}
	}
	for _, state := range []string{workloads.AtQueued, workloads.AtReading, workloads.AtToken, workloads.AtParked} {
		if states[state] < 3 {
			t.Errorf("%d cancellations at %s", states[state], state)
		}
	}
	if last > time.Hour || last < 58*time.Minute {
		t.Errorf("the last probe is due after %v", last)
	}
	if n := workloads.ContextNeeded(reqs, c); n > 262_144 {
		t.Errorf("needs a context of %d", n)
	}
	p, err := workloads.NewPlan(m, workloads.PlanOptions{Kind: "soak"}, c)
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Duration(p.Expected); d < 55*time.Minute || d > 65*time.Minute {
		t.Errorf("the hour is expected to take %v", d)
	}
}

// TestForKeepsTheManifest: another duration makes another plan and leaves the
// manifest alone.
func TestForKeepsTheManifest(t *testing.T) {
	m, err := workloads.Load("L1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.For(time.Millisecond); err == nil {
		t.Error("a millisecond is a duration")
	}
	short, err := m.For(2 * time.Minute)
	if err != nil || time.Duration(m.Generate.Duration) != 16*time.Minute || time.Duration(short.Generate.Duration) != 2*time.Minute {
		t.Errorf("%v, %v", m.Generate.Duration, err)
	}
	once, err := workloads.Load("paired-short", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := once.For(time.Minute); err == nil || !strings.Contains(err.Error(), `"rounds"`) {
		t.Errorf("a manifest without rounds takes a duration, or does not say what it needs: %v", err)
	}
}

// TestRoundsBeginOneAfterTheOther: a duration on smoke makes a round every half
// minute, each with ids, nonces and waits of its own; the first is the manifest's own.
func TestRoundsBeginOneAfterTheOther(t *testing.T) {
	once, err := workloads.Load("smoke", nil)
	if err != nil {
		t.Fatal(err)
	}
	once.Conversations[0].Steps[0].After = &workloads.Trigger{Delay: workloads.Duration(5 * time.Second)} // in every round
	thrice, err := once.For(61 * time.Second)                                                             // the third begins after a minute
	if err != nil || once.Rounds.Count != 1 || thrice.Rounds.Count != 3 {
		t.Fatalf("rounds %+v and %+v, %v; want 1 and 3", once.Rounds, thrice.Rounds, err)
	}
	one, err := workloads.Expand(once, 1, 1, builtin())
	if err != nil {
		t.Fatal(err)
	}
	all, err := workloads.Expand(thrice, 1, 1, builtin())
	if err != nil {
		t.Fatal(err)
	}
	one, all = workloads.Measured(one), workloads.Measured(all)
	if len(all) != 3*len(one) || !reflect.DeepEqual(all[:len(one)], one) {
		t.Fatalf("%d requests in three rounds, %d in one, and the first round differs: %v", len(all), len(one), !reflect.DeepEqual(all[:len(one)], one))
	}
	texts := map[string]string{}
	for i, r := range all {
		k, first := i/len(one), one[i%len(one)]
		due := first.After
		if due.Request == "" {
			due.Delay += workloads.Duration(time.Duration(k) * 30 * time.Second)
		}
		if k > 0 && due.Request != "" {
			due.Request += fmt.Sprintf("-%d", k+1)
		}
		if r.After != due {
			t.Errorf("%s is due %+v, want %+v", r.ID, r.After, due)
		}
		if other := texts[r.System+r.User]; r.User != "" && other != "" {
			t.Errorf("%s and %s say the same", r.ID, other)
		}
		texts[r.System+r.User] = r.ID
	}
}

// TestSoakExpandsForManySeeds: no seed draws texts that do not fit their lengths.
func TestSoakExpandsForManySeeds(t *testing.T) {
	m, err := workloads.Load("soak", nil)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = m.For(4 * time.Minute); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(12) {
		reqs, err := workloads.Expand(m, seed, 1, builtin())
		if err != nil {
			t.Fatal(err)
		}
		cancels := 0
		for _, r := range reqs {
			if r.Cancel != nil {
				cancels++
			}
			if r.PromptTokens > 32 && r.PromptTokens < 65 {
				t.Errorf("seed %d: %s has %d tokens, where a read is slower than one of 65", seed, r.ID, r.PromptTokens)
			}
		}
		if cancels != 4 {
			t.Errorf("seed %d: %d cancellations, want one in each state", seed, cancels)
		}
	}
}
