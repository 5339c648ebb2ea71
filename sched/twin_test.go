package sched

import (
	"fmt"
	"testing"
	"time"
)

// twin is the obvious, slow way to decide what the policies decide, from the
// checker's books. It shares only the predictions with the machine.
type twin struct {
	c       *checker
	charges []charge // of the bucket, from the beginning of time
	paid    map[ID]time.Duration
	fails   []string
}

type charge struct {
	at   time.Duration
	cost time.Duration
}

// level plays the bucket's whole life again.
func (t *twin) level(now time.Duration) time.Duration {
	level, at := t.c.cfg.Depth, time.Duration(0)
	for _, x := range append(t.charges[:len(t.charges):len(t.charges)], charge{at: now}) {
		level = min(t.c.cfg.Depth, level+time.Duration(float64(x.at-at)*t.c.cfg.Overhead)) - x.cost
		at = x.at
	}
	return level
}

// verdict decides whether a may be stopped: the table of the design note, row by
// row. The level is that before the Step's own charge.
func (t *twin) verdict(a *watched, edge bool) (why Reason, cost time.Duration, paid bool) {
	c := t.c
	r := c.m.all[a.id]
	if a.Protected || a.Image || a.noCkpt {
		return HoldProtection, 0, false
	}
	running := !(a.resumed && a.reused < a.wasHigh && !a.first && a.pos <= a.wasHigh && a.upto == 0)
	ran := c.now - a.ranFrom
	if a.shield && (!running || ran < c.cfg.Quantum) {
		return HoldProtection, 0, false
	}
	reading := !a.first && !edge
	tokens := a.Prompt + a.out
	if !a.first {
		tokens = a.pos
	}
	cost = c.m.costs.park.at(tokens)
	if reading {
		cost += c.m.cfg.Prior.ReadStop
	}
	if k := c.engine.Sequences; k > 1 && t.parked()+2 > k {
		cost += time.Duration(tokens) * c.cfg.Prior.SwitchToken / 2
	}
	if c.cfg.Policy == Quantum {
		cold := c.engine.ResumePrefill && (a.parks == 0 || a.gained || !r.barren) || a.parks == 0 && a.reused == 0
		switch {
		case reading && !(a.resumed && cold):
			return HoldRead, 0, false
		case c.now-a.began < c.cfg.Quantum:
			return HoldCooldown, 0, false
		}
		return ReasonNone, cost, false
	}
	switch {
	case reading && a.upto > 0:
		return HoldSlice, 0, false
	case reading && !(a.resumed && c.engine.ResumePrefill && (a.parks == 0 || a.gained || !r.barren)):
		return HoldRead, 0, false
	case t.remaining(a) < 2*cost+c.cfg.GuardFloor:
		return HoldGuard, 0, false
	case !running:
		return HoldCooldown, 0, false
	case a.parks > 0 && ran < max(c.cfg.MinRun, 2*cost):
		return HoldCooldown, 0, false
	case ran >= max(c.cfg.Quantum, 5*cost):
		return ReasonNone, cost, false
	case t.level(c.now) >= cost:
		return ReasonNone, cost, true
	}
	return HoldBucket, 0, false
}

// remaining is what a still needs, at most.
func (t *twin) remaining(a *watched) time.Duration {
	d := t.c.m.costs.decode(a.MaxNew - a.out)
	if !a.first {
		d += time.Duration(a.Prompt+a.out-a.pos) * t.c.cfg.Prior.ReadToken
	}
	return d
}

// parked counts the parked before this decision; who yielded in it is none yet.
func (t *twin) parked() int {
	n := 0
	for _, id := range t.c.order {
		if w := t.c.reqs[id]; w.state == StateParked && (w.parkedAt < t.c.now || w.upto == 0) {
			n++
		}
	}
	return n
}

// watch compares one Step of the machine with the twin.
func (t *twin) watch(e Event, actions []Action) {
	c := t.c
	for _, a := range actions {
		switch {
		case a.Kind == Settled:
			if p, ok := t.paid[a.ID]; ok {
				t.charges = append(t.charges, charge{c.now, a.Cost - p})
				delete(t.paid, a.ID)
			}
		case a.Kind == EndWell || a.Kind == Fail:
			if p, ok := t.paid[a.ID]; ok { // stopped, and ended before it was parked
				t.charges = append(t.charges, charge{c.now, -p})
				delete(t.paid, a.ID)
			}
		}
	}
	for _, a := range actions {
		if a.Kind == Stop && a.Reason == ReasonPreempt {
			t.stopped(a.ID, false)
		}
		if a.Kind == Told && a.State == StateParked && e.Kind == SliceDone && c.cfg.ForceParkEvery == 0 {
			t.stopped(a.ID, true)
		}
	}
	h, a := c.m.held, c.holder
	if h.id == 0 || a == nil || a.stopped || c.reqs[h.id] == nil {
		return
	}
	if why, _, _ := t.verdict(a, false); why != h.why && c.m.accrued == c.m.now { // a decision was made in this Step
		t.fails = append(t.fails, string(e.AppendText(nil))+": the machine holds for "+h.why.String()+", the twin says "+why.String()+fmt.Sprintf(" machine %+v books %+v", *c.m.active, *a))
	}
}

func (t *twin) stopped(id ID, edge bool) {
	a := t.c.reqs[id]
	if a == nil {
		return
	}
	parks := a.parks
	if edge {
		a.parks-- // as it was when the rule was asked
	}
	why, cost, paid := t.verdict(a, edge)
	a.parks = parks
	if why != ReasonNone {
		t.fails = append(t.fails, "the machine stops, the twin holds for "+why.String()+fmt.Sprintf(" machine %+v books %+v now %v", *t.c.m.all[id], *a, t.c.now))
	}
	if paid {
		t.charges = append(t.charges, charge{t.c.now, cost})
		t.paid[id] = cost
	}
}

// TestTwin: machine and twin agree at every decision in random worlds.
func TestTwin(t *testing.T) {
	t.Parallel()
	decisions := 0
	for _, policy := range []string{Quantum, Budget} {
		for _, name := range []string{"stop", "nocache", "resume", "sequences"} {
			e := engines()[name]
			for seed := range uint64(12) {
				w := newWorld(seed+100, testConfig(policy), e, 40, seed%2 == 1)
				w.fallsMute(seed%4 == 3)
				tw := &twin{c: w.check, paid: map[ID]time.Duration{}}
				m := w.check.m
				w.after = func(e Event, actions []Action) {
					tw.watch(e, actions)
					if m.held.id != 0 {
						decisions++
					}
				}
				if err := w.run(); err != nil {
					t.Fatal(err)
				}
				if len(tw.fails) > 0 {
					t.Fatalf("%s on %s, seed %d: %d differences, the first: %s", policy, name, seed, len(tw.fails), tw.fails[0])
				}
				decisions += int(m.counters.Preemptions)
			}
		}
	}
	if decisions < 1000 {
		t.Errorf("only %d decisions", decisions)
	}
}
