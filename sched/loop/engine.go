package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"interlude/engine"
	"interlude/engine/process"
	"interlude/sched"
)

// lastWords is how long a dying process may take to show its exit status and
// the lines still in its pipe before its requests are told.
const lastWords = 200 * time.Millisecond

// Engine is one engine process as the loop drives it: *process.Process in
// production, a pair of pipes in tests.
type Engine interface {
	Write(line []byte) error // queues one line; never blocks; copies it
	Batches() <-chan *process.Batch
	Info() engine.Info
	Context() int
	Pid() int
	Deaf() <-chan struct{} // closed once nothing can be written to it any more
	Exited() <-chan struct{}
	ExitErr() error // after Exited
	Quit(ctx context.Context) error
	Kill() error // returns when the process and all below it are gone
}

// Starter brings up one engine process: READY, or an error with its last words.
// ctx bounds the start, not the process.
type Starter func(ctx context.Context) (Engine, error)

// Process says which engine process to start, and how long it may take.
type Process = process.Options

// StartProcess starts real processes.
func StartProcess(o Process) Starter {
	return func(ctx context.Context) (Engine, error) {
		p, err := process.Start(ctx, o)
		if err != nil {
			return nil, err
		}
		return p, nil
	}
}

// write queues a line. An engine that cannot be written to says so by Deaf.
func (l *Loop) write(line []byte) {
	if l.conn == nil {
		return
	}
	if err := l.conn.Write(line); err != nil {
		l.log.Debug("write to the engine", "err", err)
	}
}

// load starts an engine on a goroutine of its own, after the previous process
// has gone: it still holds the card's memory.
func (l *Loop) load() {
	if l.conn != nil || l.loading != nil || l.closing {
		return
	}
	ctx, cancel := context.WithCancel(l.ctx)
	l.loading = cancel
	l.epoch++
	l.tell(StateLoading)
	previous, first := l.leaving, l.epoch == 1 && !l.cfg.Lazy
	l.leaving = nil
	l.workers.Go(func() {
		conn, err := l.bringUp(ctx, previous, first)
		l.inbox.put(func(l *Loop) { l.broughtUp(conn, err) })
	})
}

// bringUp makes up to 1 + Retries attempts, the very first load one: a
// configuration that does not work is told at once. It runs beside the loop.
func (l *Loop) bringUp(ctx context.Context, previous <-chan error, first bool) (conn Engine, err error) {
	if previous != nil {
		if err := <-previous; err != nil {
			return nil, fmt.Errorf("the previous engine does not end: %w", err)
		}
	}
	pause := l.scaled(l.cfg.Machine.Backoff)
	for attempt := 0; ; attempt++ {
		if conn, err = l.cfg.Start(ctx); err == nil {
			if err = l.accept(conn.Info()); err == nil {
				return conn, nil
			}
			return nil, errors.Join(err, conn.Quit(ctx))
		}
		l.log.Warn("the engine did not come up", "attempt", attempt+1, "err", err)
		if first || attempt >= l.cfg.Retries {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, errors.Join(err, context.Cause(ctx))
		}
		pause *= 2
	}
}

// accept refuses an engine that the configuration cannot be used with: only
// INFO tells, after the load.
func (l *Loop) accept(info engine.Info) error {
	m := l.cfg.Machine
	if n, ok := info.Int("batch_slots"); ok && n > 0 && m.Policy != sched.FIFO {
		return fmt.Errorf("solo_priority true and parallel: the engine announces batch_slots=%d; remove \"parallel\" (--batch) or set solo_priority to false", n)
	}
	if m.TimeScale != 0 && m.TimeScale != 1 && !info.Has(engine.KeyEmulated) {
		return fmt.Errorf("solo_time_scale %v: only for an engine whose INFO has %q; remove the key", m.TimeScale, engine.KeyEmulated)
	}
	return nil
}

func (l *Loop) broughtUp(conn Engine, err error) {
	l.loading()
	l.loading = nil
	if l.closing && conn != nil {
		l.conn = conn // tearDown ends it
		return
	}
	if err != nil {
		l.lastErr = err
		l.tell(StateDown)
		if l.epoch == 1 && !l.cfg.Lazy && !l.closing {
			l.fatal = err
			l.close()
		}
		l.step(sched.Event{Kind: sched.LoadFailed})
		l.loadAnswered(err)
		return
	}
	l.conn, l.batches, l.deaf, l.exited = conn, conn.Batches(), conn.Deaf(), conn.Exited()
	l.ledger = newLedger(conn.Info())
	l.lastErr = nil
	l.counters.Loads++
	l.sawLines(0)
	l.tell(StateReady)
	l.log.Info("engine ready", "pid", conn.Pid(), "context", conn.Context(), "info", conn.Info().String())
	able := engineOf(conn.Info())
	if able.CacheMiB <= 0 && able.Sequences < 2 && l.cfg.Machine.Policy != sched.FIFO {
		l.log.Warn("the engine's conversation cache is off: every park re-reads the whole conversation, and no read goes in slices; start it with --conversation-cache-mib")
	}
	l.step(sched.Event{Kind: sched.Loaded, Engine: able})
	l.loadAnswered(nil)
	l.watchIdle()
}

// engineOf is what the machine needs of INFO.
func engineOf(info engine.Info) sched.Engine {
	e := sched.Engine{ResumePrefill: info.Able(engine.KeyResumePrefill), Emulated: info.Has(engine.KeyEmulated)}
	e.PrefillChunk, _ = info.Int(engine.KeyPrefillChunk)
	e.Sequences, _ = info.Int(engine.KeySequences)
	e.CacheMiB, _ = info.Int(engine.KeyCacheMiB)
	return e
}

// read handles the lines that the engine printed at one moment.
func (l *Loop) read(b *process.Batch, ok bool) {
	if !ok {
		l.batches = nil
		l.parting("it closed its output and did not exit")
		return
	}
	epoch := l.epoch
	for i := range b.Replies {
		r := &b.Replies[i]
		if l.conn == nil || l.epoch != epoch {
			break // killed by what it said
		}
		l.reply(r)
	}
	if l.conn != nil {
		l.flush()
		l.sawLines(len(b.Replies))
	}
	b.Release()
}

// parting follows the end of the engine's input, of its output or of its process,
// whichever is seen first; the others are given a moment, so that no line is lost and
// the error says how it ended. why is for a process that lives on.
func (l *Loop) parting(why string) {
	if l.batches == nil && l.exited == nil {
		l.died(l.conn.ExitErr())
		return
	}
	epoch := l.epoch
	l.after(lastWords, func(l *Loop) {
		if l.conn == nil || l.epoch != epoch {
			return
		}
		if l.exited != nil {
			l.kill(errors.New("engine: " + why))
			return
		}
		l.died(l.conn.ExitErr())
	})
}

// kill ends the process; its requests need not wait for that.
func (l *Loop) kill(why error) {
	if l.conn == nil {
		return
	}
	l.died(why)
}

// died forgets the process. What it still says reaches nobody.
func (l *Loop) died(why error) {
	if why == nil {
		why = errors.New("the engine ended without being asked")
	}
	if g := &l.current; g.err != "" && !strings.Contains(why.Error(), g.err) {
		why = fmt.Errorf("ERR %s: %w", g.err, why)
	}
	l.log.Error("engine died", "err", why)
	conn := l.detach()
	l.dismiss(conn.Kill) // whatever is left of it
	l.lastErr = why
	l.tell(StateDown)
	l.step(sched.Event{Kind: sched.EngineDied})
}

// detach lets go of the process: nothing that it still says is read.
func (l *Loop) detach() Engine {
	conn := l.conn
	l.conn, l.batches, l.deaf, l.exited = nil, nil, nil, nil
	l.current = generation{}
	l.fresh, l.scored = l.fresh[:0], l.scored[:0]
	l.ledger = ledger{}
	return conn
}

// dismiss ends a process beside the loop. The next load waits for that.
func (l *Loop) dismiss(end func() error) {
	gone := make(chan error, 1)
	l.leaving = gone
	l.workers.Go(func() { gone <- end() })
}

// watchStall sets the timer that looks for a stall; lines that put the stall off
// leave it set, and it looks again.
func (l *Loop) watchStall() {
	if at := l.machine.StallAt(); at != 0 && (l.stallAt == 0 || at < l.stallAt) {
		l.stallAt = at
		l.stall.Reset(at - l.at)
	}
}

// stalled asks an engine that has said nothing for half of its limit to stop.
func (l *Loop) stalled() {
	l.stallAt = 0
	l.at = max(l.at, time.Since(l.origin))
	at := l.machine.StallAt()
	if at > l.at {
		l.watchStall()
		return
	}
	if r := l.current.req; at != 0 && r != nil {
		l.log.Warn("the engine says nothing; half of engine_silence_s is over", "request", r.spec.Label, "state", r.state.String(), "silent", l.Health().Silent)
		l.step(sched.Event{Kind: sched.Stalled, ID: r.id})
	}
}

func killText(r sched.Reason) string {
	switch r {
	case sched.ReasonSilent:
		return "it said nothing for longer than engine_silence_s allows"
	case sched.ReasonDrain:
		return "no DONE within the limit after STOP"
	}
	return r.String()
}

// scaled divides one of the machine's durations as the machine itself does.
func (l *Loop) scaled(d time.Duration) time.Duration {
	if s := l.cfg.Machine.TimeScale; s > 0 {
		return time.Duration(float64(d) / s)
	}
	return d
}
