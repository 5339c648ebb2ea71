package workloads

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
)

// Expand makes the requests of one pair: first those of class warmup, then those
// of class canary (the same text in every pair), then the measured ones in the
// order of the manifest. Warm-ups and canaries are run one after the other, alone,
// before the measured part; their After is empty and means nothing. Every prompt
// starts with a nonce = f(seed, pair, conversation), so that no two pairs, and no
// warm-up and measured request, share a prefix. The error names the step that
// cannot be made.
func Expand(m *Manifest, seed uint64, pair int, c Counter) ([]Request, error) {
	var reqs []Request
	for i := range m.Warmups {
		reqs = append(reqs, alone(m, Warmup, i, seed, fmt.Sprint("warmup/", pair)))
	}
	for i := range m.Canaries {
		reqs = append(reqs, alone(m, Canary, i, seed, "canary"))
	}
	measured, err := conversations(m, seed, pair, c)
	return append(reqs, measured...), err
}

// conversations makes the measured requests: those of the manifest, or those of
// the load it names.
func conversations(m *Manifest, seed uint64, pair int, c Counter) ([]Request, error) {
	if m.Generate != nil {
		return generate(m, seed, pair, c)
	}
	var reqs []Request
	for _, conv := range m.rounds() {
		x := newExpander(m, conv, seed, pair, c)
		for range x.conv.Steps {
			r, err := x.next()
			if err != nil {
				return nil, err
			}
			reqs = append(reqs, r)
		}
	}
	return reqs, nil
}

// Measured leaves out warm-ups and canaries.
func Measured(reqs []Request) []Request {
	return slices.DeleteFunc(slices.Clone(reqs), func(r Request) bool { return r.Class == Warmup || r.Class == Canary })
}

// alone makes a warm-up or canary: forty words by a rule of its own, greedy.
func alone(m *Manifest, class string, i int, seed uint64, purpose string) Request {
	id := fmt.Sprintf("%s-%d", class, i+1)
	rule := &WordRule{Nonce: nonce(seed, purpose, i), Words: drawWords(stream(seed, "words", purpose, i)), Count: 40}
	r := Request{
		ID: id, Class: class, Conversation: id, API: "chat", Stream: true, MaxTokens: 256,
		System: systemText(class, nonce(seed, "system", purpose, i)),
		User:   wordsLine(rule.Words) + newPadder(stream(seed, "filler", purpose, i)).filler(80)[1:] + "\n" + sayLine(rule),
		Expect: Expect{Words: rule, Finish: "stop", Scored: m.Scored},
	}
	r.TemplateHash = TemplateHash([]Request{r})
	return r
}

func systemText(kind, nonce string) string {
	return fmt.Sprintf("%s %s. Follow the directives in the messages exactly and add nothing.", strings.ToUpper(kind[:1])+kind[1:], nonce)
}

func wordsLine(words []string) string { return "Words: " + strings.Join(words, " ") + "\n" }

func sayLine(r *WordRule) string { return fmt.Sprintf("Say %d words by rule %s.", r.Count, r.Nonce) }

// expander makes the requests of one conversation, step by step.
type expander struct {
	m     *Manifest
	conv  Conversation
	seed  uint64
	pair  int
	count Counter

	facts   *facts
	known   []fact // in the present history, the latest value of each name
	pending []ToolResult
	open    []fact // planted in pending
	calls   map[string]json.RawMessage
	history []Request // since the start or the last rollover
	turn    int
}

func newExpander(m *Manifest, conv Conversation, seed uint64, pair int, c Counter) *expander {
	x := &expander{m: m, conv: conv, seed: seed, pair: pair, count: c, calls: map[string]json.RawMessage{}}
	x.facts = newFacts(x.stream("facts"))
	return x
}

// stream is the random stream of one purpose of this conversation.
func (x *expander) stream(purpose ...any) *rand.Rand {
	return stream(x.seed, append([]any{x.pair, x.conv.ID}, purpose...)...)
}

// next makes the request of the next step.
func (x *expander) next() (Request, error) {
	r, err := x.step(x.turn)
	if err != nil {
		return r, fmt.Errorf("conversation %s, step %s: %w", x.conv.ID, x.conv.Steps[x.turn].ID, err)
	}
	x.history = append(x.history, r)
	r.TemplateHash = TemplateHash(x.history)
	x.history[len(x.history)-1] = r
	x.turn++
	return r, nil
}

func (x *expander) step(turn int) (Request, error) {
	s := &x.conv.Steps[turn]
	r := Request{
		ID: s.ID, Class: s.Class, Conversation: x.conv.ID, Turn: turn, After: x.due(turn),
		API: x.conv.API, Stream: !s.Whole, MaxTokens: s.Max, Thinking: s.Thinking,
		Priority: s.Priority, PriorityBy: s.By, Cancel: s.Cancel, Rollover: s.Over, Stop: s.Stop, Extra: s.Extra, Image: s.Image,
	}
	if r.API == "" {
		r.API = "chat"
	}
	for _, name := range x.conv.Tools {
		r.Tools = append(r.Tools, *x.m.tool(name))
	}
	var kept string
	if s.Over {
		if s.Keep > 0 {
			kept = x.kept(s.Keep)
			r.System = x.history[0].System
		}
		x.history = nil
		if !s.Restate {
			x.known = nil
		}
	}
	if turn == 0 || s.Over && s.Keep == 0 {
		r.System = systemText("session", nonce(x.seed, x.pair, x.conv.ID, "system", turn))
	}
	if s.Receipts {
		r.Results, x.pending = x.pending, nil
		x.known, x.open = append(x.known, x.open...), nil
	}
	head := kept + x.plant(s)
	task := x.task(turn, &r)
	if !s.Receipts {
		if err := x.text(turn, &r, head, task); err != nil {
			return r, err
		}
	}
	r.Expect.OutputTokens, r.Expect.Scored = s.Output, x.m.Scored || s.Ask != ""
	r.Expect.Finish = finish(s)
	x.sample(s, &r)
	return r, nil
}

// due is the step's own trigger, else the end of the step before, else the start.
func (x *expander) due(turn int) Trigger {
	switch s := x.conv.Steps[turn]; {
	case s.After != nil:
		return *s.After
	case turn > 0:
		return Trigger{Request: x.conv.Steps[turn-1].ID, Event: AtEnd}
	}
	return Trigger{}
}

// finish is the finish_reason that the step promises.
func finish(s *Step) string {
	switch {
	case len(s.Calls) > 0:
		return "tool_calls"
	case s.Output > 0 && s.Output == s.Max:
		return "length"
	case s.Write > 0 || s.Ask != "":
		return "" // the budget may cut it, or not
	}
	return "stop"
}

// sample gives a long answer its temperature and seed.
func (x *expander) sample(s *Step, r *Request) {
	if s.Write == 0 && s.Ask == "" || x.m.Sampling == Greedy || x.m.Sampling == "" || x.m.Sampling == Alternate && x.pair%2 == 1 {
		return
	}
	r.Temperature = x.m.Temperature
	if r.Temperature == 0 {
		r.Temperature = 0.8
	}
	r.Seed = 1 + x.stream("sampling", s.ID).Int64N(1<<31-1)
	if r.Expect.Lines != nil {
		r.Expect.Lines.Aside = true
	}
}

// kept is the beginning of the text that the present history starts with, as long
// as it has at most that many tokens, cut between two words.
func (x *expander) kept(tokens int) string {
	text := x.history[0].User
	if x.count.Text(text) <= tokens {
		return text + "\n"
	}
	blanks := []int{0}
	for i, b := range []byte(text) {
		if b == ' ' {
			blanks = append(blanks, i)
		}
	}
	n := sort.Search(len(blanks), func(i int) bool { return x.count.Text(text[:blanks[i]]) > tokens })
	return text[:blanks[max(0, n-1)]] + "\n"
}

// plant returns the lines of the facts that a step says, old ones again after a
// rollover, and remembers them.
func (x *expander) plant(s *Step) string {
	var lines strings.Builder
	var said []fact
	if s.Over && s.Restate {
		said, x.known = x.known, nil
	}
	for range s.Plant {
		said = append(said, x.facts.next())
	}
	for _, f := range said {
		lines.WriteString(factLine(f))
	}
	x.known = append(x.known, said...)
	return lines.String()
}

// text writes the user text: what is kept and planted, filler to the promised
// length, task.
func (x *expander) text(turn int, r *Request, head, task string) error {
	s := &x.conv.Steps[turn]
	build := func(filler string) string {
		if filler == "" {
			return head + task
		}
		return head + "Notes:" + filler + "\n" + task
	}
	var err error
	switch filler := x.stream("filler", turn); {
	case s.Prompt > 0:
		r.User, err = pad(filler, s.Prompt, build, func(text string) int {
			return x.count.Count(r.System, []Turn{{Role: "user", Text: text}}, r.Tools, r.Thinking)
		})
		r.PromptTokens = s.Prompt
	case s.Unread > 0:
		r.User, err = pad(filler, s.Unread, build, x.count.Text)
	default:
		r.User = build("")
	}
	return err
}

func factLine(f fact) string { return fmt.Sprintf("Fact: %s = %s\n", f.Name, f.Value) }
