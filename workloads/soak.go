package workloads

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// The soak: three long conversations with tool round trips (the third over
// Responses), facts planted over many turns, audits, rollovers, cancellations in
// every state, and interactive probes. Every answer is one JSON object or one or
// more tool calls.
const (
	soakTalks       = 3
	soakProbe       = 8 * time.Second         // mean distance of probes
	soakCancel      = 220 * time.Second       // distance of planned cancellations
	soakCancelLeast = 45 * time.Second        // in a short soak, until there are four
	soakWork        = 1500 * time.Millisecond // shortest time of a tool; the longest is four times that
	soakRead        = 6 * time.Second         // shortest time of a user between two turns; the longest is four times that
	soakCycles      = 9                       // cycles between two rollovers of one conversation
	soakSmall       = 30_000                  // tokens of a small rollover
	soakCold        = 110_000                 // of a cold one
	soakBig         = 132_000                 // of one that keeps the beginning
	soakKeep        = 25_000                  // tokens of it
	soakKnown       = 1500                    // facts that a rollover's summary still knows, the latest: they fit into a small one
	soakLongest     = 100                     // fields of a long audit
	soakTool        = "reserve"               // its array argument is long
	soakStock       = "stock_level"           // its arguments are short
	soakStop        = ", \"zz_never_a_name"   // its beginning stands between any two fields
)

// soak makes the conversations, and what happens beside them.
func soak(m *Manifest, seed uint64, pair int, c Counter) ([]*talk, []Conversation) {
	var talks []*talk
	for i := range soakTalks {
		conv := Conversation{ID: fmt.Sprintf("S%d", i+1), Tools: []string{soakStock, soakTool}}
		if i == soakTalks-1 {
			conv.API = "responses"
		}
		t := &talk{expander: newExpander(m, conv, seed, pair, c)}
		s := &soakTalk{talk: t, place: i}
		t.step = s.step
		talks = append(talks, t)
	}
	duration := time.Duration(m.Generate.Duration)
	beside := soakProbes(stream(seed, pair, "soak probes"), duration)
	return talks, append(beside, soakCancels(stream(seed, pair, "soak cancels"), duration)...)
}

// soakTalk says what comes next in one conversation.
type soakTalk struct {
	*talk
	place int // among the conversations, from 0
	cycle int
	queue []Step // rest of the present cycle
}

// step returns the next step. A cycle is a tool round trip with a long array, one
// with two parallel calls, a long audit, a 20-field audit and a recall; some
// cycles begin with a rollover.
func (s *soakTalk) step() Step {
	if len(s.queue) == 0 {
		s.queue = s.plan()
		s.cycle++
	}
	next := s.queue[0]
	s.queue = s.queue[1:]
	next.ID = fmt.Sprintf("%s-%d", s.conv.ID, s.turn+1)
	if old := len(s.known) - soakKnown; next.Over && old > 0 {
		s.known = s.known[old:]
	}
	if next.Audit > 0 {
		next.Audit = min(next.Audit, len(s.known))
	}
	if s.turn > 0 {
		next.After = &Trigger{Request: s.conv.Steps[s.turn-1].ID, Event: AtEnd, Delay: s.pause(next.Receipts)}
	}
	return next
}

// pause is how long a tool works, or a user reads and writes.
func (s *soakTalk) pause(tool bool) Duration {
	r, least := s.stream("pause", s.turn), soakRead
	if tool {
		least = soakWork
	}
	return Duration(least + time.Duration(r.Int64N(int64(3*least))))
}

func (s *soakTalk) plan() []Step {
	r := s.stream("cycle", s.cycle)
	unread := func() int { return 300 + r.IntN(1500) }
	from, n := 1+r.IntN(5000), 200+r.IntN(280)
	places := json.RawMessage(fmt.Sprintf(`{"places":"@range %d %d","urgent":true}`, from, from+n-1))
	steps := []Step{
		{Class: Tool, Plant: 8, Calls: []CallSpec{{Tool: soakTool, Args: places, Plant: 4}}, Unread: unread() + 300, Max: 3000},
		{Class: Tool, Receipts: true, Max: 300},
		{Class: Tool, Plant: 4, Calls: []CallSpec{{Tool: soakStock, Plant: 3}, {Tool: soakTool, Plant: 3}}, Unread: unread() + 200, Max: 600, Thinking: s.cycle%2 == 1},
		{Class: Tool, Receipts: true, Max: 300},
		{Class: Long, Audit: soakLongest, Max: 3200},
		{Class: Audit, Audit: 20, Max: 800, Thinking: s.cycle%2 == 0},
		{Class: Short, Recall: &Recall{Tool: soakTool, Items: 2}, Max: 200},
	}
	if s.cycle%2 == 1 {
		steps[4].Stop = []string{soakStop}
	}
	switch {
	case s.cycle == 0:
		steps[0].Unread, steps[0].Prompt = 0, 20_000+r.IntN(15_000)
	case (s.cycle+2*s.place)%soakCycles == soakCycles-1:
		steps = append([]Step{s.rollover(), {Class: Tool, Receipts: true, Max: 300}}, steps...)
	}
	return steps
}

// rollover restarts the history from a summary: small, cold, or with the
// beginning kept, in turn.
func (s *soakTalk) rollover() Step {
	step := Step{Class: Tool, Calls: []CallSpec{{Tool: soakStock, Plant: 2}}, Over: true, Restate: true, Max: 300}
	switch (s.cycle/soakCycles + s.place) % 3 {
	case 0:
		step.Prompt = soakSmall
	case 1:
		step.Prompt = soakCold
	case 2:
		step.Prompt, step.Keep = soakBig, soakKeep
	}
	return step
}

// soakProbes are short requests at times of their own: two facts and a question
// for them, streamed and not, with and without an explicit priority.
func soakProbes(r *rand.Rand, duration time.Duration) []Conversation {
	var list []Conversation
	for at := time.Duration(0); ; {
		at += time.Duration(r.ExpFloat64() * float64(soakProbe))
		if at >= duration {
			return list
		}
		n := len(list)
		s := Step{ID: fmt.Sprintf("P%d", n+1), Class: Probe, After: &Trigger{Delay: Duration(at)}, Plant: 2, Audit: 2, Prompt: 150 + r.IntN(300), Max: 96, Whole: n%8 == 7}
		if urgent := 1; n%3 > 0 {
			s.Priority = &urgent
			// A server sends its own small requests without checkpoints; who says how
			// urgent it is says this too, or it would take a long conversation's place.
			s.Extra = json.RawMessage(`{"strata_checkpoint":false}`)
			if n%3 == 2 {
				s.By = "header"
			}
		}
		list = append(list, Conversation{ID: s.ID, Steps: []Step{s}})
	}
}

// soakCancels are requests that their client leaves: while queued, reading,
// decoding and parked, in turn. One that has to be parked speaks for half a minute,
// so that a probe meets it; it may end before one does.
func soakCancels(r *rand.Rand, duration time.Duration) []Conversation {
	states := []string{AtQueued, AtReading, AtDecoding, AtParked}
	n := max(int(duration/soakCancel), min(len(states), int(duration/soakCancelLeast)))
	var list []Conversation
	for i := range n {
		id, state := fmt.Sprintf("X%d", i+1), states[i%len(states)]
		at := time.Duration((float64(i) + 0.2 + 0.6*r.Float64()) / float64(n) * float64(duration))
		// More than 256 tokens, so that it is never small and has to queue.
		s := Step{ID: id, Class: Long, After: &Trigger{Delay: Duration(at)}, Plant: 150, Audit: 150, Prompt: 8_000 + r.IntN(4_000), Max: 6000,
			Cancel: &Trigger{Request: id, Event: state}}
		switch state {
		case AtDecoding:
			s.Cancel = &Trigger{Request: id, Event: AtToken, N: 20}
		case AtParked:
			s.Plant, s.Audit = 240, 240
		}
		list = append(list, Conversation{ID: id, Steps: []Step{s}})
	}
	return list
}
