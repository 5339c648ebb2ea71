package sched

import "time"

// load asks for the engine, once.
func (m *Machine) load() {
	if m.link == down {
		m.link = loading
		m.emit(Action{Kind: Load})
	}
}

// loaded takes a new engine process and what it announced.
func (m *Machine) loaded(e Event) bool {
	if e.Engine != m.engine {
		m.costs = newCosts(m.cfg.Prior, e.Engine)
	}
	m.link, m.epoch, m.engine = up, e.Epoch, e.Engine
	m.killed, m.noSlice, m.step = false, false, 0
	m.accrued = m.now
	return true
}

// loadFailed ends everything that waits for the engine.
func (m *Machine) loadFailed() bool {
	if m.link == up {
		return false
	}
	m.link = down
	m.failAll(&m.waiting, ReasonLoadFailed)
	m.failAll(&m.parked, ReasonLoadFailed)
	return true
}

// died ends what the process held: the active request, and the parked ones
// unless they are replayed. Waiting requests stay and cause the reload.
func (m *Machine) died() bool {
	m.link = down
	m.killed = false
	if m.maint == maintOn { // unloaded by whom it was lent to
		return true
	}
	m.counters.Deaths++
	m.reload = m.now
	if m.deaths > 0 {
		m.reload += min(m.cfg.BackoffMax, m.cfg.Backoff<<min(m.deaths-1, 16))
	}
	m.deaths++
	if r := m.active; r != nil {
		m.release()
		why := ReasonEngineDied
		if r.end != ReasonNone {
			why = r.end
		}
		m.finish(r, why)
	}
	if !m.cfg.Replay {
		m.failAll(&m.parked, ReasonEngineDied)
	}
	for _, r := range m.parked {
		if p := &r.park; p.open { // what it must read again is the price of the death, not of the park
			m.settle(r, p.drain+p.extra)
		}
		r.kept, r.high = 0, 0 // what was read is gone with the process
	}
	return true
}

func (m *Machine) failAll(list *[]*request, why Reason) {
	for len(*list) > 0 {
		r := (*list)[0]
		m.drop(r)
		m.finish(r, why)
	}
}

// maintenanceAsked lends the engine out once nothing is live; who may not wait
// is refused while something is.
func (m *Machine) maintenanceAsked(wait bool) bool {
	busy := len(m.all) > 0 || m.maint != maintNone
	if busy && (!wait || m.maint != maintNone) {
		m.emit(Action{Kind: Reject, Reason: ReasonBusy})
		return false
	}
	m.maint, m.fence = maintAsked, m.seq
	return true
}

// stallShare is the part of the silence limit after which a silent engine is asked
// to stop: one in stallShare. The rest of the limit is for its answer.
const stallShare = 2

// limitOfSilence is how long the engine may say nothing under r, or go on after a
// STOP.
func (m *Machine) limitOfSilence(r *request) time.Duration {
	limit := m.cfg.Silence
	if !r.gen.spoke {
		unread := r.Prompt + r.out - r.kept
		if r.gen.resumed {
			unread = r.Prompt + r.out - r.gen.pos
		}
		limit += time.Duration(min(unread, m.cfg.SilenceTokens)) * m.cfg.SilenceToken
		limit = max(limit, 3*m.costs.read(m.chunk()))
	}
	return limit
}

// silence returns when the engine has been silent for too long, or has not
// obeyed a STOP for as long; 0 without an active request or a limit.
func (m *Machine) silence() time.Duration {
	r := m.active
	if r == nil || m.cfg.Silence == 0 || m.killed {
		return 0
	}
	if r.state == StateStopping {
		if r.gen.giveUp != 0 {
			return r.gen.giveUp
		}
		return r.gen.stopAt + m.limitOfSilence(r) // an engine that ignores STOP goes on talking
	}
	return m.line + m.limitOfSilence(r)
}

// StallAt returns when the active request stalls unless the engine says something
// before; 0 if it cannot, or has once. The shell says Stalled then.
func (m *Machine) StallAt() time.Duration {
	r := m.active
	if r == nil || r.stalled || r.gen.why != ReasonNone || m.cfg.Silence == 0 || m.killed {
		return 0
	}
	return m.line + m.limitOfSilence(r)/stallShare
}

// stalled stops a request under which the engine fell silent: an engine that still
// listens answers, and the request goes on where it was. Once: what stalls again is
// left to the silence limit. A read that the engine would lose is not stopped, since
// a slow engine would then never end it; nor is anything that is never preempted.
func (m *Machine) stalled(id ID) bool {
	at := m.StallAt()
	if at == 0 || m.now < at || m.active.id != id {
		return false
	}
	r := m.active
	r.stalled = true
	m.counters.Stalls++
	keeps := r.state == StateDecoding || r.gen.resumed && m.engine.ResumePrefill && r.gen.upto == 0
	if keeps && m.policy.preempts() && m.preemptible(r) {
		m.stop(r, ReasonStalled)
	}
	return true
}

// wake looks whether the engine fell silent; the decision that follows does the
// rest.
func (m *Machine) wake() bool {
	if m.armed != 0 && m.now >= m.armed {
		m.armed = 0
	}
	if at := m.silence(); at != 0 && m.now >= at {
		m.killed = true
		why := ReasonSilent
		if r := m.active; r.state == StateStopping && r.gen.giveUp == 0 {
			why = ReasonDrain
		}
		m.emit(Action{Kind: Kill, Reason: why})
	}
	return true
}

// arm asks for the next Wake: when a hold may have passed, a waiter starves, the
// engine is silent for too long, or may be loaded again.
func (m *Machine) arm() {
	at := m.silence()
	soonest := func(t time.Duration) {
		if t > m.now && (at == 0 || t < at) {
			at = t
		}
	}
	soonest(m.held.at)
	soonest(m.starvesAt())
	if m.link == down && (len(m.waiting) > 0 || len(m.parked) > 0) {
		soonest(m.reload)
	}
	said := hold{id: m.held.id, why: m.held.why}
	if at == 0 || m.armed != 0 && m.armed <= at && said == m.told {
		return
	}
	m.armed, m.told = at, said
	m.emit(Action{Kind: WakeAt, At: at, ID: said.id, Reason: said.why})
}
