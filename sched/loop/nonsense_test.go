package loop

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"interlude/engine"
	"interlude/sched"
)

// TestNumbersThatCannotBe: an engine that counts more than there is fails its request,
// never the server.
func TestNumbersThatCannotBe(t *testing.T) {
	for _, test := range []struct {
		say  []string
		err  string
		died bool
	}{
		{[]string{"RESUME 250", "T 5", "DONE 1 101 0 0 stop"}, "RESUME 250", true},
		{[]string{"RESUME 0", "PP 250 101 1 1", "T 5", "DONE 1 101 0 0 stop"}, "PP 250", false},
		{[]string{"RESUME 0", "PP 250 101 1 1", "DONE 0 101 0 0 cancel"}, "PP 250", false},
	} {
		t.Run(strings.Join(test.say, ", "), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := &fakes{origin: time.Now(), info: engine.Info{"conversation_cache_mib": "100", "conversation_cache_slots": "-3", "resume_prefill": "1", "sequences": "-2", "prefill_chunk": "-1"}}
				fs.script = func(f *fake, g engine.Gen) bool {
					if g.IDs[1]/1000 != 7 {
						return false
					}
					f.say(test.say...)
					return true
				}
				l := running(t, Config{Machine: policy(sched.Budget), Start: fs.start})
				held := Spec{Prompt: prompt(301, 20, 3), MaxNew: 20}
				collect(submit(t, l, held)).want(t, held)
				bad := collect(submit(t, l, Spec{Prompt: append(slices.Clone(held.Prompt[:1]), prompt(101, 10, 7)[1:]...), MaxNew: 2}))
				if bad.end.Err == nil || !strings.Contains(bad.end.Err.Error(), test.err) || bad.at > time.Second {
					t.Errorf("ended %v after %v: %v", bad.end.Reason, bad.at, bad.end.Err)
				}
				next := Spec{Prompt: prompt(301, 20, 4), MaxNew: 20}
				collect(submit(t, l, next)).want(t, next)
				collect(submit(t, l, held)).want(t, held)
				if died := len(fs.all) > 1; died != test.died {
					t.Errorf("engine died: %v", died)
				}
			})
		})
	}
}

// FuzzEngineLines: whatever an engine prints under a request, the request ends, the
// loop lives, and the next one is served.
func FuzzEngineLines(f *testing.F) {
	lines := []string{"RESUME 0", "T 5", "T 6", "PP 50 101 1 1", "PP 100 101 1 1", "PP 9000 20001", "DONE 1 101 0 0 stop", "DONE 2 101 0 0 length",
		"DONE 0 101 0 0 cancel", "DONE 1 20001 0 0 length", "DONE 0 101 0 0 nonfinite", "DONE 1 101 0 0 error", "DONE 9", "RESUME 250", "RESUME 99999999", "RESUME x",
		"PP 2147483647 2147483647", "MQ", "LP 0 raw 5 -1 1 6:-2", "ERR out of memory", "ERR verify window timed out", "FATAL x", "REUSED 0", "T x", "HELLO", "",
		"INFO a=b", "READY 5 stop", "T 248046", "DONE 1 101 1e300 -1e300 stop 1 2 -3 4 5 6 7 8 -9"}
	for _, seed := range []string{"\x00\x01\x06", "\x00\x03\x04\x01\x02\x07", "\x0d\x10\x11\x11", "\x00\x12\x13\x0b", "\x00\x0a", "\x15", "\x13\x00\x01", "\x00\x05\x09\x00\x09"} {
		for _, how := range []byte{0, 1, 2, 4, 8, 18, 26, 50, 255} {
			f.Add([]byte(seed), how)
		}
	}
	f.Fuzz(func(t *testing.T, said []byte, how byte) {
		if len(said) > 200 {
			t.Skip()
		}
		synctest.Test(t, func(t *testing.T) {
			m := policy([]string{sched.FIFO, sched.Quantum, sched.Budget}[how%3])
			m.ReadSlice, m.Replay = 8192, how&4 > 0
			fs := &fakes{origin: time.Now(), info: engine.Info{"conversation_cache_mib": "100", "token_mask": "1"}}
			if how&8 > 0 {
				fs.info[engine.KeyResumePrefill] = "1"
			}
			fs.script = func(f *fake, g engine.Gen) bool {
				if g.IDs[1]/1000 != 7 {
					return false
				}
				for _, b := range said {
					if !f.say(lines[int(b)%len(lines)]) || !f.sleep(time.Duration(how>>4)*time.Second) {
						return true
					}
				}
				return true
			}
			l := running(t, Config{Machine: m, Start: fs.start})
			held := Spec{Prompt: prompt(301, 20, 3), MaxNew: 20}
			collect(submit(t, l, held)).want(t, held)
			n := 101
			if how&16 > 0 {
				n = 20_001
			}
			bad := later(submit(t, l, Spec{Prompt: prompt(n, 10, 7), MaxNew: 20, Params: engine.Params{Mask: how&32 > 0},
				Masker: func([]int32) ([]byte, error) { return []byte("MF\n"), nil }}))
			time.Sleep(7 * time.Second)
			sooner := Spec{Prompt: prompt(101, 10, 4), MaxNew: 20, Priority: 3, Explicit: true}
			next := later(submit(t, l, sooner))
			if a := <-bad; a.end == nil {
				t.Error("it never ended")
			}
			<-next                // it may have met what was still said to the other
			time.Sleep(time.Hour) // everything is said
			collect(submit(t, l, sooner)).want(t, sooner)
			if st, err := l.Status(t.Context()); err != nil || len(st.Requests) != 0 {
				t.Errorf("left: %+v", st.Requests)
			}
		})
	})
}

// TestEngineThatDoesNotRead: one that closes its input and lives on, whatever it is
// doing, can be asked nothing any more: its requests are told as soon as somebody
// would have asked, and the next engine serves.
func TestEngineThatDoesNotRead(t *testing.T) {
	for _, when := range []string{"idle", "decoding"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := &fakes{origin: time.Now()}
				l := running(t, Config{Machine: policy(sched.Quantum), Start: fs.start})
				synctest.Wait()
				long := Spec{Prompt: prompt(101, 4000, 1), MaxNew: 4000}
				deaf := func() { fs.all[0].deaf.Store(true); fs.all[0].stdin.Close() }
				if when == "idle" {
					deaf()
				}
				r := submit(t, l, long)
				if when == "decoding" {
					time.Sleep(time.Second)
					deaf()
					r.Cancel()
				}
				a := collect(r)
				if a.at > 1228*time.Millisecond {
					t.Errorf("told after %v", a.at)
				}
				if when == "idle" && (a.end.Reason != sched.ReasonEngineDied || !strings.Contains(a.end.Err.Error(), "input")) {
					t.Errorf("ended %v: %v", a.end.Reason, a.end.Err)
				}
				next := Spec{Prompt: prompt(101, 10, 3), MaxNew: 20}
				collect(submit(t, l, next)).want(t, next)
				if len(fs.all) != 2 {
					t.Errorf("%d loads", len(fs.all))
				}
			})
		})
	}
}
