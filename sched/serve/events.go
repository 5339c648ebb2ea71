package serve

import (
	"encoding/json"
	"net/http"
	"strconv"

	"interlude/engine"
	"interlude/sched/chat"
)

// item is one output item of a response, as it grows.
type item struct {
	kind   string // reasoning, message, function_call
	id     string
	call   doneCall
	text   []byte
	scores []engine.Logprob
	whole  bool // of a call: the model has ended it
	status string
}

// responsesVoice says an answer as Responses events, or as one response object.
// Every item is added, filled and done before the next is added.
type responsesVoice struct {
	a        *answer
	w        http.ResponseWriter
	sequence int
	items    []*item
	open     *item
	pending  []engine.Logprob
}

func newResponsesVoice(a *answer, w http.ResponseWriter) *responsesVoice {
	return &responsesVoice{a: a, w: w}
}

// event opens an event; its members follow, then close.
func (v *responsesVoice) event(kind string) {
	b := append(append(v.a.sse.buf, "event: "...), kind...)
	b = append(append(append(b, "\ndata: {\"type\":\""...), kind...), `","sequence_number":`...)
	v.a.sse.buf = strconv.AppendInt(b, int64(v.sequence), 10)
	v.sequence++
}

func (v *responsesVoice) close() { v.a.sse.buf = append(v.a.sse.buf, "}\n\n"...) }

func (v *responsesVoice) raw(name string, value []byte) {
	b := append(append(append(v.a.sse.buf, `,"`...), name...), `":`...)
	v.a.sse.buf = append(b, value...)
}

func (v *responsesVoice) text(name string, value []byte) {
	b := append(append(append(v.a.sse.buf, `,"`...), name...), `":"`...)
	v.a.sse.buf = append(chat.AppendEscaped(b, string(value)), '"')
}

// place says which item an event is about, and which part of it.
func (v *responsesVoice) place(part string) {
	v.text("item_id", []byte(v.open.id))
	v.raw("output_index", strconv.AppendInt(nil, int64(len(v.items)-1), 10))
	if part != "" {
		v.raw(part, []byte("0"))
	}
}

func (v *responsesVoice) begin() {
	if v.a.sse == nil {
		return
	}
	for _, kind := range []string{"response.created", "response.in_progress"} {
		v.event(kind)
		v.raw("response", encoded(v.response("in_progress", nil, nil, nil)))
		v.close()
	}
}

func (v *responsesVoice) say(deltas []chat.Delta, scores []engine.Logprob) {
	v.pending = append(v.pending, scores...)
	for i := 0; i < len(deltas); {
		d := deltas[i]
		switch d.Kind {
		case chat.Content, chat.Reasoning:
			kind := map[chat.DeltaKind]string{chat.Content: "message", chat.Reasoning: "reasoning"}[d.Kind]
			if v.open == nil || v.open.kind != kind {
				v.done("completed")
				v.add(&item{kind: kind, id: map[string]string{"message": "msg_", "reasoning": "rs_"}[kind] + v.a.id + index36(len(v.items))})
			}
			i = v.delta(deltas, i)
		case chat.ToolStart:
			v.done("completed")
			v.add(&item{kind: "function_call", id: "fc_" + v.a.id + index36(len(v.items)), call: doneCall{id: d.ID, name: d.Name}})
			i++
		case chat.ToolArgs:
			i = v.delta(deltas, i)
		case chat.ToolEnd:
			if v.open != nil {
				v.open.whole = true
			}
			v.done("completed")
			i++
		default:
			i++
		}
	}
}

func index36(n int) string { return "_" + strconv.FormatInt(int64(n), 36) }

// add begins an item.
func (v *responsesVoice) add(it *item) {
	it.status = "in_progress"
	v.items, v.open = append(v.items, it), it
	if v.a.sse == nil {
		return
	}
	v.event("response.output_item.added")
	v.raw("output_index", strconv.AppendInt(nil, int64(len(v.items)-1), 10))
	v.raw("item", encoded(v.object(it)))
	v.close()
	if it.kind != "function_call" {
		v.event("response.content_part.added")
		v.place("content_index")
		v.raw("part", encoded(v.part(it)))
		v.close()
	}
}

// delta adds the deltas that go together to the open item and returns the index
// of the next.
func (v *responsesVoice) delta(deltas []chat.Delta, i int) int {
	it, from, kind := v.open, len(v.open.text), deltas[i].Kind
	for ; i < len(deltas) && deltas[i].Kind == kind; i++ {
		it.text = append(it.text, deltas[i].Text...)
	}
	var scores []engine.Logprob
	if kind == chat.Content {
		scores, v.pending = v.pending, nil
		it.scores = append(it.scores, scores...)
	}
	if v.a.sse == nil {
		return i
	}
	switch kind {
	case chat.Content:
		v.event("response.output_text.delta")
		v.place("content_index")
		v.text("delta", it.text[from:])
		v.raw("logprobs", appendEntries(nil, v.a.s.tok, scores, v.a.call.top))
	case chat.Reasoning:
		v.event("response.reasoning_text.delta")
		v.place("content_index")
		v.text("delta", it.text[from:])
	default:
		v.event("response.function_call_arguments.delta")
		v.place("")
		v.text("delta", it.text[from:])
	}
	v.close()
	return i
}

// done ends the open item. A call that the model did not end is incomplete, however
// the answer goes on: it is not to be carried out.
func (v *responsesVoice) done(status string) {
	it := v.open
	if it == nil {
		return
	}
	if it.kind == "function_call" && !it.whole {
		status = "incomplete"
	}
	it.status = status
	if it.kind == "message" {
		it.scores, v.pending = append(it.scores, v.pending...), nil
	}
	if v.a.sse != nil {
		switch it.kind {
		case "message":
			v.event("response.output_text.done")
			v.place("content_index")
			v.text("text", it.text)
			v.raw("logprobs", appendEntries(nil, v.a.s.tok, it.scores, v.a.call.top))
		case "reasoning":
			v.event("response.reasoning_text.done")
			v.place("content_index")
			v.text("text", it.text)
		default:
			v.event("response.function_call_arguments.done")
			v.place("")
			v.text("name", []byte(it.call.name))
			v.text("arguments", it.text)
		}
		v.close()
		if it.kind != "function_call" {
			v.event("response.content_part.done")
			v.place("content_index")
			v.raw("part", encoded(v.part(it)))
			v.close()
		}
		v.event("response.output_item.done")
		v.raw("output_index", strconv.AppendInt(nil, int64(len(v.items)-1), 10))
		v.raw("item", encoded(v.object(it)))
		v.close()
	}
	v.open = nil
}

func (v *responsesVoice) finish(reason string, u usage, t timings) {
	status, kind := "completed", "response.completed"
	if reason == chat.ReasonLength {
		status, kind = "incomplete", "response.incomplete"
	}
	if len(v.items) == 0 && !v.a.call.prefill { // an empty answer is an empty message
		v.add(&item{kind: "message", id: "msg_" + v.a.id + index36(0)})
	}
	v.done(status)
	r := encoded(v.response(status, &u, t, nil))
	if v.a.sse == nil {
		writeJSON(v.w, http.StatusOK, json.RawMessage(r))
		return
	}
	v.event(kind)
	v.raw("response", r)
	v.close()
}

func (v *responsesVoice) fail(f *fault) {
	if v.a.sse == nil {
		f.write(v.w)
		return
	}
	v.done("incomplete")
	v.event("response.failed")
	v.raw("response", encoded(v.response("failed", nil, nil, f)))
	v.close()
}

// part is the content part of a message or reasoning item.
func (v *responsesVoice) part(it *item) any {
	if it.kind == "reasoning" {
		return struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{"reasoning_text", string(it.text)}
	}
	return struct {
		Type        string          `json:"type"`
		Text        string          `json:"text"`
		Annotations []any           `json:"annotations"`
		Logprobs    json.RawMessage `json:"logprobs"`
	}{"output_text", string(it.text), []any{}, appendEntries(nil, v.a.s.tok, it.scores, v.a.call.top)}
}

// object is an item as it stands.
func (v *responsesVoice) object(it *item) any {
	var parts []any
	if it.status != "in_progress" {
		parts = []any{v.part(it)}
	} else {
		parts = []any{}
	}
	switch it.kind {
	case "function_call":
		return struct {
			ID        string `json:"id"`
			Type      string `json:"type"`
			Status    string `json:"status"`
			CallID    string `json:"call_id"`
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		}{it.id, it.kind, it.status, it.call.id, it.call.name, string(it.text)}
	case "reasoning":
		return struct {
			ID      string `json:"id"`
			Type    string `json:"type"`
			Status  string `json:"status"`
			Summary []any  `json:"summary"`
			Content []any  `json:"content"`
		}{it.id, it.kind, it.status, []any{}, parts}
	}
	return struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Status  string `json:"status"`
		Role    string `json:"role"`
		Content []any  `json:"content"`
	}{it.id, it.kind, it.status, "assistant", parts}
}

// response is the response object as it stands.
func (v *responsesVoice) response(status string, u *usage, t timings, f *fault) any {
	echo := v.a.call.responses
	type details struct {
		Reason string `json:"reason"`
	}
	type failure struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	r := struct {
		ID           string          `json:"id"`
		Object       string          `json:"object"`
		Created      int64           `json:"created_at"`
		Status       string          `json:"status"`
		Background   bool            `json:"background"`
		Error        *failure        `json:"error"`
		Incomplete   *details        `json:"incomplete_details"`
		Instructions json.RawMessage `json:"instructions"`
		MaxOutput    json.RawMessage `json:"max_output_tokens"`
		Model        string          `json:"model"`
		Output       []any           `json:"output"`
		Parallel     bool            `json:"parallel_tool_calls"`
		Previous     *string         `json:"previous_response_id"`
		Reasoning    json.RawMessage `json:"reasoning"`
		Store        bool            `json:"store"`
		Temperature  json.RawMessage `json:"temperature"`
		Text         json.RawMessage `json:"text"`
		Choice       json.RawMessage `json:"tool_choice"`
		Tools        json.RawMessage `json:"tools"`
		TopP         json.RawMessage `json:"top_p"`
		Truncation   string          `json:"truncation"`
		Usage        any             `json:"usage"`
		Metadata     json.RawMessage `json:"metadata"`
		Timings      timings         `json:"timings,omitempty"`
	}{ID: "resp_" + v.a.id, Object: "response", Created: v.a.created, Status: status, Instructions: echo.instructions,
		MaxOutput: echo.maxOutput, Model: v.a.call.model, Output: []any{}, Parallel: echo.parallel, Reasoning: echo.reasoning,
		Temperature: echo.temperature, Text: echo.text, Choice: echo.choice, Tools: echo.tools, TopP: echo.topP,
		Truncation: "disabled", Metadata: echo.metadata, Timings: t}
	for _, it := range v.items {
		r.Output = append(r.Output, v.object(it))
	}
	if status == "incomplete" {
		r.Incomplete = &details{"max_output_tokens"}
	}
	if f != nil {
		r.Error = &failure{"server_error", f.message}
	}
	if u != nil {
		r.Usage = u.responses()
	}
	return r
}

func (u usage) responses() any {
	type cached struct {
		Tokens int `json:"cached_tokens"`
	}
	type reasoning struct {
		Tokens int `json:"reasoning_tokens"`
	}
	return struct {
		Input         int       `json:"input_tokens"`
		InputDetails  cached    `json:"input_tokens_details"`
		Output        int       `json:"output_tokens"`
		OutputDetails reasoning `json:"output_tokens_details"`
		Total         int       `json:"total_tokens"`
	}{u.prompt, cached{u.cached}, u.output, reasoning{u.reasoning}, u.prompt + u.output}
}
