package workloads

import (
	"math"
	"time"
)

// LoadShape is a named load: closed-loop conversations without think time, and probes
// at times of their own. Lengths are tokens. It says sizes and moments, not
// words: simulate needs no more, and a real run fills them with text.
type LoadShape struct {
	Name          string
	Conversations int
	Cold          [2]int  // a conversation starts with so many, uniform
	Add           [2]int  // unread tokens that a turn adds, uniform
	Over          int     // a longer history starts over, cold
	Rewrite       float64 // share of turns that rewrite the history
	RewriteTo     int     // to so many tokens, which stay for RewriteTurns turns
	RewriteTurns  int
	RewriteKeeps  int     // half of the rewrites keep the first so many
	AnswerMedian  float64 // lognormal
	AnswerSigma   float64
	Answer        [2]int        // clipped to
	ProbeEvery    time.Duration // mean; 0: no probes
	ProbeRegular  bool          // exactly so often, else Poisson
	ProbeIn       int
	ProbeOut      int
}

// Loads lists the names that NamedLoad knows.
func Loads() []string { return []string{"L1", "L2", "flood", "null"} }

// NamedLoad returns a load of scheduler.md §6: L1; L2, the same under stress;
// flood, shorts without end; null, no probes.
func NamedLoad(name string) (LoadShape, bool) {
	l := LoadShape{
		Name: name, Conversations: 2,
		Cold: [2]int{12_000, 45_000}, Add: [2]int{300, 3000}, Over: 96_000,
		Rewrite: 0.005, RewriteTo: 132_000, RewriteTurns: 4, RewriteKeeps: 16_384,
		AnswerMedian: 850, AnswerSigma: 0.6, Answer: [2]int{80, 3000},
		ProbeEvery: 15 * time.Second, ProbeIn: 500, ProbeOut: 50,
	}
	switch name {
	case "L1":
	case "L2":
		l.Over, l.Rewrite = 60_000, 0.01
	case "flood":
		l.ProbeEvery, l.ProbeRegular = 1500*time.Millisecond, true
	case "null":
		l.ProbeEvery = 0
	default:
		return LoadShape{}, false
	}
	return l, true
}

// LoadTurn is one turn of a conversation.
type LoadTurn struct {
	Turn   int
	Prompt int // tokens, the history included
	Shared int // of these, as the turn before left them: its prompt and answer, from the first token on
	Answer int // tokens, the end token included
}

// LoadConversation yields the turns of one conversation of a load. What a turn draws
// depends on (seed, conversation, turn) alone, never on the clock or the order
// in which conversations advance.
type LoadConversation struct {
	load    LoadShape
	seed    uint64
	n       int
	turn    int
	history int // tokens after the turn before, 0 none
	stay    int // turns that a rewritten history still stays
}

// Conversation returns the n-th conversation of the load, from 0.
func (l LoadShape) Conversation(seed uint64, n int) *LoadConversation {
	return &LoadConversation{load: l, seed: seed, n: n}
}

// Next returns the next turn; there is no end.
func (c *LoadConversation) Next() LoadTurn {
	l := c.load
	r := stream(c.seed, "load", l.Name, c.n, c.turn)
	uniform := func(b [2]int) int { return b[0] + r.IntN(b[1]-b[0]+1) }
	rewrite, keeps := r.Float64() < l.Rewrite, r.IntN(2) == 0
	cold, add := uniform(l.Cold), uniform(l.Add)
	answer := int(math.Round(l.AnswerMedian * math.Exp(l.AnswerSigma*r.NormFloat64())))
	t := LoadTurn{Turn: c.turn, Answer: min(max(answer, l.Answer[0]), l.Answer[1])}
	switch {
	case c.stay > 0:
		c.stay--
		t.Shared, t.Prompt = c.history, c.history+add
	case c.history > 0 && rewrite:
		c.stay = l.RewriteTurns - 1
		t.Prompt = l.RewriteTo
		if keeps && c.history > l.RewriteKeeps {
			t.Shared = l.RewriteKeeps
		}
	case c.history == 0 || c.history > l.Over:
		t.Prompt = cold
	default:
		t.Shared, t.Prompt = c.history, c.history+add
	}
	c.turn++
	c.history = t.Prompt + t.Answer
	return t
}

// Probes returns the arrivals of the load's probes before end.
func (l LoadShape) Probes(seed uint64, end time.Duration) []time.Duration {
	if l.ProbeEvery <= 0 {
		return nil
	}
	r := stream(seed, "load", l.Name, "probes")
	var at []time.Duration
	for t := time.Duration(0); ; {
		gap := l.ProbeEvery
		if !l.ProbeRegular {
			gap = time.Duration(r.ExpFloat64() * float64(l.ProbeEvery))
		}
		if t += gap; t >= end {
			return at
		}
		at = append(at, t)
	}
}
