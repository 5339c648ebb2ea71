package serve

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"interlude/sched/chat"
)

// heard is what a Responses stream said, checked as it comes.
type heard struct {
	names    []string // types of the events, deltas of one item once
	text     string
	thought  string
	calls    []seenCall
	response object // of the last event
	last     string
}

// listen checks the rules of S72 and S73 for a whole stream: strictly rising
// numbers, type and event name equal, an item added, filled and done before the
// next, one id for all of its events.
func listen(t testing.TB, events []event) (h heard) {
	t.Helper()
	sequence, item, id := -1, -1, ""
	for _, e := range events {
		if e.comment != "" {
			continue
		}
		o := e.object
		if e.name == "" || o.str("type") != e.name || int(o.num("sequence_number")) != sequence+1 {
			t.Fatalf("event %q with type %q and number %v after %d", e.name, o.str("type"), o.num("sequence_number"), sequence)
		}
		sequence++
		if n := len(h.names); n == 0 || h.names[n-1] != e.name || !strings.HasSuffix(e.name, ".delta") {
			h.names = append(h.names, e.name)
		}
		if e.name == "response.output_item.added" {
			item++
			id = o.str("item.id")
			if id == "" {
				t.Fatalf("an item without an id: %s", e.data)
			}
			if o.str("item.type") == "function_call" {
				h.calls = append(h.calls, seenCall{id: o.str("item.call_id"), name: o.str("item.name")})
			}
		}
		if strings.Contains(e.name, "output_item") || strings.Contains(e.name, "_part") || strings.Contains(e.name, "_text") || strings.Contains(e.name, "arguments") {
			got := o.str("item_id")
			if strings.Contains(e.name, "output_item") {
				got = o.str("item.id")
			}
			if got != id || int(o.num("output_index")) != item {
				t.Fatalf("%s is about item %q at %v, want %q at %d", e.name, got, o.num("output_index"), id, item)
			}
		}
		switch e.name {
		case "response.output_text.delta":
			h.text += o.str("delta")
		case "response.reasoning_text.delta":
			h.thought += o.str("delta")
		case "response.function_call_arguments.delta":
			h.calls[len(h.calls)-1].args += o.str("delta")
		case "response.function_call_arguments.done":
			if c := h.calls[len(h.calls)-1]; c.args != o.str("arguments") {
				t.Errorf("arguments done %q after deltas %q", o.str("arguments"), c.args)
			}
		case "response.output_text.done":
			if o.str("text") != h.text {
				t.Errorf("text done %q after deltas %q", o.str("text"), h.text)
			}
		}
		h.last = e.name
		if r, ok := o["response"].(map[string]any); ok {
			h.response = r
		}
	}
	return h
}

func (r *rig) respond(body object) heard {
	r.t.Helper()
	body["stream"] = true
	return listen(r.t, r.stream(respPath, body).rest())
}

var messageEvents = []string{"response.output_item.added", "response.content_part.added", "response.output_text.delta",
	"response.output_text.done", "response.content_part.done", "response.output_item.done"}

func flat(name string) object {
	return object{"type": "function", "name": name, "parameters": object{"type": "object", "properties": object{"city": object{"type": "string"}}}}
}

func TestS72ResponsesEventOrder(t *testing.T) {
	begin := []string{"response.created", "response.in_progress"}
	thought := []string{"response.output_item.added", "response.content_part.added", "response.reasoning_text.delta",
		"response.reasoning_text.done", "response.content_part.done", "response.output_item.done"}
	call := []string{"response.output_item.added", "response.function_call_arguments.delta", "response.function_call_arguments.done", "response.output_item.done"}
	for _, config := range []string{"", parkEach} {
		inBubble(t, config, "--logprobs", func(r *rig) {
			for name, tt := range map[string]struct {
				body object
				want []string
				end  string
			}{
				"text":       {object{"input": "Quote: größe " + family}, messageEvents, "response.completed"},
				"thought":    {object{"input": "Quote: x", "reasoning": object{"effort": "low"}}, slices.Concat(thought, messageEvents), "response.completed"},
				"calls":      {object{"input": "Call: a {\"city\":\"Köln\"}\nCall: b {}", "tools": []object{flat("a"), flat("b")}}, slices.Concat(call, call), "response.completed"},
				"incomplete": {object{"input": words + "Say 50 words by rule n1.", "max_output_tokens": 5}, messageEvents, "response.incomplete"},
				"scores":     {object{"input": "Quote: x y z", "top_logprobs": 2, "include": []string{"message.output_text.logprobs"}}, messageEvents, "response.completed"},
			} {
				h := r.respond(tt.body)
				if want := slices.Concat(begin, tt.want, []string{tt.end}); !slices.Equal(h.names, want) {
					t.Errorf("%s: events\n%v, want\n%v", name, h.names, want)
				}
				tt.body["stream"] = false
				status, o := r.json("POST", respPath, tt.body)
				if status != 200 {
					t.Fatalf("%s: %d %v", name, status, o)
				}
				for _, o := range []object{o, h.response} { // what cannot be the same twice
					for _, k := range []string{"id", "created_at", "timings"} {
						delete(o, k)
					}
				}
				if a, b := masked(o), masked(h.response); a != b {
					t.Errorf("%s: whole\n%s, stream\n%s", name, a, b)
				}
			}
		})
	}
}

// masked prints a response without its fresh ids.
func masked(o object) string {
	out, _ := o["output"].([]any)
	for _, it := range out {
		it := it.(map[string]any)
		delete(it, "id")
		delete(it, "call_id")
	}
	delete(o["usage"].(map[string]any), "input_tokens_details")
	return fmt.Sprint(map[string]any(o))
}

func TestS73BothIDsOfEveryCall(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		h := r.respond(object{"input": "Call: a {}\nCall: a {}", "tools": []object{flat("a")}})
		out := h.response.at("output").([]any)
		ids := map[any]bool{}
		for _, it := range out {
			it := it.(map[string]any)
			ids[it["id"]], ids[it["call_id"]] = true, true
		}
		if len(out) != 2 || len(ids) != 4 || ids[nil] || ids[""] {
			t.Errorf("items %v", out)
		}
	})
}

// TestResponsesCutCall: a call that the model never finished is not completed, whatever
// comes behind it: nobody may carry it out.
func TestResponsesCutCall(t *testing.T) {
	begun := []chat.Delta{{Kind: chat.ToolStart, ID: "call_1", Name: "f"}, {Kind: chat.ToolArgs, Text: `{"a":1`}}
	for name, tt := range map[string]struct {
		behind []chat.Delta
		want   string
	}{
		"the end":   {nil, "incomplete"},
		"content":   {[]chat.Delta{{Kind: chat.Content, Text: "well"}}, "incomplete"},
		"a call":    {[]chat.Delta{{Kind: chat.ToolStart, Index: 1, ID: "call_2", Name: "f"}, {Kind: chat.ToolArgs, Index: 1, Text: "{}"}, {Kind: chat.ToolEnd, Index: 1}}, "incomplete"},
		"its end":   {[]chat.Delta{{Kind: chat.ToolArgs, Text: "}"}, {Kind: chat.ToolEnd}}, "completed"},
		"all of it": {[]chat.Delta{{Kind: chat.ToolArgs, Text: "}"}, {Kind: chat.ToolEnd}, {Kind: chat.Content, Text: "well"}}, "completed"},
	} {
		w := httptest.NewRecorder()
		v := newResponsesVoice(&answer{s: &Server{tok: chat.Builtin()}, call: &call{responses: &responsesEcho{}}}, w)
		v.say(begun, nil)
		v.say(tt.behind, nil)
		v.finish(chat.ReasonStop, usage{}, nil)
		var o object
		if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil {
			t.Fatal(err)
		}
		if got := o.str("output.0.status"); got != tt.want || o.str("status") != "completed" {
			t.Errorf("behind it %s: the call is %s, want %s; the response is %s", name, got, tt.want, o.str("status"))
		}
		if last, _ := o["output"].([]any); len(last) == 2 && o.str("output.1.status") != "completed" {
			t.Errorf("behind it %s: %v", name, o["output"])
		}
	}
}

// TestResponsesRoundTrip: the call's items come back, the answer knows their
// results, and the prompt extends the live session to the last token.
func TestResponsesRoundTrip(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		tools := []object{flat("a")}
		input := []any{object{"role": "user", "content": "Call: a {\"city\":\"Köln\"}\nCall: a {\"city\":\"Bonn\"}"}}
		first := r.respond(object{"input": input, "tools": tools, "instructions": "Be brief."})
		input = append(input, first.response.at("output").([]any)...)
		for i, c := range first.calls {
			input = append(input, object{"type": "function_call_output", "call_id": c.id, "output": fmt.Sprintf("Receipt: R-%d", i)})
		}
		second := r.respond(object{"input": input, "tools": tools, "instructions": "Be brief."})
		if second.text != `{"receipts": ["R-0", "R-1"]}` {
			t.Errorf("answer %q", second.text)
		}
		held := first.response.num("usage.total_tokens") - 1
		if n := second.response.num("usage.input_tokens_details.cached_tokens"); n < held {
			t.Errorf("%v tokens were reused, the engine held %v", n, held)
		}
	})
}

// TestResponsesLongCall: a call with 450 items and its recall.
func TestResponsesLongCall(t *testing.T) {
	for _, config := range []string{"", parkEach} {
		inBubble(t, config, "", func(r *rig) {
			tools := []object{{"type": "function", "name": "store", "parameters": object{"type": "object", "properties": object{"items": object{"type": "array"}}}}}
			input := []any{object{"role": "user", "content": `Call: store {"items":"@range 1 450"}`}}
			h := r.respond(object{"input": input, "tools": tools})
			if len(h.calls) != 1 || strings.Count(h.calls[0].args, ",") != 449 {
				t.Fatalf("calls %.200v", h.calls)
			}
			input = append(input, h.response.at("output").([]any)[0], object{"type": "function_call_output", "call_id": h.calls[0].id, "output": "Receipt: R-1"},
				object{"role": "user", "content": "Recall: items 1, 225, 450 of store"})
			if h := r.respond(object{"input": input, "tools": tools}); h.text != `{"items": [1, 225, 450], "checksum": 101475}` {
				t.Errorf("recall %q", h.text)
			}
		})
	}
}

// TestResponsesItemsMakeTurns: reasoning, message and calls that follow each
// other are one turn of the assistant.
func TestResponsesItemsMakeTurns(t *testing.T) {
	f, fault := decodeObject([]byte(`{"input":[{"role":"user","content":"a"},
		{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"b"}]},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"c"}]},
		{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call","call_id":"2","name":"g","arguments":"{}"},
		{"type":"function_call_output","call_id":"1","output":"d"},{"type":"function_call_output","call_id":"2","output":[{"type":"input_text","text":"e"}]},
		{"role":"assistant","content":"h"},{"role":"assistant","content":"i"},{"role":"developer","content":"j"}]}`))
	if fault != nil {
		t.Fatal(fault)
	}
	var c call
	c.items(f)
	if fault := f.first(); fault != nil {
		t.Fatal(fault)
	}
	var got []string
	for _, m := range c.conv.Messages {
		text := ""
		for _, p := range m.Content {
			text += p.Text
		}
		got = append(got, fmt.Sprintf("%s:%s:%s:%d", m.Role, m.Reasoning, text, len(m.Calls)))
	}
	want := []string{"user::a:0", "assistant:b:c:2", "tool::d:0", "tool::e:0", "assistant::h:0", "assistant::i:0", "developer::j:0"}
	if !slices.Equal(got, want) {
		t.Errorf("turns %v, want %v", got, want)
	}
}
