package sched

import "time"

// budget stops at once while a token bucket pays for the predicted switch, and
// otherwise after a quantum that grows with the switch cost. It never stops a
// read that would be lost: it sends long reads in slices.
type budget struct{}

func (budget) preempts() bool { return true }
func (budget) slices() bool   { return true }

func (budget) judge(m *Machine, a *request, edge bool) verdict {
	if !m.preemptible(a) {
		return verdict{why: HoldProtection}
	}
	if on, until := m.shielded(a); on {
		return verdict{why: HoldProtection, at: until}
	}
	inRead := a.state == StateReading && !edge
	if inRead && a.gen.upto > 0 {
		return verdict{why: HoldSlice}
	}
	if inRead && !m.mayStopRead(a, false) {
		return verdict{why: HoldRead}
	}
	c := m.predict(a, inRead)
	if m.remaining(a) < 2*c+m.cfg.GuardFloor {
		return verdict{why: HoldGuard}
	}
	if a.gen.reread {
		return verdict{why: HoldCooldown}
	}
	run := m.elapsed(a.gen.run)
	if least := max(m.cfg.MinRun, 2*c); a.parks > 0 && run < least {
		return verdict{why: HoldCooldown, at: a.gen.run + least}
	}
	free := a.gen.run + max(m.cfg.Quantum, 5*c)
	if m.now >= free {
		return verdict{cost: c}
	}
	if m.bucket.at(m.now) >= c {
		return verdict{cost: c, paid: true}
	}
	return verdict{why: HoldBucket, at: min(free, m.bucket.when(m.now, c))}
}

// remaining predicts how long a still needs, at most.
func (m *Machine) remaining(a *request) time.Duration {
	d := m.costs.decode(a.MaxNew - a.out)
	if a.state == StateReading {
		d += time.Duration(a.Prompt+a.out-a.gen.pos) * m.costs.prior.ReadToken
	}
	return d
}

// chunk is the engine's read grid: announced, else the largest that this process
// has shown by two equal PP steps in a row, else 8,192.
func (m *Machine) chunk() int {
	switch {
	case m.engine.PrefillChunk > 0:
		return m.engine.PrefillChunk
	case m.step > 0:
		return m.step
	}
	return 8192
}

// slice returns the edge of the next slice of the active request's read, 0 for
// the whole rest. A read of at most 1½ slices is not cut.
func (m *Machine) slice(r *request) int {
	if !m.policy.slices() || m.cfg.ReadSlice == SliceOff || m.noSlice || m.engine.ResumePrefill || m.engine.CacheMiB <= 0 {
		return 0
	}
	if r.Protected || r.Image || r.noCkpt || r.out > 0 {
		return 0
	}
	c := m.chunk()
	size := 2 * c
	if m.cfg.ReadSlice > 0 {
		size = max(c, m.cfg.ReadSlice/c*c)
	}
	if r.Prompt-r.kept <= size+size/2 {
		return 0
	}
	return r.kept + size
}

// bucket is the token bucket of immediate stops: seconds of switching that may
// still be spent.
type bucket struct {
	rate  float64       // per second
	depth time.Duration // at most
	level time.Duration // as of seen; negative after an overrun
	seen  time.Duration
}

// at returns the level at a later time.
func (b *bucket) at(now time.Duration) time.Duration {
	return min(b.depth, b.level+time.Duration(float64(now-b.seen)*b.rate))
}

// when returns the first time at which the level reaches c, a very late one if
// it never does.
func (b *bucket) when(now, c time.Duration) time.Duration {
	if c > b.depth || b.rate <= 0 {
		return 1<<63 - 1
	}
	return now + time.Duration(float64(c-b.at(now))/b.rate) + 1
}

// take changes the level now; a negative cost gives back.
func (b *bucket) take(now, cost time.Duration) {
	b.level = b.at(now) - cost
	b.seen = now
}
