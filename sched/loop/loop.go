package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"interlude/engine"
	"interlude/engine/process"
	"interlude/sched"
)

// Config is what a Loop is told beforehand.
type Config struct {
	Machine sched.Config
	Start   Starter       // brings up one engine process
	Journal string        // file of every event and action; empty: none
	Idle    time.Duration // unload after this long without a request; 0: never
	Lazy    bool          // load with the first request instead of at once
	Retries int           // further attempts of a load that failed; they wait Machine.Backoff, doubled each time
	Grace   time.Duration // for running requests when the loop closes; 0: 20 s
	Logger  *slog.Logger  // nil: none
}

// ErrClosed ends what is live when the loop closes.
var ErrClosed = errors.New("the server is shutting down")

// Loop owns one Machine and one engine at a time. Everything below the line is
// touched by the goroutine of Run alone.
type Loop struct {
	cfg    Config
	log    *slog.Logger
	origin time.Time
	inbox  inbox
	health health
	ended  chan struct{} // Run has returned

	// --- owned by Run ---
	machine  *sched.Machine
	actions  []sched.Action
	at       time.Duration // of the event being handled; never decreases
	requests map[sched.ID]*Request
	order    []*Request // live requests, by arrival
	lastID   sched.ID
	current  generation
	serial   uint64
	line     []byte
	fresh    []int32 // tokens read and not yet handed on
	scored   []engine.Logprob
	ledger   ledger
	counters Counters // the machine has the others; Cancels here are those of fail
	journal  *journal
	wake     *time.Timer // the machine's WakeAt
	idle     *time.Timer
	stall    *time.Timer    // for the machine's StallAt
	stallAt  time.Duration  // what it is set to; 0: not set
	workers  sync.WaitGroup // goroutines that answer through the inbox

	conn    Engine // nil: no engine
	batches <-chan *process.Batch
	deaf    <-chan struct{} // it cannot be written to
	exited  <-chan struct{}
	leaving <-chan error // of the previous process: it is gone, or does not end
	epoch   int          // counts processes
	loading context.CancelFunc
	lastErr error        // why the engine died or did not come up
	upkeep  *upkeep      // the one maintenance that is asked for or runs
	loaders []chan error // who waits for the engine to come up
	closing bool
	limit   <-chan time.Time // how long closing may take
	fatal   error            // ends Run
	letters []func(*Loop)
	served  time.Duration // smoothed time from start to end of a request
	ctx     context.Context
	abandon context.CancelCauseFunc
}

// New returns a loop that Run starts. The machine's configuration must be valid.
func New(cfg Config) *Loop {
	l := &Loop{cfg: cfg, log: cfg.Logger, origin: time.Now(), ended: make(chan struct{}),
		machine: sched.New(cfg.Machine), requests: map[sched.ID]*Request{}}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if l.cfg.Grace == 0 {
		l.cfg.Grace = 20 * time.Second
	}
	l.inbox.wake = make(chan struct{}, 1)
	return l
}

// Run does everything until ctx ends, then lets what runs end, and leaves no
// process and no goroutine behind. It fails only where the journal cannot be opened,
// the first load fails without Lazy, or requests outlast Grace.
func (l *Loop) Run(ctx context.Context) (err error) {
	defer close(l.ended)
	if l.cfg.Journal != "" {
		if l.journal, err = openJournal(l.cfg.Journal, l.cfg.Machine); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, l.journal.close()) }()
	}
	// What the loop starts outlives ctx: it ends with the engine, after the drain.
	l.ctx, l.abandon = context.WithCancelCause(context.WithoutCancel(ctx))
	defer l.abandon(ErrClosed)
	l.wake, l.idle, l.stall = stoppedTimer(), stoppedTimer(), stoppedTimer()
	defer l.wake.Stop()
	defer l.idle.Stop()
	defer l.stall.Stop()
	if !l.cfg.Lazy {
		l.step(sched.Event{Kind: sched.LoadAsked})
	}
	done := ctx.Done()
	for !l.closing || !l.quiet() {
		select {
		case b, ok := <-l.batches:
			l.read(b, ok)
		case <-l.exited:
			l.exited = nil
			l.parting("")
		case <-l.deaf:
			l.deaf = nil
			l.parting("it closed its input and did not exit")
		case <-l.inbox.wake:
			l.mail()
		case <-l.wake.C:
			l.step(sched.Event{Kind: sched.Wake})
		case <-l.idle.C:
			l.unloadIdle()
		case <-l.stall.C:
			l.stalled()
		case <-done:
			done = nil
			l.close()
		case <-l.limit:
			return errors.Join(fmt.Errorf("close: requests still ran after %v", l.cfg.Grace), l.tearDown())
		}
	}
	return errors.Join(l.fatal, l.tearDown())
}

// close lets what runs end: a STOP where one is due, then DONE, then QUIT.
func (l *Loop) close() {
	if l.closing {
		return
	}
	l.closing = true
	l.tell(StateDraining)
	l.limit = time.After(l.cfg.Grace)
	if l.loading != nil {
		l.loading()
	}
	for _, r := range slices.Clone(l.order) {
		l.fail(r, sched.ReasonCancelled, ErrClosed)
	}
}

// quiet says that nothing runs: no request lives, no GEN is open, no engine is
// coming up.
func (l *Loop) quiet() bool {
	return len(l.requests) == 0 && l.current.req == nil && l.loading == nil && l.upkeep == nil
}

// tearDown ends the engine and whatever still waits for an answer.
func (l *Loop) tearDown() error {
	l.abandon(ErrClosed)
	for _, r := range slices.Clone(l.order) {
		r.failure = cmp.Or(r.failure, ErrClosed)
		l.end(r, sched.ReasonCancelled)
	}
	var err error
	if l.conn != nil {
		err = l.conn.Quit(context.WithoutCancel(l.ctx))
		l.conn = nil
	}
	l.workers.Wait()
	l.mail() // answers that came too late, a process among them
	l.upkeepOver(ErrClosed)
	l.loadAnswered(ErrClosed)
	return err
}

// mail runs what other goroutines have put into the inbox.
func (l *Loop) mail() {
	l.letters = l.inbox.take(l.letters)
	for i, f := range l.letters {
		f(l)
		l.letters[i] = nil
	}
}

// after runs f on the loop's goroutine when d has passed.
func (l *Loop) after(d time.Duration, f func(*Loop)) {
	time.AfterFunc(d, func() { l.inbox.put(f) })
}

// step stamps one event, lets the machine decide, and performs what it decided.
func (l *Loop) step(e sched.Event) {
	l.at = max(l.at, time.Since(l.origin))
	e.At, e.Epoch = l.at, l.epoch
	l.actions = l.machine.Step(e, l.actions[:0])
	l.journal.step(e, l.actions)
	for _, a := range l.actions {
		l.perform(a)
	}
	l.watchStall()
}

// perform does one thing that the machine decided. It never waits and never
// steps the machine: what follows comes back as an event.
func (l *Loop) perform(a sched.Action) {
	switch a.Kind {
	case sched.Start:
		l.start(a)
	case sched.Stop:
		l.stop(a.ID)
	case sched.EndWell, sched.Fail, sched.Reject:
		if r := l.requests[a.ID]; r != nil {
			l.end(r, a.Reason)
		} else if a.ID == 0 {
			l.upkeepOver(ErrBusy)
		}
	case sched.Load:
		l.load()
	case sched.Kill:
		epoch, why := l.epoch, fmt.Errorf("engine killed: %s", killText(a.Reason))
		l.inbox.put(func(l *Loop) {
			if l.epoch == epoch {
				l.kill(why)
			}
		})
	case sched.WakeAt:
		l.wake.Reset(max(0, a.At-l.at))
	case sched.BeginMaintenance:
		l.beginUpkeep()
	case sched.Told:
		l.told(a)
	case sched.Settled:
		// the machine's own counters sum it; the journal holds each
	}
}
