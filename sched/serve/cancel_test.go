package serve

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"interlude/sched/loop"
)

// Part 2 A of the field reports: clients that leave. Each test carries the number
// of its class. The cases that need real sockets are in sockets_test.go.

// oneWindow is how long the stand-in needs to answer STOP in a decode: a window
// of at most four tokens.
const oneWindow = 60 * time.Millisecond

// leave sends a request, waits until the test says go, and leaves.
func (r *rig) leave(path string, body object, when func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		resp, err := r.try(ctx, "POST", path, body)
		if err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}()
	when()
	cancel()
	<-gone
}

// status is the loop's snapshot.
func (r *rig) status() loop.Status {
	r.t.Helper()
	st, err := r.s.loop.Status(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	return st
}

// idle waits until nothing is queued, runs or is parked, and returns how long it
// took.
func (r *rig) idle() time.Duration {
	r.t.Helper()
	from := time.Now()
	for range 100_000 {
		if st := r.status(); st.Waiting+st.Running+st.Parked == 0 {
			return time.Since(from)
		}
		pass(time.Millisecond)
	}
	r.t.Fatal("never idle again")
	return 0
}

func after(d time.Duration) func() { return func() { pass(d) } }

func longTask(nonce string) string { return words + "Write 400 lines by rule " + nonce + "." }

func TestS1KilledClientFreesTheSlot(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		for _, stream := range []bool{true, false} {
			for _, path := range []string{chatPath, respPath} {
				body := ask(longTask("a"), "stream", stream)
				if path == respPath {
					body = object{"input": longTask("a"), "stream": stream}
				}
				r.leave(path, body, after(2*time.Second))
				if d := r.idle(); d > oneWindow {
					t.Errorf("%s stream %v: the slot was free after %v", path, stream, d)
				}
			}
		}
		if n := r.status().Counters.Ended; n != 4 {
			t.Errorf("ended %d, want 4", n)
		}
	})
}

// TestS2QueuedClientVanishes: the engine never hears of it.
func TestS2QueuedClientVanishes(t *testing.T) {
	for _, config := range []string{"", `"solo_priority":true`} {
		inBubble(t, config, "", func(r *rig) {
			a := r.stream(chatPath, ask(words+"Write 60 lines by rule a.", "stream", true))
			a.untilContent()
			r.leave(chatPath, ask("Quote: never", "stream", true, "max_tokens", 5000), after(time.Second))
			synctest.Wait()
			if st := r.status(); st.Waiting != 0 || st.Running != 1 {
				t.Fatalf("after it left: %d wait, %d run", st.Waiting, st.Running)
			}
			c := r.stream(chatPath, ask("Quote: next", "stream", true, "max_tokens", 5000))
			if got := sayings(t, c.rest()); got.content != "next" {
				t.Errorf("the next in the queue: %+v", got)
			}
			if s := sayings(t, a.rest()); len(s.finish) != 1 || strings.Count(s.content, "\n") != 59 {
				t.Errorf("the owner: %v after %d lines", s.finish, strings.Count(s.content, "\n"))
			}
			if n := r.sent.count("GEN "); n != 2 {
				t.Errorf("the engine saw %d GEN lines, want 2: %q", n, r.sent.lines())
			}
		})
	}
}

func TestS4ClosedStreamFreesTheSlot(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		s := r.stream(chatPath, ask(longTask("a"), "stream", true))
		for range 3 {
			s.untilContent()
		}
		s.resp.Body.Close()
		next := r.stream(chatPath, ask("Quote: hi", "stream", true))
		if e := next.untilContent(); e.at > 500*time.Millisecond {
			t.Errorf("the next request's first token came after %v", e.at)
		}
	})
}

func TestS5LeavingDuringTheRead(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		prompt := strings.Repeat("river stone ", 25_000)
		r.leave(chatPath, ask(prompt, "stream", true), after(2*time.Second))
		if d := r.idle(); d > 4*time.Second { // one chunk of 8,192 tokens and the refill
			t.Errorf("the slot was free after %v", d)
		}
		if n := r.sent.count("STOP"); n != 1 {
			t.Errorf("%d STOP lines", n)
		}
	})
}

// TestS6QueuedLeaverHarmsNobody: the owner's answer equals its solo run.
func TestS6QueuedLeaverHarmsNobody(t *testing.T) {
	for _, config := range []string{"", `"solo_priority":true,"solo_policy":"quantum"`} {
		inBubble(t, config, "", func(r *rig) {
			body := ask(words+"Write 60 lines by rule a.", "temperature", 0.7, "seed", 9)
			solo := r.chat(body).content
			a := r.stream(chatPath, body)
			for i := range 5 {
				a.untilContent()
				r.leave(chatPath, ask(fmt.Sprintf("Quote: %d", i), "stream", i%2 == 0, "max_tokens", 5000), after(300*time.Millisecond))
			}
			if got := sayings(t, a.rest()).content; got != solo {
				t.Errorf("%d bytes differ from the solo run's %d", len(got), len(solo))
			}
		})
	}
}

// TestS8StopIsSeenInEveryStep: the acknowledgement of a STOP in a decode, as the
// request behind it sees it.
func TestS8StopIsSeenInEveryStep(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		for i := range 20 {
			r.leave(chatPath, ask(longTask("a"), "stream", true), after(time.Second+time.Duration(i)*7*time.Millisecond))
			if d := r.idle(); d > oneWindow {
				t.Errorf("try %d: acknowledged after %v", i, d)
			}
		}
	})
}

func TestS9StopStringFreesTheEngine(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		s := r.chat(ask(longTask("a"), "stop", "\n3:", "max_tokens", 8000))
		if strings.Count(s.content, "\n") != 1 || s.finish[0] != "stop" {
			t.Errorf("content %q, finish %v", s.content, s.finish)
		}
		if n := s.timings.num("predicted_n"); n > 60 {
			t.Errorf("the engine wrote %v tokens after all", n)
		}
		if d := r.idle(); d > oneWindow {
			t.Errorf("busy for another %v", d)
		}
	})
}

// TestS10RetryAfterLeavingGoesOn: what was read before the client left is not
// read again, as far as the engine keeps it.
func TestS10RetryAfterLeavingGoesOn(t *testing.T) {
	prompt := strings.Repeat("river stone ", 50_000)
	for flags, least := range map[string]float64{"": 16_384, "--resume-prefill --prefill-chunk 8192": 30_000} {
		inBubble(t, "", flags, func(r *rig) {
			r.leave(chatPath, ask(prompt, "stream", true), after(20*time.Second))
			o := r.whole(ask(prompt, "max_tokens", 1))
			if n := o.num("usage.prompt_tokens_details.cached_tokens"); n < least {
				t.Errorf("flags %q: %v tokens were kept, want at least %v", flags, n, least)
			}
		})
	}
}

// TestS12RetriesMakeProgress: a client whose patience is 60 % of the read gets
// its answer with the second try.
func TestS12RetriesMakeProgress(t *testing.T) {
	prompt := strings.Repeat("river stone ", 50_000)
	inBubble(t, "", "--resume-prefill", func(r *rig) {
		patience := 25 * time.Second // the whole read takes about 41 s
		r.leave(chatPath, ask(prompt, "max_tokens", 1), after(patience))
		from := time.Now()
		r.whole(ask(prompt, "max_tokens", 1))
		if d := time.Since(from); d > patience {
			t.Errorf("the second try took %v", d)
		}
	})
}

// TestS13LeavingWithTheLastToken: whatever wins, there is exactly one outcome and
// the ledger balances.
func TestS13LeavingWithTheLastToken(t *testing.T) {
	inBubble(t, `"solo_priority":true`, "", func(r *rig) {
		from := time.Now()
		r.whole(ask("Quote: ok"))
		took := time.Since(from)
		const tries = 1000
		for i := range tries {
			r.leave(chatPath, ask("Quote: ok", "stream", i%2 == 0), after(took-30*time.Millisecond+time.Duration(i)*60*time.Microsecond))
		}
		r.idle()
		n := r.status().Counters
		if n.Accepted != tries+1 || n.Ended != n.Accepted {
			t.Errorf("accepted %d, ended %d", n.Accepted, n.Ended)
		}
		var sum float64
		for _, o := range []string{outcomeCompleted, outcomeCancelled, outcomeFailed, outcomeRefused} {
			v := r.metric(`strata:requests_total{outcome="` + o + `"}`)
			sum += v
			if o == outcomeFailed && v != 0 {
				t.Errorf("%v failed", v)
			}
		}
		if sum != tries+1 {
			t.Errorf("outcomes sum to %v, want %d", sum, tries+1)
		}
	})
}

func TestS14QueueMovesAtOnce(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		prompt := strings.Repeat("river stone ", 25_000)
		var short *reader
		r.leave(chatPath, ask(prompt, "stream", true), func() {
			pass(time.Second)
			short = r.stream(chatPath, ask("Quote: hi", "stream", true))
		})
		if e := short.untilContent(); e.at > 5*time.Second {
			t.Errorf("the short one waited %v for a client that had left", e.at)
		}
	})
}

// TestS17BoundedQueue: a thousand requests at once; what is refused is told so at
// once, what is queued can leave.
func TestS17BoundedQueue(t *testing.T) {
	for _, config := range []string{`"solo_queue":20`, `"solo_queue":20,"solo_priority":true`} {
		inBubble(t, config, "", func(r *rig) {
			ctx, cancel := context.WithCancel(context.Background())
			var mu sync.Mutex
			var all sync.WaitGroup
			got := map[int]int{}
			for range 1000 {
				all.Go(func() {
					resp, err := r.try(ctx, "POST", chatPath, ask(longTask("a"), "stream", true))
					if err != nil {
						t.Error(err)
						return
					}
					defer resp.Body.Close()
					if resp.StatusCode == 429 && resp.Header.Get("Retry-After") == "" {
						t.Error("429 without Retry-After")
					}
					mu.Lock()
					got[resp.StatusCode]++
					mu.Unlock()
					io.Copy(io.Discard, resp.Body)
				})
			}
			pass(time.Second)
			mu.Lock()
			if got[200] != 21 || got[429] != 979 {
				t.Errorf("statuses %v, want 21 accepted and 979 refused", got)
			}
			mu.Unlock()
			cancel()
			all.Wait()
			if d := r.idle(); d > oneWindow {
				t.Errorf("idle after %v", d)
			}
		})
	}
}

// TestLeavingWhileParked: the present owner is not touched, and each leaver is
// counted in the state it was in.
func TestLeavingWhileParked(t *testing.T) {
	inBubble(t, `"solo_priority":true,"solo_policy":"quantum","solo_quantum_s":1`, "", func(r *rig) {
		body := ask(words+"Write 60 lines by rule b.", "priority", 3)
		solo := r.chat(body).content
		var owner *reader
		r.leave(chatPath, ask(longTask("a"), "stream", true), func() {
			pass(3 * time.Second)
			owner = r.stream(chatPath, body)
			owner.untilContent()
			if st := r.status(); st.Parked != 1 {
				t.Errorf("parked %d, want the long one", st.Parked)
			}
		})
		synctest.Wait()
		if st := r.status(); st.Parked != 0 || st.Running != 1 {
			t.Errorf("after it left: %d parked, %d run", st.Parked, st.Running)
		}
		if got := sayings(t, owner.rest()).content; got != solo {
			t.Error("the owner's answer differs from its solo run")
		}
		r.leave(chatPath, ask(strings.Repeat("river stone ", 5000), "stream", true), after(200*time.Millisecond))
		r.leave(chatPath, ask(longTask("c"), "stream", true), func() {
			pass(2 * time.Second)
			r.leave(chatPath, ask(longTask("d"), "stream", true), after(time.Second))
		})
		r.idle()
		for _, state := range []string{"waiting", "reading", "decoding", "parked"} {
			if n := r.metric(`strata:solo_cancels_total{state="` + state + `"}`); n != 1 {
				t.Errorf("cancels in %s: %v, want 1", state, n)
			}
		}
	})
}
