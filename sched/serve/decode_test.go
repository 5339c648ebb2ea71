package serve

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"interlude/sched/chat"
)

func TestScan(t *testing.T) {
	for body, want := range map[string]string{
		`{"a":"\ud83c\udf0d"}`: "ok", `{"a":"\\ud800"}`: "ok", `{"a":"\\\\ud800"}`: "ok", `{"a":"\\\ud800"}`: "a", `{"a":"\ud83c\u0041"}`: "a",
		`{"a":"\ud83cx"}`: "a", `{"a":"\ud83c`: "a", `{"Weird Key":"\udc00"}`: "", `{"a":{"b":"\udc00"}}`: "a", `{"a":1,"b":["\udc00"]}`: "b",
		`{"a":"x]]]]"}`: "ok", `"\ud800"`: "", "{\"a\":\"\xff\"}": "",
		`{"a":` + strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1) + `}`: "ok",
		`{"a":` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + `}`:     "a",
	} {
		fault := scan([]byte(body))
		got := "ok"
		if fault != nil {
			got = fault.param
		}
		if got != want {
			t.Errorf("%.60s: %q (%v), want %q", body, got, fault, want)
		}
	}
}

// FuzzScan: what scan lets through and the grammar accepts is valid UTF-8 in
// every string, no deeper than promised.
func FuzzScan(f *testing.F) {
	for _, s := range []string{`{"a":"\ud83c\udf0d"}`, `{"a":"\ud83c"}`, `[[[[{"a":[]}]]]]`, `{"\"":"\\u"}`, `"\uDbff\uDfff\ud800"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if scan(b) != nil || !json.Valid(b) {
			return
		}
		var v any
		if json.Unmarshal(b, &v) != nil {
			return
		}
		var check func(v any, depth int)
		check = func(v any, depth int) {
			switch v := v.(type) {
			case string:
				if !utf8.ValidString(v) || strings.ContainsRune(v, utf8.RuneError) && !strings.Contains(string(b), "\ufffd") && !strings.Contains(strings.ToLower(string(b)), `\ufffd`) {
					t.Errorf("%q decodes to %q", b, v)
				}
			case []any:
				if depth >= maxDepth {
					t.Errorf("deeper than %d", maxDepth)
				}
				for _, x := range v {
					check(x, depth+1)
				}
			case map[string]any:
				if depth >= maxDepth {
					t.Errorf("deeper than %d", maxDepth)
				}
				for k, x := range v {
					check(k, depth)
					check(x, depth+1)
				}
			}
		}
		check(v, 0)
	})
}

// FuzzDecode: any body is a call that renders, or a fault that names something of
// ours, small and without an echo.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"messages":[{"role":"user","content":"x"}],"stop":["a"],"seed":1}`,
		`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]},{"role":"tool","content":[{"type":"text","text":"y"}]}]}`,
		`{"input":[{"type":"function_call","name":"f","arguments":"{\"a\":1}"},{"type":"function_call_output","output":"z"},{"type":"reasoning","content":[{"text":"t"}]}]}`,
		`{"input":"x","text":{"format":{"type":"json_schema","schema":{}}},"tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"f"}}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]}`,
		`{"messages":null,"logit_bias":{"1":2},"strata_prefix":{"messages":1},"chat_template_kwargs":{"enable_thinking":true}}`,
	} {
		f.Add([]byte(s))
	}
	s := &Server{cfg: &Config{Model: "m", Solo: true}, tok: chat.Builtin()}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, decode := range []func(fields) (*call, *fault){s.decodeChat, s.decodeResponses} {
			o, fault := decodeObject(b)
			var c *call
			if fault == nil {
				c, fault = decode(o)
			}
			if fault != nil {
				if len(fault.body()) > 4096 || fault.status < 400 || fault.message == "" {
					t.Fatalf("fault %+v", fault)
				}
				continue
			}
			if len(c.conv.Messages) == 0 {
				t.Fatal("accepted without a message")
			}
			c.conv.Tools = c.tools
			p, err := chat.Render(s.tok, c.conv.Conversation, chat.Options{Thinking: c.think})
			if _, turn := err.(*chat.TurnError); err != nil && !turn {
				t.Fatal(err)
			}
			if err == nil && (len(p.IDs) == 0 || c.pin > len(p.Turns)) {
				t.Fatalf("prompt %+v", p)
			}
		}
	})
}
