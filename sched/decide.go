package sched

import "time"

// policy is the rule that fifo, quantum and budget differ in. Order, window and
// starvation are common to those that preempt.
type policy interface {
	preempts() bool
	slices() bool
	// judge says whether a may be stopped now for a strictly sooner request, at
	// the edge of a slice or by a Stop. It changes nothing.
	judge(m *Machine, a *request, edge bool) verdict
}

// verdict allows a stop when why is ReasonNone; else why names what holds it and
// at when to look again, 0 if an event of a's own will say so.
type verdict struct {
	why  Reason
	at   time.Duration
	cost time.Duration // predicted
	paid bool          // by the bucket
}

// hold is a strictly sooner waiter and what holds it.
type hold struct {
	id  ID
	why Reason
	at  time.Duration
}

// decide gives an idle engine to the next request, or looks whether the runner
// must yield. The engine is never released without this in the same Step, so
// the next turn is reserved before anybody else can take it.
func (m *Machine) decide() {
	m.accrue()
	m.held = hold{}
	if m.maint == maintAsked && m.active == nil && len(m.parked) == 0 && (len(m.waiting) == 0 || m.waiting[0].seq > m.fence) {
		m.maint = maintOn
		m.emit(Action{Kind: BeginMaintenance})
	}
	if m.maint == maintOn {
		return
	}
	if m.link != up {
		if m.link == down && m.now >= m.reload && len(m.waiting)+len(m.parked) > 0 {
			m.load()
		}
		return
	}
	if m.active == nil {
		r := m.next()
		if r == nil {
			return
		}
		m.start(r)
	}
	m.consider()
}

// consider stops the runner if a strictly sooner request waits and the policy
// allows it; else it remembers what holds that request.
func (m *Machine) consider() {
	a := m.active
	if a.state == StateStopping || a.gen.why != ReasonNone || !m.policy.preempts() {
		return
	}
	w := m.next()
	if w == nil || !m.sooner(w, a) {
		return
	}
	v := m.policy.judge(m, a, false)
	if v.why != ReasonNone {
		if v.at == 0 { // an event of a's own will tell; look again when a should be through
			v.at = m.now + max(m.cfg.MinRun, m.remaining(a), time.Millisecond)
		}
		m.held = hold{id: w.id, why: v.why, at: v.at}
		return
	}
	m.pay(a, v)
	m.stop(a, ReasonPreempt)
}

// yields decides the same at the edge of a slice.
func (m *Machine) yields(a *request) bool {
	w := m.next()
	if w == nil || !m.policy.preempts() || !m.sooner(w, a) {
		return false
	}
	v := m.policy.judge(m, a, true)
	if v.why != ReasonNone {
		return false
	}
	a.gen.why = ReasonPreempt
	m.pay(a, v)
	return true
}

// next returns who gets the engine when it is idle: a starving request, else the
// soonest that the interactive window admits.
func (m *Machine) next() *request {
	if !m.policy.preempts() {
		return m.first()
	}
	var best *request
	for _, r := range m.parked {
		if (best == nil || m.before(r, best)) && !m.shut(r) {
			best = r
		}
	}
	for _, r := range m.waiting {
		if m.maint == maintAsked && r.seq > m.fence {
			break
		}
		if (best == nil || m.before(r, best)) && !m.shut(r) {
			best = r
		}
	}
	return best
}

// first is arrival order: what was parked (by force) goes on, then the queue.
func (m *Machine) first() *request {
	if len(m.parked) > 0 {
		return m.parked[0]
	}
	if len(m.waiting) > 0 && (m.maint != maintAsked || m.waiting[0].seq <= m.fence) {
		return m.waiting[0]
	}
	return nil
}

// before orders two requests that want the idle engine: the starving by age;
// then by class; in a class what is parked by age, then boosted requests by
// unread prompt, then by arrival.
func (m *Machine) before(x, y *request) bool {
	if sx, sy := m.starving(x), m.starving(y); sx != sy {
		return sx
	} else if sx {
		return x.seq < y.seq
	}
	if cx, cy := x.class(), y.class(); cx != cy {
		return cx > cy
	}
	if px, py := x.state == StateParked, y.state == StateParked; px != py {
		return px
	} else if px {
		return x.seq < y.seq
	}
	if x.boosted != y.boosted {
		return x.boosted
	}
	if x.boosted && x.Unread != y.Unread {
		return x.Unread < y.Unread
	}
	return x.seq < y.seq
}

// sooner says that w may stop a: it is of a sooner class, or starving and of
// another class. Equal urgency never preempts equal urgency.
func (m *Machine) sooner(w, a *request) bool {
	return w.class() > a.class() || w.class() < a.class() && m.starving(w)
}

// class is the effective priority: explicit, else 1 while boosted, else 0.
func (r *request) class() int {
	switch {
	case r.Explicit:
		return r.Priority
	case r.boosted:
		return 1
	}
	return 0
}

// shut says that the interactive window of a parked request keeps r out: it is
// not the first to overtake in this park, and would not end within the window.
func (m *Machine) shut(r *request) bool {
	if r.Unread > m.cfg.SmallPrompt || r.MaxNew > m.cfg.SmallTokens || m.starving(r) {
		return false
	}
	for _, p := range m.parked {
		if p.passed > 0 && p.class() < r.class() && m.elapsed(p.park.doneAt)+m.service(r) > m.cfg.Window {
			return true
		}
	}
	return false
}

// service predicts how long r will hold the engine.
func (m *Machine) service(r *request) time.Duration {
	return m.costs.read(r.Prompt+r.out-r.kept) + m.costs.decode(r.MaxNew-r.out)
}

// overtake notes in every parked request that r starts before it: one overtaken
// more, if r is of a sooner class; and without a conversation cache the engine
// keeps nothing of what was decoded, so that reading it again breaks no promise.
func (m *Machine) overtake(r *request) {
	r.passed = 0
	for _, p := range m.parked {
		if p.class() < r.class() {
			p.passed++
		}
		if m.engine.CacheMiB <= 0 && m.engine.Sequences <= 1 && p.gen.spoke {
			p.kept = 0
		}
	}
}

// preemptible says that a request may be stopped for another at all.
func (m *Machine) preemptible(r *request) bool {
	return !r.Protected && !r.Image && !r.noCkpt
}

// shielded says that the starvation tier's protected quantum is not over, and
// when it will be.
func (m *Machine) shielded(r *request) (bool, time.Duration) {
	over := r.gen.run + m.cfg.Quantum
	if r.gen.reread {
		over = 0
	}
	return r.shield && (r.gen.reread || m.now < over), over
}

// shortAging is the park from which on the starvation limit is the short one.
const shortAging = 3

// scale returns d·num/den, 0 for a den of 0.
func scale(d, num, den time.Duration) time.Duration {
	if den == 0 {
		return 0
	}
	return time.Duration(float64(d) / float64(den) * float64(num))
}

// limit is how much time a request may lose to later arrivals.
func (m *Machine) limit(r *request) time.Duration {
	if r.parks >= shortAging {
		return m.cfg.AgingParked
	}
	return m.cfg.Aging
}

func (m *Machine) starving(r *request) bool {
	return !r.state.Active() && m.policy.preempts() && m.cfg.Aging > 0 && r.waited >= m.limit(r)
}

// accrue brings the starvation clocks up to now: they count only time in which
// the engine ran a request that arrived later.
func (m *Machine) accrue() {
	d := m.now - m.accrued
	m.accrued = m.now
	if m.active == nil || d <= 0 {
		return
	}
	for _, r := range m.waiting {
		if r.seq < m.active.seq {
			r.waited += d
		}
	}
	for _, r := range m.parked {
		if r.seq < m.active.seq {
			r.waited += d
		}
	}
}

// starvesAt returns when the next request begins to starve if the runner goes
// on, 0 if none will.
func (m *Machine) starvesAt() time.Duration {
	if m.active == nil || !m.policy.preempts() || m.cfg.Aging == 0 {
		return 0
	}
	var at time.Duration
	look := func(list []*request) {
		for _, r := range list {
			if r.seq > m.active.seq || m.starving(r) {
				continue
			}
			if t := m.accrued + m.limit(r) - r.waited; at == 0 || t < at {
				at = t
			}
		}
	}
	look(m.waiting)
	look(m.parked)
	return at
}
