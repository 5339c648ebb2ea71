package serve

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"interlude/engine"
	"interlude/sched/chat"
)

// responsesEcho is what the answer of /v1/responses repeats of its request:
// settings, none of the conversation.
type responsesEcho struct {
	instructions, choice, tools, reasoning, text, metadata json.RawMessage
	temperature, topP, maxOutput                           json.RawMessage
	parallel                                               bool
}

// decodeResponses reads a Responses request. The server keeps no state, so what
// would need some is refused.
func (s *Server) decodeResponses(f fields) (*call, *fault) {
	c := &call{api: "responses", formatParam: "text.format", scoresParam: "include", budgetParam: "max_output_tokens"}
	c.model, _ = f.str("model")
	if text, ok := f.str("instructions"); ok && text != "" {
		c.conv.Messages = append(c.conv.Messages, chat.Message{Role: chat.System, Content: chat.Text(text)})
	}
	c.items(f)
	c.tools = tools(f, true)
	c.choice = toolChoice(f, c.tools)
	c.common(s, f)
	if n, ok := f.integer("max_output_tokens", 1, 1<<31-1); ok {
		c.budget = int(n)
	}
	include, _ := f.strings("include")
	c.scores = slices.Contains(include, "message.output_text.logprobs")
	if n, ok := f.integer("top_logprobs", 0, 20); ok && n > 0 {
		c.top, c.scores, c.scoresParam = int(n), true, "top_logprobs"
	}
	c.format = "text"
	if text, ok := f.object("text"); ok {
		c.format, c.schema = responseFormat(text, "format")
	}
	for _, name := range []string{"previous_response_id", "conversation", "background", "prompt"} {
		if raw, ok := f.raw(name); ok && string(raw) != "false" {
			f.refuse(name, "is not supported: this server keeps no state")
			(*f.faults)[len(*f.faults)-1].code = "unsupported_parameter"
		}
	}
	if _, ok := f.object("stream_options"); ok { // include_obfuscation: nothing is obfuscated
		f.object("metadata")
	}
	refuseUnknownEffects(f, "max_tool_calls", "reasoning_budget_tokens")
	c.responses = echo(f, c.params)
	return c, f.first()
}

func echo(f fields, p engine.Params) *responsesEcho {
	get := func(name, absent string) json.RawMessage {
		raw, ok := f.raw(name)
		return compact(raw, ok, absent)
	}
	parallel, given := f.boolean("parallel_tool_calls")
	return &responsesEcho{instructions: get("instructions", "null"), choice: get("tool_choice", `"auto"`), tools: get("tools", "[]"),
		reasoning: get("reasoning", `{"effort":null,"summary":null}`), text: get("text", `{"format":{"type":"text"}}`),
		metadata: get("metadata", "{}"), temperature: encoded(p.Temperature), topP: encoded(cmp.Or(p.TopP, 1)),
		maxOutput: get("max_output_tokens", "null"), parallel: parallel || !given}
}

// items reads input: a string, or items that make up the conversation. Reasoning,
// message and calls that follow each other are one turn of the assistant.
func (c *call) items(f fields) {
	raw, ok := f.raw("input")
	if !ok {
		f.refuse("input", "is missing")
		return
	}
	if raw[0] == '"' {
		text, _ := f.str("input")
		c.conv.Messages = append(c.conv.Messages, chat.Message{Role: chat.User, Content: chat.Text(text)})
		return
	}
	all, ok := f.list("input")
	if ok && len(all) == 0 {
		f.refuse("input", "must not be empty")
		(*f.faults)[len(*f.faults)-1].code = "empty_array"
	}
	for i, raw := range all {
		item, ok := f.sub("input"+index(i), raw)
		if !ok || len(*f.faults) > 0 {
			return
		}
		c.item(item)
	}
}

func (c *call) item(item fields) {
	kind := "message"
	if item.has("type") {
		kind, _ = item.str("type")
	}
	switch kind {
	case "message":
		c.messageItem(item)
	case "reasoning":
		m := c.assistant(func(m *chat.Message) bool { return false })
		var b strings.Builder
		for _, part := range itemParts(item, "content") {
			text, _ := part.str("text")
			b.WriteString(text)
		}
		m.Reasoning = b.String()
	case "function_call":
		m := c.assistant(func(*chat.Message) bool { return true })
		item.str("call_id")
		m.Calls = append(m.Calls, finishedCall(item))
	case "function_call_output":
		item.str("call_id")
		if !item.has("output") {
			item.refuse("output", "is missing")
			return
		}
		c.conv.Messages = append(c.conv.Messages, chat.Message{Role: chat.ToolRole})
		c.conv.content(item, "output", len(c.conv.Messages)-1)
	default:
		item.refuse("type", "must be message, reasoning, function_call or function_call_output")
	}
}

func (c *call) messageItem(item fields) {
	role, _ := item.str("role")
	switch chat.Role(role) {
	case chat.Assistant:
		c.assistant(func(m *chat.Message) bool { return len(m.Content) == 0 && len(m.Calls) == 0 })
	case chat.System, chat.Developer, chat.User:
		c.conv.Messages = append(c.conv.Messages, chat.Message{Role: chat.Role(role)})
	default:
		item.refuse("role", "must be system, developer, user or assistant")
		return
	}
	if !item.has("content") {
		item.refuse("content", "is missing")
		return
	}
	c.conv.content(item, "content", len(c.conv.Messages)-1)
}

// assistant is the last turn if it is the assistant's and more fits into it, or a
// new one.
func (c *call) assistant(fits func(*chat.Message) bool) *chat.Message {
	if n := len(c.conv.Messages); n > 0 && c.conv.Messages[n-1].Role == chat.Assistant && fits(&c.conv.Messages[n-1]) {
		return &c.conv.Messages[n-1]
	}
	c.conv.Messages = append(c.conv.Messages, chat.Message{Role: chat.Assistant})
	return &c.conv.Messages[len(c.conv.Messages)-1]
}

func itemParts(item fields, name string) (parts []fields) {
	all, _ := item.list(name)
	for i, raw := range all {
		if p, ok := item.sub(name+index(i), raw); ok {
			parts = append(parts, p)
		}
	}
	return parts
}
