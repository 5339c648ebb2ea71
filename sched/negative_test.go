package sched

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// mutant is a machine with one thing wrong, made by wrapping Step: negative
// controls of the checker, the exploration and the random worlds.
type mutant struct {
	name  string
	inv   string // the invariant that must catch it
	drive func(*Machine, Event) []Action
}

// without returns the actions but those that drop.
func without(actions []Action, drop func(Action) bool) []Action {
	return slices.DeleteFunc(actions, drop)
}

func kind(k ActionKind) func(Action) bool { return func(a Action) bool { return a.Kind == k } }

// inside lets change alter the machine for the length of one Step.
func inside(m *Machine, e Event, change, back func()) []Action {
	change()
	defer back()
	return m.Step(e, nil)
}

func mutants() []mutant {
	return []mutant{
		{"GEN before the DONE of the stopped one", "11", func(m *Machine, e Event) []Action {
			out := m.Step(e, nil)
			for _, a := range out {
				if a.Kind == Stop && a.Reason == ReasonPreempt {
					return append(out, m.Step(Event{Kind: Done, ID: a.ID, At: e.At, Finish: FinishCancel, Epoch: m.epoch}, nil)...)
				}
			}
			return out
		}},
		{"STOP before RESUME", "11", func(m *Machine, e Event) []Action {
			if m.active != nil && !m.active.gen.resumed && e.Kind == Cancel {
				m.active.gen.resumed = true
			}
			return m.Step(e, nil)
		}},
		{"STOP twice", "11", func(m *Machine, e Event) []Action {
			out := m.Step(e, nil)
			if i := slices.IndexFunc(out, kind(Stop)); i >= 0 {
				out = append(out, out[i])
			}
			return out
		}},
		{"cancel the holder, not the one who left", "9", func(m *Machine, e Event) []Action {
			if e.Kind == Cancel && m.active != nil {
				e.ID = m.active.id
			}
			return m.Step(e, nil)
		}},
		{"a queued cancel is forgotten", "12", func(m *Machine, e Event) []Action {
			if e.Kind == Cancel && m.State(e.ID) == StateWaiting {
				return nil
			}
			return m.Step(e, nil)
		}},
		{"aging climbs into the class", "26", func(m *Machine, e Event) []Action {
			old := map[*request]Request{}
			return inside(m, e, func() {
				for _, r := range append(slices.Clone(m.waiting), m.parked...) {
					old[r] = r.Request
					if r.waited >= 2*tick {
						r.Explicit, r.Priority = true, r.class()+int(r.waited/(2*tick))
					}
				}
			}, func() {
				for r, q := range old {
					if r.id != 0 {
						r.Request = q
					}
				}
			})
		}},
		{"no reservation: the stopped one takes its turn back", "reserve", func(m *Machine, e Event) []Action {
			if e.Kind != Done || m.active == nil || m.active.state != StateStopping || m.active.gen.why != ReasonPreempt {
				return m.Step(e, nil)
			}
			waiting := m.waiting
			return inside(m, e, func() { m.waiting = nil }, func() { m.waiting = append(waiting, m.waiting...) })
		}},
		{"drained tokens are dropped", "drain", func(m *Machine, e Event) []Action {
			if e.Kind == Tokens && m.active != nil && m.active.state == StateStopping {
				return nil
			}
			return m.Step(e, nil)
		}},
		{"a request that ended in the drain is queued again", "drain", func(m *Machine, e Event) []Action {
			if e.Kind == Done && e.Finish == FinishLength {
				e.Finish = FinishError
			}
			return m.Step(e, nil)
		}},
		{"a read that would be lost is stopped", "13", func(m *Machine, e Event) []Action {
			keeps := m.engine.ResumePrefill
			return inside(m, e, func() { m.engine.ResumePrefill = true }, func() {
				if e.Kind != Loaded {
					m.engine.ResumePrefill = keeps
				}
			})
		}},
		{"the epoch is forgotten", "10", func(m *Machine, e Event) []Action {
			if m.epoch > 0 && e.Kind != Loaded {
				e.Epoch = m.epoch
			}
			return m.Step(e, nil)
		}},
		{"an end is told twice", "2", func(m *Machine, e Event) []Action {
			out := m.Step(e, nil)
			if i := slices.IndexFunc(out, kind(EndWell)); i >= 0 {
				out = append(out, out[i])
			}
			return out
		}},
		{"who the engine died under is not told", "27", func(m *Machine, e Event) []Action {
			out := m.Step(e, nil)
			if e.Kind == EngineDied {
				out = without(out, kind(Fail))
			}
			return out
		}},
		{"no starvation tier", "19", func(m *Machine, e Event) []Action {
			aging, parked := m.cfg.Aging, m.cfg.AgingParked
			return inside(m, e, func() { m.cfg.Aging, m.cfg.AgingParked = time.Hour, time.Hour }, func() { m.cfg.Aging, m.cfg.AgingParked = aging, parked })
		}},
		{"no window", "window", func(m *Machine, e Event) []Action {
			w := m.cfg.Window
			return inside(m, e, func() { m.cfg.Window = time.Hour }, func() { m.cfg.Window = w })
		}},
		{"the engine idles", "24", func(m *Machine, e Event) []Action {
			if e.Kind != Arrive || m.active != nil || m.link != up {
				return m.Step(e, nil)
			}
			return inside(m, e, func() { m.maint = maintOn }, func() { m.maint = maintNone })
		}},
		{"nobody says what holds the sooner one", "23", func(m *Machine, e Event) []Action {
			return without(m.Step(e, nil), kind(WakeAt))
		}},
		{"the bucket is always full", "22", func(m *Machine, e Event) []Action {
			return inside(m, e, func() { m.bucket.level = m.bucket.depth }, func() {})
		}},
		{"the protected are stopped", "protected", func(m *Machine, e Event) []Action {
			e.Request.Protected = false
			return m.Step(e, nil)
		}},
		{"the queue has no limit", "16", func(m *Machine, e Event) []Action {
			n := m.cfg.Queue
			return inside(m, e, func() { m.cfg.Queue = 0 }, func() { m.cfg.Queue = n })
		}},
		{"two hold the engine", "11", func(m *Machine, e Event) []Action {
			out := m.Step(e, nil)
			if i := slices.IndexFunc(out, kind(Start)); i >= 0 {
				for _, r := range m.waiting {
					return append(out, Action{Kind: Start, ID: r.id})
				}
			}
			return out
		}},
		{"arrival order in spite of classes", "25", func(m *Machine, e Event) []Action {
			p := m.policy
			if e.Kind != Done && e.Kind != Refused {
				return m.Step(e, nil)
			}
			return inside(m, e, func() { m.policy = fifo{} }, func() { m.policy = p })
		}},
		{"a park without progress", "21", func(m *Machine, e Event) []Action {
			return inside(m, e, func() {
				if m.active != nil {
					m.active.gen.gained = true
				}
			}, func() {})
		}},
		{"a resumed request starts from its prompt", "4", func(m *Machine, e Event) []Action {
			out := m.Step(e, nil)
			for i := range out {
				if out[i].Kind == Start {
					out[i].Resume = false
				}
			}
			return out
		}},
		{"a request is lost at its park", "3", func(m *Machine, e Event) []Action {
			out := m.Step(e, nil)
			if e.Kind == Done && len(m.parked) > 0 {
				delete(m.all, m.parked[0].id)
				m.parked = m.parked[1:]
			}
			return out
		}},
		{"a read that would be lost is stopped for a stall", "13", func(m *Machine, e Event) []Action {
			if e.Kind != Stalled {
				return m.Step(e, nil)
			}
			return inside(m, e, func() { m.engine.ResumePrefill = true }, func() { m.engine.ResumePrefill = false })
		}},
		{"a request is stopped for every stall", "21", func(m *Machine, e Event) []Action {
			out := m.Step(e, nil)
			if e.Kind == Tokens && m.active != nil {
				m.active.stalled = false
			}
			return out
		}},
		{"a silent engine is left alone", "18", func(m *Machine, e Event) []Action {
			return without(m.Step(e, nil), kind(Kill))
		}},
		{"every boosted request goes with ckpt=0", "15", func(m *Machine, e Event) []Action {
			if e.Kind == Arrive {
				e.Request.OneShot = true
			}
			return m.Step(e, nil)
		}},
	}
}

// TestNegativeControls: each mutant is caught, and by the invariant it breaks.
func TestNegativeControls(t *testing.T) {
	t.Parallel()
	if n := len(mutants()); n < 15 {
		t.Errorf("%d negative controls, want 15", n)
	}
	for _, x := range mutants() {
		t.Run(x.name, func(t *testing.T) {
			err := catch(x.inv, x.drive)
			var v violation
			if !errors.As(err, &v) {
				t.Fatalf("not caught: %v", err)
			}
			if v.inv != x.inv {
				t.Errorf("caught by %q, want invariant %s", err, x.inv)
			}
		})
	}
}

// catch looks for a violation of one invariant, in the exploration first, then in
// random worlds. A mutant may also break the machine's own table on the way.
func catch(only string, drive func(*Machine, Event) []Action) (caught error) {
	try := func(f func() error) {
		defer func() { _ = recover() }()
		if caught == nil {
			caught = f()
		}
	}
	for _, limit := range []int{3000, 30000} {
		for _, s := range scenarios() {
			try(func() error {
				_, err := s.explore(limit, only, drive)
				return err
			})
		}
		for _, policy := range []string{Budget, Quantum} {
			for _, e := range []Engine{{CacheMiB: 8192}, {CacheMiB: 8192, ResumePrefill: true, PrefillChunk: worldChunk}} {
				for seed := range uint64(16) {
					cfg := testConfig(policy)
					cfg.Queue = 4
					w := newWorld(seed, cfg, e, 60, true)
					w.check.only = only
					w.fallsMute(seed >= 12)
					m := w.check.m
					w.step = func(e Event) []Action { return drive(m, e) }
					try(w.run)
				}
			}
		}
		if caught != nil {
			return caught
		}
	}
	return nil
}
