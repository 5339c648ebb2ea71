package sched

// quantum is the reference: a strictly sooner waiter stops the runner once it
// has run Quantum since its start or resume. A restored read is protected until
// its first token; a cold first read may be stopped, once.
type quantum struct{}

func (quantum) preempts() bool { return true }
func (quantum) slices() bool   { return false }

func (quantum) judge(m *Machine, a *request, _ bool) verdict {
	if !m.preemptible(a) {
		return verdict{why: HoldProtection}
	}
	if on, until := m.shielded(a); on {
		return verdict{why: HoldProtection, at: until}
	}
	if a.state == StateReading && !m.mayStopRead(a, a.parks == 0 && a.gen.reused == 0) {
		return verdict{why: HoldRead}
	}
	if over := a.gen.began + m.cfg.Quantum; m.now < over {
		return verdict{why: HoldCooldown, at: over}
	}
	return verdict{cost: m.predict(a, a.state == StateReading)}
}

// mayStopRead says that a read may be stopped now: RESUME was read, and either
// the engine keeps its chunks, or losing it is allowed. A chunk under way at the
// STOP is kept too, so what was stopped before must only have begun one by now:
// the policies' minimum run sees to that, and done refuses a park that gained
// nothing all the same.
func (m *Machine) mayStopRead(a *request, lose bool) bool {
	if !a.gen.resumed {
		return false
	}
	if m.engine.ResumePrefill {
		return a.parks == 0 || a.gen.gained || !a.barren
	}
	return lose
}
