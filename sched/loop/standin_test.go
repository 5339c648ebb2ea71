package loop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"interlude/engine"
	"interlude/engine/vocab"
	"interlude/sched"
)

// TestPairedShort is the reference's question in virtual time: a probe during a
// long answer, off and on.
func TestPairedShort(t *testing.T) {
	for _, test := range []struct {
		policy string
		most   time.Duration
	}{{sched.Quantum, 660 * time.Millisecond}, {sched.Budget, 660 * time.Millisecond}, {sched.FIFO, time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			l := running(t, Config{Machine: policy(test.policy), Start: standIn()})
			synctest.Wait()
			long := later(submit(t, l, Spec{Prompt: turn(filler(500, "a") + task("Write %d lines", 100, "n1")), MaxNew: 4000}))
			time.Sleep(7 * time.Second)
			probe := collect(submit(t, l, Spec{Prompt: turn(filler(200, "b") + task("Say %d words", 10, "n2")), MaxNew: 64, OneShotAllowed: true}))
			a := <-long
			t.Logf("%s: probe %v, long %v with %d tokens", test.policy, probe.first, a.at, len(a.ids))
			if probe.first > test.most || test.policy == sched.FIFO && probe.first < 5*time.Second {
				t.Errorf("first token after %v", probe.first)
			}
			s, _ := l.Status(t.Context())
			if s.Counters.LostPrefix != 0 || test.policy != sched.FIFO && s.Counters.Preemptions != 1 {
				t.Errorf("%+v", s.Counters)
			}
		})
	}
}

// TestS41ForcedParksOnTheStandIn: tokens and scores of every request equal those of
// a run without parks, greedy and seeded, on every kind of engine; parks in the
// read included.
func TestS41ForcedParksOnTheStandIn(t *testing.T) {
	for _, flags := range []string{"", "--resume-prefill --prefill-chunk 1024", "--sequences 3", "--resume-prefill --prefill-chunk 2048 --sequences 3"} {
		t.Run(flags, func(t *testing.T) {
			start := standIn(append(strings.Fields(flags), "--logprobs")...)
			specs := []Spec{
				{Prompt: turn(filler(9000, "a") + task("Write %d lines", 8, "n1")), MaxNew: 400},
				{Prompt: turn(filler(300, "b") + task("Write %d lines", 12, "n2")), MaxNew: 400, Params: engine.Params{Temperature: 0.8, Seed: 11}},
				{Prompt: turn(filler(300, "c") + task("Say %d words", 60, "n3")), MaxNew: 33, Params: engine.Params{Temperature: 0.8, Seed: 5, Logprobs: 3}},
				{Prompt: turn(filler(4000, "d") + "Quote: größe 你好 🌍 👩‍👩‍👧‍👦\n"), MaxNew: 100, Params: engine.Params{Logprobs: 2}},
			}
			for _, every := range []int{1, 5, 16} {
				synctest.Test(t, func(t *testing.T) {
					m := policy(sched.Budget)
					m.ForceParkEvery = every
					l := running(t, Config{Machine: m, Start: start})
					var all []*Request
					for _, s := range specs {
						all = append(all, submit(t, l, s))
					}
					for i, r := range all {
						ids, lps := everything(t, r)
						wantIDs, wantLPs := undisturbed(t, start, specs[i])
						if !slices.Equal(ids, wantIDs) {
							t.Errorf("every %d: answer %d differs", every, i)
						}
						if !reflect.DeepEqual(lps, wantLPs) || len(lps) > 0 && len(lps) != len(ids) {
							t.Errorf("every %d: scores of answer %d differ: %d and %d", every, i, len(lps), len(wantLPs))
						}
					}
					s, _ := l.Status(context.Background())
					if s.Counters.LostPrefix != 0 {
						t.Errorf("every %d: lost %d tokens of prefix", every, s.Counters.LostPrefix)
					}
					if s.Counters.Forced < 15 {
						t.Errorf("every %d: only %d forced parks", every, s.Counters.Forced)
					}
				})
			}
		})
	}
}

// restored runs the regression that the reference is known for: a conversation of
// 40K tokens is parked, its next turn restores it and has 20K tokens to read; a
// short arrives inside that read. It returns the machine's counters, and how much
// the turn after it still found in the cache.
func restored(t *testing.T, l *Loop, interfere func(read *Request)) (sched.Counters, int) {
	t.Helper()
	first := turn(filler(40_000, "a") + task("Say %d words", 5, "n1"))
	ids, _ := everything(t, submit(t, l, Spec{Prompt: first, MaxNew: 50}))
	everything(t, submit(t, l, Spec{Prompt: turn(filler(3000, "b") + task("Say %d words", 5, "n2")), MaxNew: 50}))
	second := slices.Concat(first, ids, turn(filler(20_000, "c")+task("Say %d words", 5, "n3")))
	read := submit(t, l, Spec{Prompt: second, MaxNew: 50})
	for u := (Update{}); u.N < 16_384+len(first); {
		var err error
		if u, err = read.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if u.Kind == KindEnd || u.Kind == KindTokens {
			t.Fatalf("the read is over before the short arrives")
		}
	}
	interfere(read)
	a := collect(read)
	if i := slices.Index(a.states, "parked"); i >= 0 && a.states[i-1] != "decoding" {
		t.Errorf("a restored read was parked: %v", a.states)
	}
	if a.end.Err == nil && a.end.Stats.Cached != len(first)+len(ids)-1 {
		t.Errorf("the turn found %d tokens, want %d", a.end.Stats.Cached, len(first)+len(ids)-1)
	}
	again := collect(submit(t, l, Spec{Prompt: append(slices.Clone(second), 'x', 'y'), MaxNew: 50}))
	s, err := l.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Counters.Counters, again.end.Stats.Cached
}

// TestRestoredPrefix: a restored read is not stopped for another request, so
// nothing is lost (invariant 13). Stopped by its own client at the same place, it
// does lose everything: the stand-in can tell.
func TestRestoredPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := running(t, Config{Machine: policy(sched.Quantum), Start: standIn()})
		short := Spec{Prompt: say(3, "s"), MaxNew: 20, Priority: 9, Explicit: true}
		var wait <-chan answer
		c, cached := restored(t, l, func(*Request) { wait = later(submit(t, l, short)) })
		if c.LostPrefix != 0 || cached < 60_000 {
			t.Errorf("lost %d tokens, then %d cached", c.LostPrefix, cached)
		}
		if a := <-wait; a.end.Err != nil {
			t.Error(a.end.Err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := running(t, Config{Machine: policy(sched.Quantum), Start: standIn()})
		_, cached := restored(t, l, func(r *Request) { r.Cancel(); collect(submit(t, l, Spec{Prompt: say(3, "s"), MaxNew: 20})) })
		if cached > 10_000 {
			t.Errorf("the stand-in kept %d tokens of a read that was stopped", cached)
		}
	})
}

// TestS12CancelledReadMakesProgress: with resume_prefill a client whose patience
// is 60 % of the read succeeds at its second try.
func TestS12CancelledReadMakesProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := running(t, Config{Machine: policy(sched.Budget), Start: standIn("--resume-prefill", "--prefill-chunk", "2048")})
		s := Spec{Prompt: turn(filler(100_000, "a") + task("Say %d words", 5, "n1")), MaxNew: 50}
		r := submit(t, l, s)
		c := later(r)
		time.Sleep(25 * time.Second) // of about 41 s
		r.Cancel()
		<-c
		a := collect(submit(t, l, s))
		if a.end.Err != nil || a.first > 25*time.Second || a.end.Stats.Cached < 40_000 {
			t.Errorf("second try: first token after %v, %d cached, %v", a.first, a.end.Stats.Cached, a.end.Err)
		}
	})
}

// TestS18ShortDuringLongRead: how long "hi" waits for a 100K read, by what the
// engine can do.
func TestS18ShortDuringLongRead(t *testing.T) {
	for _, test := range []struct {
		name, flags string
		most        time.Duration
	}{
		{"slices on today's engine", "", 9 * time.Second},
		{"resume_prefill", "--resume-prefill --prefill-chunk 2048", 1700 * time.Millisecond},
		{"resume_prefill and sequences", "--resume-prefill --prefill-chunk 1024 --sequences 3", time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := running(t, Config{Machine: policy(sched.Budget), Start: standIn(strings.Fields(test.flags)...)})
				long := Spec{Prompt: turn(filler(100_000, "a") + task("Say %d words", 5, "n1")), MaxNew: 50}
				c := later(submit(t, l, long))
				time.Sleep(10 * time.Second)
				hi := collect(submit(t, l, Spec{Prompt: say(3, "hi"), MaxNew: 20, OneShotAllowed: true}))
				if hi.first > test.most {
					t.Errorf("first token after %v", hi.first)
				}
				a := <-c
				if a.end.Err != nil {
					t.Error(a.end.Err)
				}
				s, _ := l.Status(t.Context())
				if s.Counters.LostPrefix != 0 || s.Counters.Reread != 0 {
					t.Errorf("lost %d, read again %d", s.Counters.LostPrefix, s.Counters.Reread)
				}
				t.Logf("hi %v, long %v, %d slices", hi.first, a.first, s.Counters.Slices)
			})
		})
	}
}

// TestS45SecondTurnIsCheap: a second turn reads what is new, also after another
// conversation; the cached count is the engine's own (S44).
func TestS45SecondTurnIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := running(t, Config{Machine: policy(sched.Budget), Start: standIn()})
		first := turn(filler(20_000, "a") + task("Say %d words", 5, "n1"))
		ids, _ := everything(t, submit(t, l, Spec{Prompt: first, MaxNew: 50}))
		everything(t, submit(t, l, Spec{Prompt: say(5, "other"), MaxNew: 50}))
		a := collect(submit(t, l, Spec{Prompt: slices.Concat(first, ids, say(5, "n2")), MaxNew: 50}))
		if a.end.Stats.Cached != len(first)+len(ids)-1 || a.first > 1200*time.Millisecond {
			t.Errorf("cached %d, first token after %v", a.end.Stats.Cached, a.first)
		}
	})
}

// TestS45FollowUpOfASlicedRead: a conversation whose first message was read in slices is
// still known when others have run since. Taken for unread, its next turn would go in
// slices again, which nothing that is parked can serve.
func TestS45FollowUpOfASlicedRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := running(t, Config{Machine: policy(sched.Budget), Start: standIn()})
		var histories [][]int32
		for _, tag := range []string{"a", "b", "c"} {
			s := Spec{Prompt: turn(filler(40_000, tag) + task("Say %d words", 5, "n1")), MaxNew: 50}
			ids, _ := everything(t, submit(t, l, s))
			histories = append(histories, slices.Concat(s.Prompt, ids))
		}
		before, err := l.Status(t.Context())
		if err != nil || before.Counters.Slices < 3 {
			t.Fatalf("%d slices, %v", before.Counters.Slices, err)
		}
		for i, h := range histories {
			next := slices.Concat(h, turn(task("Say %d words", 5, "n2")))
			a := collect(submit(t, l, Spec{Prompt: next, MaxNew: 50}))
			if a.end.Err != nil || a.end.Stats.Cached < len(h)-1 || a.first > 2*time.Second {
				t.Errorf("conversation %d: %d of %d tokens held, first token after %v, %v", i, a.end.Stats.Cached, len(h), a.first, a.end.Err)
			}
		}
		if after, err := l.Status(t.Context()); err != nil || after.Counters.Slices != before.Counters.Slices {
			t.Errorf("%d slices more, %v", after.Counters.Slices-before.Counters.Slices, err)
		}
	})
}

// TestShortBehindALongSystemPrompt: a short request whose system prompt alone is longer
// than a slice is short as long as the engine holds that prompt.
func TestShortBehindALongSystemPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := running(t, Config{Machine: policy(sched.Budget), Start: standIn()})
		system := vocab.Encode([]int32{vocab.ImStart}, "system\n"+filler(20_000, "s"))
		system = vocab.Encode(append(system, vocab.ImEnd), "\n")
		with := func(text string) []int32 { return slices.Concat(system, turn(text)) }
		everything(t, submit(t, l, Spec{Prompt: with(filler(20_000, "a") + task("Say %d words", 5, "n1")), MaxNew: 50}))
		everything(t, submit(t, l, Spec{Prompt: turn(filler(3000, "b") + task("Say %d words", 5, "n2")), MaxNew: 50}))
		long := later(submit(t, l, Spec{Prompt: with(task("Say %d words", 2000, "n3")), MaxNew: 3000}))
		time.Sleep(5 * time.Second)
		short := collect(submit(t, l, Spec{Prompt: with(task("Say %d words", 3, "hi")), MaxNew: 20, OneShotAllowed: true, SystemRoot: len(system) + 5}))
		if short.first > 3*time.Second {
			t.Errorf("first token after %v", short.first)
		}
		if a := <-long; a.end.Err != nil || a.end.Stats.Parks != 1 {
			t.Errorf("the long one: %d parks, %v", a.end.Stats.Parks, a.end.Err)
		}
	})
}

// TestS44ReuseIsCounted: the cached count is what the engine says, not what
// a park should have kept.
func TestS44ReuseIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := running(t, Config{Machine: policy(sched.Budget), Start: standIn("--conversation-cache-mib", "0")})
		first := turn(filler(1500, "a") + task("Say %d words", 5, "n1"))
		ids, _ := everything(t, submit(t, l, Spec{Prompt: first, MaxNew: 50}))
		everything(t, submit(t, l, Spec{Prompt: say(5, "other"), MaxNew: 50}))
		a := collect(submit(t, l, Spec{Prompt: slices.Concat(first, ids, say(5, "n2")), MaxNew: 50}))
		if a.end.Stats.Cached != 0 {
			t.Errorf("cached %d", a.end.Stats.Cached)
		}
	})
}

// TestS48IdenticalPromptTwice: the second costs its last turn only.
func TestS48IdenticalPromptTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := running(t, Config{Machine: policy(sched.Budget), Start: standIn()})
		s := Spec{Prompt: turn(filler(16_000, "a") + task("Say %d words", 5, "n1")), MaxNew: 50}
		everything(t, submit(t, l, s))
		a := collect(submit(t, l, s))
		if a.first > 400*time.Millisecond || a.end.Stats.Cached < 16_000 {
			t.Errorf("first token after %v, %d cached", a.first, a.end.Stats.Cached)
		}
	})
}

// TestS10WorkOfAStoppedReadIsKept: closed at half of the read, sent again, the
// second read starts at the last whole chunk.
func TestS10WorkOfAStoppedReadIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := running(t, Config{Machine: policy(sched.Budget), Start: standIn("--resume-prefill", "--prefill-chunk", "2048")})
		s := Spec{Prompt: turn(filler(100_000, "a") + task("Say %d words", 5, "n1")), MaxNew: 50}
		r := submit(t, l, s)
		half := Update{}
		for half.N < 50_000 {
			half, _ = r.Next(context.Background())
		}
		r.Cancel()
		everything(t, submit(t, l, Spec{Prompt: say(5, "other"), MaxNew: 50}))
		a := collect(submit(t, l, s))
		if a.end.Stats.Cached < half.N-2048 {
			t.Errorf("cached %d, was at %d", a.end.Stats.Cached, half.N)
		}
	})
}

// TestS28ParkedReadAdvances: a long read of a later class advances while sooner
// streams never end: the starvation tier bounds each of its pauses.
func TestS28ParkedReadAdvances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := running(t, Config{Machine: policy(sched.Budget), Start: standIn("--resume-prefill", "--prefill-chunk", "2048")})
		read := submit(t, l, Spec{Prompt: turn(filler(60_000, "a") + task("Say %d words", 20, "n1")), MaxNew: 50, Priority: -1, Explicit: true})
		stop := make(chan struct{})
		var streams sync.WaitGroup
		for i := range 4 {
			streams.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					r, err := l.Submit(Spec{Prompt: say(150, fmt.Sprint("s", i, "x", n)), MaxNew: 200, OneShotAllowed: true, Priority: 0, Explicit: true})
					if err != nil {
						return
					}
					collect(r)
				}
			})
		}
		last, pause, parks := time.Now(), time.Duration(0), 0
		for {
			u, err := read.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case u.Kind == KindEnd:
				close(stop)
				streams.Wait()
				// Invariant 19: 30 s + 8 s + a switch + a chunk, nobody else starving.
				if u.End.Err != nil || pause > 40*time.Second || parks < 3 {
					t.Errorf("longest pause %v in %d parks: %v", pause, parks, u.End.Err)
				}
				return
			case u.Kind == KindState && u.State == sched.StateParked:
				last = time.Now()
				parks++
			case u.Kind == KindState && u.Resumed:
				pause = max(pause, time.Since(last))
			}
		}
	})
}

// TestS37ProgressBetweenParks: under a flood of sooner shorts the long answer
// gains something between any two parks.
func TestS37ProgressBetweenParks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := running(t, Config{Machine: policy(sched.Budget), Start: standIn("--resume-prefill", "--prefill-chunk", "1024", "--sequences", "3")})
		long := submit(t, l, Spec{Prompt: turn(filler(20_000, "a") + task("Write %d lines", 40, "n1")), MaxNew: 2000})
		done := make(chan struct{})
		var shorts sync.WaitGroup
		shorts.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				case <-time.After(700 * time.Millisecond):
				}
				if r, err := l.Submit(Spec{Prompt: say(3, fmt.Sprint("s", n)), MaxNew: 20, OneShotAllowed: true}); err == nil {
					shorts.Go(func() { collect(r) })
				}
			}
		})
		gained, position, parks := true, 0, 0
		for {
			u, err := long.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case u.Kind == KindTokens, u.State == sched.StateReading && u.N > position:
				gained, position = true, max(position, u.N)
			case u.Kind == KindState && u.State == sched.StateParked:
				if !gained {
					t.Errorf("park %d without progress since the last", parks)
				}
				gained = false
				parks++
			case u.Kind == KindEnd:
				close(done)
				shorts.Wait()
				if u.End.Err != nil || parks < 5 {
					t.Errorf("%d parks, %v", parks, u.End.Err)
				}
				return
			}
		}
	})
}

// TestS46AbortedReadIsNotReused: what a stopped read left behind never changes an
// answer.
func TestS46AbortedReadIsNotReused(t *testing.T) {
	for _, flags := range []string{"", "--resume-prefill --prefill-chunk 1024"} {
		synctest.Test(t, func(t *testing.T) {
			start := standIn(strings.Fields(flags)...)
			s := Spec{Prompt: turn(filler(30_000, "a") + task("Write %d lines", 5, "n1")), MaxNew: 200}
			l := running(t, Config{Machine: policy(sched.Budget), Start: start})
			r := submit(t, l, s)
			time.Sleep(3*time.Second + 217*time.Millisecond)
			r.Cancel()
			ids, _ := everything(t, submit(t, l, s))
			if want, _ := undisturbed(t, start, s); !slices.Equal(ids, want) {
				t.Errorf("%q: the answer differs from a cold run", flags)
			}
		})
	}
}

// TestFollowUpKeepsItsCache: a short follow-up turn of a long conversation runs
// inside another's answer, boosted but without ckpt=0, so that the turn after it
// still finds everything.
func TestFollowUpKeepsItsCache(t *testing.T) {
	for _, name := range []string{sched.Quantum, sched.Budget} {
		synctest.Test(t, func(t *testing.T) {
			l := running(t, Config{Machine: policy(name), Start: standIn()})
			history := turn(filler(20_000, "a") + task("Say %d words", 5, "n1"))
			ids, _ := everything(t, submit(t, l, Spec{Prompt: history, MaxNew: 50}))
			long := Spec{Prompt: turn(filler(500, "b") + task("Write %d lines", 100, "n2")), MaxNew: 4000}
			other := later(submit(t, l, long))
			for n := range 3 {
				time.Sleep(7 * time.Second)
				history = slices.Concat(history, ids, say(5, fmt.Sprint("f", n)))
				a := collect(submit(t, l, Spec{Prompt: history, MaxNew: 50}))
				ids = a.ids
				if a.end.Err != nil || a.first > 2*time.Second || a.end.Stats.Cached < len(history)-100 {
					t.Errorf("%s: follow-up %d: first token after %v, %d of %d cached, %v", name, n, a.first, a.end.Stats.Cached, len(history), a.end.Err)
				}
			}
			if a := <-other; a.end.Err != nil || a.end.Stats.Parks == 0 {
				t.Errorf("%+v", a.end)
			}
			s, _ := l.Status(t.Context())
			if s.Counters.LostPrefix != 0 || s.Counters.UnreadError > 100 {
				t.Errorf("lost %d, estimates off by %d", s.Counters.LostPrefix, s.Counters.UnreadError)
			}
		})
	}
}

// TestS42WhatCannotBeResumedIsNotParked: opt-outs run to their end, whoever waits.
func TestS42WhatCannotBeResumedIsNotParked(t *testing.T) {
	for _, name := range []string{sched.Quantum, sched.Budget} {
		synctest.Test(t, func(t *testing.T) {
			l := running(t, Config{Machine: policy(name), Start: standIn()})
			out := later(submit(t, l, Spec{Prompt: turn(task("Write %d lines", 60, "n1")), MaxNew: 2000, Params: engine.Params{NoCheckpoint: true}}))
			time.Sleep(7 * time.Second)
			collect(submit(t, l, Spec{Prompt: say(3, "hi"), MaxNew: 20, OneShotAllowed: true}))
			if a := <-out; a.end.Err != nil || a.end.Stats.Parks != 0 {
				t.Errorf("%+v", a.end)
			}
		})
	}
}

// TestNoCacheIsHonest: without the conversation cache a park re-reads everything;
// the answer is right and the counters say so.
func TestNoCacheIsHonest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := running(t, Config{Machine: policy(sched.Quantum), Start: standIn("--conversation-cache-mib", "0")})
		s := Spec{Prompt: turn(filler(8000, "a") + task("Write %d lines", 60, "n1")), MaxNew: 4000}
		c := make(chan []int32, 1)
		r := submit(t, l, s)
		go func() { ids, _ := everything(t, r); c <- ids }()
		time.Sleep(10 * time.Second)
		collect(submit(t, l, Spec{Prompt: say(3, "hi"), MaxNew: 20, OneShotAllowed: true}))
		ids := <-c
		if want, _ := undisturbed(t, standIn(), s); !slices.Equal(ids, want) {
			t.Error("the answer differs")
		}
		st, _ := l.Status(t.Context())
		if st.Counters.LostPrefix+st.Counters.Reread < 8000 {
			t.Errorf("lost %d, read again %d", st.Counters.LostPrefix, st.Counters.Reread)
		}
	})
}

// TestRandomTraffic: many requests of all kinds at random instants, with cancels,
// stop strings and a death; each ends once, and those that end well have the
// answer of an undisturbed run.
func TestRandomTraffic(t *testing.T) {
	for seed := range int64(4) {
		t.Run(strconv.FormatInt(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomTraffic(t, seed) })
		})
	}
}

func randomTraffic(t *testing.T, seed int64) {
	flags := [][]string{nil, {"--resume-prefill", "--prefill-chunk", "2048"}, {"--sequences", "2"}, {"--conversation-cache-mib", "0"}}[seed%4]
	start := standIn(flags...)
	m := policy([]string{sched.Budget, sched.Quantum}[seed%2])
	m.Queue = 20
	l := running(t, Config{Machine: m, Start: start})
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	var wg sync.WaitGroup
	accepted, ended := 0, 0
	var mu sync.Mutex
	for i := range 60 {
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		s := Spec{Prompt: turn(filler(10<<rng.IntN(11), fmt.Sprint("f", i)) + task("Say %d words", 5<<rng.IntN(9), fmt.Sprint("n", i))),
			MaxNew: 10 << rng.IntN(8), Label: fmt.Sprint(i)}
		s.OneShotAllowed = rng.IntN(2) == 0
		if rng.IntN(3) == 0 {
			s.Priority, s.Explicit = rng.IntN(5)-2, true
		}
		if rng.IntN(2) == 0 {
			s.Params = engine.Params{Temperature: 0.9, Seed: uint64(i + 1)}
		}
		r, err := l.Submit(s)
		if err != nil {
			continue
		}
		accepted++
		leaves := rng.IntN(5) == 0
		if leaves {
			time.AfterFunc(time.Duration(rng.IntN(20_000))*time.Millisecond, r.Cancel)
		}
		wg.Go(func() {
			a := collect(r)
			mu.Lock()
			ended++
			mu.Unlock()
			if a.end.Err != nil {
				if !leaves {
					t.Errorf("request %s: %v", s.Label, a.end.Err)
				}
				return
			}
			if want, _ := undisturbed(t, standIn(), s); !slices.Equal(a.ids, want) {
				t.Errorf("request %s: the answer differs after %d parks", s.Label, a.end.Stats.Parks)
			}
		})
	}
	wg.Wait()
	s, err := l.Status(context.Background())
	if err != nil || ended != accepted || s.Counters.Accepted != uint64(accepted) || s.Counters.Ended != uint64(accepted) ||
		len(s.Requests) != 0 || s.Waiting+s.Running+s.Parked != 0 || s.Counters.Strays != 0 {
		t.Errorf("%d accepted, %d ended, %+v %v", accepted, ended, s, err)
	}
	t.Logf("%d requests, %d parks, %d lost, %d read again", accepted, s.Counters.Preemptions, s.Counters.LostPrefix, s.Counters.Reread)
}
