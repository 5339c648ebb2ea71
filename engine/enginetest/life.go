package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"interlude/engine"
	"interlude/engine/process"
)

// checkLongLine: a GEN of hundreds of kilobytes, then a STOP queued behind it.
func (s *suite) checkLongLine(c *Check) error {
	n := min(100_000, s.context-engine.Slack-64)
	g := engine.Gen{MaxNew: 8, IDs: s.prompt(n)[:n]}
	a, err := s.ask(process.Request{Gen: g}, stopAt{read: 0})
	if err != nil {
		return err
	}
	c.count("bytes", len(g.Append(nil)))
	c.count("read_tokens", a.pos-a.Resume)
	return s.healthy()
}

// checkFuzz sends broken and strange lines, each followed by a good request that
// must be answered. It goes on where the last one stood: reading hundreds of
// tokens anew for each line would take a slow engine an hour, and show no more.
func (s *suite) checkFuzz(c *Check) error {
	good := s.prompt(400)
	for i := range s.o.Fuzz {
		line := fuzzed(s.rng)
		c.count("lines", 1)
		if err := s.survives(c, line, good[:300+i%100]); err != nil {
			return fmt.Errorf("after the line %.100q: %w", line, err)
		}
	}
	return nil
}

// survives writes a line, then a request with a prompt longer than any that the
// line may hold, and reads on until that one is done.
func (s *suite) survives(c *Check, line []byte, ids []int32) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.o.Timeout)
	defer cancel()
	if err := s.engine.Write(line); err != nil {
		return err
	}
	g := engine.Gen{MaxNew: 1, IDs: ids}
	next := g.Append(nil)
	for {
		tokens := 0
		a, err := s.session.Generate(ctx, process.Request{Line: next, Each: func(r *engine.Reply) bool {
			if r.Kind == engine.ReplyToken {
				tokens++
			}
			return tokens < 64 // the line happened to be a GEN without an end
		}})
		var refused *process.Refused
		switch {
		case errors.As(err, &refused):
			c.count("refused", 1)
		case err != nil:
			return err
		case a.Done.Prompt == len(ids):
			return nil
		default:
			c.count("answered", 1)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("no answer within %v", s.o.Timeout)
		}
		next = []byte{} // the good request is on its way: only listen
	}
}

// fuzzed makes one line, LF included, that is no QUIT and touches no file.
func fuzzed(rng *rand.Rand) []byte {
	good := []string{
		"GEN 3 300,301,302", "GEN 2 temperature=0.7 top_p=0.9 seed=5 300,301", "GENI 2 /no/such/file 300,301", "MF", "MF cut=300", "MK AQAAAA==",
		"STOP", "GEN 1 ckpt=0 pin=1 cvec=1 300,301,302,303", "GEN 1 logprobs=3 300,301", "GEN 1 logit_bias=5:1,6:-1 300,301",
	}
	line := []byte(good[rng.IntN(len(good))])
	for range 1 + rng.IntN(4) {
		at := rng.IntN(len(line))
		switch rng.IntN(6) {
		case 0:
			line[at] = byte(rng.IntN(256))
		case 1:
			line = append(line[:at], line[at+1:]...)
		case 2:
			line = append(line[:at], append([]byte(" =,:-0e.")[rng.IntN(8):][:1], line[at:]...)...)
		case 3:
			line = append(line, line[at:]...)
		case 4:
			line = line[:at]
		case 5:
			line = append(line, []byte("\x00\xff\r,=")[rng.IntN(5)])
		}
		if len(line) == 0 {
			break
		}
	}
	for i, b := range line {
		if b == '\n' {
			line[i] = ' '
		}
	}
	if len(line) > 0 && line[0] == 'Q' {
		line[0] = 'q'
	}
	return append(line, '\n')
}

// checkEndOfInput: the end of stdin ends the engine, idle or at work.
func (s *suite) checkEndOfInput(c *Check) error {
	for _, busy := range []bool{false, true} {
		if err := s.restart(); err != nil {
			return err
		}
		if busy {
			g := engine.Gen{MaxNew: 20, IDs: s.prompt(20)}
			if err := s.engine.Write(g.Append(nil)); err != nil {
				return err
			}
		}
		s.engine.CloseWrite()
		if err := s.ends(c); err != nil {
			return fmt.Errorf("end of input, in a request: %v: %w", busy, err)
		}
	}
	return nil
}

// checkQuit: QUIT ends an idle engine.
func (s *suite) checkQuit(c *Check) error {
	if err := s.restart(); err != nil {
		return err
	}
	if err := s.engine.Write([]byte("QUIT\n")); err != nil {
		return err
	}
	if err := s.ends(c); err != nil {
		return fmt.Errorf("QUIT: %w", err)
	}
	return nil
}

// ends waits for the engine to end by itself, with exit code 0.
func (s *suite) ends(c *Check) error {
	defer s.stop()
	grace := s.o.Grace
	if grace <= 0 {
		grace = process.DefaultGrace
	}
	began := time.Now()
	limit := time.NewTimer(grace)
	defer limit.Stop()
	for batches := s.engine.Batches(); ; {
		select {
		case b, ok := <-batches:
			if !ok {
				batches = nil
				continue
			}
			b.Release()
		case <-s.engine.Exited():
			c.most("max_ms", int(time.Since(began).Milliseconds()))
			return s.engine.ExitErr()
		case <-limit.C:
			return fmt.Errorf("the engine still runs after %v", grace)
		}
	}
}

// checkKill kills the engine in the middle of an answer: it is gone at once, and the
// next one gives the same answer.
func (s *suite) checkKill(c *Check) error {
	ids := s.prompt(60)
	want, err := s.gen(12, ids)
	if err != nil {
		return err
	}
	for range s.o.Restarts {
		ctx, cancel := context.WithTimeout(s.ctx, s.o.Timeout)
		killed := false
		a, err := s.session.Generate(ctx, process.Request{Gen: engine.Gen{MaxNew: s.context / 2, IDs: s.prompt(40)},
			Each: func(r *engine.Reply) bool {
				if r.Kind == engine.ReplyToken && !killed {
					killed = true
					_ = s.engine.Kill()
				}
				return true
			}})
		cancel()
		if err == nil && a.Done.Finish != engine.FinishStop { // an answer may have been over before the kill
			return fmt.Errorf("an engine that was killed in an answer ended it with %q", a.Done.Finish)
		}
		c.count("kills", 1)
		if err := s.restart(); err != nil {
			return err
		}
		got, err := s.gen(12, ids)
		if err != nil {
			return err
		}
		if err := same(got.IDs, want.IDs); err != nil {
			return fmt.Errorf("after a kill: %w", err)
		}
	}
	return nil
}
