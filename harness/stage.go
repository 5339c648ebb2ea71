package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"interlude/harness/client"
	"interlude/results"
	"interlude/workloads"
)

// stage is where single requests are sent by hand, looked at, and waited for: the
// scenes of an injection and of the lifecycle.
type stage struct {
	srv      *server
	send     *sender
	prefix   string
	record   func(*results.Record)
	requests map[string]*workloads.Request
	flights  []*flight
	sent     map[string]bool // ids of requests that were begun
	patience time.Duration   // how long a scene may take to come about, and a request to end
}

func newStage(srv *server, send *sender, prefix string, reqs []workloads.Request, speed float64, record func(*results.Record)) stage {
	// Half a minute for the machine, three for the engine.
	patience := 30*time.Second + time.Duration(float64(3*time.Minute)/speed)
	s := stage{patience: patience, srv: srv, send: send, prefix: prefix, record: record, requests: map[string]*workloads.Request{}, sent: map[string]bool{}}
	for i := range reqs {
		s.requests[reqs[i].ID] = &reqs[i]
	}
	return s
}

// flight is one request of a scene, from its start to its record. What is seen of
// it meanwhile comes from its own stream and from the server's status.
type flight struct {
	request *workloads.Request
	id      string
	cancel  context.CancelCauseFunc
	done    chan struct{}
	rec     *results.Record // once done is closed

	mu     sync.Mutex
	state  string
	tokens int
	seen   map[string]bool
}

func (f *flight) sees(state string, tokens int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if state != "" {
		f.state = state
		f.seen[state] = true
	}
	f.tokens = max(f.tokens, tokens)
}

func (f *flight) is(state string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state == state
}

// out is how many tokens were seen.
func (f *flight) out() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tokens
}

func (f *flight) has(tokens int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tokens >= tokens
}

// ready makes sure that a live engine waits for work.
func (s *stage) ready(ctx context.Context) error {
	asked := false
	return s.until(ctx, "the server is ready", func() bool {
		if s.isReady(ctx) {
			return true
		}
		if !asked {
			asked = true
			_, _, _ = s.srv.observer.Post(ctx, "/load", nil) // a server without it loads by itself, or is not ready in time
		}
		return false
	})
}

func (s *stage) isReady(ctx context.Context) bool {
	r := s.srv.target.Ready
	got, err := s.srv.observer.Value(ctx, r.Path, r.Pointer)
	return err == nil && (r.Want == nil || got == r.Want)
}

// until polls for something that can be observed.
func (s *stage) until(ctx context.Context, what string, ok func() bool) error {
	limit := time.NewTimer(s.patience)
	defer limit.Stop()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for {
		if ok() {
			return nil
		}
		select {
		case <-poll.C:
		case <-limit.C:
			return fmt.Errorf("never seen within %v: %s", s.patience, what)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// see is until for the flights, which may end too early.
func (s *stage) see(ctx context.Context, what string, ok func() bool) error {
	return s.until(ctx, what, func() bool {
		s.look(ctx)
		return ok()
	})
}

// look asks the server for the states of its requests: one that does not stream
// shows nothing else, and a call is streamed in fewer pieces than it has tokens.
func (s *stage) look(ctx context.Context) {
	live := map[string]*flight{}
	for _, f := range s.flights {
		live[f.id] = f
	}
	if s.srv.target.Info == nil {
		return
	}
	_, body, err := s.srv.observer.Get(ctx, s.srv.target.Info.Path)
	var status struct {
		Requests []struct {
			ID     string `json:"id"`
			State  string `json:"state"`
			Output int    `json:"tokens_out"`
		} `json:"requests"`
	}
	if err != nil || json.Unmarshal(body, &status) != nil {
		return
	}
	for _, r := range status.Requests {
		if f := live[r.ID]; f != nil {
			state := r.State
			if state == "waiting" {
				state = workloads.AtQueued
			}
			f.sees(state, r.Output)
		}
	}
}

// start sends a request.
func (s *stage) start(ctx context.Context, id string, past ...turn) *flight {
	q := s.requests[id]
	f := &flight{request: q, id: s.prefix + q.ID, done: make(chan struct{}), seen: map[string]bool{}}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	f.cancel = cancel
	s.flights = append(s.flights, f)
	s.sent[id] = true
	due := s.srv.client.Now()
	go func() {
		defer close(f.done)
		defer cancel(nil)
		f.rec = s.send.do(ctx, f.id, append(past, turn{request: q}), func(m client.Moment) {
			switch m.Event {
			case workloads.AtToken:
				f.sees(workloads.AtDecoding, m.N)
			case workloads.AtQueued, workloads.AtReading, workloads.AtDecoding, workloads.AtParked:
				f.sees(m.Event, 0)
			}
		})
		f.rec.Due = due
	}()
	return f
}

// finish waits for a request that nothing happens to, and returns its turn.
func (s *stage) finish(ctx context.Context, f *flight) (turn, error) {
	limit := time.NewTimer(s.patience)
	defer limit.Stop()
	select {
	case <-f.done:
	case <-limit.C:
		return turn{}, fmt.Errorf("%s did not end within %v", f.request.ID, s.patience)
	case <-ctx.Done():
		return turn{}, context.Cause(ctx)
	}
	if !f.rec.Done() {
		return turn{}, fmt.Errorf("%s ended as %s: %s", f.request.ID, f.rec.Outcome, f.rec.Error)
	}
	return turn{request: f.request, answer: f.rec}, nil
}
