package enginetest

import (
	"errors"
	"fmt"
	"strings"

	"interlude/engine"
	"interlude/engine/process"
)

// checks are all there are, in the order in which they run: the cheap and basic
// ones first, the ones that kill last, and order_of_lines over all of them.
var checks = []struct {
	name string
	run  func(*suite, *Check) error
}{
	{"start", (*suite).checkStart},
	{"refusals", (*suite).checkRefusals},
	{"unknown_keys", (*suite).checkUnknownKeys},
	{"stop_idle", (*suite).checkStopIdle},
	{"stop_early", (*suite).checkStopEarly},
	{"stop_read", (*suite).checkStopRead},
	{"stop_decode", (*suite).checkStopDecode},
	{"stop_at_end", (*suite).checkStopAtEnd},
	{"next_turn", (*suite).checkNextTurn},
	{"reuse_after_park", (*suite).checkReuseAfterPark},
	{"branches", (*suite).checkBranches},
	{"exact_resume_greedy", func(s *suite, c *Check) error { return s.checkExactResume(c, false) }},
	{"exact_resume_seeded", func(s *suite, c *Check) error { return s.checkExactResume(c, true) }},
	{"read_slices", (*suite).checkReadSlices},
	{"sequences", (*suite).checkSequences},
	{"logprobs", (*suite).checkLogprobs},
	{"token_mask", (*suite).checkTokenMask},
	{"long_line", (*suite).checkLongLine},
	{"fuzz", (*suite).checkFuzz},
	{"end_of_input", (*suite).checkEndOfInput},
	{"quit", (*suite).checkQuit},
	{"kill", (*suite).checkKill},
	{"order_of_lines", (*suite).checkOrder},
}

// Names returns the names of all checks in their order.
func Names() []string {
	var names []string
	for _, c := range checks {
		names = append(names, c.name)
	}
	return names
}

// checkStart looks at what the engine announced.
func (s *suite) checkStart(c *Check) error {
	c.count("context", s.context)
	c.count("info_keys", len(s.info))
	if n, ok := s.info.Int(engine.KeyContext); ok && n != s.context {
		return fmt.Errorf("INFO says a context of %d tokens, READY %d", n, s.context)
	}
	if s.context < 512 {
		return fmt.Errorf("the context is %d tokens: the suite needs 512", s.context)
	}
	if s.info.Able(engine.KeyResumePrefill) && !s.info.Able(engine.KeyPrefillChunk) {
		return errors.New("resume_prefill without prefill_chunk: nobody can tell where a stopped read resumes")
	}
	if v, ok := s.info[engine.KeyLogprobs]; ok && v != "raw-v1" {
		return fmt.Errorf("INFO logprobs=%s, want raw-v1", v)
	}
	return s.healthy()
}

// checkRefusals sends what must be refused by one ERR without DONE.
func (s *suite) checkRefusals(c *Check) error {
	fits := s.context - engine.Slack - 10
	for _, tt := range []struct{ line, want string }{
		{"HELLO", ""}, {"GEN", ""}, {"GEN x 300", ""}, {"GEN 0 300", ""}, {"GEN -1 300", ""}, {"GEN 5", ""},
		{"GEN 5 300,,301", ""}, {"GEN 5 300,x", ""}, {"GENI 5 /no/such/file 300", ""}, {"GENI 5", ""},
		{fmt.Sprintf("GEN 5 300,%d", outside), "outside the vocabulary"},
		{fmt.Sprintf("GEN %d %s", fits+1, idText(10)), "exceeds the context"},
	} {
		text, err := s.refused(tt.line)
		if err != nil {
			return err
		}
		if !strings.Contains(text, tt.want) {
			return fmt.Errorf("%.60q is refused with %q, want %q in it", tt.line, text, tt.want)
		}
		c.count("refused", 1)
		if err := s.healthy(); err != nil {
			return fmt.Errorf("after %.60q: %w", tt.line, err)
		}
	}
	// The largest budget that fits is taken.
	a, err := s.ask(process.Request{Gen: engine.Gen{MaxNew: fits, IDs: s.prompt(10)[:10]}}, stopAt{read: -1, tokens: 1})
	if err != nil {
		return fmt.Errorf("prompt + max_new + %d = context: %w", engine.Slack, err)
	}
	if len(a.IDs) == 0 {
		return errors.New("the largest budget that fits gives no token")
	}
	return nil
}

func idText(n int) string { return strings.TrimSuffix(strings.Repeat("300,", n), ",") }

// checkUnknownKeys: what an engine does not know it ignores.
func (s *suite) checkUnknownKeys(*Check) error {
	ids := s.prompt(20)
	want, err := s.gen(8, ids)
	if err != nil {
		return err
	}
	g := engine.Gen{MaxNew: 8, IDs: ids}
	line := strings.Replace(string(g.Append(nil)), "GEN 8 ", "GEN 8 zzz=1 some_day=x,y ", 1)
	got, err := s.ask(process.Request{Gen: g, Line: []byte(line)}, never)
	if err != nil {
		return fmt.Errorf("with unknown keys: %w", err)
	}
	return same(got.IDs, want.IDs)
}

// checkStopIdle: a STOP for nobody is no answer, and does not reach the next GEN.
func (s *suite) checkStopIdle(c *Check) error {
	for range 20 {
		g := engine.Gen{MaxNew: 4, IDs: s.prompt(20)}
		// Both in one write: the engine meets them as close as they can be.
		line := append([]byte("STOP\nSTOP\n"), g.Append(nil)...)
		a, err := s.ask(process.Request{Gen: g, Line: line}, never)
		if err != nil {
			return err
		}
		if a.Done.Finish == engine.FinishCancel {
			return errors.New("a STOP before the GEN cancelled it")
		}
		c.count("gens", 1)
	}
	return nil
}

// checkStopEarly: a STOP right behind its GEN may be honoured or lost, but it must
// end with a DONE, and the request after it must not notice.
func (s *suite) checkStopEarly(c *Check) error {
	for range 20 {
		g := engine.Gen{MaxNew: 6, IDs: s.prompt(30)}
		a, err := s.ask(process.Request{Gen: g, Line: append(g.Append(nil), "STOP\n"...)}, never)
		if err != nil {
			return err
		}
		if a.Done.Finish == engine.FinishCancel {
			c.count("honoured", 1)
		} else {
			c.count("lost", 1)
		}
		b, err := s.gen(4, s.prompt(20))
		if err != nil {
			return err
		}
		if b.Done.Finish == engine.FinishCancel {
			return errors.New("a STOP reached the request after its own")
		}
	}
	return nil
}

// checkStopRead stops at RESUME and behind the first chunks of a long read.
func (s *suite) checkStopRead(c *Check) error {
	n, err := s.long()
	if err != nil {
		return err
	}
	c.count("prompt_tokens", n)
	for round := range 8 {
		a, err := s.ask(process.Request{Gen: engine.Gen{MaxNew: s.context / 4, IDs: s.prompt(n)}}, stopAt{read: round % 3, tokens: 1})
		if err != nil {
			return err
		}
		switch {
		case a.Done.Finish != engine.FinishCancel && a.Done.Finish != engine.FinishStop:
			return fmt.Errorf("a STOP in the read ended as %q", a.Done.Finish)
		case a.Done.Generated > 0:
			c.count("read_was_over", 1)
			continue
		case a.Done.Read >= 0 && a.Done.Read < a.pos-a.Resume:
			return fmt.Errorf("the last PP was at %d after RESUME %d, but DONE says %d tokens read", a.pos, a.Resume, a.Done.Read)
		}
		c.count("stopped_in_read", 1)
		c.most("max_latency_ms", int(a.Drained.Milliseconds()))
	}
	// An engine with one big chunk has no place to stop; one with a grid has.
	if c.Counts["stopped_in_read"] == 0 && s.info.Able(engine.KeyPrefillChunk) {
		return errors.New("no STOP was honoured before the read of a long prompt was over")
	}
	return s.healthy()
}

// checkStopDecode stops behind some token, with a second STOP that must be harmless.
func (s *suite) checkStopDecode(c *Check) error {
	for range 20 {
		k := 1 + s.rng.IntN(12)
		twice := s.rng.IntN(2) == 0
		seen := 0
		r := process.Request{Gen: engine.Gen{MaxNew: s.context / 2, IDs: s.prompt(40)}}
		r.Each = func(reply *engine.Reply) bool {
			if reply.Kind == engine.ReplyToken {
				if seen++; seen == k && twice {
					_ = s.engine.Write([]byte("STOP\n")) // the session writes the other one
				}
			}
			return true
		}
		a, err := s.ask(r, stopAt{read: -1, tokens: k})
		if err != nil {
			return err
		}
		if a.Done.Finish == engine.FinishStop {
			c.count("ended_first", 1)
			continue
		}
		if a.Done.Finish != engine.FinishCancel {
			return fmt.Errorf("a STOP after %d tokens ended as %q", k, a.Done.Finish)
		}
		c.count("stopped_in_decode", 1)
		c.most("max_drained_tokens", len(a.IDs)-k)
		c.most("max_latency_ms", int(a.Drained.Milliseconds()))
	}
	if c.Counts["stopped_in_decode"] == 0 {
		return errors.New("every answer ended before its STOP: nothing was checked")
	}
	return s.healthy()
}

// checkStopAtEnd stops around the last token of the budget: whoever wins, the GEN
// ends once and never exceeds its budget.
func (s *suite) checkStopAtEnd(c *Check) error {
	for i := range 20 {
		budget := 4 + i%5
		a, err := s.ask(process.Request{Gen: engine.Gen{MaxNew: budget, IDs: s.prompt(20)}}, stopAt{read: -1, tokens: max(1, budget-i%3)})
		if err != nil {
			return err
		}
		c.count(a.Done.Finish, 1)
		next, err := s.gen(4, s.prompt(20))
		if err != nil {
			return err
		}
		if next.Done.Finish == engine.FinishCancel {
			return errors.New("a STOP that came too late reached the next request")
		}
	}
	return nil
}

// checkOrder judges the lines of every GEN of the whole run.
func (s *suite) checkOrder(c *Check) error {
	if s.served == 0 {
		return notRun("no GEN was served")
	}
	c.count("gens", s.served)
	c.count("faults", len(s.faults))
	if len(s.faults) > 0 {
		return errors.New(strings.Join(s.faults, "; "))
	}
	return nil
}
