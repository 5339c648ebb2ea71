package sched

import (
	"fmt"
	"time"
)

// stepper is a machine as its shell sees it; mutants are steppers too.
type stepper func(Event) []Action

// A checker watches one machine from outside, by its events and actions, keeps
// its own books and reports the first invariant (DESIGN.md) that breaks. It
// looks into the machine only for predictions and the bucket.
type checker struct {
	m      *Machine
	cfg    Config
	engine Engine
	epoch  int
	up     bool
	lent   bool // maintenance
	asked  bool
	fence  int // arrivals from here on wait for the maintenance
	seen   int // arrivals
	now    time.Duration
	reqs   map[ID]*watched
	order  []ID
	holder *watched
	held   Action        // last WakeAt
	slack  time.Duration // grain of the world's clock
	err    error         // the first violation
	most   time.Duration // the greatest predicted switch cost so far
	only   string        // not "": the one invariant that is reported
	ended  int
}

// watched is one accepted request.
type watched struct {
	Request
	id       ID
	seq      int
	state    State
	small    bool
	noCkpt   bool
	gone     bool // its client left
	enough   bool
	timedOut bool
	out      int
	parks    int
	gained   bool // since its last park
	high     int
	lost     time.Duration // to later arrivals: the starvation clock
	extra    time.Duration // to a later arrival that could be stopped, while starving
	parkedAt time.Duration
	passed   int
	stalls   int
	shield   bool
	// this GEN
	upto    int
	resumed bool
	reused  int
	pos     int
	first   bool
	stopped bool
	began   time.Duration // its turn
	ranFrom time.Duration // its turn, or the end of what it had to read again
	wasHigh int           // how far it had read before this GEN
}

func newChecker(m *Machine) *checker {
	return &checker{m: m, cfg: m.cfg, reqs: map[ID]*watched{}}
}

// violation is one broken invariant.
type violation struct {
	inv  string
	text string
}

func (v violation) Error() string { return "invariant " + v.inv + ": " + v.text }

// fail notes the first violation; the books go on.
func (c *checker) fail(inv, format string, args ...any) {
	if c.err == nil && (c.only == "" || c.only == inv) {
		c.err = violation{inv, fmt.Sprintf(format, args...)}
	}
}

func (w *watched) class() int {
	switch {
	case w.Explicit:
		return w.Priority
	case w.small:
		return 1
	}
	return 0
}

func (c *checker) starving(w *watched) bool {
	limit := c.cfg.Aging
	if w.parks >= 3 {
		limit = c.cfg.AgingParked
	}
	return c.m.policy.preempts() && w.lost >= limit
}

func (c *checker) sooner(w, a *watched) bool {
	return w.class() > a.class() || w.class() < a.class() && c.starving(w)
}

// shut is the window rule, from the books.
func (c *checker) shut(w *watched) bool {
	if w.Unread > c.cfg.SmallPrompt || w.MaxNew > c.cfg.SmallTokens || c.starving(w) {
		return false
	}
	for _, id := range c.order {
		p := c.reqs[id]
		if p.state == StateParked && p.passed > 0 && p.class() < w.class() {
			need := c.now - p.parkedAt
			if r := c.m.all[w.id]; r != nil {
				need += c.m.service(r)
			}
			if need > c.cfg.Window {
				return true
			}
		}
	}
	return false
}

// see takes one Step: its event and its actions. It returns the first violation.
func (c *checker) see(e Event, actions []Action) error {
	c.pass(max(0, e.At-c.now))
	c.now = max(c.now, e.At)
	stale := c.isStale(e)
	if stale && len(actions) > 0 {
		c.fail("10", "a line of epoch %d (now %d) caused %s", e.Epoch, c.epoch, actions[0].AppendText(nil))
	}
	var done *watched
	if !stale {
		done = c.event(e)
	}
	for _, a := range actions {
		c.action(e, a, done)
	}
	if done != nil && done.state.Active() && c.holder != done {
		c.fail("2", "request %d gave the engine up and is neither parked nor ended", done.id)
	}
	c.after(e, stale)
	return c.err
}

// pass lets the holder run for d.
func (c *checker) pass(d time.Duration) {
	if c.holder == nil {
		return
	}
	for _, id := range c.order {
		w := c.reqs[id]
		if (w.state == StateWaiting || w.state == StateParked) && w.seq < c.holder.seq {
			if c.starving(w) && c.sooner(w, c.holder) && c.stoppable(c.holder) {
				w.extra += d
			}
			w.lost += d
		}
	}
}

// stoppable says that nothing but the policy's minimum runs keeps h from being
// stopped.
func (c *checker) stoppable(h *watched) bool {
	return h.state == StateDecoding && !h.stopped && !h.Protected && !h.Image && !h.noCkpt
}

func (c *checker) isStale(e Event) bool {
	switch e.Kind {
	case Resumed, Reading, FirstToken, Tokens, Done, SliceDone, Refused, EngineDied, Stalled:
		return !c.up || e.Epoch != c.epoch
	}
	return false
}

// event books what happened; it returns the request whose GEN ended.
func (c *checker) event(e Event) *watched {
	w := c.reqs[e.ID]
	switch e.Kind {
	case Loaded:
		c.up, c.epoch, c.engine = true, e.Epoch, e.Engine
		return nil
	case EngineDied, LoadFailed:
		if e.Kind == LoadFailed && c.up {
			return nil
		}
		c.up = false
		for _, id := range c.order {
			c.reqs[id].high = 0
		}
		h := c.holder
		c.holder = nil
		return h
	case MaintenanceAsked:
		if len(c.reqs) == 0 || e.N == 1 {
			c.asked, c.fence = true, c.seen
		}
		return nil
	case MaintenanceOver:
		c.lent, c.asked = false, false
		return nil
	}
	if w == nil {
		return nil
	}
	switch e.Kind {
	case Cancel:
		w.gone = true
		return nil
	case Enough:
		w.enough = w.enough || w.out > 0
		return nil
	case TimedOut:
		w.timedOut = w.timedOut || w.state == StateWaiting
		return nil
	}
	if w != c.holder {
		return nil
	}
	switch e.Kind {
	case Resumed:
		w.resumed, w.reused, w.pos, w.wasHigh = true, e.N, e.N, w.high
		if w.small && w.Prompt+w.out-e.N > c.cfg.SmallPrompt {
			w.small = false
		}
		w.high = max(w.high, e.N)
	case Reading:
		if w.pos <= w.wasHigh && e.N > w.wasHigh && w.reused < w.wasHigh && w.upto == 0 {
			w.ranFrom = c.now
		}
		w.pos = max(w.pos, e.N)
		if e.N > w.high {
			w.high, w.gained = e.N, true
		}
	case FirstToken:
		if w.reused < w.wasHigh && w.pos <= w.wasHigh && w.upto == 0 {
			w.ranFrom = c.now
		}
		w.first, w.gained = true, true
		if w.state == StateReading {
			w.state = StateDecoding
		}
	case Tokens:
		w.out += e.N
	case SliceDone:
		w.gained, w.high, w.pos = true, max(w.high, e.N), e.N
		c.holder = nil
		return w
	case Done, Refused:
		c.holder = nil
		return w
	}
	return nil
}

// action books and checks one action.
func (c *checker) action(e Event, a Action, done *watched) {
	w := c.reqs[a.ID]
	switch a.Kind {
	case WakeAt:
		c.held = a
		return
	case Load, Kill, Settled:
		return
	case BeginMaintenance:
		c.lent = true
		for _, id := range c.order {
			if !c.barred(c.reqs[id]) {
				c.fail("24", "maintenance begins around live %d", id)
			}
		}
		return
	case Reject:
		if a.ID != 0 && (e.Kind != Arrive || e.ID != a.ID) {
			c.fail("9", "reject %d on %s", a.ID, e.AppendText(nil))
		}
		return
	}
	if a.Kind == Told && a.State == StateWaiting && e.Kind == Arrive {
		c.accept(e)
		return
	}
	if w == nil {
		c.fail("2", "%s names a request that is not live", a.AppendText(nil))
		return
	}
	switch a.Kind {
	case Told:
		c.told(a, w, done)
	case Start:
		c.start(a, w)
	case Stop:
		c.stop(a, w)
	case EndWell, Fail:
		c.end(e, a, w, done)
	}
}

func (c *checker) accept(e Event) {
	w := &watched{Request: e.Request, id: e.ID, seq: c.seen, state: StateWaiting}
	c.seen++
	w.small = c.m.policy.preempts() && !w.Explicit && w.Unread <= c.cfg.SmallPrompt && w.MaxNew <= c.cfg.SmallTokens
	c.reqs[e.ID] = w
	c.order = append(c.order, e.ID)
}

func (c *checker) told(a Action, w, done *watched) {
	if a.State != StateParked {
		return
	}
	if w != done || w.upto == 0 && !w.stopped {
		c.fail("11", "request %d is parked without a stop or a slice edge", w.id)
	}
	w.state, w.parks, w.parkedAt, w.passed = StateParked, w.parks+1, c.now, 0
	w.extra = 0
	if w.first {
		w.high = max(w.high, w.Prompt+w.out-1)
	}
	if w.parks == shortAging {
		w.lost = scale(w.lost, c.cfg.AgingParked, c.cfg.Aging)
	}
	if w.out >= w.MaxNew && !w.PrefillOnly {
		c.fail("drain", "request %d used its budget in the drain and is parked", w.id)
	}
	if w.parks > 1 && !w.gained {
		c.fail("21", "request %d gained nothing between two parks", w.id)
	}
	w.gained = false
}

func (c *checker) start(a Action, w *watched) {
	if c.holder != nil {
		c.fail("11", "GEN of %d while %d holds the engine", w.id, c.holder.id)
	}
	again := w.state == StateStopping && w.parks > 0 && !w.gained && !w.first // stopped before it gained anything
	if w.state == StateStopping && !again {
		c.fail("11", "GEN of %d which was stopped and not parked", w.id)
	}
	if !c.up || c.lent {
		c.fail("11", "GEN of %d without an engine of ours", w.id)
	}
	if w.gone && w.state == StateWaiting {
		c.fail("12", "GEN of %d, cancelled while queued", w.id)
	}
	next := w.state == StateReading || again // the next slice, or the same turn
	if a.Resume != (w.state == StateParked || again) {
		c.fail("4", "GEN of %d from %s with resume=%v", w.id, w.state, a.Resume)
	}
	if !next {
		c.turn(w)
		w.shield = c.starving(w)
		if w.shield {
			w.lost = 0
		}
		w.extra = 0
		for _, id := range c.order {
			if p := c.reqs[id]; p.state == StateParked && p.class() < w.class() && p != w {
				p.passed++
			}
		}
		w.began, w.ranFrom = c.now, c.now
		if w.state == StateWaiting {
			w.noCkpt = a.NoCheckpoint
		}
	}
	if a.NoCheckpoint && !(w.OneShot && w.Unread <= c.cfg.SmallPrompt && !w.Explicit && c.m.policy.preempts()) || a.NoCheckpoint != w.noCkpt {
		c.fail("15", "GEN of %d with ckpt=0", w.id)
	}
	w.state, w.upto = StateReading, a.Upto
	w.resumed, w.first, w.stopped = false, false, false
	c.holder = w
}

// turn checks that w is the one whose turn it is.
func (c *checker) turn(w *watched) {
	if c.shut(w) {
		c.fail("window", "%d starts although the interactive window is over", w.id)
	}
	best := c.best()
	switch {
	case best == w || best == nil:
		return
	case c.starving(best):
		c.fail("18", "%d starts before starving %d", w.id, best.id)
	case best.class() > w.class() && w.state == StateWaiting:
		c.fail("25", "new %d of class %d starts before %d of class %d", w.id, w.class(), best.id, best.class())
	case best.class() > w.class():
		c.fail("reserve", "parked %d of class %d takes the turn of %d of class %d", w.id, w.class(), best.id, best.class())
	case best.state == StateParked && w.state == StateWaiting:
		c.fail("20", "new %d starts before parked %d of its class", w.id, best.id)
	default:
		c.fail("order", "%d starts, it is the turn of %d", w.id, best.id)
	}
}

func (c *checker) stop(a Action, w *watched) {
	if w != c.holder || !w.resumed || w.stopped {
		c.fail("11", "STOP of %d: holds %v, RESUME read %v, stopped already %v", w.id, w == c.holder, w.resumed, w.stopped)
	}
	w.stopped = true
	reading := !w.first
	w.state = StateStopping
	switch a.Reason {
	case ReasonCancelled:
		if !w.gone {
			c.fail("9", "STOP of %d, whose client is here, as cancelled", w.id)
		}
		return
	case ReasonStop:
		if !w.enough {
			c.fail("9", "STOP of %d as enough, which nobody said", w.id)
		}
		return
	case ReasonForced:
	case ReasonStalled:
		if w.stalls++; w.stalls > 1 {
			c.fail("21", "%d is stopped for its second stall", w.id)
		}
		if reading && !c.engine.ResumePrefill {
			c.fail("13", "%d stalls in a read that would be lost, and is stopped", w.id)
		}
	case ReasonPreempt:
		var cause *watched
		for _, id := range c.order {
			if o := c.reqs[id]; (o.state == StateWaiting || o.state == StateParked) && c.sooner(o, w) {
				cause = o
			}
		}
		if cause == nil {
			c.fail("26", "STOP of %d (class %d) and nobody sooner waits", w.id, w.class())
		}
		if w.shield && c.now < w.ranFrom+c.cfg.Quantum {
			c.fail("18", "STOP of %d inside its protected quantum", w.id)
		}
	default:
		c.fail("9", "STOP of %d for %q", w.id, a.Reason)
	}
	if w.Protected || w.Image || w.noCkpt {
		c.fail("protected", "STOP of %d, which is never preempted", w.id)
	}
	if reading && !c.engine.ResumePrefill {
		if w.upto > 0 || w.reused > 0 || w.parks > 0 || c.cfg.Policy == Budget {
			c.fail("13", "STOP of %d in a read that would be lost (reused %d, parks %d, slice %d)", w.id, w.reused, w.parks, w.upto)
		}
	}
}

func (c *checker) end(e Event, a Action, w, done *watched) {
	ok := false
	switch a.Reason {
	case ReasonCancelled:
		ok = w.gone
	case ReasonQueueTimeout:
		ok = w.timedOut
	case ReasonStop:
		ok = w.enough || w == done && e.Finish == FinishStop
	case ReasonLength:
		ok = w == done && (e.Finish == FinishLength || e.Finish == FinishNonfinite || w.out >= w.MaxNew)
	case ReasonPrefilled:
		ok = w == done && w.PrefillOnly
	case ReasonEngineDied:
		ok = e.Kind == EngineDied
	case ReasonEngineRefused:
		ok = e.Kind == Refused && w == done
	case ReasonEngineError:
		ok = e.Kind == Done && w == done
	case ReasonLoadFailed:
		ok = e.Kind == LoadFailed
	}
	if !ok {
		c.fail("9", "%s is not caused by %d's own client, limits or engine (event %s)", a.AppendText(nil), w.id, e.AppendText(nil))
	}
	if (w.state.Active()) && w != done {
		c.fail("11", "%d ends while it holds the engine", w.id)
	}
	if w == done && e.Kind == Done && (e.Finish == FinishStop || e.Finish == FinishLength) && a.Kind == Fail && !w.gone && !w.enough {
		c.fail("drain", "%d finished and is failed", w.id)
	}
	w.state = StateEnded
	c.ended++
	delete(c.reqs, w.id)
	for i, id := range c.order {
		if id == w.id {
			c.order = append(c.order[:i], c.order[i+1:]...)
			break
		}
	}
}
