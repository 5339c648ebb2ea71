package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"interlude/harness/liar"
	"interlude/results"
)

// The rows of section C: what is a success, how a stream ends, who hears of it.

// tenOf is ten tokens of an answer whose rest never comes.
var tenOf = liar.All(liar.Head(), liar.Role(), liar.Times(10, func(i int) liar.Step { return liar.Content(fmt.Sprint(i)) }))

func TestH45ErrorInsideA200(t *testing.T) {
	for name, steps := range map[string][]liar.Step{
		"event":            {liar.Head(), liar.Data(`{"error":{"code":500,"message":"boom"}}`), liar.End()},
		"then marker":      {liar.Head(), liar.Data(`{"error":{"code":500,"message":"boom"}}`), liar.Done(), liar.End()},
		"after tokens":     {tenOf, liar.Data(`{"error":{"message":"boom","type":"server_error"}}`), liar.Done(), liar.End()},
		"finish, then it":  {tenOf, liar.Finish("stop"), liar.Data(`{"error":{"message":"boom"}}`), liar.Done(), liar.End()},
		"a bare string":    {liar.Head(), liar.Data(`{"error":"boom"}`), liar.Done(), liar.End()},
		"named event":      {liar.Head(), liar.Named("error", `{"message":"boom"}`), liar.Done(), liar.End()},
		"after a comment":  {liar.Head(), liar.Comment("ping"), liar.Data(`{"error":{"message":"boom"}}`), liar.End()},
		"JSON, no stream":  {liar.Answer(200, `{"error":{"code":500,"message":"boom"}}`)},
		"the server holds": {liar.Head(), liar.Data(`{"error":{"message":"boom"}}`), liar.Hold()},
	} {
		t.Run(name, func(t *testing.T) {
			call := ask
			call.Silence = time.Second
			rec := toldCall(t, call, steps...)
			wantOutcome(t, rec, results.StreamError)
			if !strings.Contains(rec.Error, "boom") {
				t.Errorf("error %q does not carry the server's message", rec.Error)
			}
		})
	}
}

func TestH45NullErrorIsNone(t *testing.T) {
	wantText(t, told(t, liar.Head(), liar.Data(`{"error":null,"choices":[{"index":0,"delta":{"content":"a"}}]}`), liar.Rest(1)), "a")
}

func TestH46CleanTruncation(t *testing.T) {
	rec := told(t, tenOf, liar.End())
	wantOutcome(t, rec, results.Truncated)
	if rec.Text != "0123456789" {
		t.Errorf("text %q: what came before the cut is kept", rec.Text)
	}
}

func TestH48ServerKilledInMidStream(t *testing.T) {
	wantOutcome(t, told(t, tenOf, liar.Cut()), results.Truncated)
	c, _ := overTCP(t, liar.Always(tenOf, liar.Reset()))
	if rec := c.Do(t.Context(), ask); rec.Outcome != results.TransportError && rec.Outcome != results.Truncated {
		t.Errorf("outcome %q after a reset", rec.Outcome)
	}
}

func TestH48MarkerWithoutFinish(t *testing.T) {
	wantOutcome(t, told(t, tenOf, liar.Done(), liar.End()), results.Truncated)
}

// Sockets left open after the last answer hold nobody up; a rejection is no answer.
func TestH49OpenSocketsAndRejections(t *testing.T) {
	rec := told(t, tenOf, liar.Finish("stop"), liar.Done(), liar.Hold())
	wantText(t, rec, "0123456789")
	if got := rec.End - rec.Sent; got > 1000*ms {
		t.Errorf("the request took %d ms although its marker came at once", got/ms)
	}
	rec = told(t, liar.Answer(400, `{"error":{"message":"too long","type":"invalid_request_error"}}`))
	wantOutcome(t, rec, results.RefusedOutcome)
	if rec.Status != 400 || !strings.Contains(rec.Error, "too long") || rec.FirstToken != 0 {
		t.Errorf("status %d error %q first token %d", rec.Status, rec.Error, rec.FirstToken)
	}
}

func TestH50StrictTerminalState(t *testing.T) {
	steps := []liar.Step{tenOf, liar.Finish("stop")}
	wantOutcome(t, told(t, append(steps, liar.End())...), results.Truncated)
	inMemory(t, liar.Always(append(steps, liar.End())...), func(t *testing.T, c *Client, _ *liar.Server) {
		c.opt.NoDone = true // a target that says so in its file
		wantOutcome(t, c.Do(t.Context(), ask), results.Completed)
	})
}

// A slow consumer loses neither tokens nor the error at the end.
func TestH53ErrorReachesASlowConsumer(t *testing.T) {
	call := ask
	call.Watch = func(Moment) { time.Sleep(2 * time.Second) }
	rec := toldCall(t, call, tenOf, liar.Data(`{"error":{"message":"boom"}}`), liar.Cut())
	wantOutcome(t, rec, results.StreamError)
	if rec.Text != "0123456789" || rec.Error != "boom" {
		t.Errorf("text %q error %q", rec.Text, rec.Error)
	}
}

func TestH54SilentStreamHasALimit(t *testing.T) {
	call := ask
	call.Silence, call.Deadline = 30*time.Second, time.Hour
	rec := toldCall(t, call, liar.Head(), liar.Content("a"), liar.Content("b"), liar.Hold())
	wantOutcome(t, rec, results.Timeout)
	after(t, rec, "end", rec.End, 30_000*ms)
}

func TestH57CutToolCallIsNoAnswer(t *testing.T) {
	rec := told(t, liar.Head(), liar.Delta(`"tool_calls":[{"index":0,"id":"c1","function":{"name":"rm","arguments":"{\"a\":1}"}}]`), liar.Cut())
	wantOutcome(t, rec, results.Truncated)
	if rec.FinishReason != "" || len(rec.Tools) != 1 {
		t.Errorf("finish %q tools %v: kept as evidence, never as an end", rec.FinishReason, rec.Tools)
	}
}

func TestH58DeadlineCoversTheBody(t *testing.T) {
	slow := []liar.Step{liar.Head(), liar.Times(50, func(int) liar.Step { return liar.All(liar.Content("x"), liar.Pause(100*time.Millisecond)) }), liar.Rest(50)}
	call := ask
	call.Deadline = time.Minute
	wantText(t, toldCall(t, call, slow...), strings.Repeat("x", 50))
	call.Deadline = 3 * time.Second
	rec := toldCall(t, call, slow...)
	wantOutcome(t, rec, results.Timeout)
	if !strings.Contains(rec.Error, "deadline") {
		t.Errorf("error %q does not name the deadline", rec.Error)
	}
}

func TestH60NoEndlessDrain(t *testing.T) {
	rec := told(t, liar.Head(), liar.Content("a"), liar.Finish("stop"), liar.Done(), liar.Hold())
	wantText(t, rec, "a")
	if rec.End != rec.Terminal || len(rec.Faults) != 1 || rec.Faults[0] != "left_open" {
		t.Errorf("end %d terminal %d faults %v; want the end at the marker and the fault named", rec.End, rec.Terminal, rec.Faults)
	}
}

// H61, H62, H64: leaving early reaches the server at once.
func TestH61CancelReachesTheServer(t *testing.T) {
	c, s := overTCP(t, liar.Always(tenOf, liar.Hold()))
	ctx, cancel := context.WithCancelCause(t.Context())
	call := ask
	var left time.Time
	call.Watch = func(m Moment) {
		if m.Event == "token" && m.N == 10 {
			left = time.Now()
			cancel(ErrPlanned)
		}
	}
	rec := c.Do(ctx, call)
	wantOutcome(t, rec, results.Cancelled)
	wait, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	seen, err := s.AwaitLeft(wait, 1)
	if err != nil {
		t.Fatalf("the server never saw the client leave: %v", err)
	}
	if d := seen.Sub(left); d > 100*time.Millisecond {
		t.Errorf("the server saw it %v later", d)
	}
}

func TestH62CancelClosesTheSocketOfAWaitingStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := liar.NewMemory()
		s := liar.Serve(m, liar.Always(liar.Hold())) // not even headers
		defer s.Close()
		c := New(Options{BaseURL: s.URL, Dial: m.Dial})
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			time.Sleep(time.Second)
			cancel(ErrPlanned)
		}()
		rec := c.Do(ctx, ask)
		wantOutcome(t, rec, results.Cancelled)
		if at, err := s.AwaitLeft(t.Context(), 1); err != nil || time.Since(at) != 0 {
			t.Errorf("left at %v, %v", at, err)
		}
	})
}

func TestH64LeavingAtTokenTen(t *testing.T) {
	inMemory(t, liar.Always(liar.Head(), liar.Times(2000, func(int) liar.Step { return liar.All(liar.Content("x"), liar.Pause(10*time.Millisecond)) }), liar.Rest(2000)),
		func(t *testing.T, c *Client, s *liar.Server) {
			ctx, cancel := context.WithCancelCause(t.Context())
			call := ask
			call.Watch = func(m Moment) {
				if m.N == 10 {
					cancel(ErrPlanned)
				}
			}
			rec := c.Do(ctx, call)
			wantOutcome(t, rec, results.Cancelled)
			if len(rec.Chunks) < 10 || len(rec.Chunks) > 11 {
				t.Errorf("%d chunks, want 10 or the one already on its way", len(rec.Chunks))
			}
			time.Sleep(20 * time.Millisecond)
			if s.Open() != 0 {
				t.Errorf("the server still works for %d clients that left", s.Open())
			}
		})
}

// A cancelled request's connection is never used again for the next one.
func TestH65NextRequestAfterACancel(t *testing.T) {
	script := func(n int, _ *liar.Request) []liar.Step {
		if n == 0 {
			return []liar.Step{liar.Pause(2 * time.Second), liar.Head(), liar.Content("late"), liar.Rest(1)}
		}
		return []liar.Step{liar.Head(), liar.Content("hi"), liar.Rest(1)}
	}
	inMemory(t, script, func(t *testing.T, c *Client, s *liar.Server) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(ErrPlanned) })
		wantOutcome(t, c.Do(ctx, ask), results.Cancelled)
		rec := c.Do(t.Context(), ask)
		wantText(t, rec, "hi")
		after(t, rec, "first token", rec.FirstToken, 0)
		if s.Dialled() != 2 || *rec.Reused {
			t.Errorf("%d connections, reused %t; want a new one", s.Dialled(), *rec.Reused)
		}
	})
}

func TestH66ServerIgnoresDisconnects(t *testing.T) {
	inMemory(t, liar.Always(tenOf, liar.Pause(10*time.Minute)), func(t *testing.T, c *Client, _ *liar.Server) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(ErrPlanned) })
		rec := c.Do(ctx, ask)
		wantOutcome(t, rec, results.Cancelled)
		after(t, rec, "end", rec.End, 1000*ms)
	})
}

func TestH69NoSilentRetry(t *testing.T) {
	script := func(n int, _ *liar.Request) []liar.Step {
		if n == 0 {
			return []liar.Step{liar.Answer(429, `{"error":{"message":"busy"}}`, "Retry-After: 2")}
		}
		return []liar.Step{liar.Head(), liar.Content("hi"), liar.Rest(1)}
	}
	for _, stream := range []bool{true, false} {
		inMemory(t, script, func(t *testing.T, c *Client, s *liar.Server) {
			rec := c.Do(t.Context(), Call{Stream: stream, Body: []byte(`{}`)})
			wantOutcome(t, rec, results.RefusedOutcome)
			if rec.Status != 429 || !strings.Contains(rec.Error, "Retry-After 2") || len(s.Requests()) != 1 {
				t.Errorf("status %d error %q after %d requests", rec.Status, rec.Error, len(s.Requests()))
			}
		})
	}
}

// The server takes the request on a pooled connection and closes it unanswered:
// a transport that may send again would do so here.
func TestH70ResetIsNotSentAgain(t *testing.T) {
	for name, broken := range map[string][]liar.Step{
		"before headers":  {liar.Reset()},
		"after one event": {liar.Head(), liar.Content("a"), liar.Reset()},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := overTCP(t, func(n int, _ *liar.Request) []liar.Step {
				if n == 1 {
					return broken
				}
				return []liar.Step{liar.Head(), liar.Content("hi"), liar.Rest(1)}
			})
			wantText(t, c.Do(t.Context(), ask), "hi")
			rec := c.Do(t.Context(), ask)
			if rec.Outcome != results.TransportError && rec.Outcome != results.Truncated {
				t.Errorf("outcome %q", rec.Outcome)
			}
			if !*rec.Reused || len(s.Requests()) != 2 {
				t.Errorf("reused %t, %d requests at the server; want the pooled connection and one attempt", *rec.Reused, len(s.Requests()))
			}
		})
	}
}

// A pooled connection on which not one byte can be written: a transport that has
// a copy of the body would quietly send it on another one.
func TestH70NothingWrittenIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := liar.NewMemory()
		s := liar.Serve(m, liar.Always(liar.Head(), liar.Content("hi"), liar.Rest(1)))
		defer s.Close()
		var broken atomic.Bool
		c := New(Options{BaseURL: s.URL, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := m.Dial(ctx, network, addr)
			return breakable{conn, &broken}, err
		}})
		defer c.Close()
		wantText(t, c.Do(t.Context(), ask), "hi")
		synctest.Wait() // the connection is back in the pool
		broken.Store(true)
		rec := c.Do(t.Context(), ask)
		wantOutcome(t, rec, results.TransportError)
		if len(s.Requests()) != 1 || s.Dialled() != 1 || !*rec.Reused {
			t.Errorf("%d requests on %d connections, reused %t", len(s.Requests()), s.Dialled(), *rec.Reused)
		}
	})
}

// breakable is a connection that takes no byte once it is broken.
type breakable struct {
	net.Conn
	broken *atomic.Bool
}

func (b breakable) Write(p []byte) (int, error) {
	if b.broken.Load() {
		return 0, errors.New("broken pipe")
	}
	return b.Conn.Write(p)
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	rec := New(Options{BaseURL: "http://" + l.Addr().String()}).Do(t.Context(), ask)
	wantOutcome(t, rec, results.TransportError)
	if rec.Sent == 0 || rec.End == 0 || rec.Reused != nil {
		t.Errorf("sent %d end %d reused %v", rec.Sent, rec.End, rec.Reused)
	}
}

func TestRunEnds(t *testing.T) {
	inMemory(t, liar.Always(tenOf, liar.Hold()), func(t *testing.T, c *Client, _ *liar.Server) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(ErrCutOff) })
		wantOutcome(t, c.Do(ctx, ask), results.CutOff)
	})
}

// A cancel that comes after the end changes nothing.
func TestCancelAfterTheMarker(t *testing.T) {
	inMemory(t, liar.Always(tenOf, liar.Finish("stop"), liar.Done(), liar.Hold()), func(t *testing.T, c *Client, _ *liar.Server) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(ErrPlanned) })
		wantOutcome(t, c.Do(ctx, ask), results.Completed)
	})
}

func TestKeyStaysInTheHeader(t *testing.T) {
	inMemory(t, liar.Always(liar.Answer(401, `{"error":{"message":"no"}}`)), func(t *testing.T, c *Client, s *liar.Server) {
		c.bearer = "Bearer sesame"
		rec := c.Do(t.Context(), ask)
		if got := s.Requests()[0].Header.Get("Authorization"); got != "Bearer sesame" {
			t.Errorf("Authorization %q", got)
		}
		if strings.Contains(fmt.Sprintf("%+v", rec), "sesame") {
			t.Error("the key is in the record")
		}
	})
}

func TestH118LocalhostIsDialledAs127(t *testing.T) {
	for in, want := range map[string]string{"localhost:80": "127.0.0.1:80", "[::1]:80": "[::1]:80", "example.org:443": "example.org:443"} {
		if got := loopback(in); got != want {
			t.Errorf("loopback(%s) = %s, want %s", in, got, want)
		}
	}
	s, err := liar.Listen(liar.Always(liar.Head(), liar.Content("hi"), liar.Rest(1)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wantText(t, New(Options{BaseURL: strings.Replace(s.URL, "127.0.0.1", "localhost", 1)}).Do(t.Context(), ask), "hi")
}

// A proxy variable of the environment must not stand between us and the server.
func TestNoProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	c, _ := overTCP(t, liar.Always(liar.Head(), liar.Content("hi"), liar.Rest(1)))
	if c.transport.Proxy != nil {
		t.Error("the transport asks the environment for a proxy")
	}
	wantText(t, c.Do(t.Context(), ask), "hi")
}

// A request goes out in one write: headers and body apart would cost a packet and
// blur the moment of sending.
func TestOneWriteARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := liar.NewMemory()
		s := liar.Serve(m, liar.Always(liar.Head(), liar.Content("hi"), liar.Rest(1)))
		defer s.Close()
		var writes atomic.Int32
		c := New(Options{BaseURL: s.URL, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := m.Dial(ctx, network, addr)
			return counted{conn, &writes}, err
		}})
		defer c.Close()
		wantText(t, c.Do(t.Context(), ask), "hi")
		if n := writes.Load(); n != 1 {
			t.Errorf("%d writes", n)
		}
	})
}

type counted struct {
	net.Conn
	writes *atomic.Int32
}

func (c counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}
