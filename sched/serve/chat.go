package serve

import (
	"encoding/json"
	"net/http"
	"strconv"

	"interlude/engine"
	"interlude/sched/chat"
)

// chatStream says an answer as chat.completion.chunk events. What is the same in
// every chunk is encoded once.
type chatStream struct {
	a       *answer
	prefix  []byte // up to the inside of delta
	suffix  []byte // after delta and logprobs
	role    bool   // the role chunk was sent
	pending []engine.Logprob
}

func newChatStream(a *answer) *chatStream {
	c := &chatStream{a: a}
	c.prefix = c.head(nil)
	c.prefix = append(c.prefix, `"choices":[{"index":0,"delta":{`...)
	c.suffix = append(c.suffix, `,"finish_reason":null}]`...)
	if a.call.usage {
		c.suffix = append(c.suffix, `,"usage":null`...)
	}
	c.suffix = append(c.suffix, "}\n\n"...)
	return c
}

// head begins an event.
func (c *chatStream) head(dst []byte) []byte {
	dst = append(append(dst, `data: {"id":"chatcmpl-`...), c.a.id...)
	dst = append(dst, `","object":"chat.completion.chunk","created":`...)
	dst = strconv.AppendInt(dst, c.a.created, 10)
	dst = append(chat.AppendEscaped(append(dst, `,"model":"`...), c.a.call.model), `",`...)
	return dst
}

func (c *chatStream) begin() {}

// say opens with the role once there is something to say: never before a token,
// so that a first chunk means a first token.
func (c *chatStream) say(deltas []chat.Delta, scores []engine.Logprob) {
	c.pending = append(c.pending, scores...)
	if len(deltas) == 0 {
		return
	}
	c.opening()
	sse := c.a.sse
	for i := 0; i < len(deltas); {
		d := deltas[i]
		switch d.Kind {
		case chat.Content, chat.Reasoning:
			word := `"content":"`
			if d.Kind == chat.Reasoning {
				word = `"reasoning_content":"`
			}
			sse.buf = append(append(sse.buf, c.prefix...), word...)
			for ; i < len(deltas) && deltas[i].Kind == d.Kind; i++ {
				sse.buf = chat.AppendEscaped(sse.buf, deltas[i].Text)
			}
			sse.buf = append(sse.buf, `"}`...)
		case chat.ToolStart:
			i++
			c.call(d.Index)
			sse.buf = append(append(sse.buf, `,"id":"`...), d.ID...)
			sse.buf = append(append(sse.buf, `","type":"function","function":{"name":"`...), d.Name...)
			sse.buf = append(sse.buf, `","arguments":""}}]}`...)
		case chat.ToolArgs:
			c.call(d.Index)
			sse.buf = append(sse.buf, `,"function":{"arguments":"`...)
			for ; i < len(deltas) && deltas[i].Kind == d.Kind && deltas[i].Index == d.Index; i++ {
				sse.buf = chat.AppendEscaped(sse.buf, deltas[i].Text)
			}
			sse.buf = append(sse.buf, `"}}]}`...)
		default:
			i++
			continue
		}
		c.scores()
		sse.buf = append(sse.buf, c.suffix...)
	}
}

func (c *chatStream) call(index int) {
	sse := c.a.sse
	sse.buf = append(append(sse.buf, c.prefix...), `"tool_calls":[{"index":`...)
	sse.buf = strconv.AppendInt(sse.buf, int64(index), 10)
}

func (c *chatStream) opening() {
	if c.role {
		return
	}
	c.role = true
	c.a.sse.buf = append(append(c.a.sse.buf, c.prefix...), `"role":"assistant","content":""}`...)
	c.a.sse.buf = append(c.a.sse.buf, c.suffix...)
}

// scores attaches the scores that wait for a chunk.
func (c *chatStream) scores() {
	if len(c.pending) == 0 {
		return
	}
	c.a.sse.buf = append(c.a.sse.buf, `,"logprobs":`...)
	c.a.sse.buf = appendScores(c.a.sse.buf, c.a.s.tok, c.pending, c.a.call.top)
	c.pending = c.pending[:0]
}

func (c *chatStream) finish(reason string, u usage, t timings) {
	c.opening()
	sse := c.a.sse
	sse.buf = append(append(sse.buf, c.prefix...), '}')
	c.scores()
	sse.buf = append(append(append(sse.buf, `,"finish_reason":"`...), reason...), `"}]`...)
	if c.a.call.usage {
		sse.buf = append(sse.buf, `,"usage":null`...)
	}
	sse.buf = append(append(append(sse.buf, `,"timings":`...), encoded(t)...), "}\n\n"...)
	if c.a.call.usage {
		sse.buf = append(c.head(sse.buf), `"choices":[],"usage":`...)
		sse.buf = append(append(sse.buf, encoded(u.chat())...), "}\n\n"...)
	}
	sse.buf = append(sse.buf, "data: [DONE]\n\n"...)
}

// fail is an error event and nothing behind it: no finish_reason, no [DONE].
func (c *chatStream) fail(f *fault) {
	c.a.sse.buf = append(append(append(c.a.sse.buf, `data: {"error":`...), f.body()...), "}\n\n"...)
}

// collected is an answer that is said at its end.
type collected struct {
	content, reasoning []byte
	calls              []doneCall
	scores             []engine.Logprob
}

type doneCall struct {
	id, name string
	args     []byte
}

func (c *collected) say(deltas []chat.Delta, scores []engine.Logprob) {
	c.scores = append(c.scores, scores...)
	for _, d := range deltas {
		switch d.Kind {
		case chat.Content:
			c.content = append(c.content, d.Text...)
		case chat.Reasoning:
			c.reasoning = append(c.reasoning, d.Text...)
		case chat.ToolStart:
			c.calls = append(c.calls, doneCall{id: d.ID, name: d.Name})
		case chat.ToolArgs:
			c.calls[d.Index].args = append(c.calls[d.Index].args, d.Text...)
		}
	}
}

// chatWhole says an answer as one chat.completion object.
type chatWhole struct {
	collected
	a *answer
	w http.ResponseWriter
}

func (c *chatWhole) begin() {}

func (c *chatWhole) fail(f *fault) { f.write(c.w) }

func (c *chatWhole) finish(reason string, u usage, t timings) {
	type function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	type toolCall struct {
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	message := struct {
		Role      string     `json:"role"`
		Content   *string    `json:"content"`
		Reasoning string     `json:"reasoning_content,omitempty"`
		Calls     []toolCall `json:"tool_calls,omitempty"`
		Refusal   *string    `json:"refusal"`
	}{Role: "assistant", Reasoning: string(c.reasoning)}
	for _, call := range c.calls {
		message.Calls = append(message.Calls, toolCall{call.id, "function", function{call.name, string(call.args)}})
	}
	if content := string(c.content); content != "" || len(message.Calls) == 0 {
		message.Content = &content // null beside calls, as OpenAI has it
	}
	var scores json.RawMessage = []byte("null")
	if c.a.call.scores {
		scores = appendScores(nil, c.a.s.tok, c.scores, c.a.call.top)
	}
	type choice struct {
		Index    int             `json:"index"`
		Message  any             `json:"message"`
		Logprobs json.RawMessage `json:"logprobs"`
		Finish   string          `json:"finish_reason"`
	}
	writeJSON(c.w, http.StatusOK, struct {
		ID      string    `json:"id"`
		Object  string    `json:"object"`
		Created int64     `json:"created"`
		Model   string    `json:"model"`
		Choices []choice  `json:"choices"`
		Usage   chatUsage `json:"usage"`
		Timings timings   `json:"timings"`
	}{"chatcmpl-" + c.a.id, "chat.completion", c.a.created, c.a.call.model, []choice{{0, message, scores, reason}}, u.chat(), t})
}

type chatUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Output struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (u usage) chat() (c chatUsage) {
	c.Prompt, c.Completion, c.Total = u.prompt, u.output, u.prompt+u.output
	c.Details.Cached, c.Output.Reasoning = u.cached, u.reasoning
	return c
}

func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("serve: an answer cannot be encoded: " + err.Error())
	}
	return b
}
