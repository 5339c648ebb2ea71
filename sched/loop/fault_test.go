package loop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"interlude/engine"
	"interlude/sched"
)

// fakes starts a new fake for each load; the first n loads fail.
type fakes struct {
	all    []*fake
	script func(*fake, engine.Gen) bool
	fails  int
	info   engine.Info     // nil: the fake's own
	at     []time.Duration // of each attempt
	origin time.Time
}

func (fs *fakes) start(ctx context.Context) (Engine, error) {
	fs.at = append(fs.at, time.Since(fs.origin))
	if fs.fails > 0 {
		fs.fails--
		return nil, errors.New("out of memory: last words")
	}
	f := newFake()
	f.script = fs.script
	if fs.info != nil {
		f.info = fs.info
	}
	fs.all = append(fs.all, f)
	return f.start(ctx)
}

func TestDeathInEveryState(t *testing.T) {
	long := Spec{Prompt: prompt(2001, 2000, 1), MaxNew: 4000}
	sooner := Spec{Prompt: prompt(2001, 1000, 2), MaxNew: 2000, Priority: 5, Explicit: true}
	tests := []struct {
		name   string
		at     time.Duration // the engine dies, after the long one's submission
		meet   bool          // the sooner one arrives at 6.005 s
		long   sched.Reason  // how the long one ends; ReasonNone: as it should
		sooner sched.Reason
		replay bool
	}{
		{"before RESUME", 0, false, sched.ReasonEngineDied, 0, false},
		{"reading", time.Second, false, sched.ReasonEngineDied, 0, false},
		{"S50EngineKilled decoding", 4 * time.Second, false, sched.ReasonEngineDied, 0, false},
		{"draining", 6*time.Second + 10*time.Millisecond, true, sched.ReasonEngineDied, 0, false},
		{"parked", 7 * time.Second, true, sched.ReasonEngineDied, sched.ReasonEngineDied, false},
		{"parked, replayed", 7 * time.Second, true, 0, sched.ReasonEngineDied, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := &fakes{origin: time.Now()}
				m := policy(sched.Quantum)
				m.Replay = test.replay
				l := running(t, Config{Machine: m, Start: fs.start})
				synctest.Wait()
				a := later(submit(t, l, long))
				var b <-chan answer
				if test.meet {
					time.Sleep(6*time.Second + 5*time.Millisecond)
					b = later(submit(t, l, sooner))
					time.Sleep(test.at - 6*time.Second - 5*time.Millisecond)
				} else {
					time.Sleep(test.at)
				}
				waiting := Spec{Prompt: prompt(101, 10, 3), MaxNew: 20, Priority: -1, Explicit: true}
				w := later(submit(t, l, waiting))
				synctest.Wait()
				fs.all[0].die(errGone)
				died := time.Now()
				check := func(c <-chan answer, s Spec, want sched.Reason) {
					t.Helper()
					got := <-c
					if want == 0 {
						got.want(t, s)
						return
					}
					if got.end.Reason != want || !errors.Is(got.end.Err, errGone) || !strings.Contains(got.end.Err.Error(), "the next request restarts it") {
						t.Errorf("ended %v: %v", got.end.Reason, got.end.Err)
					}
					if d := time.Since(died); d > lastWords {
						t.Errorf("told %v after the death", d)
					}
				}
				if !test.replay {
					check(a, long, test.long)
				}
				if b != nil {
					check(b, sooner, test.sooner)
				}
				(<-w).want(t, waiting) // it stayed and triggered the reload
				if test.replay {
					check(a, long, test.long)
				}
				if len(fs.all) != 2 {
					t.Errorf("%d loads", len(fs.all))
				}
			})
		})
	}
}

// TestDeadLinesChangeNothing: what a killed process still prints reaches nobody
// (invariant 10).
func TestDeadLinesChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &fakes{origin: time.Now()}
		fs.script = func(f *fake, g engine.Gen) bool {
			if len(fs.all) > 1 {
				return false
			}
			f.say("RESUME 0")
			f.say("T 5", "ERR verify step timed out", "T 6", "DONE 2 101 0 0 stop")
			return true
		}
		l := running(t, Config{Machine: policy(sched.Quantum), Start: fs.start})
		s := Spec{Prompt: prompt(101, 10, 3), MaxNew: 20}
		first := later(submit(t, l, s))
		second := later(submit(t, l, s))
		a := <-first
		if a.end.Reason != sched.ReasonEngineDied || !strings.Contains(a.end.Err.Error(), "verify step timed out") {
			t.Errorf("ended %+v", a.end)
		}
		if len(a.ids) != 1 {
			t.Errorf("got %v: what follows a fatal ERR is not believed", a.ids)
		}
		(<-second).want(t, s)
		if st, _ := l.Status(t.Context()); st.Counters.Strays != 0 {
			t.Errorf("%d lines of a dead process were read", st.Counters.Strays)
		}
	})
}

// TestS54Backoff: an engine that dies again and again is reloaded more and more
// slowly; loads that fail are tried again, then the waiting requests fail.
func TestS54Backoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &fakes{origin: time.Now()}
		fs.script = func(f *fake, g engine.Gen) bool { f.die(errGone); return true }
		m := policy(sched.Quantum)
		l := running(t, Config{Machine: m, Start: fs.start})
		s := Spec{Prompt: prompt(101, 10, 3), MaxNew: 20}
		for range 4 {
			if a := collect(submit(t, l, s)); a.end.Reason != sched.ReasonEngineDied {
				t.Fatalf("ended %+v", a.end)
			}
		}
		// The first reload comes at once, the next after 1 s, then 2 s.
		if d := fs.at[len(fs.at)-1]; d < 3*time.Second || d > 4*time.Second {
			t.Errorf("loads at %v", fs.at)
		}
		fs.fails = 3
		a := collect(submit(t, l, s))
		if a.end.Reason != sched.ReasonLoadFailed || !strings.Contains(a.end.Err.Error(), "last words") {
			t.Errorf("ended %+v", a.end)
		}
		fs.script = nil
		fs.fails = 0
		collect(submit(t, l, s)).want(t, s)
	})
}

// TestFirstLoadFails: a configuration that does not work is told at once.
func TestFirstLoadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &fakes{origin: time.Now(), fails: 1}
		err := New(Config{Machine: policy(sched.FIFO), Start: fs.start, Retries: 2}).Run(context.Background())
		if err == nil || !strings.Contains(err.Error(), "last words") || len(fs.at) != 1 {
			t.Errorf("Run: %v after %d attempts", err, len(fs.at))
		}
	})
}

// TestS57Hang: an engine that says nothing within the limit is killed, its
// request told, and the next one starts a new engine.
func TestS57Hang(t *testing.T) {
	tests := []struct {
		name  string
		lines []string
		stop  bool
		after time.Duration
	}{
		{"S52 never answers", nil, false, 310 * time.Second},
		{"S49 frozen in decode", []string{"RESUME 0", "T 5"}, false, 303 * time.Second},
		{"in the drain", []string{"RESUME 0", "T 5"}, true, 303 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := &fakes{origin: time.Now()}
				fs.script = func(f *fake, g engine.Gen) bool {
					if len(fs.all) > 1 {
						return false
					}
					for _, line := range test.lines {
						f.say(line)
					}
					<-f.gone
					return true
				}
				l := running(t, Config{Machine: policy(sched.Quantum), Start: fs.start})
				s := Spec{Prompt: prompt(101, 10, 3), MaxNew: 20}
				r := submit(t, l, s)
				if test.stop {
					time.Sleep(time.Second)
					r.Cancel()
				}
				a := collect(r)
				if a.at > test.after || a.end.Err == nil {
					t.Errorf("ended after %v: %v", a.at, a.end.Err)
				}
				if !test.stop && !strings.Contains(a.end.Err.Error(), "engine_silence_s") {
					t.Errorf("ended with %v", a.end.Err)
				}
				collect(submit(t, l, s)).want(t, s)
			})
		})
	}
}

// TestS57SoftStall: half of the limit after its last line a silent engine is asked
// to stop. One that hears it goes on with the same request and no token is lost or
// doubled; one that does not is killed at the limit, which the STOP has not moved.
func TestS57SoftStall(t *testing.T) {
	for _, tt := range []struct {
		name  string
		hears int // stalls that the engine answers
		heard string
		end   time.Duration // when it is known dead at the latest; 0: it ends well
	}{
		{"hears", 1, "GEN1 STOP GEN1", 0},
		{"deaf", 0, "GEN1 STOP", 301*time.Second + 200*time.Millisecond},
		{"stalls again", 1, "GEN1 STOP GEN1", 453 * time.Second}, // and is left alone until the limit
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := &fakes{origin: time.Now()}
				gens := 0
				fs.script = func(f *fake, g engine.Gen) bool {
					if gens++; gens > 2 || gens == 2 && tt.name == "hears" {
						return false
					}
					ids := slices.Clone(g.IDs)
					say := func() {
						id := answerToken(g.Params, ids)
						ids = append(ids, id)
						f.say(line(engine.Reply{Kind: engine.ReplyToken, ID: id}))
					}
					f.say("RESUME 0")
					f.sleep(time.Second)
					say()
					for !f.stopped() || gens > tt.hears {
						if !f.sleep(time.Second) {
							return true
						}
					}
					say() // accepted before it saw the STOP
					f.held = append(f.held, ids[:len(ids)-1])
					f.done(g, 2, time.Now(), "cancel", 0, len(g.IDs))
					return true
				}
				m := policy(sched.Budget)
				l := running(t, Config{Machine: m, Start: fs.start})
				synctest.Wait()
				s := Spec{Prompt: prompt(101, 10, 1), MaxNew: 2000}
				a := collect(submit(t, l, s))
				if got := fs.all[0].commands(); got != tt.heard {
					t.Errorf("the engine heard %q, want %q", got, tt.heard)
				}
				for _, c := range fs.all[0].heard {
					if c.Kind == engine.CmdStop && c.at.Sub(fs.origin).Round(time.Second) != 151*time.Second {
						t.Errorf("STOP after %v", c.at.Sub(fs.origin))
					}
				}
				switch {
				case tt.name == "hears":
					a.want(t, s)
					if a.end.Stats.Parks != 1 || a.at > 153*time.Second {
						t.Errorf("ended after %v: %+v", a.at, a.end.Stats)
					}
				case tt.end != 0 && a.at > tt.end, a.end.Reason != sched.ReasonEngineDied:
					t.Errorf("ended after %v: %v", a.at, a.end.Err)
				}
			})
		})
	}
}

// TestS57StopIsNoNewLimit: a client that leaves a silent engine does not make the
// others wait for a second limit.
func TestS57StopIsNoNewLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &fakes{origin: time.Now()}
		fs.script = func(f *fake, g engine.Gen) bool {
			if len(fs.all) == 1 {
				f.say("RESUME 0", "T 5")
				<-f.gone
			}
			return len(fs.all) == 1
		}
		l := running(t, Config{Machine: policy(sched.FIFO), Start: fs.start})
		r := submit(t, l, Spec{Prompt: prompt(101, 10, 1), MaxNew: 20})
		s := Spec{Prompt: prompt(101, 10, 2), MaxNew: 20}
		next := later(submit(t, l, s))
		time.Sleep(290 * time.Second)
		r.Cancel()
		a := <-next
		a.want(t, s)
		if a.at > 303*time.Second {
			t.Errorf("the next one ended after %v", a.at)
		}
	})
}

// TestStopIgnored: an engine that goes on printing after STOP is killed within
// the drain limit, though it never is silent.
func TestStopIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &fakes{origin: time.Now()}
		fs.script = func(f *fake, g engine.Gen) bool {
			f.say("RESUME 0")
			for range 1000 {
				f.say("T 5")
				if !f.sleep(time.Second) {
					break
				}
			}
			return true
		}
		l := running(t, Config{Machine: policy(sched.Quantum), Start: fs.start})
		r := submit(t, l, Spec{Prompt: prompt(101, 10, 3), MaxNew: 100_000})
		time.Sleep(time.Second + time.Millisecond)
		r.Cancel()
		if a := collect(r); a.at > 310*time.Second {
			t.Errorf("ended after %v", a.at)
		}
	})
}

func TestEngineMisbehaves(t *testing.T) {
	tests := []struct {
		name   string
		lines  []string // after GEN; then the fake is idle
		reason sched.Reason
		err    string // "" none
		ids    int
		died   bool
	}{
		{"refusal", []string{"ERR prompt (9 tokens) + max_new (9) exceeds the context (9)"}, sched.ReasonEngineRefused, "exceeds the context", 0, false},
		{"ERR in mid-stream", []string{"RESUME 0", "T 5", "ERR out of memory"}, sched.ReasonEngineRefused, "ERR out of memory", 1, false},
		{"ERR then DONE", []string{"RESUME 0", "T 5", "ERR out of memory", "DONE 1 101 0 0 error"}, sched.ReasonEngineError, "ERR out of memory", 1, false},
		{"fatal ERR", []string{"RESUME 0", "T 5", "ERR verify batch timed out", "DONE 1 101 0 0 stop"}, sched.ReasonEngineDied, "verify batch timed out", 1, true},
		{"malformed T", []string{"RESUME 0", "T 5", "T x", "T 6", "DONE 2 101 0 0 stop"}, sched.ReasonEngineError, `field id is "x"`, 1, false},
		{"malformed RESUME", []string{"RESUME x", "T 5", "DONE 1 101 0 0 stop"}, sched.ReasonEngineDied, `field reused is "x"`, 0, true},
		{"malformed DONE", []string{"RESUME 0", "T 5", "DONE 1 101"}, sched.ReasonEngineDied, "DONE line", 1, true},
		{"a token lost", []string{"RESUME 0", "T 5", "DONE 2 101 0 0 stop"}, sched.ReasonEngineError, "DONE counts 2 tokens, 1 were printed", 1, false},
		{"a token doubled", []string{"RESUME 0", "T 5", "T 5", "DONE 1 101 0 0 stop"}, sched.ReasonEngineError, "DONE counts 1 tokens, 2 were printed", 2, false},
		{"too many tokens", []string{"RESUME 0", "T 5", "T 5", "T 5", "DONE 3 101 0 0 length"}, sched.ReasonEngineError, "3 tokens where at most 2", 2, false},
		{"DONE twice", []string{"RESUME 0", "T 5", "DONE 1 101 0 0 stop", "DONE 1 101 0 0 stop"}, sched.ReasonStop, "", 1, false},
		{"RESUME twice", []string{"RESUME 0", "RESUME 7", "T 5", "DONE 1 101 0 0 stop"}, sched.ReasonStop, "", 1, false},
		{"a late T first", []string{"T 9", "DONE 1 1 0 0 stop", "RESUME 0", "T 5", "DONE 1 101 0 0 stop"}, sched.ReasonStop, "", 1, false},
		{"unasked cancel", []string{"RESUME 0", "T 5", "DONE 1 101 0 0 cancel"}, sched.ReasonEngineError, "engine_error", 1, false},
		{"unknown lines", []string{"HELLO", "RESUME 0", "", "KV a=b", "T 5", "DONE 1 101 0 0 stop 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"}, sched.ReasonStop, "", 1, false},
		{"a score lost", []string{"RESUME 0", "LP 0 raw 5 -1 0", "T 6", "DONE 2 101 0 0 length"}, sched.ReasonEngineError, "0 scores for 1 tokens", 1, false},
		{"watchdog", []string{"RESUME 0", "DONE 0 101 0 0 error"}, sched.ReasonEngineError, "engine_error", 0, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := &fakes{origin: time.Now()}
				bad := true
				fs.script = func(f *fake, g engine.Gen) bool {
					if !bad {
						return false
					}
					bad = false
					for _, line := range test.lines {
						if !f.say(line) {
							return true
						}
						time.Sleep(time.Millisecond)
					}
					return true
				}
				l := running(t, Config{Machine: policy(sched.Quantum), Start: fs.start})
				odd := Spec{Prompt: prompt(101, 10, 1), MaxNew: 2}
				if strings.Contains(test.name, "score") {
					odd.Params.Logprobs = 1
				}
				first := later(submit(t, l, odd))
				next := Spec{Prompt: prompt(101, 10, 3), MaxNew: 20}
				second := later(submit(t, l, next))
				a := <-first
				if a.end.Reason != test.reason || len(a.ids) != test.ids {
					t.Errorf("ended as %v with %d ids", a.end.Reason, len(a.ids))
				}
				if (a.end.Err == nil) != (test.err == "") || a.end.Err != nil && !strings.Contains(a.end.Err.Error(), test.err) {
					t.Errorf("ended with %v", a.end.Err)
				}
				b := <-second
				b.want(t, next)
				if b.at > 2*time.Second {
					t.Errorf("the next request ended after %v", b.at)
				}
				if died := len(fs.all) > 1; died != test.died {
					t.Errorf("engine died: %v", died)
				}
				if st, err := l.Status(t.Context()); err != nil || st.Counters.Cancels != (sched.Counters{}).Cancels {
					t.Errorf("no client left, and counted are %v, %v", st.Counters.Cancels, err)
				}
			})
		})
	}
}

// TestMidstreamErrIsTheLastWord: an ERR after RESUME that is followed by the end
// of the process is a death, and its text is in the error.
func TestMidstreamErrIsTheLastWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &fakes{origin: time.Now()}
		fs.script = func(f *fake, g engine.Gen) bool {
			if len(fs.all) > 1 {
				return false
			}
			f.say("RESUME 0")
			f.say("ERR cuda: device lost")
			f.sleep(100 * time.Millisecond)
			f.die(errGone)
			return true
		}
		l := running(t, Config{Machine: policy(sched.Quantum), Start: fs.start})
		s := Spec{Prompt: prompt(101, 10, 3), MaxNew: 20}
		a := collect(submit(t, l, s))
		if a.end.Reason != sched.ReasonEngineDied || !strings.Contains(a.end.Err.Error(), "device lost") {
			t.Errorf("ended %v: %v", a.end.Reason, a.end.Err)
		}
		if a.at > 1228*time.Millisecond {
			t.Errorf("told after %v", a.at)
		}
		collect(submit(t, l, s)).want(t, s)
	})
}

// TestSliceThatFails: a read slice that the engine gives up ends as a whole GEN
// would: to be asked again and again would never end.
func TestSliceThatFails(t *testing.T) {
	for _, tt := range []struct {
		done   string
		reason sched.Reason
		gens   int
	}{
		{"DONE 0 1000 0 0 error", sched.ReasonEngineError, 1},
		{"DONE 0 1000 0 0 cancel", sched.ReasonEngineError, 1}, // nobody asked for it
		{"DONE 0 1000 0 0 length", sched.ReasonEngineError, 1}, // without its token nothing shows that it was read
		{"DONE 1 1000 0 0 length", sched.ReasonEngineError, 1}, // counts a token that was not printed
		{"DONE 0 1000 0 0 nonfinite", sched.ReasonLength, 2},   // tried once more, as a whole GEN is
	} {
		t.Run(tt.done, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gens := 0
				fs := &fakes{origin: time.Now(), script: func(f *fake, g engine.Gen) bool {
					if g.IDs[1]/1000 != 1 {
						return false
					}
					if gens++; gens > 20 {
						f.die(errGone)
					} else {
						f.say("RESUME 0", tt.done)
					}
					return true
				}}
				m := policy(sched.Budget)
				m.ReadSlice = 8192 // the chunk of an engine that announces none
				l := running(t, Config{Machine: m, Start: fs.start})
				synctest.Wait()
				a := collect(submit(t, l, Spec{Prompt: prompt(20_001, 100, 1), MaxNew: 300}))
				if a.end.Reason != tt.reason || gens != tt.gens {
					t.Errorf("ended %v (%v) after %d GENs, want %v after %d", a.end.Reason, a.end.Err, gens, tt.reason, tt.gens)
				}
				next := Spec{Prompt: prompt(101, 10, 3), MaxNew: 20}
				collect(submit(t, l, next)).want(t, next)
			})
		})
	}
}
