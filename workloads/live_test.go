package workloads_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"interlude/engine/emulate/model"
	"interlude/engine/vocab"
	"interlude/sched/chat"
	"interlude/workloads"
)

// builtin counts as our own server does.
func builtin() workloads.Counter {
	tok := chat.Builtin()
	return workloads.Counter{Name: "builtin", Text: func(s string) int { return len(tok.Encode(nil, s)) },
		Count: func(system string, turns []workloads.Turn, tools []workloads.ToolSpec, thinking bool) int {
			l := live{tools: chatTools(tools)}
			l.say(chat.System, system)
			for _, t := range turns {
				l.say(chat.Role(t.Role), t.Text)
			}
			return chat.Count(tok, chat.Conversation{Messages: l.messages, Tools: l.tools}, chat.Options{Thinking: thinking})
		}}
}

func chatTools(list []workloads.ToolSpec) (out []chat.Tool) {
	for _, t := range list {
		out = append(out, chat.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return out
}

// live holds a conversation with the stand-in's reader.
type live struct {
	messages []chat.Message
	tools    []chat.Tool
}

func (l *live) say(role chat.Role, text string) {
	if text != "" {
		l.messages = append(l.messages, chat.Message{Role: role, Content: chat.Text(text)})
	}
}

type answer struct {
	prompt, output int
	finish, text   string
	calls          []chat.Call
}

// send renders a request, lets the reader answer and keeps the answer as history.
func (l *live) send(t *testing.T, r *workloads.Request) answer {
	t.Helper()
	if r.Rollover {
		l.messages = nil
	}
	l.tools = chatTools(r.Tools)
	l.say(chat.System, r.System)
	for _, result := range r.Results {
		l.say(chat.ToolRole, result.Content)
	}
	l.say(chat.User, r.User)
	p, err := chat.Render(chat.Builtin(), chat.Conversation{Messages: l.messages, Tools: l.tools}, chat.Options{Thinking: r.Thinking})
	if err != nil {
		t.Fatal(err)
	}
	a := answer{prompt: len(p.IDs), finish: "length"}
	parser := chat.NewParser(chat.Builtin(), chat.ParserOptions{Thinking: r.Thinking, Tools: l.tools})
	reader := model.NewReader(model.NewIDs(p.IDs), r.Temperature, uint64(r.Seed))
	var out []chat.Delta
	for a.output < r.MaxTokens {
		id := reader.Next(nil)
		a.output++
		out = parser.Push(id, out)
		if id == vocab.ImEnd {
			a.finish = "stop"
			break
		}
	}
	out, finish := parser.Close(a.finish, out)
	a.finish = string(finish)
	m := chat.Message{Role: chat.Assistant, Content: []chat.Part{{}}}
	for _, d := range out {
		switch d.Kind {
		case chat.Content:
			m.Content[0].Text += d.Text
		case chat.Reasoning:
			m.Reasoning += d.Text
		case chat.ToolStart:
			m.Calls = append(m.Calls, chat.Call{Name: d.Name})
		case chat.ToolArgs:
			m.Calls[d.Index].Args += d.Text
		}
	}
	l.messages = append(l.messages, m)
	a.text, a.calls = m.Content[0].Text, m.Calls
	return a
}

// TestBuiltinsAnsweredByTheStandIn: the stand-in's reader, which sees token ids
// alone, gives exactly the answers that every built-in manifest promises, with
// exactly the token counts it promises.
func TestBuiltinsAnsweredByTheStandIn(t *testing.T) {
	for _, name := range workloads.Builtin() {
		for pair := 1; pair <= 2; pair++ {
			t.Run(fmt.Sprint(name, "/", pair), func(t *testing.T) {
				m, err := workloads.Load(name, nil)
				if err != nil {
					t.Fatal(err)
				}
				if m.Generate != nil {
					if pair > 1 {
						return
					}
					if m, err = m.For(45 * time.Second); err != nil {
						t.Fatal(err)
					}
				}
				reqs, err := workloads.Expand(m, 7, pair, builtin())
				if err != nil {
					t.Fatal(err)
				}
				talks := map[string]*live{}
				for i := range reqs {
					r := &reqs[i]
					if talks[r.Conversation] == nil {
						talks[r.Conversation] = new(live)
					}
					judge(t, r, talks[r.Conversation].send(t, r))
				}
			})
		}
	}
}

func judge(t *testing.T, r *workloads.Request, a answer) {
	t.Helper()
	e := &r.Expect
	if r.PromptTokens > 0 && a.prompt != r.PromptTokens {
		t.Errorf("%s: prompt of %d tokens, promised %d", r.ID, a.prompt, r.PromptTokens)
	}
	if e.OutputTokens > 0 && a.output != e.OutputTokens {
		t.Errorf("%s: answer of %d tokens, promised %d", r.ID, a.output, e.OutputTokens)
	}
	if e.Finish != "" && a.finish != e.Finish {
		t.Errorf("%s: finish %s, promised %s", r.ID, a.finish, e.Finish)
	}
	switch {
	case e.Lines != nil:
		for _, f := range workloads.CheckLines(e.Lines, a.text, a.finish) {
			t.Errorf("%s: %v", r.ID, f)
		}
		if e.Lines.Aside != strings.Contains(a.text, " (") {
			t.Errorf("%s: asides in the text: %v, in the rule: %v", r.ID, !e.Lines.Aside, e.Lines.Aside)
		}
	case e.Words != nil:
		for _, f := range workloads.CheckWords(e.Words, a.text) {
			t.Errorf("%s: %v", r.ID, f)
		}
	case len(e.Calls) > 0:
		if len(a.calls) != len(e.Calls) {
			t.Fatalf("%s: %d calls, want %d; text %q", r.ID, len(a.calls), len(e.Calls), a.text)
		}
		for i, c := range e.Calls {
			if a.calls[i].Name != c.Name || !equalJSON(t, a.calls[i].Args, string(c.Args)) {
				t.Errorf("%s: call %d is %s %s, want %s %s", r.ID, i, a.calls[i].Name, a.calls[i].Args, c.Name, c.Args)
			}
		}
	case e.JSON != nil:
		if a.text != workloads.Answer(e) {
			t.Errorf("%s: answer %s\nwant %s", r.ID, a.text, workloads.Answer(e))
		}
	case e.Exact == "" && e.Scored:
		// free text: nothing is promised
	default:
		if a.text != e.Exact {
			t.Errorf("%s: answer %q, want %q", r.ID, a.text, e.Exact)
		}
	}
}

func equalJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}

// TestPairedShortLengths: the numbers that experiment.md promises, for many seeds.
func TestPairedShortLengths(t *testing.T) {
	m, err := workloads.Load("paired-short", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := builtin()
	for seed := range uint64(20) {
		reqs, err := workloads.Expand(m, seed, 1+int(seed%8), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range reqs {
			want := map[string]int{"A1": 627, "P1": 230}[r.ID]
			if want == 0 {
				continue
			}
			got := c.Count(r.System, []workloads.Turn{{Role: "user", Text: r.User}}, r.Tools, r.Thinking)
			if got != want || r.PromptTokens != want {
				t.Errorf("seed %d, %s: %d tokens (promised %d), want %d", seed, r.ID, got, r.PromptTokens, want)
			}
		}
	}
}

// TestKeepRestoresTheBeginning: a rollover that keeps 16,384 tokens renders to a
// prompt of exactly its length that shares about so many ids with the old one.
func TestKeepRestoresTheBeginning(t *testing.T) {
	m, err := workloads.Parse([]byte(`{"schema": 1, "name": "x", "about": "a", "primary": "block_s", "conversations": [{"id": "A", "steps": [
		{"id": "A1", "class": "short", "plant": 20, "say": 3, "prompt_tokens": 20000, "max_tokens": 9},
		{"id": "A2", "class": "short", "say": 3, "text_tokens": 300, "max_tokens": 9},
		{"id": "A3", "class": "short", "rollover": true, "restate": true, "keep": 16384, "say": 3, "prompt_tokens": 40000, "max_tokens": 9},
		{"id": "A4", "class": "audit", "audit": 20, "max_tokens": 900},
		{"id": "A5", "class": "short", "rollover": true, "say": 3, "prompt_tokens": 30000, "max_tokens": 9}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	reqs, err := workloads.Expand(m, 1, 1, builtin())
	if err != nil {
		t.Fatal(err)
	}
	talk := new(live)
	for i := range reqs {
		judge(t, &reqs[i], talk.send(t, &reqs[i]))
	}
	prompt := func(i int) []int32 {
		p, err := chat.Render(chat.Builtin(), chat.Conversation{Messages: []chat.Message{{Role: chat.System, Content: chat.Text(reqs[i].System)},
			{Role: chat.User, Content: chat.Text(reqs[i].User)}}}, chat.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p.IDs
	}
	shared := func(a, b []int32) (n int) {
		for n < min(len(a), len(b)) && a[n] == b[n] {
			n++
		}
		return n
	}
	if n := shared(prompt(0), prompt(2)); n < 16384-16 || n > 16384+64 {
		t.Errorf("A3 shares %d ids with A1", n)
	}
	if n := shared(prompt(0), prompt(4)); n > 16 {
		t.Errorf("A5 is not cold: it shares %d ids with A1", n)
	}
}

// TestLoadPromptsAsDrawn: the prompts of a real run of L1 are as long as the turns
// that simulate draws, within the template's few tokens.
func TestLoadPromptsAsDrawn(t *testing.T) {
	m, err := workloads.Load("L1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = m.For(100 * time.Second); err != nil {
		t.Fatal(err)
	}
	reqs, err := workloads.Expand(m, 3, 1, builtin())
	if err != nil {
		t.Fatal(err)
	}
	shape, _ := workloads.NamedLoad("L1")
	for n := range shape.Conversations {
		turns, talk := shape.Conversation(3, n), new(live)
		sent := 0
		for i := range reqs {
			if reqs[i].Conversation != fmt.Sprint("C", n+1) {
				continue
			}
			sent++
			want, got := turns.Next(), talk.send(t, &reqs[i])
			if got.output != want.Answer || got.prompt < want.Prompt-40 || got.prompt > want.Prompt+40 {
				t.Errorf("%s: prompt %d, answer %d tokens; drawn were %d and %d", reqs[i].ID, got.prompt, got.output, want.Prompt, want.Answer)
			}
		}
		if sent < 2 {
			t.Errorf("conversation %d has %d turns", n, sent)
		}
	}
	if probes := shape.Probes(3, 100*time.Second); len(probes) == 0 || len(probes) != count(reqs, workloads.Probe) {
		t.Errorf("%d probes drawn, %d made", len(probes), count(reqs, workloads.Probe))
	}
}

func count(reqs []workloads.Request, class string) (n int) {
	for _, r := range reqs {
		if r.Class == class {
			n++
		}
	}
	return n
}
