package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Part 2 F of the field reports: what requests and headers may be. Each test
// carries the number of its class.

// refused sends a body and demands a 400 that names the parameter, is small and
// repeats nothing of what was sent.
func (r *rig) refused(path string, body any, param string) object {
	r.t.Helper()
	resp := r.do("POST", path, body)
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		r.t.Fatalf("%.80v: %v in %q", body, err, data)
	}
	if resp.StatusCode != 400 || o.str("error.param") != param || o.str("error.type") != kindInvalid || o.str("error.message") == "" || param != "" && !strings.HasPrefix(o.str("error.message"), param+": ") {
		r.t.Errorf("%.200v: status %d, %s, want a 400 that names %q", body, resp.StatusCode, data, param)
	}
	if len(data) > 4096 || bytes.Contains(data, []byte("SECRET")) {
		r.t.Errorf("%.80v: an answer of %d bytes that may echo: %.200s", body, len(data), data)
	}
	return o
}

const (
	chatPath = "/v1/chat/completions"
	respPath = "/v1/responses"
)

var chatOptional = strings.Fields(`model stream stream_options max_tokens max_completion_tokens temperature top_p top_k min_p
	presence_penalty frequency_penalty repetition_penalty repeat_penalty penalty_last_n seed stop stop_sequences tools tool_choice
	parallel_tool_calls response_format logit_bias logprobs top_logprobs n reasoning_effort reasoning chat_template_kwargs priority
	prefill_only strata_checkpoint strata_tune strata_prefix user metadata store service_tier functions function_call`)

func TestS76NullIsAbsent(t *testing.T) {
	inBubble(t, `"solo_priority":true`, "", func(r *rig) {
		want := r.whole(ask("Quote: ok")).str("choices.0.message.content")
		all := ask("Quote: ok")
		for _, name := range chatOptional {
			one := ask("Quote: ok", name, nil)
			all[name] = nil
			for _, body := range []object{one, all} {
				status, o := r.json("POST", chatPath, body)
				if status != 200 || o.str("choices.0.message.content") != want {
					t.Errorf("%s null: %d %v", name, status, o)
				}
			}
		}
		body := object{"input": "Quote: ok"}
		for _, name := range strings.Fields(`model stream instructions tools tool_choice parallel_tool_calls max_output_tokens temperature top_p
			reasoning text include top_logprobs previous_response_id conversation background prompt metadata store truncation priority stream_options`) {
			body[name] = nil
			if status, o := r.json("POST", respPath, body); status != 200 || o.str("output.0.content.0.text") != want {
				t.Errorf("responses: %s null: %d %v", name, status, o)
			}
		}
	})
}

func TestS77BudgetsThatAreNone(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		for _, name := range []string{"max_tokens", "max_completion_tokens"} {
			for _, v := range []string{"-1", "0", "9223372036854775808", "1e3", `"10"`, "1.5", "true", "[]", "{}", "-0"} {
				r.refused(chatPath, `{"messages":[{"role":"user","content":"SECRET"}],"`+name+`":`+v+`}`, name)
			}
		}
		for _, v := range []string{"-1", "0", "1e3", `"10"`, "true"} {
			r.refused(respPath, `{"input":"SECRET","max_output_tokens":`+v+`}`, "max_output_tokens")
		}
	})
}

func TestS78ResponseFormats(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		for body, param := range map[string]string{
			`"json_object"`:                      "response_format",
			`{}`:                                 "response_format.type",
			`{"type":"SECRET"}`:                  "response_format.type",
			`{"type":"json_schema"}`:             "response_format.json_schema",
			`{"type":"json_schema","schema":{}}`: "response_format.json_schema",
			`{"type":"json_schema","json_schema":{}}`:                                         "response_format.json_schema.schema",
			`{"type":"json_schema","json_schema":"a"}`:                                        "response_format.json_schema",
			`{"type":"json_object"}`:                                                          "response_format", // this engine has no masks
			`{"type":"json_schema","json_schema":{"schema":{"type":"string","pattern":"("}}}`: "response_format.json_schema.schema.pattern",
			`{"type":"json_schema","json_schema":{"schema":{"properties":{"SECRET":{"type":"string","format":"date"}}}}}`: "response_format.json_schema.schema.properties[0].format",
		} {
			r.refused(chatPath, `{"messages":[{"role":"user","content":"x"}],"response_format":`+body+`}`, param)
		}
		if s := r.chat(ask("Quote: ok", "response_format", object{"type": "text"})); s.content != "ok" {
			t.Errorf("after the refusals: %+v", s)
		}
	})
}

func TestS80DeepNesting(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		for _, depth := range []int{100, 10_000, 1_000_000} {
			for _, pair := range []string{"[]", `{"a":}`} {
				open, end := pair[:1], pair[1:]
				if pair != "[]" {
					open, end = pair[:5], pair[5:]
				}
				deep := strings.Repeat(open, depth) + "1" + strings.Repeat(end, depth)
				r.refused(chatPath, `{"messages":[{"role":"user","content":"x"}],"ignored":`+deep+`}`, "ignored")
				r.refused(chatPath, `{"messages":`+deep+`}`, "messages")
				r.refused(respPath, `{"input":`+deep+`}`, "input")
			}
		}
		r.refused(chatPath, strings.Repeat("[", 1_000_000), "")
		if s := r.chat(ask("Quote: ok")); s.content != "ok" {
			t.Errorf("after the refusals: %+v", s)
		}
	})
}

func TestS81BigSchemas(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		r.refused(chatPath, ask("x", "response_format", object{"type": "json_schema", "json_schema": object{
			"schema": object{"type": "string", "pattern": strings.Repeat("(a)", 60_000)}}}), "response_format.json_schema.schema.pattern")
		if s := r.chat(ask("Quote: ok")); s.content != "ok" {
			t.Errorf("after the refusal: %+v", s)
		}
	})
}

// TestS81AmbiguousSchema: a schema that can be followed in exponentially many ways at
// once ends its own request, not the server.
func TestS81AmbiguousSchema(t *testing.T) {
	inBubble(t, "", "--token-mask", func(r *rig) {
		deeper := object{"type": "array", "minItems": 1, "items": object{"$ref": "#/$defs/a"}}
		schema := object{"$ref": "#/$defs/a", "$defs": object{"a": object{"anyOf": []object{deeper, {"type": "array", "minItems": 1, "maxItems": 9, "items": object{"$ref": "#/$defs/a"}}}}}}
		status, o := r.json("POST", chatPath, ask("x", "max_tokens", 100, "response_format", object{"type": "json_schema", "json_schema": object{"name": "n", "schema": schema}}))
		if status != 500 || !strings.Contains(o.str("error.message"), "ambiguous") {
			t.Errorf("%d %v", status, o)
		}
		if o := r.whole(ask("Quote: ok")); o.str("choices.0.finish_reason") != "stop" {
			t.Errorf("the next request: %v", o)
		}
	})
}

func TestS82MessagesThatAreNone(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		for body, param := range map[string]string{
			`[]`: "messages", `null`: "messages", `{}`: "messages", `"x"`: "messages", `[null]`: "messages[0]", `[1]`: "messages[0]",
			`[{}]`: "messages[0].role", `[{"role":"user"}]`: "messages[0].content", `[{"role":"SECRET","content":"x"}]`: "messages[0].role",
			`[{"role":"user","content":7}]`:                                                                                        "messages[0].content",
			`[{"role":"user","content":[{}]}]`:                                                                                     "messages[0].content[0].type",
			`[{"role":"user","content":[{"type":"text"}]}]`:                                                                        "messages[0].content[0].text",
			`[{"role":"user","content":[{"type":"SECRET"}]}]`:                                                                      "messages[0].content[0].type",
			`[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{}]}]`:                                               "messages[1].tool_calls[0].function",
			`[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"function":{"name":"a<b"}}]}]`:                      "messages[1].tool_calls[0].function.name",
			`[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"[SECRET]"}}]}]`: "messages[1].tool_calls[0].function.arguments",
		} {
			o := r.refused(chatPath, `{"messages":`+body+`}`, param)
			if body == "[]" && o.str("error.code") != "empty_array" {
				t.Errorf("[]: code %q", o.str("error.code"))
			}
		}
		for body, param := range map[string]string{
			`[]`: "input", `null`: "input", `{}`: "input", `[null]`: "input[0]", `[{}]`: "input[0].role", `[{"type":"SECRET"}]`: "input[0].type",
			`[{"role":"user"}]`: "input[0].content", `[{"type":"function_call_output","call_id":"a"}]`: "input[0].output",
		} {
			r.refused(respPath, `{"input":`+body+`}`, param)
		}
	})
}

// TestS84EveryRoleAndShapeIsKept: the facts stand in every role and shape; the
// audit of the stand-in reads them back.
func TestS84EveryRoleAndShapeIsKept(t *testing.T) {
	parts := func(s ...string) (p []object) {
		for _, s := range s {
			p = append(p, object{"type": "text", "text": s})
		}
		return p
	}
	call := []object{{"id": "c1", "type": "function", "function": object{"name": "f", "arguments": `{"a":1}`}}}
	inBubble(t, "", "", func(r *rig) {
		body := object{"messages": []object{
			{"role": "user", "content": "Fact: a = 1"}, {"role": "assistant", "content": parts("one ", "two")},
			{"role": "user", "content": parts("Fact: b", " = 2")}, {"role": "assistant", "content": nil, "tool_calls": call},
			{"role": "tool", "tool_call_id": "c1", "content": "Fact: c = 3"}, {"role": "assistant", "content": "", "tool_calls": call},
			{"role": "tool", "tool_call_id": "c1", "content": parts("Fact: d = 4")}, {"role": "developer", "content": parts("Fact: e = 5")},
			{"role": "user", "content": "Audit: a, b, c, d, e, f"},
		}}
		if got, want := r.whole(body).str("choices.0.message.content"), `{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": null}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		f, fault := decodeObject(append([]byte(nil), encoded(body)...))
		if fault != nil {
			t.Fatal(fault)
		}
		c := messages(f)
		if len(c.Messages) != 9 || len(c.Messages[1].Content) != 2 || len(c.Messages[3].Calls) != 1 || len(c.Messages[5].Calls) != 1 {
			t.Errorf("decoded as %+v", c.Messages)
		}
	})
}

func TestS85PromptsThatDoNotFit(t *testing.T) {
	inBubble(t, "", "--max-context 512", func(r *rig) {
		size := func(text string) int { return int(r.whole(ask(text, "max_tokens", 1)).num("usage.prompt_tokens")) }
		base := size("x")
		fit := 512 - 8 - 1 - base // further blanks and words, one token each
		for extra, want := range map[int]int{fit - 1: 200, fit: 200, fit + 1: 400, 2000: 400} {
			status, o := r.json("POST", chatPath, ask("x"+strings.Repeat(" the", extra), "max_tokens", 1))
			if status != want {
				t.Errorf("%d tokens more: %d %v, want %d", extra, status, o, want)
			}
			if want == 400 && (o.str("error.code") != "context_length_exceeded" || !strings.Contains(o.str("error.message"), fmt.Sprint(base+extra)) || !strings.Contains(o.str("error.message"), "512")) {
				t.Errorf("%d tokens more: %v names no counts", extra, o)
			}
		}
		o := r.refused(chatPath, ask("x", "max_tokens", 600), "max_tokens")
		if o.str("error.code") != "context_length_exceeded" || !strings.Contains(o.str("error.message"), "600") {
			t.Errorf("over by the budget: %v", o)
		}
		o = r.refused(respPath, object{"input": "x", "max_output_tokens": 600}, "max_output_tokens")
		if o.str("error.code") != "context_length_exceeded" {
			t.Errorf("responses: %v", o)
		}
		if o := r.whole(ask(words + "Write 200 lines by rule n1.")); o.str("choices.0.finish_reason") != "length" {
			t.Errorf("without a budget: %v, want the rest of the context", o.str("choices.0.finish_reason"))
		}
	})
	inBubble(t, `"fit_max_tokens":true`, "--max-context 512", func(r *rig) {
		if status, o := r.json("POST", chatPath, ask("Quote: ok", "max_tokens", 600)); status != 200 {
			t.Errorf("fit_max_tokens: %d %v", status, o)
		}
	})
}

func TestS86NumbersThatAreNone(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		bad := map[string][]string{
			"temperature": {"1e400", `"nan"`, `"0.5"`, "-0.1", "2.1", "true", "[]"}, "top_p": {"-0.1", "1.1", `"x"`}, "min_p": {"-1", "2"},
			"top_k": {"-2", "1.5", `"3"`}, "repetition_penalty": {"-1", "0", "1e400", `"nan"`}, "presence_penalty": {"-3", "3"},
			"frequency_penalty": {"-3", "3"}, "penalty_last_n": {"-1", "0.5"}, "seed": {"1.5", `"1"`, "9223372036854775808"}, "n": {"0", "2", "-1"},
			"logprobs": {"1", `"true"`}, "stream": {`"true"`, "1"}, "stop": {"1", `[1]`, `[""]`, `["a","b","c","d","e"]`},
		}
		for name, values := range bad {
			for _, v := range values {
				param := name
				if name == "stop" && strings.HasPrefix(v, "[") && !strings.Contains(v, "c") {
					param = "stop[0]"
				}
				r.refused(chatPath, `{"messages":[{"role":"user","content":"SECRET"}],"`+name+`":`+v+`}`, param)
			}
		}
		for _, v := range []string{"NaN", "Infinity", "-Infinity", "nan", "01", "1.", "+1"} {
			r.refused(chatPath, `{"messages":[{"role":"user","content":"x"}],"temperature":`+v+`}`, "")
		}
		for _, v := range []string{"-0.0", "0", "2", "1e-5"} {
			if status, o := r.json("POST", chatPath, `{"messages":[{"role":"user","content":"Quote: ok"}],"seed":1,"temperature":`+v+`}`); status != 200 {
				t.Errorf("temperature %s: %d %v", v, status, o)
			}
		}
	})
}

func TestS88ClientsCannotChooseIDs(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		body := ask(words+"Say 200 words by rule n1.", "stream", true)
		a := r.stream(chatPath, body, "X-Request-Id", "same")
		b := r.stream(chatPath, ask("Quote: ok", "stream", true), "X-Request-Id", "same")
		if a.resp.Header.Get("X-Request-Id") != "same" || b.resp.Header.Get("X-Request-Id") != "same" {
			t.Error("the client's own name of its request does not come back")
		}
		bs, as := sayings(t, b.rest()), sayings(t, a.rest())
		if bs.content != "ok" || strings.Count(as.content, " ") != 199 {
			t.Errorf("mixed: %q and %q", bs.content, as.content)
		}
		id := func(s *reader) string {
			return s.until("id", func(e event) bool { return e.object != nil }).object.str("id")
		}
		x, y := id(r.stream(chatPath, body, "X-Request-Id", "same")), id(r.stream(chatPath, body, "X-Request-Id", "same"))
		if x == y || !strings.HasPrefix(x, "chatcmpl-") {
			t.Errorf("ids %q and %q", x, y)
		}
		for _, label := range []string{strings.Repeat("x", 129), "with blank", "ü"} {
			resp := r.do("POST", chatPath, ask("Quote: ok"), "X-Request-Id", label)
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if got := resp.Header.Get("X-Request-Id"); !strings.HasPrefix(got, "req_") {
				t.Errorf("label %.20q came back as %q", label, got)
			}
		}
		resp, err := r.try(context.Background(), "POST", chatPath, ask("x"), "X-Request-Id", strings.Repeat("x", 1<<20))
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("an id of 1 MB: status %d", resp.StatusCode)
			}
		}
	})
}

func TestS89LoneSurrogates(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		for body, param := range map[string]string{
			`{"messages":[{"role":"user","content":"\ud800"}]}`:                                                             "messages",
			`{"messages":[{"role":"user","content":"\udc00\ud800"}]}`:                                                       "messages",
			`{"messages":[{"role":"user","content":"\ud800\\ud800"}]}`:                                                      "messages",
			`{"messages":[{"role":"user","content":"x","name":"\uD83D"}]}`:                                                  "messages",
			`{"messages":[{"role":"user","content":"x"}],"stop":"\udfff"}`:                                                  "stop",
			`{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"\ud800"}}]}`:       "tools",
			`{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":\"\ud800\"}"}}]}]}`: "messages",
			`{"\ud800":1,"messages":[]}`:                                                                                    "",
		} {
			r.refused(chatPath, body, param)
		}
		r.refused(chatPath, "{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", "")
		if got := r.whole(ask("Quote: \U0001F30D")).str("choices.0.message.content"); got != "🌍" {
			t.Errorf("a whole pair: %q", got)
		}
		_, o := r.json("POST", chatPath, `{"messages":[{"role":"user","content":"Quote: \ud83c\udf0d"}]}`)
		if o.str("choices.0.message.content") != "🌍" {
			t.Errorf("a whole pair as escapes: %v", o)
		}
	})
}

func TestS90MaxCompletionTokens(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		for _, name := range []string{"max_tokens", "max_completion_tokens"} {
			o := r.whole(ask(words+"Say 50 words by rule n1.", name, 7))
			if o.num("usage.completion_tokens") != 7 || o.str("choices.0.finish_reason") != "length" {
				t.Errorf("%s 7: %v", name, o)
			}
		}
		if o := r.whole(ask(words+"Say 50 words by rule n1.", "max_tokens", 7, "max_completion_tokens", 7)); o.num("usage.completion_tokens") != 7 {
			t.Errorf("both the same: %v", o)
		}
		r.refused(chatPath, ask("x", "max_tokens", 7, "max_completion_tokens", 8), "max_completion_tokens")
	})
}

func TestUnavailableMembersAreNamed(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		for _, name := range []string{"functions", "function_call", "reasoning_budget_tokens", "strata_mcp", "grammar"} {
			r.refused(chatPath, ask("x", name, []any{"SECRET"}), name)
		}
		r.refused(chatPath, ask("x", "logit_bias", object{"5": 1}), "logit_bias")
		r.refused(chatPath, ask("x", "ignore_eos", true), "ignore_eos")
		r.refused(chatPath, ask("x", "logprobs", true), "logprobs")
		r.refused(respPath, object{"input": "x", "top_logprobs": 2}, "top_logprobs")
		r.refused(chatPath, ask("x", "logit_bias", object{"SECRET": 1}), "logit_bias")
		r.refused(chatPath, ask("x", "strata_prefix", object{"chars": 1}), "strata_prefix.chars")
		r.refused(chatPath, ask("x", "strata_prefix", object{"messages": 2}), "strata_prefix.messages")
		r.refused(chatPath, ask("x", "reasoning_effort", "SECRET"), "reasoning_effort")
		r.refused(chatPath, ask("x", "tools", []object{{"type": "SECRET"}}), "tools[0].type")
		r.refused(chatPath, ask("x", "tools", []object{tool("a b", nil)}), "tools[0].function.name")
		r.refused(chatPath, ask("x", "tool_choice", "required"), "tool_choice")
		r.refused(chatPath, ask("x", "tool_choice", "SECRET"), "tool_choice")
		for _, name := range []string{"previous_response_id", "conversation", "background", "prompt"} {
			o := r.refused(respPath, object{"input": "x", name: true}, name)
			if o.str("error.code") != "unsupported_parameter" {
				t.Errorf("%s: code %q", name, o.str("error.code"))
			}
		}
		r.refused(chatPath, ask("", "messages", []object{{"role": "user", "content": []object{{"type": "image_url", "image_url": object{"url": "data:image/png;base64,AAAA"}}}}}), "messages[0].content[0].image_url")
		r.refused(chatPath, ask("", "messages", []object{{"role": "user", "content": []object{{"type": "image_url", "image_url": object{"url": "http://SECRET"}}}}}), "messages[0].content[0].image_url.url")
	})
}

// TestPrefillOnlyCombinations: each is defined or a 400.
func TestPrefillOnlyCombinations(t *testing.T) {
	inBubble(t, "", "--logprobs", func(r *rig) {
		body := ask(words+"Say 9 words by rule n1.", "prefill_only", true, "tools", cityTools())
		o := r.whole(body)
		if o.num("usage.completion_tokens") != 0 || o.num("usage.prompt_tokens") < 10 || o.str("choices.0.message.content") != "" || o.str("choices.0.finish_reason") != "stop" {
			t.Errorf("whole: %v", o)
		}
		body["stream_options"] = object{"include_usage": true}
		if s := r.chat(body); s.content != "" || s.usage.num("completion_tokens") != 0 || !slices.Equal(s.finish, []string{"stop"}) {
			t.Errorf("stream: %+v", s)
		}
		if o := r.whole(ask(words+"Say 9 words by rule n1.", "tools", cityTools())); o.num("usage.prompt_tokens_details.cached_tokens") < o.num("usage.prompt_tokens")-8 { // from the last turn's header on it is read again
			t.Errorf("the prefix is not warm: %v", o["usage"])
		}
		if status, o := r.json("POST", respPath, object{"input": "x", "prefill_only": true}); status != 200 || o.num("usage.output_tokens") != 0 || len(o["output"].([]any)) != 0 {
			t.Errorf("responses: %d %v", status, o)
		}
		r.refused(chatPath, ask("x", "prefill_only", true, "logprobs", true), "logprobs")
		r.refused(chatPath, ask("x", "prefill_only", true, "response_format", object{"type": "json_object"}), "response_format")
		r.refused(chatPath, ask("x", "prefill_only", true, "tools", cityTools(), "tool_choice", "required"), "tool_choice")
		r.refused(chatPath, ask("x", "prefill_only", true, "strata_checkpoint", false), "strata_checkpoint")
		picture := []object{{"type": "image_url", "image_url": object{"url": "data:image/png;base64,AAAA"}}}
		r.refused(chatPath, object{"prefill_only": true, "messages": []object{{"role": "user", "content": picture}}}, "prefill_only")
		r.refused(respPath, object{"input": "x", "prefill_only": true, "top_logprobs": 2}, "top_logprobs")
		r.refused(respPath, object{"input": "x", "prefill_only": true, "include": []string{"message.output_text.logprobs"}}, "include")
		r.refused(respPath, object{"input": "x", "prefill_only": true, "text": object{"format": object{"type": "json_object"}}}, "text.format")
	})
}

// TestPrefillOnlyKeepsWarm: what was read stays, with the scheduler on too, although
// a small request without history would otherwise be sent with ckpt=0; and a second
// prompt in between changes that no more than it would for an answer.
func TestPrefillOnlyKeepsWarm(t *testing.T) {
	for _, config := range []string{"", solo} {
		for _, path := range []string{chatPath, respPath} {
			inBubble(t, config, "", func(r *rig) {
				body := ask(words + "Say 9 words by rule n1.")
				cached, all := "usage.prompt_tokens_details.cached_tokens", "usage.prompt_tokens"
				if path == respPath {
					body, cached, all = object{"input": words + "Say 9 words by rule n1."}, "usage.input_tokens_details.cached_tokens", "usage.input_tokens"
				}
				body["prefill_only"], body["max_tokens"] = true, 8
				if path == respPath {
					delete(body, "max_tokens")
				}
				for _, stream := range []bool{true, false} {
					body["stream"] = stream
					resp := r.do("POST", path, body)
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				r.chat(ask("Quote: another"))
				delete(body, "prefill_only")
				status, o := r.json("POST", path, body)
				if status != 200 || o.num(cached) < o.num(all)-8 {
					t.Errorf("%q %s: %d, %v of %v tokens were kept", config, path, status, o.num(cached), o.num(all))
				}
			})
		}
	}
}

// TestPrefixIsKept: who names a prefix finds it again, in another conversation too,
// and whether or not the scheduler is on.
func TestPrefixIsKept(t *testing.T) {
	for _, config := range []string{"", solo} {
		inBubble(t, config, "", func(r *rig) {
			say := func(text string) object {
				return object{"messages": []object{{"role": "system", "content": strings.Repeat("Be brief. ", 100)}, {"role": "user", "content": text}}, "max_tokens": 9}
			}
			body := say("Quote: a")
			body["strata_prefix"] = object{"messages": 1}
			r.whole(body)
			r.whole(ask("Quote: another"))
			o := r.whole(say("Quote: b"))
			if n := o.num("usage.prompt_tokens_details.cached_tokens"); n < 200 {
				t.Errorf("%q: %v tokens were kept of %v", config, n, o["usage"])
			}
			if n := r.sent.count("GEN 9 pin="); n != 1 {
				t.Errorf("%q: sent %q", config, r.sent.lines())
			}
		})
	}
}
