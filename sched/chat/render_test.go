package chat

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"interlude/engine/vocab"
)

// spell writes ids as text, special ids in guillemets so that markup typed by a
// user looks different from markup.
func spell(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		if s, ok := vocab.SpecialText(id); ok {
			b.WriteString("«" + strings.Trim(s, "<|>") + "»")
			continue
		}
		b.WriteString(vocab.Piece(id))
	}
	return b.String()
}

func TestRender(t *testing.T) {
	user := func(s string) Message { return Message{Role: User, Content: Text(s)} }
	const header = "«im_start»assistant\n«think»\n\n«/think»\n\n"
	tests := []struct {
		name string
		c    Conversation
		o    Options
		want string
	}{
		{"one user turn", Conversation{Messages: []Message{user("Hi")}}, Options{},
			"«im_start»user\nHi«im_end»\n" + header},
		{"thinking leaves the thought open", Conversation{Messages: []Message{user("Hi")}}, Options{Thinking: true},
			"«im_start»user\nHi«im_end»\n«im_start»assistant\n«think»\n"},
		{"system messages in front are one turn, a late one is the user's",
			Conversation{Messages: []Message{{Role: System, Content: Text("A")}, {Role: Developer, Content: Text("B")}, user("Hi"), {Role: System, Content: Text("C")}}}, Options{},
			"«im_start»system\nA\n\nB«im_end»\n«im_start»user\nHi«im_end»\n«im_start»user\nC«im_end»\n" + header},
		{"tools without a system message", Conversation{Messages: []Message{user("Hi")}, Tools: []Tool{{Name: "f", Description: "d\"", Parameters: json.RawMessage(`{ "type" : "object" }`)}, {Name: "g"}}}, Options{},
			"«im_start»system\n# Tools\n\nYou may call functions.\n<tools>\n" +
				`{"type":"function","function":{"name":"f","description":"d\"","parameters":{"type":"object"}}}` + "\n" +
				`{"type":"function","function":{"name":"g","description":"","parameters":{}}}` + "\n</tools>«im_end»\n«im_start»user\nHi«im_end»\n" + header},
		{"a round trip", Conversation{Messages: []Message{user("Go"),
			{Role: Assistant, Content: Text("Look."), Reasoning: "why", Calls: []Call{{"f", `{"s":"a\nb","n":[1, 2]}`}, {"g", ""}}},
			{Role: ToolRole, Content: Text("one")}, {Role: ToolRole, Content: Text("two")}}}, Options{},
			"«im_start»user\nGo«im_end»\n«im_start»assistant\n«think»\nwhy\n«/think»\n\nLook." +
				"«tool_call»\n<function=f>\n<parameter=s>\na\nb\n</parameter>\n<parameter=n>\n[1, 2]\n</parameter>\n</function>\n«/tool_call»\n" +
				"«tool_call»\n<function=g>\n</function>\n«/tool_call»«im_end»\n" +
				"«im_start»user\n«tool_response»\none\n«/tool_response»\n«tool_response»\ntwo\n«/tool_response»«im_end»\n" + header},
		{"markup in texts stays text", Conversation{Messages: []Message{user("<|im_end|><think></tool_call>"), {Role: Assistant, Content: Text("<tool_call>")}}}, Options{},
			"«im_start»user\n<|im_end|><think></tool_call>«im_end»\n" + header + "<tool_call>«im_end»\n" + header},
		{"an image is pads", Conversation{Messages: []Message{{Role: User, Content: []Part{{Text: "See "}, {Pads: 2}}}}}, Options{},
			"«im_start»user\nSee «image_pad»«image_pad»«im_end»\n" + header},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Render(Builtin(), tt.c, tt.o)
			if err != nil {
				t.Fatal(err)
			}
			if got := spell(p.IDs); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
			if len(p.Turns) != len(tt.c.Messages) || !slices.IsSorted(p.Turns) || p.Turns[0] < 1 || p.Turns[len(p.Turns)-1] >= len(p.IDs) {
				t.Errorf("Turns %v of %d messages, %d ids", p.Turns, len(tt.c.Messages), len(p.IDs))
			}
			if p.Thinking != tt.o.Thinking || Count(Builtin(), tt.c, tt.o) != len(p.IDs) {
				t.Errorf("Thinking %v, Count %d of %d", p.Thinking, Count(Builtin(), tt.c, tt.o), len(p.IDs))
			}
		})
	}
}

func TestRenderSystemRoot(t *testing.T) {
	make := func(question string) Prompt {
		p, err := Render(Builtin(), Conversation{Messages: []Message{{Role: System, Content: Text("Be brief.")}, {Role: User, Content: Text(question)}}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a, b := make("\nOne?"), make("Two?")
	same := 0
	for same < len(a.IDs) && a.IDs[same] == b.IDs[same] {
		same++
	}
	if same != a.SystemRoot || a.SystemRoot != b.SystemRoot || a.HasHistory {
		t.Errorf("prompts share %d ids; SystemRoot %d and %d", same, a.SystemRoot, b.SystemRoot)
	}
}

// TestRenderExtendsTheLiveSession: prompt + generated ids is a prefix of the next
// turn's prompt, for every kind of answer.
func TestRenderExtendsTheLiveSession(t *testing.T) {
	call := toolCall + "\n<function=weather>\n<parameter=city>\nKöln\n</parameter>\n<parameter=days>\n[1, 2]\n</parameter>\n</function>\n" + toolCallEnd
	for name, tt := range map[string]struct {
		answer   string
		thinking bool
	}{
		"content":        {answer: "Hello there.\n\nYes."},
		"thought":        {answer: "Rule none: amber birch\n</think>\n\nHello", thinking: true},
		"calls":          {answer: call + "\n" + call},
		"text and calls": {answer: "Look:\n\n" + call},
		"all of it":      {answer: "hm\n</think>\n\n" + call, thinking: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := Conversation{Messages: []Message{{Role: User, Content: Text("Go")}}, Tools: weather}
			first, err := Render(Builtin(), c, Options{Thinking: tt.thinking})
			if err != nil {
				t.Fatal(err)
			}
			ids := generated(Builtin(), vocab.Encode, tt.answer)
			s, _ := run(t, Builtin(), ParserOptions{Thinking: tt.thinking, Tools: weather}, append(slices.Clone(ids), vocab.ImEnd), "stop")
			m := Message{Role: Assistant, Content: Text(s.content), Reasoning: s.reasoning}
			for _, call := range s.calls {
				m.Calls = append(m.Calls, Call{call.name, call.args})
			}
			c.Messages = append(c.Messages, m, Message{Role: User, Content: Text("On")})
			next, err := Render(Builtin(), c, Options{})
			if err != nil {
				t.Fatal(err)
			}
			live := slices.Concat(first.IDs, ids, []int32{vocab.ImEnd})
			if len(next.IDs) < len(live) || !slices.Equal(next.IDs[:len(live)], live) {
				t.Errorf("live %q\nnext %q", spell(live), spell(next.IDs))
			}
			if !next.HasHistory {
				t.Error("HasHistory is false")
			}
		})
	}
}

func TestRenderRefuses(t *testing.T) {
	for name, m := range map[string]Message{
		"role":                             {Role: "ghost"},
		"tool_calls[0].function.arguments": {Role: Assistant, Calls: []Call{{"f", `[1]`}}},
	} {
		_, err := Render(Builtin(), Conversation{Messages: []Message{{Role: User}, m}}, Options{})
		var turn *TurnError
		if !errors.As(err, &turn) || turn.Message != 1 || turn.Field != name {
			t.Errorf("got %v, want an error that names messages[1].%s", err, name)
		}
	}
	for _, args := range []string{`{"a":1} {"b":2}`, `{"a":}`, `{`, `"x"`, `{"a":1}x`} {
		if err := eachArgument(args, func(string, json.RawMessage) {}); err == nil {
			t.Errorf("arguments %s are accepted", args)
		}
	}
}

func TestAppendEscaped(t *testing.T) {
	for _, s := range []string{"", "plain", "q\"b\\s/", "\n\t\r\b\f\x00\x1f\x7f", "größe 你好 🌍", "</script>&", "\u2028"} {
		var back string
		if err := json.Unmarshal(append(append([]byte{'"'}, AppendEscaped(nil, s)...), '"'), &back); err != nil || back != s {
			t.Errorf("%q came back as %q (%v)", s, back, err)
		}
	}
	if got := string(AppendEscaped(nil, "a\xffb")); got != "a\ufffdb" {
		t.Errorf("a bad byte became %q", got)
	}
}
