package chat

import (
	"slices"
	"testing"

	"interlude/engine/emulate/model"
	"interlude/engine/vocab"
)

// TestRenderExtendsTheStandIn: what the stand-in answers, rendered again as
// history, is id for id what it holds live.
func TestRenderExtendsTheStandIn(t *testing.T) {
	rule := "Words: amber birch cedar delta ember fjord grove haven inlet jetty knoll lotus maple north ocean pearl\n"
	for _, task := range []string{"Hello", rule + "Write 12 lines by rule n1.", rule + "Say 21 words by rule n2.", "Quote: größe 你好 🌍 👩‍👩‍👧‍👦",
		`Call: weather {"city":"Köln","days":3,"tags":"@range 1 40"}` + "\n" + `Call: other {"a":"x\ny","b":{"c":[true,null]}}`,
		"Fact: a = 1\nFact: b = \"ü\"\nAudit: a, b, c"} {
		for _, thinking := range []bool{false, true} {
			c := Conversation{Messages: []Message{{Role: User, Content: Text(task)}}, Tools: weather}
			first, err := Render(Builtin(), c, Options{Thinking: thinking})
			if err != nil {
				t.Fatal(err)
			}
			live := slices.Clone(first.IDs)
			p := NewParser(Builtin(), ParserOptions{Thinking: thinking, Tools: weather})
			reader := model.NewReader(model.NewIDs(first.IDs), 0, 0)
			var out []Delta
			for range 4000 {
				id := reader.Next(nil)
				live = append(live, id)
				out = p.Push(id, out)
				if id == vocab.ImEnd {
					break
				}
			}
			out, _ = p.Close("stop", out)
			m := Message{Role: Assistant, Content: []Part{{}}}
			for _, d := range out {
				switch d.Kind {
				case Content:
					m.Content[0].Text += d.Text
				case Reasoning:
					m.Reasoning += d.Text
				case ToolStart:
					m.Calls = append(m.Calls, Call{Name: d.Name})
				case ToolArgs:
					m.Calls[d.Index].Args += d.Text
				}
			}
			c.Messages = append(c.Messages, m, Message{Role: User, Content: Text("On")})
			next, err := Render(Builtin(), c, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if n := len(live); len(next.IDs) < n || !slices.Equal(next.IDs[:n], live) {
				t.Errorf("%q thinking %v:\nlive %q\nnext %q", task, thinking, spell(live), spell(next.IDs))
			}
		}
	}
}
