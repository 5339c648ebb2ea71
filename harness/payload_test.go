package harness

import (
	"encoding/json"
	"strings"
	"testing"

	"interlude/results"
	"interlude/workloads"
)

// toolTurns is a conversation: a call, its results, the next question.
func toolTurns(api string) []turn {
	priority := 2
	schema := json.RawMessage(`{"type":"object"}`)
	tools := []workloads.ToolSpec{{Name: "f", Description: "d", Parameters: schema}}
	index := 0
	return []turn{
		{&workloads.Request{ID: "1", API: api, Stream: true, System: "sys <&>", User: "call f", Tools: tools, MaxTokens: 10}, &results.Record{
			Request: "1", Outcome: results.Completed, FinishReason: "tool_calls", Reasoning: "hm",
			Tools: []results.ToolCall{{Index: &index, ID: "call_x", Name: "f", Arguments: `{"a": "ä"}`}}}},
		{&workloads.Request{ID: "2", API: api, Stream: true, Results: []workloads.ToolResult{{Name: "f", Content: "receipt 1"}}, Tools: tools, MaxTokens: 10},
			&results.Record{Request: "2", Outcome: results.Completed, FinishReason: "stop", Text: "thanks 🌍"}},
		{&workloads.Request{ID: "3", API: api, Stream: true, User: "next", Tools: tools, MaxTokens: 20, Temperature: 0.8, Seed: 7, Priority: &priority, Thinking: true,
			Format: json.RawMessage(`{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object"}}}`)}, nil},
	}
}

func TestChatPayload(t *testing.T) {
	got, err := body("m", toolTurns("chat"), nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"model":"m","messages":[{"role":"system","content":"sys <&>"},{"role":"user","content":"call f"},` +
		`{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"call_x","type":"function","function":{"name":"f","arguments":"{\"a\": \"ä\"}"}}]},` +
		`{"role":"tool","content":"receipt 1","tool_call_id":"call_x"},{"role":"assistant","content":"thanks 🌍"},{"role":"user","content":"next"}],"max_tokens":20,` +
		`"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object"}}},"stream_options":{"include_usage":true},"stream":true,` +
		`"temperature":0.8,"seed":7,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}],"tool_choice":"none",` +
		`"chat_template_kwargs":{"enable_thinking":true},"priority":2}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	less, err := body("m", toolTurns("chat"), []string{"priority", "chat_template_kwargs"})
	if err != nil || strings.Contains(string(less), "priority") || strings.Contains(string(less), "enable_thinking") {
		t.Errorf("omitted members are sent: %s, %v", less, err)
	}
}

func TestResponsesPayload(t *testing.T) {
	got, err := body("m", toolTurns("responses"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Input []struct {
			Type, Role, Output, Arguments string
			CallID                        string `json:"call_id"`
			Content                       []struct{ Type, Text string }
		}
		Text  struct{ Format map[string]any }
		Tools []map[string]any
		Max   int `json:"max_output_tokens"`
	}
	if err := json.Unmarshal(got, &sent); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, item := range sent.Input {
		kinds = append(kinds, item.Type+item.Role)
	}
	if k := strings.Join(kinds, " "); k != "messagesystem messageuser reasoning function_call function_call_output messageassistant messageuser" {
		t.Errorf("items %s", k)
	}
	if sent.Input[3].CallID != "call_x" || sent.Input[4].CallID != "call_x" || sent.Input[4].Output != "receipt 1" || sent.Input[5].Content[0].Type != "output_text" {
		t.Errorf("input %+v", sent.Input)
	}
	if sent.Max != 20 || sent.Text.Format["type"] != "json_schema" || sent.Text.Format["name"] != "n" || sent.Tools[0]["name"] != "f" {
		t.Errorf("max %d, format %v, tools %v", sent.Max, sent.Text.Format, sent.Tools)
	}
}

func TestPriorityByHeader(t *testing.T) {
	turns := toolTurns("chat")
	last := turns[2].request
	last.PriorityBy = "header"
	got, err := body("m", turns, nil)
	if err != nil || strings.Contains(string(got), "priority") {
		t.Errorf("the body has a priority too: %s, %v", got, err)
	}
	if h := headers("3/x", last); h["X-Priority"] != "2" || h["X-Request-Id"] != "3/x" {
		t.Errorf("headers %v", h)
	}
}

// A turn behind a planned cancellation keeps what was said until then.
func TestTurnBehindACancellation(t *testing.T) {
	turns := toolTurns("chat")
	turns[1].answer.Outcome, turns[1].answer.Planned = results.Cancelled, "cancel"
	if why := answerable(turns[1].answer, turns[2].request); why != "" {
		t.Error(why)
	}
	got, err := body("m", turns, nil)
	if err != nil || !strings.Contains(string(got), "thanks") {
		t.Errorf("%s, %v", got, err)
	}
	turns[0].answer.Outcome, turns[0].answer.Planned = results.Cancelled, "cancel"
	if why := answerable(turns[0].answer, turns[1].request); why == "" {
		t.Error("results are sent for calls of a cancelled turn")
	}
}
