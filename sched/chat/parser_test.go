package chat

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// plainTok is a vocabulary of bytes without markup ids of its own: calls and
// thoughts are written as text.
type plainTok struct{ Tokenizer }

func (plainTok) Special(text string) (int32, bool) {
	if strings.HasPrefix(text, "<|im_") {
		return Builtin().Special(text)
	}
	return 0, false
}

func (plainTok) Encode(dst []int32, text string) []int32 { return bytewise(dst, text) }

func bytewise(dst []int32, text string) []int32 {
	for i := range len(text) {
		dst = append(dst, int32(text[i]))
	}
	return dst
}

// generated encodes an answer as a model writes it: markup words are ids where
// the vocabulary has them.
func generated(tok Tokenizer, encode func([]int32, string) []int32, text string) []int32 {
	var ids []int32
	words := []string{think, thinkEnd, toolCall, toolCallEnd, imEnd}
	for text != "" {
		at, word := len(text), ""
		for _, w := range words {
			if i := strings.Index(text, w); i >= 0 && i < at {
				if _, ok := tok.Special(w); ok {
					at, word = i, w
				}
			}
		}
		ids = encode(ids, text[:at])
		if word != "" {
			id, _ := tok.Special(word)
			ids = append(ids, id)
		}
		text = text[at+len(word):]
	}
	return ids
}

type seenCall struct {
	id, name, args string
	done           bool
}

type seen struct {
	content, reasoning string
	calls              []seenCall
	reason             string
	deltas             []Delta
}

// run parses an answer and checks what holds for every answer.
func run(t testing.TB, tok Tokenizer, o ParserOptions, ids []int32, finish string) (seen, *Parser) {
	t.Helper()
	p := NewParser(tok, o)
	var s seen
	for _, id := range ids {
		s.deltas = p.Push(id, s.deltas)
	}
	s.deltas, s.reason = p.Close(finish, s.deltas)
	for _, d := range s.deltas {
		if !utf8.ValidString(d.Text) {
			t.Fatalf("delta %q is not UTF-8", d.Text)
		}
		switch d.Kind {
		case Content:
			s.content += d.Text
		case Reasoning:
			s.reasoning += d.Text
		case ToolStart:
			if d.Index != len(s.calls) {
				t.Fatalf("call index %d, want %d", d.Index, len(s.calls))
			}
			s.calls = append(s.calls, seenCall{id: d.ID, name: d.Name})
		case ToolArgs:
			s.calls[d.Index].args += d.Text
		case ToolEnd:
			s.calls[d.Index].done = true
			if !json.Valid([]byte(s.calls[d.Index].args)) {
				t.Fatalf("arguments of a complete call are not JSON: %s", s.calls[d.Index].args)
			}
		default:
			t.Fatalf("delta without a kind: %+v", d)
		}
		if (d.Kind == Content || d.Kind == Reasoning || d.Kind == ToolArgs) && d.Text == "" {
			t.Fatal("an empty delta")
		}
	}
	return s, p
}

var weather = []Tool{{Name: "weather", Parameters: json.RawMessage(
	`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"tags":{"type":"array"}}}`)}}

func TestParser(t *testing.T) {
	call := func(args string) string {
		return toolCall + "\n<function=weather>\n" + args + "</function>\n" + toolCallEnd
	}
	arg := func(name, value string) string {
		return "<parameter=" + name + ">\n" + value + "\n</parameter>\n"
	}
	tests := []struct {
		name, answer, finish       string
		o                          ParserOptions
		content, reasoning, reason string
		calls                      string
	}{
		{name: "plain", answer: "Hello there." + imEnd, finish: "stop", content: "Hello there.", reason: "stop"},
		{name: "cut by length", answer: "Hello the", finish: "length", content: "Hello the", reason: "length"},
		{name: "engine cancel is stop", answer: "Hello", finish: "cancel", content: "Hello", reason: "stop"},
		{name: "nonfinite is length", answer: "Hello", finish: "nonfinite", content: "Hello", reason: "length"},
		{name: "nothing after the end id", answer: "Hi" + imEnd + "more", finish: "stop", content: "Hi", reason: "stop"},
		{name: "thinking", o: ParserOptions{Thinking: true}, answer: "first\nsecond\n</think>\n\nanswer" + imEnd, finish: "stop",
			reasoning: "first\nsecond", content: "answer", reason: "stop"},
		{name: "cut inside thinking keeps its last newline", o: ParserOptions{Thinking: true}, answer: "first\n", finish: "length",
			reasoning: "first\n", reason: "length"},
		{name: "the model opens the thought itself", answer: "<think>\nwhy\n</think>\n\nyes" + imEnd, finish: "stop",
			reasoning: "why", content: "yes", reason: "stop"},
		{name: "stop string", o: ParserOptions{Stop: []string{"END"}}, answer: "one EN two END three", finish: "stop",
			content: "one EN two ", reason: "stop"},
		{name: "stop string that never completes", o: ParserOptions{Stop: []string{"END"}}, answer: "one EN" + imEnd, finish: "stop",
			content: "one EN", reason: "stop"},
		{name: "stop does not act in a thought", o: ParserOptions{Stop: []string{"x"}, Thinking: true}, answer: "axb\n</think>\n\ncxd", finish: "stop",
			reasoning: "axb", content: "c", reason: "stop"},
		{name: "the stop that is complete first wins", o: ParserOptions{Stop: []string{"b c d", "c"}}, answer: "a b c d", finish: "stop",
			content: "a b ", reason: "stop"},
		{name: "multi-byte stop", o: ParserOptions{Stop: []string{"好"}}, answer: "你们好啊", finish: "stop", content: "你们", reason: "stop"},
		{name: "call", o: ParserOptions{Tools: weather}, answer: call(arg("city", "Köln")+arg("days", "3")) + imEnd, finish: "stop",
			calls: `weather{"city":"Köln","days":3}`, reason: "tool_calls"},
		{name: "call without arguments", o: ParserOptions{Tools: weather}, answer: call("") + imEnd, finish: "stop",
			calls: `weather{}`, reason: "tool_calls"},
		{name: "content before a call, blanks between calls dropped", o: ParserOptions{Tools: weather},
			answer: "Looking." + call(arg("days", "1")) + "\n" + call(arg("days", "2")) + imEnd, finish: "stop",
			content: "Looking.", calls: `weather{"days":1} weather{"days":2}`, reason: "tool_calls"},
		{name: "content after a call", o: ParserOptions{Tools: weather}, answer: call("") + "\nDone." + imEnd, finish: "stop",
			content: "\nDone.", calls: `weather{}`, reason: "tool_calls"},
		{name: "one call only", o: ParserOptions{Tools: weather, OneCall: true}, answer: call("") + "\n" + call("") + imEnd, finish: "stop",
			calls: `weather{}`, reason: "tool_calls"},
		{name: "the value holds its own terminator", o: ParserOptions{Tools: weather}, answer: call(arg("city", "a</parameter>b\n</parameter>\nc")) + imEnd, finish: "stop",
			calls: `weather{"city":"a</parameter>b\n</parameter>\nc"}`, reason: "tool_calls"},
		{name: "typed string that looks like a number", o: ParserOptions{Tools: weather}, answer: call(arg("city", "5")) + imEnd, finish: "stop",
			calls: `weather{"city":"5"}`, reason: "tool_calls"},
		{name: "untyped value is JSON if it can be", o: ParserOptions{Tools: weather}, answer: call(arg("x", "[1, 2]")+arg("y", "word \"q\"")) + imEnd, finish: "stop",
			calls: `weather{"x":[1, 2],"y":"word \"q\""}`, reason: "tool_calls"},
		{name: "only one newline of each end is markup", o: ParserOptions{Tools: weather}, answer: call(arg("city", "\na\n")) + imEnd, finish: "stop",
			calls: `weather{"city":"\na\n"}`, reason: "tool_calls"},
		{name: "S64 cut inside the arguments is length", o: ParserOptions{Tools: weather}, answer: toolCall + "\n<function=weather>\n<parameter=city>\nKö", finish: "length",
			calls: `weather{"city":"Kö`, reason: "length"},
		{name: "an answer that ends inside a call is no tool call", o: ParserOptions{Tools: weather}, answer: toolCall + "\n<function=weather>\n" + imEnd, finish: "stop",
			calls: `weather`, reason: "stop"},
		{name: "cut before the call has a name", o: ParserOptions{Tools: weather}, answer: "a" + toolCall + "\n<func", finish: "length", content: "a", reason: "length"},
		{name: "complete calls cut by the budget", o: ParserOptions{Tools: weather}, answer: call(""), finish: "length", calls: `weather{}`, reason: "length"},
		{name: "an unknown tool is still called", o: ParserOptions{Tools: weather}, answer: strings.Replace(call(arg("a", "1")), "weather", "other", 1) + imEnd, finish: "stop",
			calls: `other{"a":1}`, reason: "tool_calls"},
		{name: "markup that names no function is content", o: ParserOptions{Tools: weather}, answer: toolCall + "\nno call" + imEnd, finish: "stop",
			content: "<tool_call>\nno call", reason: "stop"},
		{name: "a garbled call stays incomplete", o: ParserOptions{Tools: weather}, answer: toolCall + "\n<function=weather>\njunk" + toolCallEnd + imEnd, finish: "stop",
			calls: `weather`, reason: "stop"},
		{name: "the word that ends a call was left out", o: ParserOptions{Tools: weather}, answer: toolCall + "\n<function=weather>\n" + arg("days", "2") + "</function>\n" + imEnd, finish: "stop",
			calls: `weather{"days":2}`, reason: "tool_calls"},
		{name: "content behind such a call", o: ParserOptions{Tools: weather}, answer: toolCall + "\n<function=weather>\n</function>\nDone, all." + imEnd, finish: "stop",
			content: "Done, all.", calls: `weather{}`, reason: "tool_calls"},
		{name: "a call that is complete when the budget ends", o: ParserOptions{Tools: weather}, answer: toolCall + "\n<function=weather>\n</function>", finish: "length",
			calls: `weather{}`, reason: "length"},
		{name: "without tools markup is text", answer: call("") + imEnd, finish: "stop", content: call(""), reason: "stop"},
		{name: "a call made while thinking", o: ParserOptions{Tools: weather, Thinking: true}, answer: "hm\n" + call("") + imEnd, finish: "stop",
			reasoning: "hm", calls: `weather{}`, reason: "tool_calls"},
	}
	for _, tt := range tests {
		for _, v := range []struct {
			name   string
			tok    Tokenizer
			encode func([]int32, string) []int32
		}{{"ids", Builtin(), Builtin().Encode}, {"bytes", Builtin(), bytewise}, {"text", plainTok{Builtin()}, bytewise}} {
			if v.name == "text" && tt.name == "the model opens the thought itself" {
				continue // a vocabulary without <think> does not think
			}
			t.Run(tt.name+"/"+v.name, func(t *testing.T) {
				got, _ := run(t, v.tok, tt.o, generated(v.tok, v.encode, tt.answer), tt.finish)
				var calls []string
				for _, c := range got.calls {
					calls = append(calls, c.name+c.args)
				}
				if got.content != tt.content || got.reasoning != tt.reasoning || got.reason != tt.reason || strings.Join(calls, " ") != tt.calls {
					t.Errorf("got content %q reasoning %q calls %q reason %s\nwant        %q reasoning %q calls %q reason %s",
						got.content, got.reasoning, strings.Join(calls, " "), got.reason, tt.content, tt.reasoning, tt.calls, tt.reason)
				}
			})
		}
	}
}

// TestParserS60WholeRunes: multi-byte text in every channel, cut at every id.
func TestParserS60WholeRunes(t *testing.T) {
	const text = "ÄÖÜ 你好 🌍 👩‍👩‍👧‍👦"
	answer := "r " + text + "\n</think>\n\nc " + text + toolCall + "\n<function=weather>\n<parameter=city>\n" + text +
		"\n</parameter>\n<parameter=x>\n\"" + text + "\"\n</parameter>\n</function>\n" + toolCallEnd
	ids := generated(Builtin(), bytewise, answer)
	o := ParserOptions{Thinking: true, Tools: weather}
	whole, _ := run(t, Builtin(), o, ids, "stop")
	if whole.reasoning != "r "+text || whole.content != "c "+text || whole.calls[0].args != `{"city":"`+text+`","x":"`+text+`"}` {
		t.Fatalf("got %+v", whole)
	}
	for n := range ids {
		cut, _ := run(t, Builtin(), o, ids[:n], "length")
		if !strings.HasPrefix(whole.reasoning+"\n", cut.reasoning) || !strings.HasPrefix(whole.content, cut.content) {
			t.Fatalf("cut at %d: %q %q is no prefix", n, cut.reasoning, cut.content)
		}
		for i, c := range cut.calls {
			if !strings.HasPrefix(whole.calls[i].args, c.args) {
				t.Fatalf("cut at %d: arguments %q are no prefix of %q", n, c.args, whole.calls[i].args)
			}
		}
		if cut.reason != "length" {
			t.Fatalf("cut at %d: reason %q", n, cut.reason)
		}
	}
}

// TestParserS68HoldsOnlyRealPrefixes: a long stop string delays nothing that is
// not its beginning.
func TestParserS68HoldsOnlyRealPrefixes(t *testing.T) {
	p := NewParser(Builtin(), ParserOptions{Stop: []string{"</answer of the assistant>"}})
	for i, piece := range []string{"a", "b ", "<", "c", " </answer", " of", "x"} {
		var out []Delta
		for _, id := range bytewise(nil, piece) {
			out = p.Push(id, out)
		}
		got := ""
		for _, d := range out {
			got += d.Text
		}
		want := []string{"a", "b ", "", "<c", " ", "", "</answer ofx"}[i]
		if got != want {
			t.Errorf("after piece %d %q: got %q, want %q", i, piece, got, want)
		}
	}
}

func TestParserCounts(t *testing.T) {
	ids := bytewise(nil, "ab STOP tail")
	s, p := run(t, Builtin(), ParserOptions{Stop: []string{"STOP"}}, ids, "cancel")
	if s.content != "ab " || p.Tokens() != 7 || !p.Stopped() {
		t.Errorf("content %q, tokens %d, want 7: what follows the stop belongs to nobody", s.content, p.Tokens())
	}
	ids = generated(Builtin(), bytewise, "ab</think>cd"+imEnd)
	_, p = run(t, Builtin(), ParserOptions{Thinking: true}, ids, "stop")
	if p.Tokens() != 6 || p.ReasoningTokens() != 3 {
		t.Errorf("tokens %d reasoning %d, want 6 and 3", p.Tokens(), p.ReasoningTokens())
	}
}

func TestParserCallIDs(t *testing.T) {
	text := toolCall + "<function=weather></function>" + toolCallEnd
	ids := generated(Builtin(), bytewise, text+text)
	a, _ := run(t, Builtin(), ParserOptions{Tools: weather, Seed: "a"}, ids, "stop")
	b, _ := run(t, Builtin(), ParserOptions{Tools: weather, Seed: "b"}, ids, "stop")
	all := map[string]bool{}
	for _, c := range append(a.calls, b.calls...) {
		if len(c.id) != len("call_")+24 || !strings.HasPrefix(c.id, "call_") {
			t.Errorf("id %q", c.id)
		}
		all[c.id] = true
	}
	if len(all) != 4 {
		t.Errorf("4 calls have %d ids", len(all))
	}
}

// FuzzParser: the same text in other ids gives the same answer, and every answer
// keeps the rules that run checks.
func FuzzParser(f *testing.F) {
	f.Add("Hi END", "END", "length", true)
	f.Add("a\n</think>\n\nb<tool_call>\n<function=weather>\n<parameter=city>\nä</parameter>\n</function>\n</tool_call>", "</t", "stop", true)
	f.Add("<tool_call><function=w><parameter=x>[1]</parameter></function></tool_call>\n<tool_call>", "\n", "cancel", false)
	f.Add("<tool_call>\n<function=weather>\n<parameter=city></parameter>\n\n\n\n\n\n\n\n\n\n</parameter><parameter=", "好", "stop", false)
	f.Add("\xf0\x9f\x8c", "\xf0", "length", false)
	f.Fuzz(func(t *testing.T, answer, stop, finish string, thinking bool) {
		o := ParserOptions{Thinking: thinking, Tools: weather}
		if stop != "" && utf8.ValidString(stop) {
			o.Stop = []string{stop, "other"}
		}
		show := func(s seen) string {
			return fmt.Sprintf("%q %q %+v %s", s.content, s.reasoning, s.calls, s.reason)
		}
		a, _ := run(t, Builtin(), o, generated(Builtin(), Builtin().Encode, answer), finish)
		b, _ := run(t, Builtin(), o, generated(Builtin(), bytewise, answer), finish)
		if utf8.ValidString(answer) && show(a) != show(b) {
			t.Errorf("ids: %s\nbytes: %s", show(a), show(b))
		}
		for _, s := range o.Stop {
			if strings.Contains(a.content, s) && !strings.Contains(s, "<") && len(a.calls) == 0 {
				t.Errorf("content %q holds the stop %q", a.content, s)
			}
		}
		run(t, plainTok{Builtin()}, o, bytewise(nil, answer), finish)
	})
}

func BenchmarkParserPush(b *testing.B) {
	ids := Builtin().Encode(nil, strings.Repeat("12: amber birch cedar delta ember fjord grove haven\n", 100))
	for name, o := range map[string]ParserOptions{"plain": {}, "stop": {Stop: []string{"\n\nUser:"}}} {
		b.Run(name, func(b *testing.B) {
			p := NewParser(Builtin(), o)
			var out []Delta
			b.ReportAllocs()
			for i := range b.N {
				out = p.Push(ids[i%len(ids)], out[:0])
			}
		})
	}
}
