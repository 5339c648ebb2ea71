package loop

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"interlude/sched"
)

// later runs collect beside the test.
func later(r *Request) <-chan answer {
	c := make(chan answer, 1)
	go func() { c <- collect(r) }()
	return c
}

func TestCancelInEveryState(t *testing.T) {
	other := Spec{Prompt: prompt(301, 100, 7), MaxNew: 200}
	long := Spec{Prompt: prompt(2001, 2000, 1), MaxNew: 4000}
	sooner := Spec{Prompt: prompt(301, 1000, 2), MaxNew: 2000, Priority: 5, Explicit: true}
	tests := []struct {
		name     string
		policy   string
		first    *Spec         // runs before the one that is cancelled
		at       time.Duration // cancel, after the submission
		meet     *Spec         // arrives at 6 s and parks the victim
		commands string        // up to the other client's GEN
		freed    time.Duration // the other client's GEN at the latest, after the cancel
		state    sched.State
	}{
		{"S2QueuedClientLeft", sched.FIFO, &sooner, 2 * time.Second, nil, "GEN2 GEN7", time.Minute, sched.StateWaiting},
		{"before RESUME", sched.FIFO, nil, 0, nil, "GEN1 STOP GEN7", 100 * time.Millisecond, sched.StateReading},
		{"S5LeftDuringRead", sched.FIFO, nil, time.Second + 50*time.Millisecond, nil, "GEN1 STOP GEN7", 50 * time.Millisecond, sched.StateReading},
		{"in a slice", sched.Budget, nil, 1550 * time.Millisecond, nil, "GEN1 GEN1 STOP GEN7", 100 * time.Millisecond, sched.StateReading},
		{"S1 S8 LeftDuringDecode", sched.FIFO, nil, 3*time.Second + 10*time.Millisecond, nil, "GEN1 STOP GEN7", 25 * time.Millisecond, sched.StateDecoding},
		{"in the drain", sched.Quantum, nil, 6*time.Second + 10*time.Millisecond, &sooner, "GEN1 STOP GEN2 GEN7", time.Minute, sched.StateStopping},
		{"parked", sched.Quantum, nil, 8 * time.Second, &sooner, "GEN1 STOP GEN2 GEN7", time.Minute, sched.StateParked},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.info["prefill_chunk"] = "500"
				m := policy(test.policy)
				m.ReadSlice = 1000
				l := running(t, Config{Machine: m, Start: f.start})
				synctest.Wait()
				if test.first != nil {
					defer func(c <-chan answer) { (<-c).want(t, *test.first) }(later(submit(t, l, *test.first)))
				}
				victim := submit(t, l, long)
				gone := later(victim)
				if test.meet != nil {
					time.Sleep(6*time.Second + 5*time.Millisecond)
					defer func(c <-chan answer) { (<-c).want(t, *test.meet) }(later(submit(t, l, *test.meet)))
					time.Sleep(test.at - 6*time.Second - 5*time.Millisecond)
				} else {
					time.Sleep(test.at)
				}
				s, err := l.Status(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				if got := s.Requests[len(s.Requests)-1-btoi(test.meet != nil)].State; got != test.state {
					t.Fatalf("state %v at the cancel, want %v", got, test.state)
				}
				victim.Cancel()
				cancelled := time.Now()
				o := later(submit(t, l, other))
				v := <-gone
				if v.end.Reason != sched.ReasonCancelled || v.end.Err == nil {
					t.Errorf("the one that left ended %+v", v.end)
				}
				(<-o).want(t, other)
				if d := f.heard[len(f.heard)-1].at.Sub(cancelled); d > test.freed {
					t.Errorf("the engine was free after %v, want %v", d, test.freed)
				}
				if got := f.commands(); got != test.commands {
					t.Errorf("engine heard %s, want %s", got, test.commands)
				}
			})
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestS6CancelIsScoped: a queued client that leaves does not touch the active one.
func TestS6CancelIsScoped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		l := running(t, Config{Machine: policy(sched.Quantum), Start: f.start})
		a := Spec{Prompt: prompt(101, 400, 1), MaxNew: 500}
		active := later(submit(t, l, a))
		time.Sleep(time.Second)
		submit(t, l, Spec{Prompt: prompt(101, 400, 2), MaxNew: 500}).Cancel()
		(<-active).want(t, a)
		if got := f.commands(); got != "GEN1" {
			t.Errorf("engine heard %s", got)
		}
	})
}

// TestS13CancelInTheFinalStep: a cancel that races the last token has exactly one
// outcome, whichever it is.
func TestS13CancelInTheFinalStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		l := running(t, Config{Machine: policy(sched.Quantum), Start: f.start})
		s := Spec{Prompt: prompt(11, 4, 1), MaxNew: 50}
		outcomes := map[sched.Reason]int{}
		for i := range 1000 {
			r := submit(t, l, s)
			c := later(r)
			// RESUME at 0, the read takes 10 ms, windows end at 35 and 60 ms.
			time.Sleep(time.Duration(30+i%31) * time.Millisecond)
			r.Cancel()
			a := <-c
			outcomes[a.end.Reason]++
			if u, err := r.Next(context.Background()); err != nil || u.Kind != KindEnd || u.End != a.end {
				t.Fatalf("after the end: %+v %v", u, err)
			}
		}
		if outcomes[sched.ReasonCancelled]+outcomes[sched.ReasonStop] != 1000 || outcomes[sched.ReasonCancelled] == 0 {
			t.Errorf("outcomes %v", outcomes)
		}
		st, _ := l.Status(context.Background())
		if st.Counters.Accepted != 1000 || st.Counters.Ended != 1000 || len(st.Requests) != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestCancelDuringReload: who leaves while the engine comes up is forgotten; the
// others are served.
func TestCancelDuringReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		slow := func(ctx context.Context) (Engine, error) {
			time.Sleep(3 * time.Second)
			return f.start(ctx)
		}
		l := running(t, Config{Machine: policy(sched.Quantum), Start: slow, Lazy: true})
		a := submit(t, l, Spec{Prompt: prompt(101, 10, 1), MaxNew: 20})
		s := Spec{Prompt: prompt(101, 10, 2), MaxNew: 20}
		b := later(submit(t, l, s))
		time.Sleep(time.Second)
		a.Cancel()
		if got := collect(a); got.end.Reason != sched.ReasonCancelled || got.at != 0 {
			t.Errorf("%+v after %v", got.end, got.at)
		}
		(<-b).want(t, s)
		if got := f.commands(); got != "GEN2" {
			t.Errorf("engine heard %s", got)
		}
	})
}

// TestCancelBetweenDoneAndGen: the next in the queue leaves at the very instant
// at which the engine is free. Whoever wins, nobody else notices.
func TestCancelBetweenDoneAndGen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		l := running(t, Config{Machine: policy(sched.FIFO), Start: f.start})
		for range 200 {
			a := submit(t, l, Spec{Prompt: prompt(11, 4, 1), MaxNew: 50})
			b := submit(t, l, Spec{Prompt: prompt(5001, 4, 2), MaxNew: 50})
			s := Spec{Prompt: prompt(11, 4, 3), MaxNew: 50}
			c := submit(t, l, s)
			collect(a)
			b.Cancel()
			if got := collect(b); got.end.Reason != sched.ReasonCancelled || got.at > 100*time.Millisecond {
				t.Fatalf("%+v after %v", got.end, got.at)
			}
			collect(c).want(t, s)
		}
		for word := range strings.FieldsSeq(f.commands()) {
			switch word {
			case "GEN1", "GEN2", "GEN3", "STOP":
			default:
				t.Fatalf("engine heard %q", word)
			}
		}
	})
}

// TestS9StopStringStopsTheWindow: Enough ends the request within one window and
// as stop, not as cancelled.
func TestS9StopStringStopsTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		l := running(t, Config{Machine: policy(sched.Quantum), Start: f.start})
		r := submit(t, l, Spec{Prompt: prompt(101, 8000, 1), MaxNew: 8000})
		c := later(r)
		time.Sleep(time.Second + time.Millisecond)
		r.Enough()
		began := time.Now()
		a := <-c
		if a.end.Reason != sched.ReasonStop || a.end.Err != nil {
			t.Errorf("ended %+v", a.end)
		}
		if d := time.Since(began); d > 25*time.Millisecond {
			t.Errorf("ended after %v", d)
		}
	})
}

// TestS17QueueIsBounded: a thousand at once, the queue takes its limit and the
// rest is refused with 429 and a time to come back.
func TestS17QueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		m := policy(sched.Quantum)
		l := running(t, Config{Machine: m, Start: f.start})
		refused := 0
		var live []*Request
		for i := range 1000 {
			r, err := l.Submit(Spec{Prompt: prompt(11, 2, int32(i+1)), MaxNew: 4})
			var no *Rejected
			switch {
			case err == nil:
				live = append(live, r)
			case errors.As(err, &no) && no.Status == 429 && no.RetryAfter >= time.Second && strings.Contains(no.Message, "solo_queue"):
				refused++
			default:
				t.Fatal(err)
			}
		}
		if refused < 1000-m.Queue-1 || len(live) > m.Queue+1 {
			t.Errorf("%d accepted, %d refused", len(live), refused)
		}
		for _, r := range live {
			if a := collect(r); a.end.Err != nil {
				t.Error(a.end.Err)
			}
		}
	})
}

// TestS30QueueTimeout: what waits too long is told so and never reaches the engine.
func TestS30QueueTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		m := policy(sched.Quantum)
		m.QueueTimeout, m.TimeScale = 20*time.Second, 10
		f.info["emulated"] = "test"
		l := running(t, Config{Machine: m, Start: f.start})
		a := later(submit(t, l, Spec{Prompt: prompt(101, 400, 1), MaxNew: 500}))
		b := collect(submit(t, l, Spec{Prompt: prompt(101, 400, 2), MaxNew: 500}))
		if b.end.Reason != sched.ReasonQueueTimeout || b.at != 2*time.Second || !strings.Contains(b.end.Err.Error(), "2s") {
			t.Errorf("ended %+v after %v", b.end, b.at)
		}
		if (<-a).end.Err != nil || f.commands() != "GEN1" {
			t.Errorf("engine heard %s", f.commands())
		}
	})
}
