package loop

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"interlude/engine"
	"interlude/sched"
)

// job is one request of TestOffIsADirectDriver.
type job struct {
	Spec
	at     time.Duration // when it arrives
	cancel time.Duration // after its arrival; 0: never
}

// direct is the whole of a FIFO server's dealings with an engine: what the loop
// must write with the scheduler off, byte for byte (invariant 15).
func direct(f *fake, jobs []job) {
	conn, _ := f.start(context.Background())
	origin := time.Now()
	for _, j := range jobs {
		if d := j.at - time.Since(origin); d > 0 {
			time.Sleep(d)
		}
		var left <-chan time.Time
		if j.cancel > 0 {
			d := j.at + j.cancel - time.Since(origin)
			if d <= 0 {
				continue // its client left while it was queued
			}
			left = time.After(d)
		}
		g := engine.Gen{MaxNew: j.MaxNew, Params: j.Params, Image: j.Image, IDs: j.Prompt}
		conn.Write(g.Append(nil))
		resumed, gone, done := false, false, false
		for !done {
			select {
			case b := <-conn.Batches():
				for i := range b.Replies {
					switch b.Replies[i].Kind {
					case engine.ReplyResume:
						resumed = true
						if gone {
							conn.Write([]byte("STOP\n"))
						}
					case engine.ReplyDone, engine.ReplyErr:
						done = true
					}
				}
			case <-left:
				if gone = true; resumed {
					conn.Write([]byte("STOP\n"))
				}
			}
		}
	}
	conn.Quit(context.Background())
}

// TestOffIsADirectDriver is invariant 15: priorities, small requests, sampled
// ones without a seed and cancels make no difference to a direct FIFO driver.
func TestOffIsADirectDriver(t *testing.T) {
	cvec, frac := 0, 0.5
	jobs := []job{
		{Spec: Spec{Prompt: prompt(3001, 800, 1), MaxNew: 1000, Params: engine.Params{Temperature: 0.7, TopP: 0.95}}},
		{Spec: Spec{Prompt: prompt(101, 20, 2), MaxNew: 50, OneShotAllowed: true}, at: time.Second},
		{Spec: Spec{Prompt: prompt(101, 20, 3), MaxNew: 50, Priority: 9, Explicit: true, OneShotAllowed: true}, at: 2 * time.Second, cancel: time.Second},
		{Spec: Spec{Prompt: prompt(101, 20, 4), MaxNew: 50, Params: engine.Params{Seed: 7, Temperature: 1, NoCheckpoint: true, Pin: 40, Cvec: &cvec, PCIeFrac: &frac}}, at: 3 * time.Second},
		{Spec: Spec{Prompt: prompt(2001, 900, 5), MaxNew: 1000}, at: 4 * time.Second, cancel: 17 * time.Second},
		{Spec: Spec{Prompt: prompt(501, 400, 6), MaxNew: 30, Params: engine.Params{MinP: 0.1, PenaltyRepeat: 1.1}}, at: 30 * time.Second},
		{Spec: Spec{Prompt: []int32{20, 2_000_000}, MaxNew: 50}, at: 31 * time.Second}, // refused by the engine
		{Spec: Spec{Prompt: prompt(501, 400, 6), MaxNew: 30, Image: "/tmp/image.bin"}, at: 40 * time.Second},
		{Spec: Spec{Prompt: prompt(5001, 400, 8), MaxNew: 30}, at: 60 * time.Second, cancel: 2500 * time.Millisecond},
	}
	var want, got string
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		direct(f, jobs)
		want = f.written.String()
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		t.Cleanup(func() { got = f.written.String() }) // after the QUIT
		m := policy(sched.FIFO)
		m.Queue = 0
		l := running(t, Config{Machine: m, Start: f.start, Lazy: true})
		var all []<-chan answer
		for _, j := range jobs {
			time.Sleep(j.at - jobs[max(0, len(all)-1)].at)
			r := submit(t, l, j.Spec)
			all = append(all, later(r))
			if j.cancel > 0 {
				time.AfterFunc(j.cancel, r.Cancel)
			}
		}
		for _, c := range all {
			<-c
		}
	})
	if got != want {
		t.Errorf("the engine was written %d bytes, a direct driver writes %d; they differ from %q", len(got), len(want), got[common(got, want):][:min(80, len(got)-common(got, want))])
	}
}

func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
