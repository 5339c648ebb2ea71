package loop

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"interlude/engine"
	"interlude/sched"
)

// EngineState is how the engine stands.
type EngineState string

// The states of the engine.
const (
	StateUnloaded EngineState = "unloaded" // never loaded, or unloaded on purpose
	StateLoading  EngineState = "loading"
	StateReady    EngineState = "ready"
	StateDraining EngineState = "draining" // it is being shut down
	StateDown     EngineState = "dead"     // it died or did not come up; a request or /load brings it up
)

// Health is what can be said without asking the loop, so that it is answered
// under any load.
type Health struct {
	State    EngineState
	Info     engine.Info   // of the last engine that was ready; nil before
	Context  int           // tokens, of the same
	Pid      int           // 0: no process
	Epoch    int           // counts engine processes
	Progress uint64        // lines read from engines: stands still when the engine hangs
	Silent   time.Duration // since the last line, or since READY; 0 without an engine
	Err      string        // why the last engine died or did not come up
}

// Alive says that the engine is loading or ready: what waits may hope.
func (h Health) Alive() bool { return h.State == StateReady || h.State == StateLoading }

// health is written by the loop and read by anyone.
type health struct {
	fixed    atomic.Pointer[Health] // all but Progress and Silent
	progress atomic.Uint64
	lastLine atomic.Int64 // since the origin
}

func (l *Loop) tell(s EngineState) {
	h := Health{State: s, Epoch: l.epoch}
	if old := l.health.fixed.Load(); old != nil {
		h.Info, h.Context = old.Info, old.Context
	}
	if l.conn != nil {
		h.Info, h.Context, h.Pid = l.conn.Info(), l.conn.Context(), l.conn.Pid()
	}
	if l.lastErr != nil {
		h.Err = l.lastErr.Error()
	}
	l.health.fixed.Store(&h)
}

// sawLines counts lines of the engine.
func (l *Loop) sawLines(n int) {
	l.health.progress.Add(uint64(n))
	l.health.lastLine.Store(int64(time.Since(l.origin)))
}

// Health returns how the engine stands. It never waits.
func (l *Loop) Health() Health {
	p := l.health.fixed.Load()
	if p == nil {
		return Health{State: StateUnloaded}
	}
	h := *p
	h.Progress = l.health.progress.Load()
	if h.Pid != 0 {
		h.Silent = time.Since(l.origin) - time.Duration(l.health.lastLine.Load())
	}
	return h
}

// Counters only grow.
type Counters struct {
	sched.Counters
	Strays    uint64 // lines that no GEN asked for
	Malformed uint64 // lines that break the protocol
	Loads     uint64 // engines that became ready
}

// RequestStatus is one live request.
type RequestStatus struct {
	Label    string
	State    sched.State
	Output   int // tokens emitted
	Parks    int
	Priority int
	Place    int // waiting: place in the queue, 1 is next
}

// Status is a consistent snapshot.
type Status struct {
	Health
	Waiting, Running, Parked int
	Requests                 []RequestStatus // by arrival
	Counters                 Counters
	Truncated                bool // the journal lost events
}

// Status asks the loop for a snapshot.
func (l *Loop) Status(ctx context.Context) (Status, error) {
	answer := make(chan Status, 1)
	l.inbox.put(func(l *Loop) { answer <- l.status() })
	select {
	case s := <-answer:
		return s, nil
	case <-l.ended:
		return Status{}, fmt.Errorf("status: %w", ErrClosed)
	case <-ctx.Done():
		return Status{}, fmt.Errorf("status: %w", context.Cause(ctx))
	}
}

func (l *Loop) status() Status {
	s := Status{Health: l.Health(), Counters: l.counters, Truncated: l.journal.truncated()}
	s.Counters.Counters = l.machine.Counters()
	for i, n := range l.counters.Cancels {
		s.Counters.Cancels[i] -= n
	}
	s.Waiting, s.Running, s.Parked = l.machine.Load()
	for _, r := range l.order {
		s.Requests = append(s.Requests, RequestStatus{Label: r.spec.Label, State: l.machine.State(r.id), Output: r.stats.Output,
			Parks: r.stats.Parks, Priority: r.spec.Priority, Place: l.machine.Place(r.id)})
	}
	return s
}
