package sched

import "time"

// arrive accepts a request or refuses it at once.
func (m *Machine) arrive(e Event) bool {
	if e.ID == 0 || m.all[e.ID] != nil {
		return false
	}
	if m.cfg.Queue > 0 && len(m.waiting) >= m.cfg.Queue {
		m.counters.Rejected++
		m.emit(Action{Kind: Reject, ID: e.ID, Reason: ReasonQueueFull})
		return false
	}
	r := m.fresh()
	m.seq++
	r.Request, r.id, r.seq = e.Request, e.ID, m.seq
	r.boosted = m.policy.preempts() && !r.Explicit && r.Unread <= m.cfg.SmallPrompt && r.MaxNew <= m.cfg.SmallTokens
	r.kept = max(0, r.Prompt-r.Unread)
	m.all[r.id] = r
	m.counters.Accepted++
	m.accrue()
	m.waiting = append(m.waiting, r)
	r.state = StateWaiting
	m.emit(Action{Kind: Told, ID: r.id, State: StateWaiting, N: len(m.waiting)})
	return true
}

// cancel ends a request whose client left: at once where the engine does not
// know of it, after STOP and drain where it holds the engine.
func (m *Machine) cancel(id ID) bool {
	r := m.all[id]
	if r == nil || r.end != ReasonNone {
		return false // it already is on its way out
	}
	m.counters.Cancels[r.state]++
	return m.endEarly(r, ReasonCancelled)
}

// enough ends a request whose stop string matched in what it already said; by
// now it may have been stopped, parked or resumed.
func (m *Machine) enough(id ID) bool {
	r := m.all[id]
	if r == nil || r.out == 0 || r.end != ReasonNone {
		return false
	}
	return m.endEarly(r, ReasonStop)
}

// timedOut ends a request that waited too long for its first start.
func (m *Machine) timedOut(id ID) bool {
	r := m.all[id]
	if r == nil || r.state != StateWaiting {
		return false
	}
	return m.endEarly(r, ReasonQueueTimeout)
}

func (m *Machine) endEarly(r *request, why Reason) bool {
	if r.state.Active() {
		r.end = why
		m.stop(r, why)
		return true
	}
	m.drop(r)
	m.finish(r, why)
	return true
}

// stop writes STOP, now or as soon as RESUME has been read: before that the
// engine may throw it away (engine-protocol 1.8).
func (m *Machine) stop(r *request, why Reason) {
	if r.gen.why == ReasonNone || why != ReasonPreempt {
		r.gen.why = why
	}
	if !r.gen.resumed || r.state == StateStopping {
		return
	}
	r.gen.stopAt, r.gen.giveUp = m.now, 0
	if limit := m.limitOfSilence(r); m.now-m.line >= limit/stallShare {
		// Who waits for the end of a silence is not made to wait anew. Fixed here, since
		// the limit shrinks with each line of an engine that does answer.
		r.gen.giveUp = m.line + limit
	}
	m.set(r, StateStopping)
	m.emit(Action{Kind: Stop, ID: r.id, Reason: why})
}

// finish tells a request's end and forgets it.
func (m *Machine) finish(r *request, why Reason) {
	m.closePark(r)
	m.set(r, StateEnded)
	m.counters.Ended++
	m.counters.Ends[why]++
	kind := Fail
	switch why {
	case ReasonStop, ReasonLength, ReasonPrefilled:
		kind = EndWell
	}
	m.emit(Action{Kind: kind, ID: r.id, Reason: why})
	delete(m.all, r.id)
	*r = request{}
	m.spare = append(m.spare, r)
}

func (m *Machine) fresh() *request {
	if n := len(m.spare); n > 0 {
		r := m.spare[n-1]
		m.spare = m.spare[:n-1]
		return r
	}
	return new(request)
}

// drop takes a request out of the waiting or the parked.
func (m *Machine) drop(r *request) {
	list := &m.waiting
	if r.state == StateParked {
		list = &m.parked
	}
	for i, x := range *list {
		if x == r {
			copy((*list)[i:], (*list)[i+1:])
			(*list)[len(*list)-1] = nil
			*list = (*list)[:len(*list)-1]
			return
		}
	}
}

// start gives the idle engine to r.
func (m *Machine) start(r *request) {
	m.accrue()
	if m.starving(r) {
		m.counters.Starvation++
		r.waited = 0
		r.shield = true
	} else {
		r.shield = false
	}
	resume := r.state == StateParked
	if resume {
		m.counters.Resumes++
	} else {
		r.noCkpt = r.boosted && r.OneShot
	}
	m.drop(r)
	if n := len(m.parked); n > 0 && m.parked[n-1].park.open && m.parked[n-1].passed == 0 {
		m.parked[n-1].park.by = r.id
	}
	m.overtake(r)
	m.active = r
	r.gen = gen{began: m.now, run: m.now}
	m.set(r, StateReading)
	m.send(r, resume)
}

// send writes a GEN for the active request: whole, or one slice of its read.
func (m *Machine) send(r *request, resume bool) {
	m.line = m.now
	r.gen.upto = m.slice(r)
	if r.gen.upto > 0 {
		m.counters.Slices++
	}
	m.emit(Action{Kind: Start, ID: r.id, Resume: resume, Upto: r.gen.upto, NoCheckpoint: r.noCkpt})
}

// resumed takes the RESUME line: what the engine still had of the prompt.
func (m *Machine) resumed(r *request, reused int) bool {
	g := &r.gen
	if g.resumed {
		return false
	}
	g.resumed, g.resumeAt, g.reused, g.pos, g.posAt = true, m.now, reused, reused, m.now
	total := r.Prompt + r.out
	switch {
	case r.high > 0: // a continuation
		lost := max(0, r.kept-reused)
		m.counters.LostPrefix += uint64(lost)
		m.counters.Reread += uint64(max(0, r.high-max(reused, r.kept)))
		if lost > 0 && r.out == 0 && !m.engine.ResumePrefill {
			m.noSlice = true
		}
	default:
		m.counters.UnreadSeen++
		m.counters.UnreadError += uint64(abs(r.Unread - (r.Prompt - reused)))
	}
	g.reread = reused < r.high && g.upto == 0
	if r.boosted && total-reused > m.cfg.SmallPrompt {
		r.boosted = false
	}
	m.measureResume(r)
	r.high = max(r.high, reused)
	if g.why != ReasonNone {
		m.stop(r, g.why)
	}
	return true
}

// reading takes a PP line.
func (m *Machine) reading(r *request, pos int) bool {
	g := &r.gen
	if !g.resumed || pos <= g.pos {
		return false
	}
	// One batch alone only shows that a chunk is at least so long, and turn
	// boundaries cut batches short: two equal ones in a row are the grid.
	if d := pos - g.pos; d == g.step && d > 64 {
		m.step = max(m.step, d)
	}
	g.step = pos - g.pos
	g.pos, g.posAt = pos, m.now
	if pos > r.high {
		r.high = pos
		g.gained = true
		if g.reread {
			g.reread, g.run = false, m.now
		}
	}
	if m.cfg.ForceParkEvery > 0 && m.engine.ResumePrefill && m.preemptible(r) && r.state == StateReading {
		m.stop(r, ReasonForced)
	}
	return true
}

// firstToken takes the first accepted token of a GEN; its Tokens follow.
func (m *Machine) firstToken(r *request) bool {
	g := &r.gen
	if g.spoke || !g.resumed || g.upto > 0 {
		return false
	}
	g.spoke, g.first, g.last = true, m.now, m.now
	g.gained = true
	if g.reread {
		g.reread, g.run = false, m.now
	}
	m.measureFirst(r)
	if r.state != StateReading {
		return false
	}
	m.set(r, StateDecoding)
	return true
}

// tokens takes accepted tokens, drained ones too. It decides nothing unless
// parks are forced: what time alone changes has a WakeAt.
func (m *Machine) tokens(r *request, n int) bool {
	g := &r.gen
	if !g.spoke || g.upto > 0 {
		return false
	}
	r.out += n
	g.count += n
	if m.now > g.last {
		m.costs.window.add(m.now - g.last)
		g.last = m.now
	}
	if r.state == StateStopping {
		m.counters.Drained += uint64(n)
		return false
	}
	if m.cfg.ForceParkEvery > 0 && g.count >= m.cfg.ForceParkEvery && m.preemptible(r) {
		m.stop(r, ReasonForced)
	}
	return false
}

// done takes the end of a GEN: the request has finished, or it is parked.
func (m *Machine) done(r *request, f Finish) bool {
	m.deaths = 0
	m.measureDone(r)
	m.release()
	well := ReasonStop
	if f == FinishLength {
		well = ReasonLength
	}
	if r.PrefillOnly {
		well = ReasonPrefilled
	}
	switch {
	case r.end != ReasonNone:
		m.finish(r, r.end)
	case f == FinishStop, f == FinishLength:
		m.finish(r, well)
	case f == FinishCancel && r.state == StateStopping && r.out >= r.MaxNew:
		if !r.PrefillOnly {
			well = ReasonLength
		}
		m.finish(r, well)
	case f == FinishCancel && r.state == StateStopping && r.parks > 0 && !r.gen.gained:
		m.goOn(r)
	case f == FinishCancel && r.state == StateStopping:
		m.toPark(r, false)
	case f == FinishNonfinite && r.out == 0 && !r.retried && r.state == StateReading:
		r.retried = true
		m.again(r)
	case f == FinishNonfinite:
		m.finish(r, ReasonLength)
	default:
		m.finish(r, ReasonEngineError)
	}
	return true
}

// release takes the engine from its holder.
func (m *Machine) release() {
	m.accrue()
	m.active = nil
}

// toPark parks a request that gave the engine up.
func (m *Machine) toPark(r *request, edge bool) {
	r.parks++
	if r.parks == shortAging { // the share of the limit that is used stays the same
		r.waited = scale(r.waited, m.cfg.AgingParked, m.cfg.Aging)
	}
	switch r.gen.why {
	case ReasonForced, ReasonStalled:
		m.counters.Forced++
	default:
		m.counters.Preemptions++
	}
	r.gen.last = 0
	switch {
	case r.gen.spoke:
		r.kept = r.Prompt + r.out - 1
		r.high = max(r.high, r.kept)
	case edge:
	case m.engine.ResumePrefill:
		r.kept = r.gen.pos
		if c := m.chunk(); r.gen.reused < r.gen.pos {
			r.kept = max(r.gen.reused, r.gen.pos/c*c)
		}
	default:
		r.kept = 0 // the read is lost, and what was restored for it
	}
	m.openPark(r, edge)
	m.set(r, StateParked)
	m.parked = append(m.parked, r)
}

// goOn gives the engine back to a request whose stop came so early that it gained
// nothing since its last park: the progress law.
func (m *Machine) goOn(r *request) {
	m.closePark(r)
	run := r.gen.run
	r.barren = true
	m.active = r
	m.set(r, StateReading)
	r.gen = gen{began: m.now, run: run}
	m.send(r, true)
}

// again puts a request back where it stood in the queue.
func (m *Machine) again(r *request) {
	m.set(r, StateWaiting)
	r.gen = gen{}
	i := len(m.waiting)
	for i > 0 && m.waiting[i-1].seq > r.seq {
		i--
	}
	m.waiting = append(m.waiting, nil)
	copy(m.waiting[i+1:], m.waiting[i:])
	m.waiting[i] = r
}

// sliceDone takes the end of a read slice: the rule decides as for a Stop
// whether a sooner request runs at its edge.
func (m *Machine) sliceDone(r *request, edge int) bool {
	if r.gen.upto == 0 {
		return false
	}
	m.deaths = 0
	if r.end != ReasonNone {
		m.release()
		m.finish(r, r.end)
		return true
	}
	g := &r.gen
	r.kept, r.high = edge, max(r.high, edge)
	g.pos, g.posAt, g.gained = edge, m.now, true
	forced := m.cfg.ForceParkEvery > 0
	m.accrue()
	if forced || m.yields(r) {
		if forced {
			g.why = ReasonForced
		}
		m.release()
		m.toPark(r, true)
		return true
	}
	run := g.run
	r.gen = gen{began: m.now, run: run}
	m.set(r, StateReading)
	m.send(r, false)
	return true
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}

// elapsed is the time since t, never negative.
func (m *Machine) elapsed(t time.Duration) time.Duration { return max(0, m.now-t) }
