package serve

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Part 2 B of the field reports: who waits for whom. Each test carries the number
// of its class. What only the machine decides is also tested beside it.

const solo = `"solo_priority":true`

// ttft sends a stream, reads it whole and returns when its first content came.
func (r *rig) ttft(body object, headers ...string) time.Duration {
	r.t.Helper()
	body["stream"] = true
	s := r.stream(chatPath, body, headers...)
	e := s.untilContent()
	s.rest()
	return e.at
}

func TestS18ShortDuringALongRead(t *testing.T) {
	prompt := strings.Repeat("river stone ", 50_000)
	inBubble(t, solo, "--resume-prefill --prefill-chunk 1024 --sequences 3", func(r *rig) {
		r.stream(chatPath, ask(prompt, "stream", true)).untilComment("reading 8192/")
		if d := r.ttft(ask("Quote: hi", "max_tokens", 9)); d > time.Second {
			t.Errorf("\"hi\" waited %v", d)
		}
	})
}

func TestS20StrictlySoonerDisplaces(t *testing.T) {
	inBubble(t, solo+`,"solo_policy":"quantum","solo_quantum_s":1`, "", func(r *rig) {
		low := r.stream(chatPath, ask(longTask("a"), "stream", true, "priority", 0))
		low.untilContent()
		pass(2 * time.Second)
		body := ask(words+"Write 30 lines by rule b.", "priority", 5)
		if d := r.ttft(body); d > 3*time.Second {
			t.Errorf("priority 5 waited %v for priority 0", d)
		}
		low.untilComment("resumed")
		body["priority"] = 0
		delete(body, "stream")
		equal := r.stream(chatPath, ask(words+"Write 30 lines by rule b.", "stream", true, "priority", 0))
		pass(5 * time.Second)
		if st := r.status(); st.Counters.Preemptions != 1 {
			t.Errorf("%d preemptions: equal urgency displaces nobody", st.Counters.Preemptions)
		}
		equal.resp.Body.Close()
	})
}

// TestS21ParkedComeBackFirst: a flood of equals does not pass a parked request.
func TestS21ParkedComeBackFirst(t *testing.T) {
	inBubble(t, solo+`,"solo_policy":"quantum","solo_quantum_s":1`, "", func(r *rig) {
		long := r.stream(chatPath, ask(words+"Write 60 lines by rule a.", "stream", true, "priority", 0))
		long.untilContent()
		pass(2 * time.Second)
		first := r.stream(chatPath, ask(words+"Write 10 lines by rule b.", "stream", true, "priority", 1))
		first.untilContent()
		var flood []*reader
		for i := range 5 {
			flood = append(flood, r.stream(chatPath, ask(fmt.Sprintf("%sWrite 30 lines by rule f%d.", words, i), "stream", true, "priority", 0)))
		}
		var resumed, fresh time.Time
		var all sync.WaitGroup
		all.Go(func() { first.rest() })
		all.Go(func() {
			long.untilComment("resumed")
			resumed = time.Now()
			long.rest()
		})
		all.Go(func() {
			flood[0].untilContent()
			fresh = time.Now()
		})
		all.Wait()
		if fresh.Before(resumed) {
			t.Error("a fresh equal ran before the parked one")
		}
	})
}

// TestS22ForcedPreemptionUnderLoad: nothing breaks, everything ends right.
func TestS22ForcedPreemptionUnderLoad(t *testing.T) {
	inBubble(t, solo+`,"solo_force_park_every":3`, "--sequences 2 --resume-prefill", func(r *rig) {
		var all []*reader
		for i := range 12 {
			all = append(all, r.stream(chatPath, ask(fmt.Sprintf("%sWrite 6 lines by rule n%d.", words, i), "stream", true, "priority", i%3)))
		}
		for i, s := range all {
			got := sayings(t, s.rest())
			if !slices.Equal(got.finish, []string{"stop"}) || strings.Count(got.content, "\n") != 5 || !strings.HasPrefix(got.content, "1: ") {
				t.Errorf("request %d: finish %v, %q", i, got.finish, got.content)
			}
		}
		if n := r.status().Counters; n.Forced == 0 || n.Ended != 12 {
			t.Errorf("forced %d, ended %d", n.Forced, n.Ended)
		}
	})
}

// TestS25EndlessShortsDoNotStarve: shorts without end, one cold long request.
func TestS25EndlessShortsDoNotStarve(t *testing.T) {
	inBubble(t, solo, "", func(r *rig) {
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() { // a short each 300 ms: more than the engine can take
			defer close(done)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(300 * time.Millisecond):
				}
				go func() {
					resp, err := r.try(context.Background(), "POST", chatPath, ask(fmt.Sprintf("Quote: %d", i), "max_tokens", 20))
					if err == nil {
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}()
			}
		}()
		pass(5 * time.Second)
		d := r.ttft(ask(strings.Repeat("river stone ", 5000), "max_tokens", 300))
		close(stop)
		<-done
		if limit := 60 * time.Second; d > limit {
			t.Errorf("the cold request waited %v, more than %v", d, limit)
		}
		r.idle()
	})
}

// TestS26PauseOfADecoder: a read that comes later does not take the engine again
// and again; the longest gap of the stream is bounded.
func TestS26PauseOfADecoder(t *testing.T) {
	inBubble(t, solo, "", func(r *rig) {
		long := r.stream(chatPath, ask(longTask("a"), "stream", true, "max_tokens", 3000))
		long.untilContent()
		go func() {
			pass(3 * time.Second)
			resp, err := r.try(context.Background(), "POST", chatPath, ask(strings.Repeat("river stone ", 2500), "max_tokens", 50, "priority", 1))
			if err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}()
		var last, gap time.Duration
		for _, e := range long.rest() {
			if e.object.str("choices.0.delta.content") != "" {
				if last > 0 {
					gap = max(gap, e.at-last)
				}
				last = e.at
			}
		}
		if gap > 8*time.Second || gap < time.Second {
			t.Errorf("the longest gap is %v: one read of 5K tokens takes about 2.5 s", gap)
		}
	})
}

func TestS29NewcomerDuringALongAnswer(t *testing.T) {
	inBubble(t, solo, "", func(r *rig) {
		r.stream(chatPath, ask(longTask("a"), "stream", true, "max_tokens", 1500)).untilContent()
		pass(2 * time.Second)
		if d := r.ttft(ask(strings.Repeat("river stone ", 4750), "max_tokens", 20, "priority", 1)); d > 12*time.Second {
			t.Errorf("9.5K tokens waited %v", d)
		}
	})
}

// TestS30QueueTimeoutOfAStream is an error, never a clean end.
func TestS30QueueTimeoutOfAStream(t *testing.T) {
	for _, config := range []string{`"solo_queue_timeout_s":2`, `"solo_queue_timeout_s":2,` + solo} {
		inBubble(t, config, "", func(r *rig) {
			r.stream(chatPath, ask(longTask("a"), "stream", true)).untilContent()
			from := time.Now()
			s := r.chat(ask(longTask("b")))
			if s.fault.str("code") != "queue_timeout" || s.done || len(s.finish) != 0 || time.Since(from) != 2*time.Second {
				t.Errorf("stream: %+v after %v", s, time.Since(from))
			}
			resp := r.do("POST", chatPath, ask(longTask("c")))
			defer resp.Body.Close()
			if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
				t.Errorf("non-stream: %d %v", resp.StatusCode, resp.Header)
			}
			events := r.stream(respPath, object{"input": longTask("d"), "stream": true}).rest()
			if e := events[len(events)-1]; e.name != "response.failed" || e.object.str("response.error.message") == "" {
				t.Errorf("responses: %+v", e)
			}
		})
	}
}

func TestS32S33QueueLimitHolds(t *testing.T) {
	for _, config := range []string{`"solo_queue":1`, `"solo_queue":1,` + solo} {
		inBubble(t, config, "", func(r *rig) {
			var got []int
			for range 6 {
				resp := r.do("POST", chatPath, ask(longTask("a"), "stream", true))
				r.open = append(r.open, resp.Body)
				got = append(got, resp.StatusCode)
				// Overload is 429 with Retry-After, never 500.
				if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); resp.StatusCode == 429 && (err != nil || n < 1) {
					t.Errorf("Retry-After %q", resp.Header.Get("Retry-After"))
				}
			}
			if !slices.Equal(got, []int{200, 200, 429, 429, 429, 429}) {
				t.Errorf("statuses %v", got)
			}
			status, o := r.json("POST", respPath, object{"input": "x"})
			if status != 429 || o.str("error.type") != kindBusy || o.str("error.code") != "queue_full" {
				t.Errorf("responses: %d %v", status, o)
			}
		})
	}
}

// TestS34ClassesStayApart: however long they wait, sooner classes are served first;
// only the starvation tier lets single ones pass.
func TestS34ClassesStayApart(t *testing.T) {
	for aging, strict := range map[string]bool{"1000": true, "10": false} {
		inBubble(t, solo+`,"solo_queue":0,"solo_aging_s":`+aging, "", func(r *rig) {
			r.stream(chatPath, ask(longTask("a"), "stream", true, "priority", 9, "max_tokens", 300)).untilContent()
			var mu sync.Mutex
			var order []int // classes, as they are served
			var all sync.WaitGroup
			for i := range 300 {
				class := i % 3
				s := r.stream(chatPath, ask(words+"Say 20 words by rule n.", "stream", true, "priority", class))
				all.Go(func() {
					s.untilContent()
					mu.Lock()
					order = append(order, class)
					mu.Unlock()
					s.rest()
				})
			}
			all.Wait()
			var place [3]int
			for i, class := range order {
				place[class] += i
			}
			if !(place[2] < place[1] && place[1] < place[0]) {
				t.Errorf("aging %s: served in the order %v", aging, order)
			}
			if strict && !slices.IsSortedFunc(order, func(a, b int) int { return b - a }) {
				t.Errorf("aging %s: served in the order %v", aging, order)
			}
		})
	}
}

// TestS36ExtremePriorities: higher is sooner, to the ends of the integer.
func TestS36ExtremePriorities(t *testing.T) {
	inBubble(t, solo, "", func(r *rig) {
		r.stream(chatPath, ask(longTask("a"), "stream", true, "priority", 1<<31-1, "max_tokens", 500)).untilContent()
		order := make([]time.Duration, 5)
		var all sync.WaitGroup
		from := time.Now()
		for i, p := range []int{0, -1 << 31, 1<<31 - 1, -1, 1} {
			s := r.stream(chatPath, ask("Quote: x", "stream", true, "priority", p, "max_tokens", 5000))
			all.Go(func() {
				s.untilContent()
				order[i] = time.Since(from)
				s.rest()
			})
		}
		all.Wait()
		if !(order[2] < order[4] && order[4] < order[0] && order[0] < order[3] && order[3] < order[1]) {
			t.Errorf("first tokens at %v, want the order 2 4 0 3 1", order)
		}
		for _, p := range []any{"5", 1.5, true, 1 << 31, -1<<31 - 1, []int{1}} {
			r.refused(chatPath, ask("x", "priority", p), "priority")
			r.refused(respPath, object{"input": "x", "priority": p}, "priority")
		}
		status, o := r.json("POST", chatPath, ask("x"), "X-Priority", "high")
		if status != 400 || o.str("error.param") != "X-Priority" {
			t.Errorf("X-Priority: %d %v", status, o)
		}
	})
	// Off: ignored, whatever it is.
	inBubble(t, "", "", func(r *rig) {
		for _, p := range []any{"5", 1.5, true, []int{1}, object{}} {
			if status, o := r.json("POST", chatPath, ask("Quote: ok", "priority", p), "X-Priority", "high"); status != 200 {
				t.Errorf("priority %v with the scheduler off: %d %v", p, status, o)
			}
		}
	})
}

// TestPriorityHasThreeSources: body over header over map, key over alias.
func TestPriorityHasThreeSources(t *testing.T) {
	inBubble(t, solo+`,"api_key":["ka","kb"],"solo_priority_map":{"ka":3,"fast":2}`, "", func(r *rig) {
		r.stream(chatPath, ask(longTask("a"), "stream", true, "priority", 9), "Authorization", "Bearer kb").untilContent()
		for _, tt := range []struct {
			key, header, model string
			body               any
			want               int
		}{
			{"kb", "", "m", nil, 0}, {"kb", "", "fast", nil, 2}, {"ka", "", "fast", nil, 3}, {"ka", "5", "fast", nil, 5}, {"ka", "5", "fast", 7, 7}, {"kb", "-4", "m", nil, -4}, {"ka", "5", "m", 0, 0},
		} {
			body := ask(longTask("b"), "stream", true, "model", tt.model, "priority", tt.body)
			headers := []string{"Authorization", "Bearer " + tt.key, "X-Request-Id", "probe"}
			if tt.header != "" {
				headers = append(headers, "X-Priority", tt.header)
			}
			s := r.stream(chatPath, body, headers...)
			s.untilComment("queued")
			found := false
			_, o := r.json("GET", "/v1/status", nil, "Authorization", "Bearer kb")
			for _, q := range o["requests"].([]any) {
				if q := object(q.(map[string]any)); q.str("id") == "probe" {
					found = true
					if q.num("priority") != float64(tt.want) || q.str("state") != "waiting" {
						t.Errorf("%+v: status %v", tt, q)
					}
				}
			}
			if !found {
				t.Errorf("%+v: not in the status", tt)
			}
			s.resp.Body.Close()
			pass(time.Millisecond)
		}
	})
}
