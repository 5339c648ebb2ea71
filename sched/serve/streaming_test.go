package serve

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"interlude/sched/chat"
)

// Part 2 E of the field reports: what streams say. Each test carries the number
// of its class.

const (
	family   = "👩‍👩‍👧‍👦"
	parkEach = `"solo_priority":true,"solo_force_park_every":4`
)

func tool(name string, properties object) object {
	return object{"type": "function", "function": object{"name": name, "parameters": object{"type": "object", "properties": properties}}}
}

func cityTools() []object {
	return []object{tool("weather", object{"city": object{"type": "string"}, "days": object{"type": "integer"}}), tool("other", object{})}
}

// whole sends the same request without stream and returns the message.
func (r *rig) whole(body object) object {
	r.t.Helper()
	body["stream"] = false
	status, o := r.json("POST", "/v1/chat/completions", body)
	if status != 200 {
		r.t.Fatalf("status %d: %v", status, o)
	}
	return o
}

func TestS60WholeRunesInEveryChannel(t *testing.T) {
	for _, config := range []string{"", parkEach} {
		inBubble(t, config, "", func(r *rig) {
			body := ask(`Call: weather {"city":"ÄÖÜ 你好 🌍 `+family+`"}`, "tools", cityTools())
			s := r.chat(body) // the reader fails on an event that is not JSON, sayings on unstable ids
			if len(s.calls) != 1 || s.calls[0].args != `{"city":"ÄÖÜ 你好 🌍 `+family+`"}` {
				t.Errorf("calls %+v", s.calls)
			}
			o := r.whole(body)
			if got := o.str("choices.0.message.tool_calls.0.function.arguments"); got != s.calls[0].args {
				t.Errorf("non-stream arguments %q", got)
			}
		})
	}
}

func TestS61EmojiOverSeveralTokens(t *testing.T) {
	for _, config := range []string{"", parkEach} {
		inBubble(t, config, "", func(r *rig) {
			text := "go " + family + " on 你好"
			full := r.chat(ask("Quote: " + text))
			if full.content != text {
				t.Fatalf("content %q", full.content)
			}
			for n := 1; n < int(full.timings.num("predicted_n")); n++ {
				body := ask("Quote: "+text, "max_tokens", n)
				s := r.chat(body)
				if !strings.HasPrefix(text, s.content) || strings.Contains(s.content, "\ufffd") || !slices.Equal(s.finish, []string{"length"}) {
					t.Fatalf("max_tokens %d: %q, finish %v", n, s.content, s.finish)
				}
				if o := r.whole(body); o.str("choices.0.message.content") != s.content {
					t.Fatalf("max_tokens %d: stream %q, whole %q", n, s.content, o.str("choices.0.message.content"))
				}
			}
		})
	}
}

func TestS62ParallelCallsHaveStableIndexes(t *testing.T) {
	for _, config := range []string{"", parkEach} {
		inBubble(t, config, "", func(r *rig) {
			body := ask("Call: weather {\"city\":\"Köln\"}\nCall: other {\"a\":[1,2]}\nCall: weather {\"days\":3}", "tools", cityTools())
			s := r.chat(body)
			if len(s.calls) != 3 || !slices.Equal(s.finish, []string{"tool_calls"}) || s.calls[0].id == s.calls[1].id || s.calls[1].id == s.calls[2].id {
				t.Fatalf("calls %+v, finish %v", s.calls, s.finish)
			}
			body["parallel_tool_calls"] = false
			if s := r.chat(body); len(s.calls) != 1 || !slices.Equal(s.finish, []string{"tool_calls"}) {
				t.Errorf("one call only: %+v, finish %v", s.calls, s.finish)
			}
			body["tool_choice"] = "none"
			if s := r.chat(body); len(s.calls) != 0 || !strings.Contains(s.content, "<function=weather>") || !slices.Equal(s.finish, []string{"stop"}) {
				t.Errorf("tool_choice none: %+v, %q", s.calls, s.content)
			}
		})
	}
}

func TestS64CallCutByBudgetIsLength(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		body := ask(`Call: weather {"city":"Köln","days":3}`, "tools", cityTools())
		full := r.chat(body)
		n := int(full.timings.num("predicted_n"))
		for k := 1; k <= n; k++ {
			body["max_tokens"] = k
			s := r.chat(body)
			want := "length"
			if k == n {
				want = "tool_calls"
			}
			if !slices.Equal(s.finish, []string{want}) {
				t.Errorf("max_tokens %d of %d: finish %v, want %s", k, n, s.finish, want)
			}
		}
	})
}

func TestS65ExactlyOneReason(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		for _, body := range []object{
			ask("hello"), ask("hello", "max_tokens", 1), ask("hello", "stop", "task"), ask("hello", "tools", cityTools()),
			ask("Call: other {}", "tools", cityTools()), ask("hello", "prefill_only", true), ask("hello", "reasoning_effort", "high"),
		} {
			s := r.chat(body)
			if len(s.finish) != 1 || !s.done || (s.finish[0] == "tool_calls") != (len(s.calls) > 0) {
				t.Errorf("%v: finish %v with %d calls", body, s.finish, len(s.calls))
			}
		}
		// What cannot be promised is refused by name.
		for _, choice := range []any{"required", object{"type": "function", "function": object{"name": "other"}}} {
			status, o := r.json("POST", "/v1/chat/completions", ask("hello", "tools", cityTools(), "tool_choice", choice))
			if status != 400 || o.str("error.param") != "tool_choice" {
				t.Errorf("tool_choice %v: %d %v", choice, status, o)
			}
		}
	})
}

func TestS66UsageOnlyWhenAsked(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		for want, options := range map[int]any{0: nil, 1: object{"include_usage": true}} {
			events := r.stream("/v1/chat/completions", ask("hello", "stream", true, "stream_options", options)).rest()
			s := sayings(t, events)
			if s.usageChunks != want {
				t.Errorf("stream_options %v: %d usage chunks", options, s.usageChunks)
			}
			if want == 1 && events[len(events)-2].object.num("usage.total_tokens") < 1 {
				t.Error("the usage chunk is not the last before [DONE]")
			}
		}
	})
}

// TestS68LongStopDelaysNothing: with a long stop string every chunk comes at the
// same instant as without one.
// TestStreamOptionsWithoutStream: an option of streams asks for nothing elsewhere.
// OpenAI refuses it; clients and proxies that turn a stream into a whole answer keep
// it, and nothing of the answer would differ.
func TestStreamOptionsWithoutStream(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		for path, body := range map[string]object{chatPath: ask("Quote: ok"), respPath: {"input": "Quote: ok"}} {
			for _, stream := range []any{nil, false} {
				body["stream"], body["stream_options"] = stream, object{"include_usage": true, "include_obfuscation": false}
				status, o := r.json("POST", path, body)
				if status != 200 || o.num("usage.total_tokens") == 0 {
					t.Errorf("%s, stream %v: %d %v", path, stream, status, o)
				}
				body["stream_options"] = object{"include_usage": "SECRET"}
				if path == chatPath {
					r.refused(path, body, "stream_options.include_usage")
				}
				body["stream_options"] = "SECRET"
				r.refused(path, body, "stream_options")
			}
		}
	})
}

func TestS68LongStopDelaysNothing(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		instants := func(stop any) (at []time.Duration) {
			s := r.stream("/v1/chat/completions", ask(words+"Say 40 words by rule n1.", "stream", true, "stop", stop))
			for _, e := range s.rest() {
				if e.object.str("choices.0.delta.content") != "" {
					at = append(at, e.at)
				}
			}
			return at
		}
		instants(nil) // the prompt's prefix is cached from here on
		with, without := instants(strings.Repeat("never said ", 20)), instants(nil)
		if !slices.Equal(with, without) || len(with) < 10 {
			t.Errorf("with a stop string: %v\nwithout:            %v", with, without)
		}
	})
}

func TestS69OneScorePerToken(t *testing.T) {
	for _, config := range []string{"", parkEach} {
		inBubble(t, config, "--logprobs", func(r *rig) {
			for _, body := range []object{
				ask(words+"Say 9 words by rule n1.", "logprobs", true, "top_logprobs", 3),
				ask("Quote: "+family, "logprobs", true),
				ask(`Call: weather {"city":"Köln"}`, "tools", cityTools(), "logprobs", true, "top_logprobs", 1),
				ask(words+"Say 9 words by rule n1.", "logprobs", true, "stop", []string{"zzz", " fjord"}),
				ask("hello", "logprobs", true, "reasoning_effort", "low"),
			} {
				body["stream_options"] = object{"include_usage": true}
				s := r.chat(body)
				delete(body, "stream_options")
				o := r.whole(body)
				all, _ := o.at("choices.0.logprobs.content").([]any)
				if len(s.scores) != int(s.usage.num("completion_tokens")) || len(all) != len(s.scores) {
					t.Fatalf("%v: %v tokens, %d scores in the stream, %d whole", body, s.usage.num("completion_tokens"), len(s.scores), len(all))
				}
				for i := range all {
					if a, b := fmt.Sprint(all[i]), fmt.Sprint(map[string]any(s.scores[i])); a != b {
						t.Errorf("score %d: whole %s, stream %s", i, a, b)
					}
				}
			}
			if status, o := r.json("POST", "/v1/chat/completions", ask("x", "top_logprobs", 2)); status != 400 || o.str("error.param") != "top_logprobs" {
				t.Errorf("top_logprobs without logprobs: %d %v", status, o)
			}
		})
	}
	inBubble(t, "", "", func(r *rig) {
		if status, o := r.json("POST", "/v1/chat/completions", ask("x", "logprobs", true)); status != 400 || o.str("error.param") != "logprobs" {
			t.Errorf("an engine without scores: %d %v", status, o)
		}
	})
}

func TestS70NoInfinityInScores(t *testing.T) {
	for _, v := range []float64{math.Inf(-1), math.NaN(), -1e300, -0.25, math.Copysign(0, -1)} {
		b := append(appendScore(nil, chat.Builtin(), 65, v), '}')
		var o object
		if err := json.Unmarshal(b, &o); err != nil || o.num("logprob") > 0 || o.num("logprob") < leastScore {
			t.Errorf("logprob %v became %s (%v)", v, b, err)
		}
	}
	inBubble(t, "", "--logprobs", func(r *rig) {
		s := r.chat(ask("hello", "logprobs", true, "top_logprobs", 5, "top_k", 1, "temperature", 1, "seed", 3))
		if len(s.scores) == 0 || len(s.scores[0].at("top_logprobs").([]any)) == 0 {
			t.Errorf("scores %v", s.scores)
		}
	})
}

// TestS74QueuedStreamIsNotSilent: headers and a comment within a second, then a
// sign of life every five, while queued, reading and parked.
func TestS74QueuedStreamIsNotSilent(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		long := r.stream("/v1/chat/completions", ask(words+"Write 150 lines by rule n1.", "stream", true))
		long.untilContent()
		s := r.stream("/v1/chat/completions", ask("hello", "stream", true))
		e, _ := s.next()
		if e.comment != "queued 1" || e.at > time.Second {
			t.Fatalf("first event %+v", e)
		}
		last := e.at
		for _, e := range s.rest() {
			if e.at-last > 5*time.Second+time.Millisecond {
				t.Errorf("silent from %v to %v", last, e.at)
			}
			last = e.at
		}
		if last < 10*time.Second {
			t.Errorf("the queue was over after %v: too short to show anything", last)
		}
		if n := strings.Count(strings.Join(sayings(t, s.all).comments, "\n"), "queued 1"); n < 3 {
			t.Errorf("%d signs of life while queued", n)
		}
	})
}

// TestQueuedSaysItsPlaceOfNow: a sign of life of a waiting stream says where it stands
// by then, as /v1/status does.
func TestQueuedSaysItsPlaceOfNow(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		r.stream(chatPath, ask(longTask("a"), "stream", true)).untilContent()
		var ahead []*reader
		for i := range 3 {
			ahead = append(ahead, r.stream(chatPath, ask("hello", "stream", true)))
			ahead[i].untilComment("queued")
		}
		ahead[0].resp.Body.Close()
		ahead[1].resp.Body.Close()
		if e := ahead[2].untilComment("queued"); e.comment != "queued 1" || e.at > 6*time.Second {
			t.Errorf("after both ahead of it have left: %q at %v", e.comment, e.at)
		}
	})
}

// TestS56SignsOfLifeInOneLongChunk: the timer is its own, not the chunk's.
func TestS56SignsOfLifeInOneLongChunk(t *testing.T) {
	inBubble(t, "", "--prefill-chunk 100000 --speed 0.1", func(r *rig) {
		s := r.stream("/v1/chat/completions", ask(strings.Repeat("word ", 20000), "stream", true, "max_tokens", 1))
		last := time.Duration(0)
		for _, e := range s.rest() {
			if e.at-last > 5*time.Second+time.Millisecond {
				t.Errorf("silent from %v to %v", last, e.at)
			}
			last = e.at
		}
		if last < 30*time.Second {
			t.Errorf("over after %v: too short to show anything", last)
		}
	})
}

// TestStateComments: the whole life of a preempted stream, told at once.
func TestStateComments(t *testing.T) {
	inBubble(t, `"solo_priority":true,"solo_policy":"quantum"`, "", func(r *rig) {
		long := r.stream("/v1/chat/completions", ask(words+"Write 100 lines by rule n1.", "stream", true))
		long.untilContent()
		pass(6 * time.Second)
		short := r.chat(ask("hello", "max_tokens", 5))
		if len(short.finish) != 1 {
			t.Fatalf("short: %+v", short)
		}
		all := sayings(t, long.rest())
		var seen []string
		for _, c := range all.comments {
			word, _, _ := strings.Cut(c, " ")
			if len(seen) == 0 || seen[len(seen)-1] != word {
				seen = append(seen, word)
			}
		}
		want := []string{"reading", "decoding", "parked", "resumed", "reading", "decoding"}
		if i := len(seen) - len(want); i < 0 || !slices.Equal(seen[i:], want) {
			t.Errorf("comments %v, want %v", seen, want)
		}
		if all.timings.num("parks") != 1 || all.timings.num("parked_ms") <= 0 {
			t.Errorf("timings %v", all.timings)
		}
	})
}
