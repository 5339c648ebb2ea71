package serve

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

// Part 2 C of the field reports: what parks, resumes and the prefix cache must not
// lose. Each test carries the number of its class; parks_test.go compares whole
// answers for every engine.

// TestS38ResumeKnowsWhatWasSaid: a park at token 10, greedy, against the solo run.
func TestS38ResumeKnowsWhatWasSaid(t *testing.T) {
	body := ask(words + "Say 40 words by rule n.")
	var want string
	inBubble(t, "", "", func(r *rig) { want = r.chat(body).content })
	inBubble(t, `"solo_priority":true,"solo_force_park_every":10`, "", func(r *rig) {
		s := r.chat(body)
		if s.content != want || s.timings.num("parks") < 2 {
			t.Errorf("after %v parks %q, want %q", s.timings.num("parks"), s.content, want)
		}
	})
}

// TestS40EachTokenOnce: parks during the first tokens; every id reaches the client
// exactly once, so the pieces of a stream count up to the answer.
func TestS40EachTokenOnce(t *testing.T) {
	inBubble(t, `"solo_priority":true,"solo_force_park_every":1`, "--logprobs", func(r *rig) {
		s := r.chat(ask("Quote: a b c", "logprobs", true))
		text := ""
		for _, l := range s.scores {
			text += l.str("token")
		}
		if text != "a b c" || s.content != text || s.timings.num("parks") < 1 {
			t.Errorf("tokens %q, content %q, %v parks", text, s.content, s.timings.num("parks"))
		}
	})
}

// TestS41ParkInTheReadSendsNothingTwice: stopped and resumed in the read, the
// answer comes once.
func TestS41ParkInTheReadSendsNothingTwice(t *testing.T) {
	inBubble(t, `"solo_priority":true`, "--resume-prefill --prefill-chunk 2048", func(r *rig) {
		long := r.stream(chatPath, ask(strings.Repeat("river stone ", 20_000)+"\nQuote: once", "stream", true))
		long.untilComment("reading 8192/")
		r.ttft(ask("Quote: hi", "max_tokens", 5))
		s := sayings(t, long.rest())
		if s.content != "once" || s.timings.num("parks") < 1 {
			t.Errorf("%q after %v parks", s.content, s.timings.num("parks"))
		}
	})
}

// TestS42StateThatCannotBeLost: grammar, penalties and scores live in the request
// or in its ids; whatever cannot be resumed would have to fail by name.
func TestS42StateThatCannotBeLost(t *testing.T) {
	bodies := []object{
		ask("Fact: a = 1\nAudit: a", "response_format", object{"type": "json_object"}),
		ask(words+"Say 20 words by rule n.", "repetition_penalty", 1.3, "presence_penalty", 0.5, "temperature", 0.9, "seed", 5),
		ask(words+"Say 20 words by rule n.", "logprobs", true, "top_logprobs", 2),
	}
	var want []said
	inBubble(t, "", "--token-mask --logprobs", func(r *rig) {
		for _, b := range bodies {
			want = append(want, r.chat(b))
		}
	})
	inBubble(t, parkEach, "--token-mask --logprobs", func(r *rig) {
		for i, b := range bodies {
			s := r.chat(b)
			if s.content != want[i].content || len(s.scores) != len(want[i].scores) || s.timings.num("parks") < 1 {
				t.Errorf("%v: %q with %d scores, want %q with %d", b, s.content, len(s.scores), want[i].content, len(want[i].scores))
			}
		}
	})
}

// TestS44ReuseIsCountedNotAssumed: without a conversation cache a park costs the
// whole read, and the counters say so.
func TestS44ReuseIsCountedNotAssumed(t *testing.T) {
	long := ask(strings.Repeat("river stone ", 1500)+"\n"+words+"Write 60 lines by rule n.", "stream", true)
	for cache, lost := range map[string]bool{"--conversation-cache-mib 0": true, "": false} {
		inBubble(t, `"solo_priority":true,"solo_policy":"quantum","solo_quantum_s":1`, cache, func(r *rig) {
			s := r.stream(chatPath, long)
			s.untilContent()
			pass(2 * time.Second)
			r.chat(ask(words+"Say 5 words by rule m.", "priority", 2))
			if got := sayings(t, s.rest()); got.timings.num("parks") != 1 {
				t.Fatalf("timings %v", got.timings)
			}
			if n := r.metric("strata:solo_reread_tokens_total") + r.metric("strata:solo_lost_prefix_tokens_total"); (n > 3000) != lost || !lost && n != 0 {
				t.Errorf("flags %q: %v tokens counted as read again", cache, n)
			}
		})
	}
}

// TestS45SecondTurnIsCheap: two turns with a prefix of 20K tokens.
func TestS45SecondTurnIsCheap(t *testing.T) {
	inBubble(t, `"solo_priority":true`, "", func(r *rig) {
		messages := user(strings.Repeat("river stone ", 10_000) + "\nQuote: one")
		first := r.whole(object{"messages": messages})
		messages = append(messages, object{"role": "assistant", "content": "one"}, object{"role": "user", "content": "Quote: two"})
		body := object{"messages": messages}
		from := time.Now()
		second := r.whole(body)
		if d, cached := time.Since(from), second.num("usage.prompt_tokens_details.cached_tokens"); d > time.Second || cached < first.num("usage.total_tokens")-1 {
			t.Errorf("the second turn took %v with %v cached tokens", d, cached)
		}
	})
}

// TestS46AbortedReadIsNotReused: what a client left in the middle of a chunk is no
// prefix of anything; the next answer equals a cold run's.
func TestS46AbortedReadIsNotReused(t *testing.T) {
	body := ask(strings.Repeat("river stone ", 12_000)+"\n"+words+"Say 30 words by rule n.", "temperature", 0.8, "seed", 4)
	var cold string
	inBubble(t, "", "", func(r *rig) { cold = r.chat(body).content })
	for _, flags := range []string{"", "--resume-prefill"} {
		inBubble(t, "", flags, func(r *rig) {
			r.leave(chatPath, body, after(4*time.Second))
			if got := r.chat(body).content; got != cold {
				t.Errorf("flags %q: %q, cold %q", flags, got, cold)
			}
		})
	}
}

// TestS48RestoreIsMeasured: the same 16K prompt again, after another conversation.
func TestS48RestoreIsMeasured(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		body := ask(strings.Repeat("river stone ", 8000) + "\nQuote: x")
		cold := r.whole(body).num("timings.prompt_ms")
		r.whole(ask("another conversation"))
		if warm := r.whole(body).num("timings.prompt_ms"); warm > cold/4 || warm <= 0 {
			t.Errorf("cold %v ms, restored %v ms", cold, warm)
		}
	})
}

// The rest of part 2 B and D.

// TestS24ShortBehindALongRead: today's engine cannot stop a read; slices let the
// short one in at their edges.
func TestS24ShortBehindALongRead(t *testing.T) {
	inBubble(t, `"solo_priority":true`, "", func(r *rig) {
		r.stream(chatPath, ask(strings.Repeat("river stone ", 64_000), "stream", true, "max_tokens", 300)).untilComment("reading 16383/") // the first edge
		if d := r.ttft(ask("Quote: hi", "max_tokens", 9)); d > 10*time.Second {
			t.Errorf("the short one waited %v; the whole read takes 52 s", d)
		}
	})
}

// TestS28ReadAdvancesBesideStreams: four clients keep the engine busy with sooner
// requests; the later one is served within the starvation bound.
func TestS28ReadAdvancesBesideStreams(t *testing.T) {
	inBubble(t, `"solo_priority":true`, "", func(r *rig) {
		stop := make(chan struct{})
		done := make(chan struct{}, 4)
		for range 4 {
			go func() {
				defer func() { done <- struct{}{} }()
				for {
					select {
					case <-stop:
						return
					default:
					}
					resp, err := r.try(context.Background(), "POST", chatPath, ask(words+"Write 20 lines by rule s.", "priority", 1))
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}()
		}
		pass(5 * time.Second)
		d := r.ttft(ask(strings.Repeat("river stone ", 5000), "max_tokens", 300, "priority", 0))
		close(stop)
		for range 4 {
			<-done
		}
		if d > 60*time.Second {
			t.Errorf("it waited %v", d)
		}
	})
}

// TestS37ProgressBetweenParks: a request parked as often as possible gains a token
// between any two parks.
func TestS37ProgressBetweenParks(t *testing.T) {
	inBubble(t, `"solo_priority":true,"solo_force_park_every":1`, "", func(r *rig) {
		for range 3 {
			r.stream(chatPath, ask(longTask("a"), "stream", true, "priority", 0, "max_tokens", 200))
		}
		s := r.chat(ask(words+"Say 30 words by rule n.", "priority", 0))
		if parks, n := s.timings.num("parks"), s.timings.num("predicted_n"); parks > n || parks < 5 || n != 31 {
			t.Errorf("%v parks for %v tokens", parks, n)
		}
	})
}

// TestS52AcceptedAndNeverAnswered: an engine that takes a request and says nothing
// is noticed, killed and replaced.
func TestS52AcceptedAndNeverAnswered(t *testing.T) {
	withFaults(t, `"engine_silence_s":20`, "", func(r *rig, add func(string)) {
		add("silence@read:1")
		from := time.Now()
		status, o := r.json("POST", chatPath, ask("Quote: x"))
		if d := time.Since(from); status != 503 || o.str("error.code") != "engine_died" || d > 30*time.Second {
			t.Errorf("%d %v after %v", status, o, d)
		}
		if s := r.chat(ask("Quote: back")); s.content != "back" {
			t.Errorf("the next request: %+v", s)
		}
	})
}

// TestS57StopIgnored: an engine that does not answer STOP is killed; whoever waits
// is served by the next one.
func TestS57StopIgnored(t *testing.T) {
	withFaults(t, `"engine_silence_s":20`, "", func(r *rig, add func(string)) {
		add("silence@stop")
		var next *reader
		r.leave(chatPath, ask(longTask("a"), "stream", true), func() {
			pass(2 * time.Second)
			next = r.stream(chatPath, ask("Quote: next", "stream", true))
		})
		if s := sayings(t, next.rest()); s.content != "next" {
			t.Errorf("who waited: %+v", s)
		}
		if st := r.status(); st.Counters.Loads != 2 {
			t.Errorf("%d loads", st.Counters.Loads)
		}
	})
}
