package simulate

import (
	"fmt"
	"time"

	"interlude/workloads"
)

// Item is one request to come. Lengths are tokens.
type Item struct {
	Name         string
	Class        string // of workloads; Probe is what the question is about
	Conversation string
	Prompt       int
	Shared       int // of Prompt, as the conversation's last turn left them, from the first token on
	Output       int // the end token included
	Budget       int
	OneShot      bool
	Priority     *int
	At           time.Duration      // due then, at the earliest
	After        *workloads.Trigger // and not before this; its Delay is added
	Cancel       *workloads.Trigger
	leaves       string // not a request: the client of this one leaves
	loop         int    // from 1: this loop's turn
}

// Traffic is what a simulated run will be asked.
type Traffic struct {
	Items []Item // by At, those with After anywhere
	Loops []Loop // closed loops: each turn is sent when the one before has ended
	End   time.Duration
}

// Loop is one conversation of a load.
type Loop struct {
	Name   string
	Turns  *workloads.LoadConversation
	Budget int
}

// FromLoad is a named load for so long.
func FromLoad(l workloads.LoadShape, seed uint64, d time.Duration) Traffic {
	t := Traffic{End: d}
	for n := range l.Conversations {
		t.Loops = append(t.Loops, Loop{Name: fmt.Sprintf("C%d", n+1), Turns: l.Conversation(seed, n), Budget: l.Answer[1]})
	}
	for n, at := range l.Probes(seed, d) {
		t.Items = append(t.Items, Item{Name: fmt.Sprintf("P%d", n+1), Class: workloads.Probe, Prompt: l.ProbeIn,
			Output: l.ProbeOut, Budget: l.ProbeOut, OneShot: true, At: at})
	}
	return t
}

// FromRequests is a manifest's measured requests: sizes by the counter, answers
// as the manifest expects them.
func FromRequests(reqs []workloads.Request, c workloads.Counter) Traffic {
	var t Traffic
	type talk struct {
		system string
		tools  []workloads.ToolSpec
		turns  []workloads.Turn
		length int
	}
	talks := map[string]*talk{}
	for i := range reqs {
		r := &reqs[i]
		k := talks[r.Conversation]
		if k == nil || r.Rollover {
			old := k
			k = &talk{system: r.System, tools: r.Tools}
			if old != nil {
				k.system, k.tools = old.system, old.tools
			}
			talks[r.Conversation] = k
		}
		first := len(k.turns) == 0
		for _, result := range r.Results {
			k.turns = append(k.turns, workloads.Turn{Role: "tool", Text: result.Content})
		}
		if r.User != "" {
			k.turns = append(k.turns, workloads.Turn{Role: "user", Text: r.User})
		}
		prompt := c.Count(k.system, k.turns, k.tools, r.Thinking)
		answer := workloads.Turn{Role: "assistant", Text: workloads.Answer(&r.Expect), Calls: r.Expect.Calls}
		after := c.Count(k.system, append(k.turns[:len(k.turns):len(k.turns)], answer), k.tools, r.Thinking)
		output := r.Expect.OutputTokens
		if output == 0 {
			output = max(1, after-prompt-header)
		}
		after0 := r.After
		t.Items = append(t.Items, Item{Name: r.ID, Class: r.Class, Conversation: r.Conversation, Prompt: prompt,
			Shared: min(k.length, prompt-1), Output: min(output, r.MaxTokens), Budget: r.MaxTokens, OneShot: first,
			Priority: r.Priority, After: &after0, Cancel: r.Cancel})
		k.turns = append(k.turns, answer)
		k.length = prompt + min(output, r.MaxTokens)
	}
	return t
}
