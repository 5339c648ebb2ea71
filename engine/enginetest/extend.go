package enginetest

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"interlude/engine"
	"interlude/engine/process"
)

// checkLogprobs: LP lines instead of T lines, over the same tokens.
func (s *suite) checkLogprobs(c *Check) error {
	if !s.info.Able(engine.KeyLogprobs) {
		return notRun("INFO announces no logprobs")
	}
	ids := s.prompt(60)
	plain, err := s.gen(12, ids)
	if err != nil {
		return err
	}
	if err := s.restart(); err != nil { // so that both read the same way
		return err
	}
	g := engine.Gen{MaxNew: 12, IDs: ids}
	g.Logprobs = 5
	a, err := s.ask(process.Request{Gen: g}, never)
	if err != nil {
		return err
	}
	if err := same(a.IDs, plain.IDs); err != nil {
		return fmt.Errorf("with logprobs: %w", err)
	}
	if len(a.LPs) != len(a.IDs) {
		return fmt.Errorf("%d of %d tokens have a score", len(a.LPs), len(a.IDs))
	}
	for _, lp := range a.LPs {
		if err := scores(lp, 5); err != nil {
			return fmt.Errorf("LP %d: %w", lp.Index, err)
		}
		c.count("scored_tokens", 1)
	}
	return nil
}

// scores looks at the alternatives of one greedy token.
func scores(lp engine.Logprob, k int) error {
	if len(lp.Top) != k {
		return fmt.Errorf("%d alternatives instead of %d", len(lp.Top), k)
	}
	if !slices.IsSortedFunc(lp.Top, func(a, b engine.TopLogprob) int {
		switch {
		case a.Logprob > b.Logprob:
			return -1
		case a.Logprob < b.Logprob:
			return 1
		}
		return 0
	}) {
		return errors.New("alternatives are not sorted, the most likely first")
	}
	sum := 0.0
	for _, t := range lp.Top {
		sum += math.Exp(t.Logprob)
	}
	if sum > 1.001 {
		return fmt.Errorf("the alternatives have a probability of %g together", sum)
	}
	if lp.Logprob < lp.Top[0].Logprob-1e-4 {
		return fmt.Errorf("the greedy token has %g, an alternative %g", lp.Logprob, lp.Top[0].Logprob)
	}
	return nil
}

// checkTokenMask: masks are asked for before each window and obeyed.
func (s *suite) checkTokenMask(c *Check) error {
	if !s.info.Able(engine.KeyTokenMask) {
		return notRun("INFO announces no token_mask")
	}
	for _, check := range []func(*Check) error{s.maskForces, s.maskFree, s.maskStop, s.maskBad} {
		if err := check(c); err != nil {
			return err
		}
	}
	return s.healthy()
}

func (s *suite) masked(maxNew int) engine.Gen {
	g := engine.Gen{MaxNew: maxNew, IDs: s.prompt(40)}
	g.Mask = true
	return g
}

// maskForces allows one token at a time: it is the answer, whatever the model wants.
func (s *suite) maskForces(c *Check) error {
	want := []int32{301, 333, 302, 302, 320}
	asked := 0
	a, err := s.ask(process.Request{Gen: s.masked(len(want)), Mask: func(ids []int32) engine.Mask {
		asked++
		m := engine.Mask{Words: make([]uint32, 16)}
		id := want[min(len(ids), len(want)-1)]
		m.Words[id/32] |= 1 << (id % 32)
		return m
	}}, never)
	if err != nil {
		return err
	}
	if err := same(a.IDs, want); err != nil {
		return fmt.Errorf("a mask that allows one token: %w", err)
	}
	if asked != len(want) {
		return fmt.Errorf("%d masks were asked for %d tokens under MK", asked, len(want))
	}
	c.count("forced_tokens", len(want))
	return nil
}

// maskFree lets everything pass: nothing may change.
func (s *suite) maskFree(c *Check) error {
	g := s.masked(16)
	a, err := s.ask(process.Request{Gen: g}, never)
	if err != nil {
		return err
	}
	if err := s.restart(); err != nil {
		return err
	}
	g.Mask = false
	b, err := s.ask(process.Request{Gen: g}, never)
	if err != nil {
		return err
	}
	if err := same(a.IDs, b.IDs); err != nil {
		return fmt.Errorf("MF against no mask: %w", err)
	}
	c.count("free_tokens", len(a.IDs))
	if len(b.IDs) < 4 {
		return nil
	}
	return s.maskCut(g, b.IDs)
}

// maskCut cuts every window at the third token of a known answer: a mask must be
// asked for right behind it.
func (s *suite) maskCut(g engine.Gen, want []int32) error {
	if err := s.restart(); err != nil {
		return err
	}
	g.Mask = true
	cut := want[2]
	first := slices.Index(want, cut)
	asked := false
	a, err := s.ask(process.Request{Gen: g, Mask: func(ids []int32) engine.Mask {
		asked = asked || len(ids) == first+1
		return engine.Mask{Cut: []int32{cut}}
	}}, never)
	if err != nil {
		return err
	}
	if err := same(a.IDs, want); err != nil {
		return fmt.Errorf("MF cut against no mask: %w", err)
	}
	if !asked {
		return fmt.Errorf("no mask was asked for behind the cut token %d", first)
	}
	return nil
}

// maskStop stops while an MQ is pending: the stop is noticed after its answer.
func (s *suite) maskStop(c *Check) error {
	a, err := s.ask(process.Request{Gen: s.masked(s.context / 2)}, stopAt{read: -1, tokens: 3})
	if err != nil {
		return err
	}
	if a.Done.Finish != engine.FinishCancel && a.Done.Finish != engine.FinishStop {
		return fmt.Errorf("a STOP under masks ended as %q", a.Done.Finish)
	}
	c.count("stopped_"+a.Done.Finish, 1)
	return nil
}

// maskBad answers an MQ with what is no mask: the request ends with cancel.
func (s *suite) maskBad(*Check) error {
	first := true
	g := s.masked(8)
	a, err := s.ask(process.Request{Gen: g, MaskLine: func() []byte {
		if first {
			first = false
			return []byte("MK !!\n")
		}
		return []byte("MF\n")
	}}, never)
	if err != nil {
		return fmt.Errorf("after a bad mask: %w", err)
	}
	if a.Done.Finish != engine.FinishCancel || len(a.IDs) > 0 {
		return fmt.Errorf("a bad mask ended as %q after %d tokens, want cancel before any", a.Done.Finish, len(a.IDs))
	}
	return nil
}
