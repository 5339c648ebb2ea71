package sched

import "time"

// park is the account of one park of a request: what stopping it, the switch
// and its return cost. It is open from the stop to the settlement.
type park struct {
	open      bool
	edge      bool // at a slice edge: no STOP, no drain
	inRead    bool // stopped in a read
	paid      bool // predicted was taken from the bucket
	predicted time.Duration
	tokens    int
	drain     time.Duration // STOP → DONE
	doneAt    time.Duration
	extra     time.Duration // what parking it cost the request that ran next
	by        ID            // that request
}

// pay notes the predicted cost of a stop and takes it from the bucket if the
// bucket is what allowed it.
func (m *Machine) pay(a *request, v verdict) {
	a.park = park{predicted: v.cost, paid: v.paid}
	if v.paid {
		m.counters.Immediate++
		m.bucket.take(m.now, v.cost)
	}
}

// openPark begins the account of a park at its DONE.
func (m *Machine) openPark(r *request, edge bool) {
	switch r.gen.why {
	case ReasonForced:
		r.park = park{}
	case ReasonStalled: // how long a stalled engine takes says nothing about the next switch
		r.park = park{doneAt: m.now}
		return
	}
	p := &r.park
	p.open, p.edge, p.inRead = true, edge, !r.gen.spoke && !edge
	p.tokens = r.kept
	p.doneAt = m.now
	if !edge {
		p.drain = m.elapsed(r.gen.stopAt)
	}
	if p.inRead && m.engine.ResumePrefill {
		p.drain = m.elapsed(max(r.gen.stopAt, r.gen.posAt)) // until then it read what is kept
	}
	if p.inRead {
		p.tokens = r.gen.pos
	}
}

// closePark ends the account of a request that ends while it is open, with what
// is known; a stop that led to no park is given back.
func (m *Machine) closePark(r *request) {
	p := &r.park
	if p.open {
		m.settle(r, p.drain+p.extra)
	} else if p.paid {
		m.bucket.take(m.now, -p.predicted)
	}
	r.park = park{}
}

// settle books what a park cost: the bucket had the prediction.
func (m *Machine) settle(r *request, cost time.Duration) {
	p := &r.park
	p.open = false
	m.counters.Switch += cost
	m.counters.Settled++
	if p.paid {
		m.bucket.take(m.now, cost-p.predicted)
		m.counters.Charged += cost
		m.counters.Overrun += max(0, cost-p.predicted)
		p.paid = false
	}
	if m.policy.preempts() {
		m.emit(Action{Kind: Settled, ID: r.id, Cost: cost})
	}
}

// measureResume takes the first measurements of a GEN at its RESUME.
func (m *Machine) measureResume(r *request) {
	took := m.now - r.gen.began
	for _, p := range m.parked { // the latest park, if r is who caused it
		if p.park.open && p.park.by == r.id {
			p.park.extra += took
			p.park.by = 0
		}
	}
	if p := &r.park; p.open && (p.inRead || p.edge) {
		cost := p.drain + p.extra + took
		if !p.edge {
			cost += m.costs.fixed(r.Prompt - r.gen.reused)
			cost += time.Duration(max(0, r.high-r.gen.reused)) * m.costs.prior.ReadToken
		}
		m.learn(p, cost)
		m.settle(r, cost)
	}
}

// measureFirst takes the measurements of a GEN at its first token.
func (m *Machine) measureFirst(r *request) {
	g := &r.gen
	if p := &r.park; p.open {
		cost := p.drain + p.extra + max(0, m.now-g.began-m.costs.window.value)
		m.learn(p, cost)
		m.settle(r, cost)
		return
	}
	if g.why == ReasonNone {
		m.costs.sawRead(r.Prompt+r.out-g.reused, m.now-g.resumeAt-m.costs.window.value)
	}
}

// measureDone takes the measurements of a GEN at its end.
func (m *Machine) measureDone(r *request) {
	g := &r.gen
	if g.count >= 16 && g.last > g.first && g.why != ReasonStalled {
		m.costs.sawTokens(g.count, g.last-g.first)
	}
}

// predict returns c(victim): what parking a now would cost.
func (m *Machine) predict(a *request, inRead bool) time.Duration {
	tokens := a.Prompt + a.out
	if a.state == StateReading {
		tokens = a.gen.pos
	}
	c := m.costs.park.at(tokens)
	if inRead {
		c += m.costs.prior.ReadStop
	}
	if k := m.engine.Sequences; k > 1 && len(m.parked)+2 > k {
		c += time.Duration(tokens) * m.cfg.Prior.SwitchToken / 2 // the least recently used must come back
	}
	return c
}

// learn feeds a settled park to the fit.
func (m *Machine) learn(p *park, cost time.Duration) {
	if p.inRead {
		cost -= m.costs.prior.ReadStop
	}
	m.costs.park.add(p.tokens, cost)
}

// costs are the fitted costs of this engine.
type costs struct {
	prior  Costs
	park   line
	short  line // reads of at most 64 tokens
	middle line // up to 4,096
	long   line
	window median
	token  time.Duration
}

// newCosts returns the prior for an engine: a switch between resident sequences
// moves nothing, one without a cache reads the victim again.
func newCosts(p Costs, e Engine) costs {
	c := costs{prior: p, token: p.Token, window: median{value: p.Window}}
	c.park = newLine(p.Switch, p.SwitchToken)
	switch {
	case e.Sequences > 1:
		c.park = newLine(2*p.Window, 0)
	case e.CacheMiB <= 0:
		c.park = newLine(p.Switch+p.ReadFixed, p.ReadToken)
	}
	c.short = newLine(0, 2*p.Window/3)
	c.middle = newLine(p.ReadFixed, p.ReadToken)
	c.long = newLine(p.ReadFixed, p.ReadToken)
	return c
}

func (c *costs) law(n int) *line {
	switch {
	case n <= 64:
		return &c.short
	case n <= 4096:
		return &c.middle
	}
	return &c.long
}

// read predicts the time from RESUME to the first token for n unread tokens.
func (c *costs) read(n int) time.Duration { return c.law(max(0, n)).at(max(0, n)) }

// fixed is the part of a read that a continuation pays again.
func (c *costs) fixed(n int) time.Duration { return c.law(max(0, n)).at(0) }

// decode predicts the time of n output tokens; past 2²⁴ tokens it no longer grows.
func (c *costs) decode(n int) time.Duration { return time.Duration(min(max(0, n), 1<<24)) * c.token }

func (c *costs) sawRead(n int, took time.Duration) {
	if n > 1 {
		c.law(n).add(n, took)
	}
}

func (c *costs) sawTokens(n int, took time.Duration) {
	c.token += (took/time.Duration(n) - c.token) / 4
}

// line fits y = a + b·x by least squares around a prior, forgetting slowly. The
// prior weighs like one observation at x = 0 and one at x = scale. Products are
// rounded before they are added, so that every machine decides alike.
type line struct {
	a0, b0          float64 // prior, ns and ns per token
	n, x, y, xx, xy float64 // sums over residuals from the prior, x in units of scale
	da, db          float64 // fitted corrections
}

const (
	lineScale  = 32768.0
	lineForget = 0.97
	linePrior  = 1.0
)

func newLine(a, b time.Duration) line { return line{a0: float64(a), b0: float64(b)} }

func (l *line) add(tokens int, took time.Duration) {
	x := float64(tokens) / lineScale
	y := float64(took) - (l.a0 + float64(l.b0*float64(tokens)))
	l.n = float64(l.n*lineForget) + 1
	l.x = float64(l.x*lineForget) + x
	l.y = float64(l.y*lineForget) + y
	l.xx = float64(l.xx*lineForget) + float64(x*x)
	l.xy = float64(l.xy*lineForget) + float64(x*y)
	n, xx := l.n+linePrior, l.xx+linePrior
	det := float64(n*xx) - float64(l.x*l.x)
	l.da = (float64(xx*l.y) - float64(l.x*l.xy)) / det
	l.db = (float64(n*l.xy) - float64(l.x*l.y)) / det
}

// at predicts y, never below zero.
func (l *line) at(tokens int) time.Duration {
	x := float64(tokens) / lineScale
	y := l.a0 + float64(l.b0*float64(tokens)) + l.da + float64(l.db*x)
	return time.Duration(max(0, y))
}

// median follows the median of a stream by steps of one part in 32.
type median struct{ value time.Duration }

func (d *median) add(v time.Duration) {
	step := max(1, d.value/32)
	switch {
	case v > d.value:
		d.value += step
	case v < d.value:
		d.value -= step
	}
}
