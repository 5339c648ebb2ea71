package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"interlude/harness/liar"
	"interlude/results"
)

const ms = results.Stamp(time.Millisecond)

// ask is a streaming chat call; the body does not matter to a liar.
var ask = Call{Stream: true, Body: []byte(`{"stream":true}`)}

// inMemory runs f against a lying server, in virtual time and without a network:
// each write of the script is one read, and every stamp is exact.
func inMemory(t *testing.T, script liar.Script, f func(t *testing.T, c *Client, s *liar.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := liar.NewMemory()
		s := liar.Serve(m, script)
		defer s.Close()
		c := New(Options{BaseURL: s.URL, Dial: m.Dial, Base: time.Now().Add(-time.Second)})
		defer c.Close()
		f(t, c, s)
	})
}

// told is the record of one streaming request that is answered by the steps.
func told(t *testing.T, steps ...liar.Step) *results.Record {
	t.Helper()
	return toldCall(t, ask, steps...)
}

func toldCall(t *testing.T, call Call, steps ...liar.Step) *results.Record {
	t.Helper()
	var rec *results.Record
	inMemory(t, liar.Always(steps...), func(t *testing.T, c *Client, _ *liar.Server) {
		rec = c.Do(context.Background(), call)
	})
	return rec
}

// overTCP is a lying server behind a real socket.
func overTCP(t *testing.T, script liar.Script) (*Client, *liar.Server) {
	t.Helper()
	s, err := liar.Listen(script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	c := New(Options{BaseURL: s.URL})
	t.Cleanup(c.Close)
	return c, s
}

func wantOutcome(t *testing.T, rec *results.Record, want results.Outcome) {
	t.Helper()
	if rec.Outcome != want {
		t.Fatalf("outcome %q (error %q, faults %v), want %q", rec.Outcome, rec.Error, rec.Faults, want)
	}
}

// wantText is a completed answer with exactly this content.
func wantText(t *testing.T, rec *results.Record, want string) {
	t.Helper()
	wantOutcome(t, rec, results.Completed)
	if rec.Text != want {
		t.Fatalf("text %q, want %q", rec.Text, want)
	}
}

// after is a stamp relative to the moment of sending.
func after(t *testing.T, rec *results.Record, what string, at, want results.Stamp) {
	t.Helper()
	if at == 0 {
		t.Fatalf("%s never happened, want %d ms after sending", what, want/ms)
	}
	if got := at - rec.Sent; got != want {
		t.Errorf("%s came %.3f ms after sending, want %d ms", what, float64(got)/float64(ms), want/ms)
	}
}

// longestGap is the longest time between two chunks with output.
func longestGap(rec *results.Record) results.Stamp {
	var longest results.Stamp
	for i := 1; i < len(rec.Chunks); i++ {
		longest = max(longest, rec.Chunks[i].At-rec.Chunks[i-1].At)
	}
	return longest
}

// stall takes virtual time: it is called inside inMemory only.
func stall(d time.Duration) { <-time.After(d) }
