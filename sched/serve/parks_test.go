package serve

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestForcedParksChangeNothing: text, tool calls, scores and usage with a park
// every few tokens equal those without one, greedy and seeded, streamed and
// whole, on every kind of engine.
func TestForcedParksChangeNothing(t *testing.T) {
	bodies := map[string]object{
		"greedy": ask(words + "Write 8 lines by rule n1."),
		"seeded": ask(words+"Write 20 lines by rule n1.", "temperature", 0.8, "seed", 77),
		"calls":  ask("Call: weather {\"city\":\"ÄÖÜ 你好 🌍\",\"days\":3}\nCall: other {\"a\":[1, 2]}", "tools", cityTools()),
		"emoji":  ask("Quote: a " + family + " b"),
		"stop":   ask(words+"Write 8 lines by rule n1.", "stop", []string{"\n4:"}),
		"length": ask(words+"Write 8 lines by rule n1.", "max_tokens", 33),
		"think":  ask(words+"Say 9 words by rule n1.", "reasoning_effort", "high"),
		"scores": ask(words+"Say 9 words by rule n1.", "logprobs", true, "top_logprobs", 2),
		"read":   ask(strings.Repeat("river stone ", 9000) + "\nQuote: read"),
	}
	run := func(config, flags string) (out map[string]string, parks uint64) {
		out = map[string]string{}
		inBubble(t, config, "--logprobs "+flags, func(r *rig) {
			for name, body := range maps.Clone(bodies) {
				body = maps.Clone(body)
				body["stream_options"] = object{"include_usage": true}
				s := r.chat(body)
				delete(s.usage, "prompt_tokens_details") // the cache differs from run to run; see TestCachedTokens
				for i := range s.calls {
					s.calls[i].id = ""
				}
				out[name] = fmt.Sprintf("%q %q %v %v %v %v", s.content, s.reasoning, s.calls, s.finish, map[string]any(s.usage), s.scores)
				delete(body, "stream_options")
				o := r.whole(body)
				if o.str("choices.0.message.content") != s.content || o.str("choices.0.finish_reason") != s.finish[0] || o.num("usage.completion_tokens") != s.usage.num("completion_tokens") {
					t.Errorf("%s %s: whole %v", config, name, o)
				}
			}
			parks = r.status().Counters.Forced
			if n := r.status().Counters.LostPrefix; n != 0 {
				t.Errorf("%s %s: %d lost prefix tokens", config, flags, n)
			}
		})
		return out, parks
	}
	want, _ := run("", "")
	for _, flags := range []string{"", "--resume-prefill --prefill-chunk 2048", "--sequences 2", "--resume-prefill --sequences 3"} {
		for _, every := range []int{1, 2, 5, 16} {
			for _, policy := range []string{"budget", "quantum"} {
				if policy == "quantum" && flags != "" {
					continue
				}
				got, parks := run(fmt.Sprintf(`"solo_priority":true,"solo_policy":%q,"solo_force_park_every":%d`, policy, every), flags)
				if parks < 10 {
					t.Errorf("flags %q every %d: only %d parks", flags, every, parks)
				}
				for _, name := range slices.Sorted(maps.Keys(want)) {
					if got[name] != want[name] {
						t.Errorf("flags %q, %s, every %d: %s\ngot  %.300s\nwant %.300s", flags, policy, every, name, got[name], want[name])
					}
				}
			}
		}
	}
}

// TestCachedTokens: the first period's, however often the answer was parked.
func TestCachedTokens(t *testing.T) {
	inBubble(t, parkEach, "", func(r *rig) {
		first := r.chat(ask(words+"Say 20 words by rule n1.", "stream_options", object{"include_usage": true}))
		if n := first.usage.num("prompt_tokens_details.cached_tokens"); n != 0 {
			t.Errorf("a cold prompt has %v cached tokens", n)
		}
		if first.timings.num("parks") < 3 {
			t.Errorf("timings %v", first.timings)
		}
		body := ask("", "messages", []object{{"role": "user", "content": words + "Say 20 words by rule n1."}, {"role": "assistant", "content": first.content}, {"role": "user", "content": "Quote: x"}})
		o := r.whole(body)
		if n, held := o.num("usage.prompt_tokens_details.cached_tokens"), first.usage.num("total_tokens")-1; n < held {
			t.Errorf("the next turn reused %v tokens, the engine held %v", n, held)
		}
	})
}

// TestOffIsAsIfItDidNotExist: with the key off, and with the other keys left in
// place, the engine is sent the same bytes and clients get the same answers.
func TestOffIsAsIfItDidNotExist(t *testing.T) {
	run := func(config string) (lines []string, answers string) {
		inBubble(t, config, "", func(r *rig) {
			for _, body := range []object{
				ask("Quote: a", "priority", 7), ask("Quote: b", "temperature", 0.5), ask(words+"Say 9 words by rule n.", "temperature", 0.5, "seed", 3, "top_p", 0.9),
				ask("Call: weather {}", "tools", cityTools()), ask("Quote: c", "max_tokens", 2),
			} {
				s := r.chat(body)
				answers += fmt.Sprintf("%q %v %d\n", s.content, s.finish, len(s.calls))
			}
			lines = slices.Clone(r.sent.lines())
		})
		return lines, answers
	}
	want, answers := run("")
	for _, l := range want {
		if strings.Contains(l, "ckpt=") || strings.Contains(l, "seed=") && !strings.Contains(l, "seed=3") {
			t.Errorf("%.60s carries what the client did not send", l)
		}
	}
	got, same := run(`"solo_priority":false,"solo_policy":"quantum","solo_quantum_s":1,"solo_overhead":0.5,"solo_read_slice":4096,"solo_force_park_every":2,"solo_small_prompt":10,"solo_priority_map":{"m":4}`)
	if !slices.Equal(got, want) || same != answers {
		t.Errorf("lines\n%.300q\nwant\n%.300q", got, want)
	}
}
