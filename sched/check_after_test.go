package sched

import (
	"cmp"
	"slices"
	"time"
)

// after checks what must hold between Steps.
func (c *checker) after(e Event, stale bool) {
	waiting, active, parked := 0, 0, 0
	for _, id := range c.order {
		switch w := c.reqs[id]; {
		case w.state == StateWaiting:
			waiting++
		case w.state == StateParked:
			parked++
		default:
			active++
			if e.Kind == EngineDied && !stale && w == c.holder {
				c.fail("27", "%d survives the engine it ran on", id)
			}
		}
		if e.Kind == EngineDied && !stale && c.reqs[id].state != StateWaiting && !c.cfg.Replay && !c.up {
			c.fail("27", "%d is %s after the engine's death", id, c.reqs[id].state)
		}
	}
	if active > 1 {
		c.fail("1", "%d requests hold the engine", active)
	}
	mw, ma, mp := c.m.Load()
	if mw != waiting || ma != active || mp != parked {
		c.fail("3", "machine says %d/%d/%d waiting/active/parked, the books %d/%d/%d", mw, ma, mp, waiting, active, parked)
	}
	if n := c.m.counters; n.Accepted != n.Ended+uint64(waiting+active+parked) {
		c.fail("3", "accepted %d ≠ ended %d + %d + %d + %d", n.Accepted, n.Ended, waiting, active, parked)
	}
	if c.cfg.Queue > 0 && waiting > c.cfg.Queue {
		c.fail("16", "%d wait, the limit is %d", waiting, c.cfg.Queue)
	}
	if c.up && !c.lent && c.holder == nil && c.best() != nil {
		c.fail("24", "the engine idles, %d wait and %d are parked", waiting, parked)
	}
	c.afterHold()
	c.afterWait()
	c.afterBucket()
}

// afterHold: a strictly sooner admissible waiter has led to a Stop or a WakeAt
// that names what holds it.
func (c *checker) afterHold() {
	a := c.holder
	if a == nil || !c.m.policy.preempts() || a.stopped || a.gone || a.enough {
		return
	}
	w := c.best()
	if w == nil || !c.sooner(w, a) {
		return // who would get the engine would not be sooner
	}
	if c.m.active != nil && c.m.active.gen.why != ReasonNone {
		return // a STOP that waits for RESUME
	}
	if c.m.armed != 0 && c.m.armed <= c.now {
		return // the Wake is due in this instant
	}
	// Time alone may have shut the window for the one who was named.
	if h := c.reqs[c.held.ID]; c.held.Reason == ReasonNone || h == nil || !c.sooner(h, a) {
		c.fail("23", "%d is sooner than the runner %d; no STOP and no WakeAt says why", w.id, a.id)
	}
}

// barred says that w arrived after maintenance was asked for.
func (c *checker) barred(w *watched) bool { return c.asked && w.seq >= c.fence }

// afterWait: who starves waits for what cannot be stopped, for one quantum (or
// five switches), and for the end of what is nearly through; for nothing else.
func (c *checker) afterWait() {
	if c.holder == nil || c.m.active == nil {
		return
	}
	c.most = max(c.most, c.m.predict(c.m.active, false))
	bound := max(c.cfg.Quantum, 5*c.most) + 2*c.most + c.cfg.GuardFloor + c.slack
	for _, id := range c.order {
		if w := c.reqs[id]; w.extra > bound {
			c.fail("19", "starving %d lost %v to %d, which could be stopped; at most %v", id, w.extra, c.holder.id, bound)
		}
	}
}

// best is the obvious twin of next: everybody who wants the engine and is
// admitted, sorted.
func (c *checker) best() *watched {
	var all []*watched
	for _, id := range c.order {
		if w := c.reqs[id]; (w.state == StateParked || w.state == StateWaiting && !c.barred(w)) && !c.shut(w) {
			all = append(all, w)
		}
	}
	if len(all) == 0 {
		return nil
	}
	preempts := c.m.policy.preempts()
	slices.SortFunc(all, func(x, y *watched) int {
		if !preempts {
			return cmp.Or(first(x.state == StateParked, y.state == StateParked), x.seq-y.seq)
		}
		if c.starving(x) && c.starving(y) {
			return x.seq - y.seq
		}
		key := func(w *watched) int { // unread prompt matters among boosted new ones
			if w.small && w.state == StateWaiting {
				return w.Unread
			}
			return 0
		}
		return cmp.Or(
			first(c.starving(x), c.starving(y)),
			y.class()-x.class(),
			first(x.state == StateParked, y.state == StateParked),
			first(x.small && x.state == StateWaiting, y.small && y.state == StateWaiting),
			key(x)-key(y),
			x.seq-y.seq)
	})
	return all[0]
}

// first orders what holds before what does not.
func first(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

// afterBucket: invariant 22, with what is predicted and not yet settled counted
// as it was predicted.
func (c *checker) afterBucket() {
	n := c.m.counters
	limit := time.Duration(float64(c.now)*c.cfg.Overhead) + c.cfg.Depth + n.Overrun + time.Duration(n.Settled+1)
	if n.Charged > limit {
		c.fail("22", "immediate stops cost %v in %v, the bucket allows %v", n.Charged, c.now, limit)
	}
}
