package loop

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"interlude/engine"
	"interlude/sched"
)

// TestMaintenanceInEveryState: an engine that somebody needs is never taken away;
// an idle one is, and the next request brings it back.
func TestMaintenanceInEveryState(t *testing.T) {
	tests := []struct {
		name    string
		policy  string
		prepare func(t *testing.T, l *Loop)
		busy    bool
	}{
		{"idle", sched.FIFO, func(t *testing.T, l *Loop) {}, false},
		{"reading", sched.FIFO, func(t *testing.T, l *Loop) {
			submit(t, l, Spec{Prompt: prompt(5001, 10, 1), MaxNew: 20})
			time.Sleep(time.Second)
		}, true},
		{"decoding", sched.FIFO, func(t *testing.T, l *Loop) {
			submit(t, l, Spec{Prompt: prompt(101, 500, 1), MaxNew: 600})
			time.Sleep(time.Second)
		}, true},
		{"parked, and the other just ended", sched.Quantum, func(t *testing.T, l *Loop) {
			submit(t, l, Spec{Prompt: prompt(101, 5000, 1), MaxNew: 6000})
			time.Sleep(6 * time.Second)
			collect(submit(t, l, Spec{Prompt: prompt(101, 10, 2), MaxNew: 20}))
		}, true},
	}
	for _, test := range tests {
		for _, what := range []string{"unload", "restart"} {
			t.Run(test.name+" "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fs := &fakes{origin: time.Now()}
					l := running(t, Config{Machine: policy(test.policy), Start: fs.start})
					synctest.Wait()
					test.prepare(t, l)
					do := map[string]func(context.Context) error{"unload": l.Unload, "restart": l.Restart}[what]
					err := do(t.Context())
					h := l.Health()
					if test.busy {
						if !errors.Is(err, ErrBusy) || h.State != StateReady || h.Epoch != 1 {
							t.Errorf("%v, then %+v", err, h)
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					if what == "unload" && (h.State != StateUnloaded || h.Pid != 0) || what == "restart" && (h.State != StateReady || h.Epoch != 2) {
						t.Errorf("%+v", h)
					}
					if !strings.HasSuffix(fs.all[0].commands(), "QUIT") {
						t.Errorf("the old engine heard %q", fs.all[0].commands())
					}
					s := Spec{Prompt: prompt(101, 10, 3), MaxNew: 20}
					collect(submit(t, l, s)).want(t, s)
					if st, _ := l.Status(t.Context()); st.Counters.Deaths != 0 {
						t.Errorf("an unload counts as a death")
					}
				})
			})
		}
	}
}

// TestMaintenanceAroundLoads: while the engine comes up, drains, or is gone.
func TestMaintenanceAroundLoads(t *testing.T) {
	long := Spec{Prompt: prompt(101, 500, 1), MaxNew: 600}
	tests := []struct {
		name    string
		prepare func(t *testing.T, l *Loop, fs *fakes)
		busy    bool
		epoch   int // after a restart
	}{
		{"loading", func(t *testing.T, l *Loop, fs *fakes) { go l.Load(context.Background()) }, true, 0},
		{"queued for a load", func(t *testing.T, l *Loop, fs *fakes) { later(submit(t, l, long)) }, true, 0},
		{"draining", func(t *testing.T, l *Loop, fs *fakes) {
			r := submit(t, l, long)
			time.Sleep(5*time.Second + time.Millisecond)
			r.Cancel()
		}, true, 0},
		{"just drained", func(t *testing.T, l *Loop, fs *fakes) {
			r := submit(t, l, long)
			time.Sleep(5 * time.Second)
			r.Cancel()
			collect(r)
		}, false, 2},
		{"dead", func(t *testing.T, l *Loop, fs *fakes) {
			r := submit(t, l, long)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			fs.all[0].die(errGone)
			collect(r)
		}, false, 2},
		{"dead, and a request waits for the back-off", func(t *testing.T, l *Loop, fs *fakes) {
			for range 2 {
				r := later(submit(t, l, long))
				time.Sleep(5 * time.Second)
				synctest.Wait()
				fs.all[len(fs.all)-1].die(errGone)
				<-r
			}
			later(submit(t, l, long))
		}, true, 0},
		{"never loaded", func(t *testing.T, l *Loop, fs *fakes) {}, false, 1},
		{"unloaded", func(t *testing.T, l *Loop, fs *fakes) {
			if err := errors.Join(l.Load(t.Context()), l.Unload(t.Context())); err != nil {
				t.Fatal(err)
			}
		}, false, 2},
	}
	for _, test := range tests {
		for _, what := range []string{"unload", "restart"} {
			t.Run(test.name+" "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fs := &fakes{origin: time.Now()}
					l := running(t, Config{Machine: policy(sched.Quantum), Lazy: true, Start: func(ctx context.Context) (Engine, error) {
						time.Sleep(3 * time.Second)
						return fs.start(ctx)
					}})
					test.prepare(t, l, fs)
					synctest.Wait()
					do := map[string]func(context.Context) error{"unload": l.Unload, "restart": l.Restart}[what]
					err := do(t.Context())
					h := l.Health()
					switch {
					case test.busy:
						if !errors.Is(err, ErrBusy) {
							t.Errorf("%v, then %+v", err, h)
						}
						time.Sleep(time.Minute) // what lived goes on
					case err != nil:
						t.Fatal(err)
					case what == "unload" && (h.State != StateUnloaded || h.Pid != 0), what == "restart" && (h.State != StateReady || h.Epoch != test.epoch):
						t.Errorf("%+v", h)
					}
					s := Spec{Prompt: prompt(101, 10, 3), MaxNew: 20}
					collect(submit(t, l, s)).want(t, s)
				})
			})
		}
	}
}

// TestLoad: Load waits for the engine and says why it did not come up; twice is
// once.
func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &fakes{origin: time.Now(), fails: 1}
		l := running(t, Config{Machine: policy(sched.Quantum), Start: fs.start, Lazy: true})
		if h := l.Health(); h.State != StateUnloaded || h.Alive() {
			t.Errorf("%+v", h)
		}
		if err := l.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "last words") {
			t.Errorf("Load: %v", err)
		}
		if h := l.Health(); h.State != StateDown || !strings.Contains(h.Err, "last words") {
			t.Errorf("%+v", h)
		}
		answers := make(chan error, 2)
		for range 2 {
			go func() { answers <- l.Load(context.Background()) }()
		}
		for range 2 {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		if h := l.Health(); len(fs.all) != 1 || h.State != StateReady || !h.Alive() || h.Err != "" {
			t.Errorf("%d engines, %+v", len(fs.all), h)
		}
	})
}

// TestIdleUnload: the clock runs only while nothing lives.
func TestIdleUnload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &fakes{origin: time.Now()}
		l := running(t, Config{Machine: policy(sched.FIFO), Start: fs.start, Idle: 10 * time.Second})
		time.Sleep(9 * time.Second)
		collect(submit(t, l, Spec{Prompt: prompt(101, 2000, 1), MaxNew: 3000})) // 25 s
		time.Sleep(9 * time.Second)
		if h := l.Health(); h.State != StateReady {
			t.Errorf("%+v", h)
		}
		time.Sleep(2 * time.Second)
		if h := l.Health(); h.State != StateUnloaded {
			t.Errorf("%+v", h)
		}
	})
}

// TestRefusedEngines: what only INFO tells is checked after each load.
func TestRefusedEngines(t *testing.T) {
	tests := []struct {
		name string
		info engine.Info
		m    func(*sched.Config)
		err  string
	}{
		{"batch slots", engine.Info{"batch_slots": "4"}, func(*sched.Config) {}, "solo_priority true and parallel"},
		{"time scale", engine.Info{}, func(c *sched.Config) { c.TimeScale = 8 }, "solo_time_scale"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.info = test.info
				m := policy(sched.Quantum)
				test.m(&m)
				l := running(t, Config{Machine: m, Start: f.start, Lazy: true})
				a := collect(submit(t, l, Spec{Prompt: prompt(101, 10, 1), MaxNew: 20}))
				if a.end.Reason != sched.ReasonLoadFailed || !strings.Contains(a.end.Err.Error(), test.err) {
					t.Errorf("%+v", a.end)
				}
			})
		})
	}
}

// TestClose: what runs is stopped and drained, every client is told, the engine
// gets its QUIT, nothing new is taken.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		l := New(Config{Machine: policy(sched.FIFO), Start: f.start})
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- l.Run(ctx) }()
		a := later(submit(t, l, Spec{Prompt: prompt(101, 5000, 1), MaxNew: 6000}))
		b := later(submit(t, l, Spec{Prompt: prompt(101, 10, 2), MaxNew: 20}))
		time.Sleep(time.Second + time.Millisecond)
		cancel()
		synctest.Wait()
		if h := l.Health(); h.State != StateDraining || h.Alive() {
			t.Errorf("while it closes: %+v", h)
		}
		for _, c := range []<-chan answer{a, b} {
			if got := <-c; !errors.Is(got.end.Err, ErrClosed) {
				t.Errorf("%+v", got.end)
			}
		}
		if err := <-ran; err != nil {
			t.Error(err)
		}
		if got := f.commands(); got != "GEN1 STOP QUIT" {
			t.Errorf("engine heard %s", got)
		}
		_, err := l.Submit(Spec{Prompt: []int32{1}, MaxNew: 1})
		var no *Rejected
		if !errors.As(err, &no) || no.Status != 503 {
			t.Errorf("Submit after the end: %v", err)
		}
		if _, err := l.Status(context.Background()); !errors.Is(err, ErrClosed) {
			t.Errorf("Status after the end: %v", err)
		}
	})
}

// TestCloseWhileParked: the parked one is told at once, the one that runs drains, and
// nothing is started any more.
func TestCloseWhileParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		l := New(Config{Machine: policy(sched.Quantum), Start: f.start})
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- l.Run(ctx) }()
		parked := later(submit(t, l, Spec{Prompt: prompt(2001, 1000, 1), MaxNew: 4000}))
		time.Sleep(6 * time.Second)
		active := later(submit(t, l, Spec{Prompt: prompt(2001, 1000, 2), MaxNew: 2000, Priority: 5, Explicit: true}))
		waiting := later(submit(t, l, Spec{Prompt: prompt(101, 10, 3), MaxNew: 20, Priority: -1, Explicit: true}))
		time.Sleep(time.Second)
		if st, err := l.Status(ctx); err != nil || st.Parked != 1 || st.Waiting != 1 || st.Running != 1 {
			t.Fatalf("%+v, %v", st, err)
		}
		closed := time.Now()
		cancel()
		for name, c := range map[string]<-chan answer{"parked": parked, "active": active, "waiting": waiting} {
			if got := <-c; !errors.Is(got.end.Err, ErrClosed) || time.Since(closed) > time.Second {
				t.Errorf("%s: %+v after %v", name, got.end, time.Since(closed))
			}
		}
		if err := <-ran; err != nil {
			t.Error(err)
		}
		if got := f.commands(); got != "GEN1 STOP GEN2 STOP QUIT" {
			t.Errorf("engine heard %s", got)
		}
	})
}

// TestCloseWhileLoading: giving up is not a failure of the engine.
func TestCloseWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Machine: policy(sched.FIFO), Start: func(ctx context.Context) (Engine, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}})
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- l.Run(ctx) }()
		a := later(submit(t, l, Spec{Prompt: prompt(101, 5000, 1), MaxNew: 6000}))
		time.Sleep(time.Second)
		cancel()
		if got := <-a; !errors.Is(got.end.Err, ErrClosed) || got.at != time.Second {
			t.Errorf("%+v after %v", got.end, got.at)
		}
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

// TestS58HealthNeverWaits: Health answers while the loop is busy.
func TestS58HealthNeverWaits(t *testing.T) {
	f := newFake()
	l := running(t, Config{Machine: policy(sched.FIFO), Start: f.start})
	block := make(chan struct{})
	l.inbox.put(func(*Loop) { <-block })
	if h := l.Health(); h.State == "" {
		t.Errorf("%+v", h)
	}
	close(block)
}

// TestS49ProgressCounts: the progress counter moves with the engine's lines and
// stands still when it hangs.
func TestS49ProgressCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.script = func(f *fake, g engine.Gen) bool {
			f.say("RESUME 0")
			for range 10 {
				f.sleep(time.Second)
				f.say("T 5")
			}
			<-f.gone
			return true
		}
		m := policy(sched.FIFO)
		m.Silence = time.Minute
		l := running(t, Config{Machine: m, Start: f.start})
		r := submit(t, l, Spec{Prompt: prompt(11, 10, 1), MaxNew: 20})
		time.Sleep(5*time.Second + time.Millisecond)
		before := l.Health()
		time.Sleep(10 * time.Second)
		after := l.Health()
		time.Sleep(10 * time.Second)
		stuck := l.Health()
		if after.Progress-before.Progress != 5 || stuck.Progress != after.Progress || stuck.Silent != 15*time.Second+time.Millisecond {
			t.Errorf("%+v\n%+v\n%+v", before, after, stuck)
		}
		collect(r)
	})
}

// TestRequestTimes: queued, parked and their sums belong to the request.
func TestRequestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		l := running(t, Config{Machine: policy(sched.Quantum), Start: f.start})
		synctest.Wait()
		a := later(submit(t, l, Spec{Prompt: prompt(101, 1000, 1), MaxNew: 2000}))
		time.Sleep(6 * time.Second)
		b := collect(submit(t, l, Spec{Prompt: prompt(301, 10, 2), MaxNew: 20}))
		got := (<-a).end.Stats
		// The short one: at most a window of queueing, 300 ms of read, 5 windows.
		if b.end.Stats.Queued > 25*time.Millisecond || got.Parked != 425*time.Millisecond || got.Queued != 0 || got.Parks != 1 {
			t.Errorf("long %+v, short %+v", got, b.end.Stats)
		}
	})
}
