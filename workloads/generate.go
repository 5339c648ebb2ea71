package workloads

import (
	"fmt"
	"time"
)

// soakLoad is the name of the load that soak.go describes.
const soakLoad = "soak"

// Kind is the one kind of run that can send m: inject or lifecycle where its requests
// are the scenes that they set, each told what to do by the moment; else "".
func (m *Manifest) Kind() string {
	switch {
	case m.Generate == nil:
		return ""
	case m.Generate.Load == injectLoad || m.Generate.Load == injectSmall:
		return "inject"
	case m.Generate.Load == lifecycleLoad:
		return "lifecycle"
	}
	return ""
}

// turnOverhead is what the template puts around one more turn, in tokens.
const turnOverhead = 14

// share is the part of the duration that is planned; the rest is what switching
// between requests costs.
const share = 0.93

// talk is a closed-loop conversation that grows step by step.
type talk struct {
	*expander
	step func() Step
}

// generate makes the requests of a named load: its conversations take turns, as
// they do on an engine that serves one at a time, until the duration is full;
// requests at times of their own come on top. Every turn is drawn from (seed,
// conversation, turn) alone.
func generate(m *Manifest, seed uint64, pair int, c Counter) ([]Request, error) {
	g := m.Generate
	seed += uint64(max(0, pair-1)) // pair 1 meets the very turns that simulate does with this seed
	var talks []*talk
	var beside []Conversation
	switch g.Load {
	case soakLoad:
		talks, beside = soak(m, seed, pair, c)
	case injectLoad, injectSmall:
		beside = injection(g.Load == injectSmall, g.Before)
	case lifecycleLoad:
		beside = lifecycle()
	default:
		l, ok := NamedLoad(g.Load)
		if !ok {
			return nil, fmt.Errorf("generate: no load is called %q", g.Load)
		}
		talks, beside = shaped(m, l, seed, pair, c)
	}
	pace, budget := m.pace(), time.Duration(share*float64(g.Duration))
	var reqs []Request
	for _, conv := range beside {
		x := newExpander(m, conv, seed, pair, c)
		for range conv.Steps {
			r, err := x.next()
			if err != nil {
				return nil, err
			}
			budget -= pace.service(&r, c)
			reqs = append(reqs, r)
		}
	}
	take := closedLoop
	if g.Load == soakLoad {
		take, budget = pausing, time.Duration(share*float64(g.Duration))
	}
	loop, err := take(talks, budget, pace, c)
	return append(loop, reqs...), err
}

// contention is how much longer a turn takes than its own service, where three
// conversations and the probes share one engine; measured in virtual time.
const contention = 2.5

// pausing lets talks that rest between their turns go on until the time is full,
// each by a clock of its own.
func pausing(talks []*talk, until time.Duration, pace Pace, c Counter) ([]Request, error) {
	var reqs []Request
	clock := make([]time.Duration, len(talks))
	for {
		next := -1
		for i, t := range talks {
			if (clock[i] < until || t.owes()) && (next < 0 || clock[i] < clock[next]) {
				next = i
			}
		}
		if next < 0 {
			return reqs, nil
		}
		t := talks[next]
		t.conv.Steps = append(t.conv.Steps, t.step())
		r, err := t.next()
		if err != nil {
			return nil, err
		}
		clock[next] += time.Duration(r.After.Delay) + time.Duration(contention*float64(pace.service(&r, c)))
		reqs = append(reqs, r)
	}
}

// closedLoop lets the talks take turns until the budget is used up; each has at
// least one.
func closedLoop(talks []*talk, budget time.Duration, pace Pace, c Counter) ([]Request, error) {
	var reqs []Request
	for turn := 0; len(talks) > 0 && (budget > 0 || turn == 0); turn++ {
		for _, t := range talks {
			if budget <= 0 && turn > 0 && !t.owes() {
				continue
			}
			t.conv.Steps = append(t.conv.Steps, t.step())
			r, err := t.next()
			if err != nil {
				return nil, err
			}
			budget -= pace.service(&r, c)
			if r.PromptTokens > 0 && t.conv.Steps[t.turn-1].Keep > 0 {
				budget += seconds(float64(t.conv.Steps[t.turn-1].Keep) / pace.Read)
			}
			reqs = append(reqs, r)
		}
	}
	return reqs, nil
}

// owes reports whether the last turn called tools whose results have to follow.
func (t *talk) owes() bool { return len(t.pending) > 0 }

// shaped makes the conversations and probes of a LoadShape.
func shaped(m *Manifest, l LoadShape, seed uint64, pair int, c Counter) ([]*talk, []Conversation) {
	var talks []*talk
	for n := range l.Conversations {
		id, turns, history := fmt.Sprintf("C%d", n+1), l.Conversation(seed, n), 0
		t := &talk{expander: newExpander(m, Conversation{ID: id}, seed, pair, c)}
		t.step = func() Step {
			d := turns.Next()
			// A line has at least eight tokens, so that only the budget ends the answer.
			s := Step{ID: fmt.Sprintf("%s-%d", id, d.Turn+1), Class: Long, Write: d.Answer/8 + 8, Max: d.Answer, Output: d.Answer}
			switch {
			case d.Shared == history && d.Turn > 0:
				s.Unread = d.Prompt - d.Shared - turnOverhead
			case d.Turn > 0:
				s.Over, s.Prompt, s.Keep = true, d.Prompt, d.Shared
			default:
				s.Prompt = d.Prompt
			}
			history = d.Prompt + d.Answer
			return s
		}
		talks = append(talks, t)
	}
	var probes []Conversation
	for i, at := range l.Probes(seed, time.Duration(m.Generate.Duration)) {
		id := fmt.Sprintf("P%d", i+1)
		probes = append(probes, Conversation{ID: id, Steps: []Step{{ID: id, Class: Probe, After: &Trigger{Delay: Duration(at)},
			Say: l.ProbeOut - 1, Prompt: l.ProbeIn, Output: l.ProbeOut, Max: l.ProbeOut + 14}}})
	}
	return talks, probes
}
