package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"interlude/results"
	"interlude/workloads"
)

// turn is one request of a conversation together with its answer.
type turn struct {
	request *workloads.Request
	answer  *results.Record
}

// members is a JSON object in the order in which its members were added.
type members struct {
	buf  bytes.Buffer
	omit []string
	err  error
}

func (m *members) add(name string, v any) {
	if m.err != nil || slices.Contains(m.omit, name) {
		return
	}
	value, err := encodeJSON(v)
	if err != nil {
		m.err = fmt.Errorf("member %s of the request: %w", name, err)
		return
	}
	if m.buf.Len() > 0 {
		m.buf.WriteByte(',')
	}
	fmt.Fprintf(&m.buf, "%q:%s", name, value)
}

// extra adds the members of an object, sorted.
func (m *members) extra(object json.RawMessage) {
	var list map[string]json.RawMessage
	if err := json.Unmarshal(object, &list); err != nil && m.err == nil {
		m.err = fmt.Errorf("extra members of the request: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		m.add(name, list[name])
	}
}

func (m *members) object() ([]byte, error) {
	return slices.Concat([]byte("{"), m.buf.Bytes(), []byte("}")), m.err
}

// encodeJSON is JSON without HTML escapes: what is sent is what a client sends.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// body renders the last of turns, which has no answer yet, as a request of its
// API. omit are top-level members that the target cannot take.
func body(model string, turns []turn, omit []string) ([]byte, error) {
	r := turns[len(turns)-1].request
	m := &members{omit: omit}
	m.add("model", model)
	if r.API == "responses" {
		m.add("input", inputItems(turns))
		m.add("max_output_tokens", r.MaxTokens)
		if len(r.Format) > 0 {
			m.add("text", map[string]any{"format": flatFormat(r.Format)})
		}
	} else {
		m.add("messages", chatMessages(turns))
		m.add("max_tokens", r.MaxTokens)
		if len(r.Format) > 0 {
			m.add("response_format", r.Format)
		}
		if len(r.Stop) > 0 { // Responses knows no stop strings
			m.add("stop", r.Stop)
		}
		if r.Stream {
			m.add("stream_options", map[string]bool{"include_usage": true})
		}
	}
	m.add("stream", r.Stream)
	m.add("temperature", r.Temperature)
	if r.Seed != 0 {
		m.add("seed", r.Seed)
	}
	if len(r.Tools) > 0 {
		m.add("tools", toolList(r))
	}
	switch {
	case r.ToolChoice != "":
		m.add("tool_choice", r.ToolChoice)
		m.add("parallel_tool_calls", len(r.Expect.Calls) > 1)
	case len(r.Tools) > 0 && len(r.Format) > 0: // an answer has one form
		m.add("tool_choice", "none")
	}
	// Said either way: what is measured must not hang on the server's default.
	m.add("chat_template_kwargs", map[string]bool{"enable_thinking": r.Thinking})
	if r.Priority != nil && r.PriorityBy != "header" {
		m.add("priority", *r.Priority)
	}
	if len(r.Extra) > 0 {
		m.extra(r.Extra)
	}
	return m.object()
}

// headers are what a request carries beside its body.
func headers(id string, r *workloads.Request) map[string]string {
	h := map[string]string{"X-Request-Id": id}
	if r.Priority != nil && r.PriorityBy == "header" {
		h["X-Priority"] = fmt.Sprint(*r.Priority)
	}
	return h
}

type chatMessage struct {
	Role       string     `json:"role"`
	Content    any        `json:"content"` // text, parts, or nothing
	Reasoning  string     `json:"reasoning_content,omitempty"`
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// chatMessages is the history as Chat Completions wants it: the model's own words
// exactly as they came, reasoning included.
func chatMessages(turns []turn) []chatMessage {
	var out []chatMessage
	var open []results.ToolCall // calls of the turn before
	for _, t := range turns {
		r := t.request
		if r.System != "" {
			out = append(out, chatMessage{Role: "system", Content: r.System})
		}
		for i := range r.Results {
			out = append(out, chatMessage{Role: "tool", Content: r.Results[i].Content, ToolCallID: open[i].ID})
		}
		if r.User != "" {
			out = append(out, chatMessage{Role: "user", Content: userContent(r)})
		}
		if t.answer == nil {
			continue
		}
		a := chatMessage{Role: "assistant", Content: t.answer.Text, Reasoning: t.answer.Reasoning}
		open = finishedCalls(t.answer)
		for _, c := range open {
			a.ToolCalls = append(a.ToolCalls, chatCall{c.ID, "function", chatFunction{c.Name, c.Arguments}})
		}
		if len(open) > 0 && t.answer.Text == "" {
			a.Content = nil
		}
		out = append(out, a)
	}
	return out
}

// pixel is the smallest PNG there is: one transparent dot.
const pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// userContent is the text of a user message, behind a picture where the plan wants one.
func userContent(r *workloads.Request) any {
	if !r.Image {
		return r.User
	}
	type url struct {
		URL string `json:"url"`
	}
	type part struct {
		Type  string `json:"type"`
		Image *url   `json:"image_url,omitempty"`
		Text  string `json:"text,omitempty"`
	}
	return []part{{Type: "image_url", Image: &url{pixel}}, {Type: "text", Text: r.User}}
}

// finishedCalls are the tool calls of an answer that may be answered: a call of
// an answer that was cut is never acted upon.
func finishedCalls(a *results.Record) []results.ToolCall {
	if !a.Done() || a.FinishReason != "tool_calls" {
		return nil
	}
	return a.Tools
}

// inputItems is the history as Responses wants it.
func inputItems(turns []turn) []any {
	type object = map[string]any
	var out []any
	say := func(role, kind, text string) {
		out = append(out, object{"type": "message", "role": role, "content": []object{{"type": kind, "text": text}}})
	}
	var open []results.ToolCall
	for _, t := range turns {
		r := t.request
		if r.System != "" {
			say("system", "input_text", r.System)
		}
		for i, result := range r.Results {
			out = append(out, object{"type": "function_call_output", "call_id": open[i].ID, "output": result.Content})
		}
		if r.User != "" {
			say("user", "input_text", r.User)
		}
		if t.answer == nil {
			continue
		}
		if t.answer.Reasoning != "" {
			out = append(out, object{"type": "reasoning", "summary": []string{}, "content": []object{{"type": "reasoning_text", "text": t.answer.Reasoning}}})
		}
		open = finishedCalls(t.answer)
		if t.answer.Text != "" || len(open) == 0 {
			say("assistant", "output_text", t.answer.Text)
		}
		for _, c := range open {
			out = append(out, object{"type": "function_call", "call_id": c.ID, "name": c.Name, "arguments": c.Arguments})
		}
	}
	return out
}

// toolList is the offered functions: nested for Chat, flat for Responses.
func toolList(r *workloads.Request) []any {
	var out []any
	for _, t := range r.Tools {
		if r.API == "responses" {
			out = append(out, struct {
				Type string `json:"type"`
				workloads.ToolSpec
			}{"function", t})
			continue
		}
		out = append(out, struct {
			Type     string             `json:"type"`
			Function workloads.ToolSpec `json:"function"`
		}{"function", t})
	}
	return out
}

// flatFormat turns Chat's response_format into Responses' text.format, where the
// members of json_schema stand beside the type.
func flatFormat(format json.RawMessage) any {
	var f struct {
		Type   string                     `json:"type"`
		Schema map[string]json.RawMessage `json:"json_schema"`
	}
	if json.Unmarshal(format, &f) != nil || f.Schema == nil {
		return format
	}
	flat := map[string]any{"type": f.Type}
	for k, v := range f.Schema {
		flat[k] = v
	}
	return flat
}

// answerable says why the next turn of a conversation cannot follow this answer,
// "" if it can.
func answerable(answer *results.Record, next *workloads.Request) string {
	switch {
	case answer.Outcome == results.Cancelled && answer.Planned != "":
		if len(next.Results) > 0 {
			return fmt.Sprintf("turn %s was cancelled, so its calls have no results", answer.Request)
		}
	case !answer.Done():
		return fmt.Sprintf("turn %s ended as %s", answer.Request, answer.Outcome)
	case len(finishedCalls(answer)) != len(next.Results):
		return fmt.Sprintf("turn %s made %d tool calls, the plan has %d results", answer.Request, len(finishedCalls(answer)), len(next.Results))
	}
	return ""
}
