package loop

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"interlude/sched"
)

// TestParkInDecode: a short runs inside a long answer at an exact instant, and
// the long one's client never notices.
func TestParkInDecode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		l := running(t, Config{Machine: policy(sched.Quantum), Start: f.start})
		long := Spec{Prompt: prompt(501, 2000, 1), MaxNew: 4000}
		a := submit(t, l, long)
		var got answer
		done := make(chan struct{})
		go func() { defer close(done); got = collect(a) }()
		time.Sleep(7 * time.Second)
		short := Spec{Prompt: prompt(201, 20, 2), MaxNew: 50, OneShotAllowed: true}
		b := collect(submit(t, l, short))
		b.want(t, short)
		// The window under way when it arrived ends, then 200 ms of reading and one
		// window: 7.000 s lies at a window's edge.
		if b.first > 250*time.Millisecond {
			t.Errorf("first token after %v", b.first)
		}
		<-done
		got.want(t, long)
		if got.end.Stats.Parks != 1 || !slices.Contains(got.states, "parked") {
			t.Errorf("parks %d, states %v", got.end.Stats.Parks, got.states)
		}
		if got.end.Stats.Output != 2000 || got.end.Stats.Prompt != 501 {
			t.Errorf("stats %+v", got.end.Stats)
		}
	})
}
