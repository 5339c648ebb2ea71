package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"interlude/sched"
)

// ErrBusy refuses maintenance while requests live or another maintenance runs.
var ErrBusy = errors.New("requests are queued, running or parked")

// upkeep is one maintenance: from its question to the machine until it is over.
type upkeep struct {
	reload bool
	answer chan error // buffered
}

// Load brings the engine up if it is not, and waits for it.
func (l *Loop) Load(ctx context.Context) error {
	return l.ask(ctx, "load", func(l *Loop, answer chan error) {
		if l.conn != nil {
			answer <- nil
			return
		}
		l.loaders = append(l.loaders, answer)
		l.step(sched.Event{Kind: sched.LoadAsked})
	})
}

// Unload ends the engine. It is ErrBusy while a request waits, runs or is parked:
// a parked request is not idleness.
func (l *Loop) Unload(ctx context.Context) error {
	return l.ask(ctx, "unload", func(l *Loop, answer chan error) { l.askUpkeep(false, answer) })
}

// Restart ends the engine and brings it up again, under Unload's condition.
func (l *Loop) Restart(ctx context.Context) error {
	return l.ask(ctx, "restart", func(l *Loop, answer chan error) { l.askUpkeep(true, answer) })
}

// ask runs f on the loop's goroutine and waits for its answer.
func (l *Loop) ask(ctx context.Context, what string, f func(*Loop, chan error)) error {
	answer := make(chan error, 1)
	l.inbox.put(func(l *Loop) {
		if l.closing {
			answer <- ErrClosed
			return
		}
		f(l, answer)
	})
	var err error
	select {
	case err = <-answer:
	case <-l.ended:
		err = ErrClosed
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (l *Loop) askUpkeep(reload bool, answer chan error) {
	if l.upkeep != nil || l.loading != nil {
		answer <- ErrBusy
		return
	}
	l.upkeep = &upkeep{reload: reload, answer: answer}
	l.step(sched.Event{Kind: sched.MaintenanceAsked})
}

// upkeepOver answers whoever asked for the maintenance.
func (l *Loop) upkeepOver(err error) {
	if u := l.upkeep; u != nil {
		l.upkeep = nil
		u.answer <- err
	}
}

// beginUpkeep follows BeginMaintenance: the engine is idle and ours.
func (l *Loop) beginUpkeep() {
	l.inbox.put(func(l *Loop) {
		if l.conn == nil {
			l.endUpkeep(nil)
			return
		}
		conn := l.detach()
		l.tell(StateDraining)
		l.step(sched.Event{Kind: sched.EngineDied})
		l.dismiss(func() error {
			err := conn.Quit(l.ctx)
			l.inbox.put(func(l *Loop) { l.endUpkeep(err) })
			return err
		})
	})
}

func (l *Loop) endUpkeep(err error) {
	u := l.upkeep
	if l.loading == nil {
		l.tell(StateUnloaded)
	}
	if err == nil && u.reload && !l.closing {
		l.loaders = append(l.loaders, u.answer)
		l.upkeep = nil
		l.step(sched.Event{Kind: sched.MaintenanceOver})
		l.step(sched.Event{Kind: sched.LoadAsked})
		return
	}
	l.upkeepOver(err)
	l.step(sched.Event{Kind: sched.MaintenanceOver})
}

// loadAnswered tells whoever waits for the engine how its start went.
func (l *Loop) loadAnswered(err error) {
	for _, answer := range l.loaders {
		answer <- err
	}
	l.loaders = nil
}

// watchIdle starts the clock of idle_unload_s anew; what lives when it strikes
// starts it again by its end.
func (l *Loop) watchIdle() {
	if l.cfg.Idle > 0 && l.conn != nil {
		l.idle.Reset(l.cfg.Idle)
	}
}

// unloadIdle asks for an unload if nothing lives.
func (l *Loop) unloadIdle() {
	if l.conn != nil && len(l.requests) == 0 {
		l.log.Info("the engine is idle: unload", "after", l.cfg.Idle)
		l.askUpkeep(false, make(chan error, 1))
	}
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}
