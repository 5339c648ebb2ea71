package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"interlude/engine"
	"interlude/engine/process"
)

// checkNextTurn: an answered conversation goes on from where it stands.
func (s *suite) checkNextTurn(c *Check) error {
	ids := s.prompt(60)
	for range 5 {
		// Stopped in decode, not cut by the budget: a window may hold more than was printed.
		a, err := s.ask(process.Request{Gen: engine.Gen{MaxNew: s.context / 2, IDs: ids}}, stopAt{read: -1, tokens: 10})
		if err != nil {
			return err
		}
		live := len(ids) + len(a.IDs) - 1
		ids = join(ids, a.IDs, s.prompt(30))
		b, err := s.gen(1, ids)
		if err != nil {
			return err
		}
		if b.Resume < live && a.Done.Finish == engine.FinishCancel {
			return fmt.Errorf("a next turn of %d tokens resumes at %d; %d were there", len(ids), b.Resume, live)
		}
		c.count("turns", 1)
	}
	return nil
}

// checkReuseAfterPark: a conversation survives others, with and without ckpt=0.
func (s *suite) checkReuseAfterPark(c *Check) error {
	if !s.promised().park {
		return notRun("INFO announces neither conversation_cache_mib nor sequences > 1: a foreign request may erase a conversation")
	}
	for i := range 6 {
		ids := s.prompt(200)
		a, err := s.ask(process.Request{Gen: engine.Gen{MaxNew: s.context / 2, IDs: ids}}, stopAt{read: -1, tokens: 5 + i})
		if err != nil {
			return err
		}
		if a.Done.Finish != engine.FinishCancel {
			c.count("ended_first", 1)
			continue
		}
		for range 1 + i%2 {
			if err := s.foreign(); err != nil {
				return err
			}
		}
		all := join(ids, a.IDs)
		b, err := s.gen(4, all)
		if err != nil {
			return err
		}
		if b.Resume != len(all)-1 {
			return fmt.Errorf("after %d foreign requests: RESUME %d, want %d", 1+i%2, b.Resume, len(all)-1)
		}
		c.count("resumed", 1)
	}
	if c.Counts["resumed"] == 0 {
		return errors.New("every answer ended before its STOP: nothing was checked")
	}
	return nil
}

// checkBranches: a prompt that shares only the beginning of a conversation that went
// aside is answered from what they share, the first time and the second alike, and costs
// the conversation nothing but a copy.
func (s *suite) checkBranches(c *Check) error {
	if !s.promised().park {
		return notRun("INFO announces neither conversation_cache_mib nor sequences > 1: a foreign request may erase a conversation")
	}
	n, err := s.long()
	if err != nil {
		return err
	}
	aside, _ := s.info.Int(engine.KeySequences)
	for range 3 {
		talk := s.prompt(n)
		if _, err := s.gen(1, talk); err != nil {
			return err
		}
		for range max(aside, 1) {
			if _, err := s.gen(1, s.prompt(60)); err != nil {
				return err
			}
		}
		branch := process.Request{Gen: engine.Gen{MaxNew: 8, IDs: join(talk[:2*n/3], s.prompt(40)), Params: engine.Params{NoCheckpoint: true}}}
		first, err := s.ask(branch, never)
		if err != nil {
			return err
		}
		again, err := s.ask(branch, never)
		if err != nil {
			return err
		}
		if !slices.Equal(first.IDs, again.IDs) || again.Resume > 2*n/3 {
			return fmt.Errorf("a branch at %d of %d tokens: RESUME %d and %v, the second time RESUME %d and %v", 2*n/3, n, first.Resume, first.IDs, again.Resume, again.IDs)
		}
		c.count("branches", 1)
	}
	return nil
}

// foreign runs a short request of somebody else, as the scheduler does: half of them
// leave nothing behind.
func (s *suite) foreign() error {
	g := engine.Gen{MaxNew: 3, IDs: s.prompt(50)}
	g.NoCheckpoint = s.rng.IntN(2) == 0
	_, err := s.ask(process.Request{Gen: g}, never)
	return err
}

// checkExactResume splits answers at random places, in the read and in decode, with
// and without foreign requests in between. Then a fresh engine, which holds nothing
// of them, gives the unsplit answers to compare with.
func (s *suite) checkExactResume(c *Check, seeded bool) error {
	var rounds []*round
	for c.Counts["continued"] < s.o.Rounds {
		if len(rounds) > 20*s.o.Rounds {
			return fmt.Errorf("only %d of %d GENs could be continued: answers end before they can be split", c.Counts["continued"], s.o.Rounds)
		}
		seed := uint64(0)
		if seeded {
			seed = 1 + s.rng.Uint64N(1<<40)
		}
		r := &round{suite: s, check: c, params: sampling(seed)}
		if err := r.split(); err != nil {
			return err
		}
		rounds = append(rounds, r)
	}
	if c.Counts["exact_after_read_stop"]+c.Counts["exact_after_read_stop_and_park"] == 0 && s.promised().chunk > 0 && len(rounds) > 20 {
		return errors.New("no GEN resumed after a stop in its read, although resume_prefill promises it")
	}
	if err := s.restart(); err != nil {
		return err
	}
	var lost, parted []string
	for _, r := range rounds {
		lost = append(lost, r.lost...)
		diff, err := r.unsplit()
		if err != nil {
			return err
		}
		if diff != nil {
			parted = append(parted, diff.Error())
		}
	}
	switch {
	case len(parted) > 0:
		return fmt.Errorf("%d answers differ from the unsplit one, first: %s", len(parted), parted[0])
	case len(lost) > 0:
		return fmt.Errorf("%d GENs resumed elsewhere than they should, first: %s", len(lost), lost[0])
	}
	return nil
}

// round is one answer, split and unsplit.
type round struct {
	*suite
	check  *Check
	params engine.Params
	prompt []int32
	budget int
	ids    []int32 // of the split answer
	finish string
	splits []string // what every part ended with

	keep int // where the next GEN must resume; -1: nothing is promised
	most int // and at most here
	lost []string
}

// split runs an answer in parts until it is whole.
func (r *round) split() error {
	n, err := r.long()
	if err != nil {
		return err
	}
	long := r.rng.IntN(4) == 0
	if !long {
		n = 24 + r.rng.IntN(200)
	}
	r.prompt, r.budget = r.suite.prompt(n), 16+r.rng.IntN(60)
	for r.finish == "" {
		all := join(r.prompt, r.ids)
		a, err := r.ask(process.Request{Gen: engine.Gen{MaxNew: r.budget - len(r.ids), Params: r.params, IDs: all}}, r.place(long && len(r.ids) == 0))
		if err != nil {
			return err
		}
		r.compare(&a, len(all))
		r.ids = append(r.ids, a.IDs...)
		switch {
		case a.Done.Finish != engine.FinishCancel:
			r.finish = a.Done.Finish
		case len(r.ids) == r.budget: // reached in the drain
			r.finish = engine.FinishLength
		default:
			if err := r.expect(&a, len(r.prompt)+len(r.ids)); err != nil {
				return err
			}
		}
	}
	return nil
}

// place draws where to stop: half of the long reads are stopped, else one answer in
// five runs on.
func (r *round) place(reading bool) stopAt {
	at := never
	switch draw := r.rng.IntN(10); {
	case reading && draw < 5:
		at.read = r.rng.IntN(3)
	case draw < 8:
		at.tokens = 1 + r.rng.IntN(12)
	}
	return at
}

// unsplit asks for the whole answer at once and tells how the split one differs.
func (r *round) unsplit() (diff, err error) {
	a, err := r.ask(process.Request{Gen: engine.Gen{MaxNew: r.budget, Params: r.params, IDs: r.prompt}}, never)
	if err != nil {
		return nil, err
	}
	diff = same(r.ids, a.IDs)
	if diff == nil && r.finish != a.Done.Finish {
		diff = fmt.Errorf("the split answer ended as %q, the unsplit one as %q", r.finish, a.Done.Finish)
	}
	switch {
	case diff == nil:
		r.check.count("equal_answers", 1)
		return nil, nil
	case len(r.lost) > 0:
		r.check.count("different_after_loss", 1)
	default:
		r.check.count("different", 1)
	}
	return fmt.Errorf("prompt of %d tokens, seed %d, split by %s: %w", len(r.prompt), r.params.Seed, strings.Join(r.splits, ", "), diff), nil
}

// expect works out where the next GEN must resume, and lets somebody else in first
// half of the time.
func (r *round) expect(a *answer, total int) error {
	p := r.promised()
	between := r.rng.IntN(2) == 0
	how := "read_stop"
	r.keep, r.most = -1, -1
	switch {
	case len(a.IDs) > 0:
		how = "decode_stop"
		if !between || p.park {
			r.keep, r.most = total-1, total-1
		}
	case p.chunk > 0:
		r.keep, r.most = max(a.Resume, a.pos/p.chunk*p.chunk), a.pos
	}
	if between {
		how += "_and_park"
	}
	r.splits = append(r.splits, how)
	if between {
		return r.foreign()
	}
	return nil
}

// compare counts a continuation under the name of what happened.
func (r *round) compare(a *answer, total int) {
	if len(r.splits) == 0 {
		return
	}
	how := r.splits[len(r.splits)-1]
	r.check.count("continued", 1)
	switch {
	case r.keep < 0:
		r.check.count("not_promised_after_"+how, 1)
	case a.Resume >= r.keep && a.Resume <= r.most:
		r.check.count("exact_after_"+how, 1)
	default:
		r.check.count("lost_after_"+how, 1)
		r.lost = append(r.lost, fmt.Sprintf("after %s: RESUME %d of %d, want %d to %d", how, a.Resume, total, r.keep, r.most))
	}
}

// checkReadSlices reads prompts in pieces by GENs of one token, as the scheduler
// does: each must resume at the edge of the one before, and the answer is the one
// that a fresh engine gives to the whole prompt.
func (s *suite) checkReadSlices(c *Check) error {
	var prompts, answers [][]int32
	for i := range 6 {
		ids := s.prompt(300 + s.rng.IntN(200))
		a, err := s.slices(c, ids, i%2 == 1 && s.promised().park)
		if err != nil {
			return err
		}
		prompts, answers = append(prompts, ids), append(answers, a)
	}
	if err := s.restart(); err != nil {
		return err
	}
	for i, ids := range prompts {
		whole, err := s.gen(12, ids)
		if err != nil {
			return err
		}
		if err := same(answers[i], whole.IDs); err == nil {
			c.count("equal_answers", 1)
		} else if s.promised().chunk > 0 {
			// It keeps whole chunks of a grid, so that nobody needs to slice its reads;
			// slices off the grid round differently.
			c.count("rounded_differently", 1)
		} else {
			return fmt.Errorf("a prompt of %d tokens read in slices: %w", len(ids), err)
		}
	}
	return nil
}

// slices reads a prompt in slices, with a foreign request after each if park, and
// returns its answer.
func (s *suite) slices(c *Check, ids []int32, park bool) ([]int32, error) {
	for edge, next := 0, 0; ; edge = next {
		next = min(len(ids), next+40+s.rng.IntN(100))
		budget := 1
		if next == len(ids) {
			budget = 12
		}
		a, err := s.gen(budget, ids[:next])
		if err != nil {
			return nil, err
		}
		if edge > 0 && a.Resume != edge {
			return nil, fmt.Errorf("a slice resumes at %d, the one before ended at %d (parked in between: %v)", a.Resume, edge, park)
		}
		c.count("slices", 1)
		if next == len(ids) {
			return a.IDs, nil
		}
		if park {
			if err := s.foreign(); err != nil {
				return nil, err
			}
		}
	}
}

// restart gives a fresh engine that holds nothing.
func (s *suite) restart() error {
	s.stop()
	return s.start()
}

// checkSequences: K conversations stay resident and each goes on at its end.
func (s *suite) checkSequences(c *Check) error {
	k, _ := s.info.Int(engine.KeySequences)
	if k < 2 {
		return notRun("INFO announces no sequences > 1")
	}
	talks := make([][]int32, k)
	fresh := make([]bool, k)
	for i := range talks {
		talks[i], fresh[i] = s.prompt(60), true
	}
	for range 4 {
		for i := range talks {
			a, err := s.ask(process.Request{Gen: engine.Gen{MaxNew: s.context / 4, IDs: talks[i]}}, stopAt{read: -1, tokens: 5})
			if err != nil {
				return err
			}
			if !fresh[i] {
				if a.Resume != len(talks[i])-1 {
					return fmt.Errorf("conversation %d of %d: RESUME %d, want %d", i+1, k, a.Resume, len(talks[i])-1)
				}
				c.count("switches", 1)
				c.most("max_prompt_ms", int(a.Done.PromptMs))
			}
			talks[i], fresh[i] = join(talks[i], a.IDs), false
			if a.Done.Finish == engine.FinishStop { // it is over; somebody else takes its place
				talks[i], fresh[i] = s.prompt(60), true
			}
		}
	}
	if c.Counts["switches"] == 0 {
		return errors.New("every answer ended before its STOP: nothing was checked")
	}
	return nil
}
