package serve

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"interlude/sched/chat"
)

// picture is an image of a request, still encoded as the client sent it.
type picture struct {
	message, part int // where its pads belong in the conversation
	param         string
	data          []byte
}

// conversation gathers what a request says, whatever API it came through.
type conversation struct {
	chat.Conversation
	pictures []picture
}

// messages reads Chat Completions' messages. Content may be a string, parts or,
// where a message has something else to say, null; nothing is dropped.
func messages(f fields) (c conversation) {
	all, ok := f.list("messages")
	if !ok {
		if len(*f.faults) == 0 {
			f.refuse("messages", "is missing")
		}
		return c
	}
	if len(all) == 0 {
		f.refuse("messages", "must not be empty")
		(*f.faults)[len(*f.faults)-1].code = "empty_array"
		return c
	}
	for i, raw := range all {
		m, ok := f.sub("messages"+index(i), raw)
		if !ok {
			return c
		}
		c.Messages = append(c.Messages, chat.Message{})
		c.message(m, i)
	}
	return c
}

func (c *conversation) message(m fields, at int) {
	role, ok := m.str("role")
	if !ok {
		if !m.has("role") {
			m.refuse("role", "is missing")
		}
		return
	}
	out := &c.Messages[at]
	out.Role = chat.Role(role)
	switch out.Role {
	case chat.System, chat.Developer, chat.User:
		if !m.has("content") {
			m.refuse("content", "is missing")
		}
	case chat.Assistant:
		out.Reasoning, _ = m.str(m.either("reasoning_content", "reasoning"))
		out.Calls = toolCalls(m)
	case chat.ToolRole:
		m.str("tool_call_id")
	default:
		m.refuse("role", "must be system, developer, user, assistant or tool")
		return
	}
	c.content(m, "content", at)
	if refusal, ok := m.str("refusal"); ok && out.Role == chat.Assistant {
		out.Content = append(out.Content, chat.Part{Text: refusal})
	}
	m.str("name")
}

// content reads a string or an array of parts into a message.
func (c *conversation) content(m fields, name string, at int) {
	raw, ok := m.raw(name)
	if !ok {
		return
	}
	out := &c.Messages[at]
	switch raw[0] {
	case '"':
		s, _ := m.str(name)
		out.Content = chat.Text(s)
	case '[':
		parts, _ := m.list(name)
		for i, raw := range parts {
			if p, ok := m.sub(name+index(i), raw); ok {
				c.part(p, at)
			}
		}
	default:
		m.refuse(name, "must be a string or an array of parts")
	}
}

// part reads one content part of either API.
func (c *conversation) part(p fields, at int) {
	out := &c.Messages[at]
	kind, ok := p.str("type")
	if !ok && !p.has("type") {
		p.refuse("type", "is missing")
		return
	}
	required := func(name string) {
		s, ok := p.str(name)
		if !ok && !p.has(name) {
			p.refuse(name, "is missing")
		}
		out.Content = append(out.Content, chat.Part{Text: s})
	}
	switch kind {
	case "text", "input_text", "output_text":
		required("text")
	case "refusal":
		required("refusal")
	case "image_url", "input_image":
		if out.Role != chat.User && out.Role != chat.ToolRole {
			p.refuse("type", "images belong to user and tool messages")
			return
		}
		if data, ok := imageData(p); ok {
			c.pictures = append(c.pictures, picture{message: at, part: len(out.Content), param: p.path + "image_url", data: data})
			out.Content = append(out.Content, chat.Part{})
		}
	default:
		p.refuse("type", "must be text, refusal or image_url (input_text, output_text or input_image on /v1/responses)")
	}
}

// imageData takes a base64 data URL: {"image_url":{"url":…}} or {"image_url":…}.
// The server fetches nothing.
func imageData(p fields) ([]byte, bool) {
	where, holder := "image_url", p
	if raw, ok := p.raw("image_url"); ok && raw[0] == '{' {
		holder, _ = p.object("image_url")
		where = "url"
	}
	url, ok := holder.str(where)
	if !ok {
		if !holder.has(where) {
			holder.refuse(where, "is missing")
		}
		return nil, false
	}
	head, data, found := strings.Cut(url, ";base64,")
	if !found || !strings.HasPrefix(head, "data:image/") {
		holder.refuse(where, "must be a data:image/…;base64, URL; this server fetches nothing")
		return nil, false
	}
	b, err := base64.StdEncoding.DecodeString(data)
	if err != nil || len(b) == 0 {
		holder.refuse(where, "is not base64")
		return nil, false
	}
	return b, true
}

// toolCalls reads the finished calls of an assistant message.
func toolCalls(m fields) (calls []chat.Call) {
	all, _ := m.list("tool_calls")
	for i, raw := range all {
		call, ok := m.sub("tool_calls"+index(i), raw)
		if !ok {
			return nil
		}
		call.str("id")
		if kind, ok := call.str("type"); ok && kind != "function" {
			call.refuse("type", "must be function")
		}
		f, ok := call.object("function")
		if !ok {
			if !call.has("function") {
				call.refuse("function", "is missing")
			}
			return nil
		}
		calls = append(calls, finishedCall(f))
	}
	return calls
}

func finishedCall(f fields) chat.Call {
	name := functionName(f)
	args, _ := f.str("arguments")
	return chat.Call{Name: name, Args: args}
}

// functionName reads a name that is safe inside the markup of a call.
func functionName(f fields) string {
	name, ok := f.str("name")
	switch {
	case !ok && !f.has("name"):
		f.refuse("name", "is missing")
	case ok && !isFunctionName(name):
		f.refuse("name", "must have 1 to 64 letters, digits, _, - or .")
	}
	return name
}

func isFunctionName(s string) bool {
	const others = "_-."
	for _, c := range []byte(s) {
		if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'z') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// tools reads the offered functions; flat is the form of /v1/responses, where a
// function's members stand beside its type.
func tools(f fields, flat bool) (out []chat.Tool) {
	all, _ := f.list("tools")
	named := make(map[string]bool, len(all))
	for i, raw := range all {
		t, ok := f.sub("tools"+index(i), raw)
		if !ok {
			return nil
		}
		if kind, _ := t.str("type"); kind != "function" {
			t.refuse("type", "must be function")
			return nil
		}
		if !flat {
			if t, ok = t.object("function"); !ok {
				f.refuse("tools"+index(i)+".function", "must be an object")
				return nil
			}
		}
		tool := chat.Tool{Name: functionName(t)}
		tool.Description, _ = t.str("description")
		if _, ok := t.object("parameters"); ok {
			tool.Parameters, _ = t.raw("parameters")
		}
		t.boolean("strict")
		if named[tool.Name] {
			t.refuse("name", "is the name of another tool, too")
		}
		named[tool.Name] = true
		out = append(out, tool)
	}
	return out
}

// choice is what tool_choice asks for.
type choice struct {
	none     bool
	required bool
	name     string // of the one function that must be called
}

func toolChoice(f fields, tools []chat.Tool) (c choice) {
	raw, ok := f.raw("tool_choice")
	if !ok {
		return c
	}
	if raw[0] == '"' {
		switch s, _ := f.str("tool_choice"); s {
		case "none":
			c.none = true
		case "auto":
		case "required":
			c.required = true
		default:
			f.refuse("tool_choice", "must be none, auto, required or a function")
		}
	} else if o, ok := f.object("tool_choice"); ok {
		if kind, _ := o.str("type"); kind != "function" {
			o.refuse("type", "must be function")
			return c
		}
		if fn, ok := o.object("function"); ok {
			o = fn
		}
		c.required, c.name = true, functionName(o)
		if !slices.ContainsFunc(tools, func(t chat.Tool) bool { return t.Name == c.name }) {
			o.refuse("name", "is not among the tools")
		}
	}
	if c.required && len(tools) == 0 {
		f.refuse("tool_choice", "needs tools")
	}
	return c
}

// responseFormat reads what the answer must look like; wrong shapes are refused
// here, before an engine hears of them.
func responseFormat(f fields, name string) (kind string, format json.RawMessage) {
	o, ok := f.object(name)
	if !ok {
		return "text", nil
	}
	kind, ok = o.str("type")
	if !ok {
		if !o.has("type") {
			o.refuse("type", "is missing")
		}
		return "text", nil
	}
	switch kind {
	case "text", "json_object":
	case "json_schema":
		schema := o
		if name == "response_format" {
			if schema, ok = o.object("json_schema"); !ok {
				if !o.has("json_schema") {
					o.refuse("json_schema", "is missing")
				}
				return "text", nil
			}
		}
		if _, ok := schema.object("schema"); !ok && !schema.has("schema") {
			schema.refuse("schema", "is missing")
		}
		schema.str("name")
		format, _ = schema.raw("schema")
	default:
		o.refuse("type", "must be text, json_object or json_schema")
	}
	return kind, format
}

// budget reads the two names of the budget of output tokens; 0 is the rest of the
// context.
func budget(f fields) int {
	n, ok := f.integer("max_completion_tokens", 1, 1<<31-1)
	old, both := f.integer("max_tokens", 1, 1<<31-1)
	switch {
	case ok && both && n != old:
		f.refuse("max_completion_tokens", "and max_tokens differ; send one of them")
	case !ok && both:
		n = old
	}
	return int(n)
}
