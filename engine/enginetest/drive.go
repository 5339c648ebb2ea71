package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"interlude/engine"
	"interlude/engine/process"
)

// outside is an id that no vocabulary has.
const outside = math.MaxInt32

// reading and decoding are where a check may wish to stop.
type stopAt struct {
	read   int // after that many PP lines; -1: not in the read. 0: at RESUME
	tokens int // after that many tokens; 0: not in decode
}

var never = stopAt{read: -1}

// answer is what one GEN gave, with what the suite needs to judge a continuation.
type answer struct {
	process.Answer
	pos int // last PP, or RESUME
}

// ask runs one GEN and holds its lines to the order. A request that does not end by
// itself in time is an error.
func (s *suite) ask(r process.Request, at stopAt) (answer, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.o.Timeout)
	defer cancel()
	a := answer{}
	o := &order{prompt: len(r.Gen.IDs), maxNew: r.Gen.MaxNew, mask: r.Gen.Mask, logprobs: r.Gen.Logprobs > 0}
	pieces, tokens, each := 0, 0, r.Each
	r.Each = func(reply *engine.Reply) bool {
		o.see(reply)
		goOn := each == nil || each(reply)
		switch reply.Kind {
		case engine.ReplyResume:
			a.pos = reply.Reused
			goOn = goOn && at.read != 0
		case engine.ReplyPP:
			pieces++
			a.pos = reply.Pos
			goOn = goOn && at.read != pieces
		case engine.ReplyToken, engine.ReplyLogprob:
			tokens++
			goOn = goOn && at.tokens != tokens
		}
		return goOn
	}
	var err error
	a.Answer, err = s.session.Generate(ctx, r)
	for _, f := range o.faults {
		s.fault("GEN %d of %d tokens: %s", s.served, len(r.Gen.IDs), f)
	}
	if err != nil {
		return a, err
	}
	s.served++
	if ctx.Err() != nil {
		return a, fmt.Errorf("a GEN of %d + %d tokens did not end within %v", len(r.Gen.IDs), r.Gen.MaxNew, s.o.Timeout)
	}
	return a, nil
}

// gen is the shortest way to a greedy answer.
func (s *suite) gen(maxNew int, ids []int32) (answer, error) {
	return s.ask(process.Request{Gen: engine.Gen{MaxNew: maxNew, IDs: ids}}, never)
}

// prompt makes a prompt of at least n tokens that nobody asked before.
func (s *suite) prompt(n int) []int32 { return s.o.Prompt(s.rng, n) }

// healthy asks something small: the engine must answer as if nothing had been.
func (s *suite) healthy() error {
	a, err := s.gen(2, s.prompt(20))
	if err != nil {
		return fmt.Errorf("the next request: %w", err)
	}
	if len(a.IDs) == 0 {
		return fmt.Errorf("the next request got no token and %q", a.Done.Finish)
	}
	return nil
}

// refused asks with a raw line that must be answered by one ERR and no DONE.
func (s *suite) refused(line string) (text string, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.o.Timeout)
	defer cancel()
	_, err = s.session.Generate(ctx, process.Request{Line: []byte(line + "\n")})
	var refused *process.Refused
	switch {
	case errors.As(err, &refused):
		return refused.Text, nil
	case err != nil:
		return "", fmt.Errorf("%.60q: %w", line, err)
	}
	return "", fmt.Errorf("%.60q was not refused", line)
}

// promises is what INFO says about what survives.
type promises struct {
	chunk int  // grid of a stopped read, in tokens; 0: progress is not kept
	park  bool // a conversation survives another one
}

func (s *suite) promised() promises {
	var p promises
	if s.info.Able(engine.KeyResumePrefill) {
		p.chunk, _ = s.info.Int(engine.KeyPrefillChunk)
		p.chunk = max(p.chunk, 1)
	}
	cache, _ := s.info.Int(engine.KeyCacheMiB)
	sequences, _ := s.info.Int(engine.KeySequences)
	p.park = cache > 0 || sequences > 1
	return p
}

// longRead is how long a read should last, so that a STOP can meet it.
const longRead = 10 // ms

// long finds out, once, which length of a prompt gives a read of several chunks
// that a STOP can meet; at most half the context.
func (s *suite) long() (int, error) {
	if s.longest > 0 {
		return s.longest, nil
	}
	n := 2000
	if chunk, _ := s.info.Int(engine.KeyPrefillChunk); chunk > 0 {
		n = 3*chunk + chunk/2
	}
	for {
		n = min(n, s.context/2)
		a, err := s.gen(1, s.prompt(n))
		if err != nil {
			return 0, fmt.Errorf("a prompt of %d tokens: %w", n, err)
		}
		if a.Done.PromptMs >= longRead || n == s.context/2 {
			s.longest = n
			return n, nil
		}
		n *= 2
	}
}

// sampling is one way of asking: greedy when seed is 0.
func sampling(seed uint64) engine.Params {
	if seed == 0 {
		return engine.Params{}
	}
	return engine.Params{Temperature: 0.8, TopP: 0.95, TopK: 40, Seed: seed}
}

// same compares ids and says where they part.
func same(got, want []int32) error {
	n := min(len(got), len(want))
	for i := range n {
		if got[i] != want[i] {
			return fmt.Errorf("ids part at token %d: %d instead of %d", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d ids instead of %d", len(got), len(want))
	}
	return nil
}

func join(parts ...[]int32) []int32 { return slices.Concat(parts...) }
