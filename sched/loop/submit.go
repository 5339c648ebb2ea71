package loop

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"interlude/engine"
	"interlude/sched"
)

// Submit hands a request to the machine and returns it once it is accepted. The
// error is a *Rejected: it can never fit, the queue is full, or the loop closes.
func (l *Loop) Submit(s Spec) (*Request, error) {
	if len(s.Prompt) == 0 || s.MaxNew < 1 {
		return nil, &Rejected{Status: 400, Message: fmt.Sprintf("prompt of %d tokens, budget %d: both must be at least 1", len(s.Prompt), s.MaxNew)}
	}
	if n := l.Health().Context; n > 0 && len(s.Prompt)+s.MaxNew+engine.Slack > n {
		return nil, &Rejected{Status: 400, Message: fmt.Sprintf("prompt (%d tokens) + budget (%d) exceeds the context (%d)", len(s.Prompt), s.MaxNew, n)}
	}
	r := &Request{loop: l, spec: s, params: s.Params, ids: slices.Grow(slices.Clone(s.Prompt), min(s.MaxNew, 4096))}
	r.spec.Prompt = r.ids[:len(s.Prompt):len(s.Prompt)] // one copy a request, the loop's
	r.buf.notify = make(chan struct{}, 1)
	if l.cfg.Machine.Policy != sched.FIFO && r.params.Temperature > 0 && r.params.Seed == 0 {
		// A sampled request may be split: every GEN of it must draw alike.
		r.params.Seed = 1 + rand.Uint64N(1<<31-1)
	}
	answer := make(chan *Rejected, 1)
	l.inbox.put(func(l *Loop) { answer <- l.arrive(r) })
	select {
	case no := <-answer:
		if no != nil {
			return nil, no
		}
		return r, nil
	case <-l.ended:
		return nil, &Rejected{Status: 503, Message: ErrClosed.Error()}
	}
}

// arrive estimates what must be read and lets the machine queue, refuse or start
// the request.
func (l *Loop) arrive(r *Request) *Rejected {
	if l.closing {
		return &Rejected{Status: 503, Message: ErrClosed.Error()}
	}
	l.lastID++
	r.id = l.lastID
	s := &r.spec
	p := r.prefix(r.ids)
	r.estimate = len(p.ids) - l.ledger.reusable(p)
	l.at = max(l.at, time.Since(l.origin))
	r.arrived = l.at
	l.requests[r.id] = r
	l.order = append(l.order, r)
	l.idle.Stop()
	l.step(sched.Event{Kind: sched.Arrive, ID: r.id, Request: sched.Request{
		Priority: s.Priority, Explicit: s.Explicit,
		Prompt: len(s.Prompt), Unread: r.estimate, MaxNew: s.MaxNew,
		OneShot:     s.OneShotAllowed && !s.keeps() && r.estimate <= l.cfg.Machine.SmallPrompt && !l.ledger.shares(p, s.SystemRoot),
		Protected:   s.Image != "" || s.Params.NoCheckpoint,
		PrefillOnly: s.PrefillOnly, Image: s.Image != "",
	}})
	if r.rejected != sched.ReasonNone {
		return &Rejected{Status: 429, Reason: r.rejected, RetryAfter: l.retryAfter(),
			Message: fmt.Sprintf("the queue is full: %d requests wait (solo_queue)", l.cfg.Machine.Queue)}
	}
	if d := l.scaled(l.cfg.Machine.QueueTimeout); d > 0 && l.requests[r.id] != nil && !r.started {
		r.timeout = time.AfterFunc(d, func() {
			l.inbox.put(func(l *Loop) { l.step(sched.Event{Kind: sched.TimedOut, ID: r.id}) })
		})
	}
	return nil
}

// retryAfter is how long one of the waiting requests ahead is likely to need.
func (l *Loop) retryAfter() time.Duration {
	return min(max(l.served, time.Second), time.Minute).Round(time.Second)
}

// leaveQueue notes that the request's first GEN is written.
func (r *Request) leaveQueue(now time.Duration) {
	if r.started {
		return
	}
	r.started = true
	r.stats.Queued = now - r.arrived
	if r.timeout != nil {
		r.timeout.Stop()
	}
}

// told passes a change of state on to the client at once.
func (l *Loop) told(a sched.Action) {
	r := l.requests[a.ID]
	if r == nil {
		return
	}
	if r.state == sched.StateParked {
		r.stats.Parked += l.at - r.parkedAt
	}
	r.state = a.State
	u := Update{Kind: KindState, State: a.State, Resumed: a.Resume, N: a.N}
	switch a.State {
	case sched.StateParked:
		r.parkedAt = l.at
		r.stats.Parks++
	case sched.StateReading:
		u.Total = len(r.ids)
	}
	r.tell(u)
}

// reading passes on how far the prompt has been read; a slice counts over the
// whole of it.
func (l *Loop) reading(g *generation) {
	if r := g.req; r != nil && r.state == sched.StateReading {
		r.tell(Update{Kind: KindState, State: sched.StateReading, N: g.pos, Total: len(r.ids)})
	}
}

func (r *Request) tell(u Update) {
	if !r.left.Load() {
		r.buf.told(u)
	}
}

// fail ends a request for a reason that the machine does not know: to the
// machine its client left, which status() takes out of the count again.
func (l *Loop) fail(r *Request, fate sched.Reason, err error) {
	if r.failure != nil {
		return
	}
	r.failure, r.fate = err, fate
	state := l.machine.State(r.id)
	left := l.machine.Counters().Cancels[state]
	l.step(sched.Event{Kind: sched.Cancel, ID: r.id})
	l.counters.Cancels[state] += l.machine.Counters().Cancels[state] - left
}

// end tells a request's end to its client and forgets it.
func (l *Loop) end(r *Request, why sched.Reason) {
	if r.timeout != nil {
		r.timeout.Stop()
	}
	switch {
	case !r.started:
		r.stats.Queued = l.at - r.arrived
	case r.state == sched.StateParked:
		r.stats.Parked += l.at - r.parkedAt
	default:
		l.served = (3*l.served + l.at - r.arrived - r.stats.Queued) / 4
	}
	r.stats.Prompt = len(r.spec.Prompt)
	r.state, r.rejected = sched.StateEnded, sched.ReasonNone
	delete(l.requests, r.id)
	l.order = slices.DeleteFunc(l.order, func(x *Request) bool { return x == r })
	if why == sched.ReasonQueueFull {
		r.rejected = why
		return
	}
	r.buf.close(&End{Reason: cmp.Or(r.fate, why), Finish: r.finish, Err: l.failure(r, why), Stats: r.stats})
	l.watchIdle()
}

// failure is the error that the client of a request sees; nil when it ended well.
func (l *Loop) failure(r *Request, why sched.Reason) error {
	if r.failure != nil {
		return r.failure
	}
	switch why {
	case sched.ReasonStop, sched.ReasonLength, sched.ReasonPrefilled:
		return nil
	case sched.ReasonCancelled:
		return errLeft
	case sched.ReasonQueueTimeout:
		return fmt.Errorf("queued for %v without a start (solo_queue_timeout_s)", l.scaled(l.cfg.Machine.QueueTimeout))
	case sched.ReasonEngineDied:
		return fmt.Errorf("%w; the next request restarts it", l.lastErr)
	case sched.ReasonLoadFailed:
		return fmt.Errorf("the engine did not start: %w", l.lastErr)
	}
	return fmt.Errorf("the engine ended the answer with %q", why)
}

var errLeft = errors.New("the client left")
