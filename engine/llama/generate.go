package llama

import (
	"fmt"
	"time"

	"interlude/engine"
)

// generation is one GEN from the settled sequence to its DONE.
type generation struct {
	*Engine
	gen     *engine.Gen
	seq     int
	began   time.Time
	read    time.Time // when the prompt was read
	reused  int
	emitted int
	finish  string
}

// generate serves one valid GEN. The error is fatal: the library failed, and the
// process has to end.
func (e *Engine) generate(g *engine.Gen) error {
	run := generation{Engine: e, gen: g, began: time.Now()}
	seq, reused, moved := e.kept.settle(g.IDs)
	run.seq, run.reused = seq, reused
	e.logMoves(moved, time.Since(run.began))
	e.reply(engine.Reply{Kind: engine.ReplyResume, Reused: reused})
	if err := run.readPrompt(); err != nil {
		return err
	}
	run.read = time.Now()
	e.reply(engine.Reply{Kind: engine.ReplyReused, Reused: reused})
	if run.finish == "" {
		e.sampler.start(g.Params, g.IDs)
		if err := run.decode(); err != nil {
			return err
		}
	}
	run.done()
	if g.NoCheckpoint {
		e.kept.forget(seq)
	}
	return nil
}

// held is how many tokens the sequence holds.
func (r *generation) held() int { return len(r.kept.sequences[r.seq].ids) }

// store decodes ids at the end of the sequence; a batch that did not go through
// leaves nothing behind.
func (r *generation) store(ids []int32, logits bool) Status {
	s := &r.kept.sequences[r.seq]
	at := len(s.ids)
	status := r.lib.Decode(r.seq, at, ids, logits)
	if status != OK {
		r.lib.Trim(r.seq, at)
		return status
	}
	s.ids = append(s.ids, ids...)
	return OK
}

// readPrompt reads all but the last prompt token, chunk by chunk on the grid of
// absolute positions, and then the last one alone for its logits.
func (r *generation) readPrompt() error {
	prompt := r.gen.IDs
	last := len(prompt) - 1
	for r.held() < last {
		from := r.held()
		to := min((from/r.opt.Chunk+1)*r.opt.Chunk, last)
		switch status := r.store(prompt[from:to], false); {
		case status == Aborted:
			r.finish = engine.FinishCancel
			return nil
		case status != OK:
			return fmt.Errorf("read prompt tokens %d to %d: %s", from, to, status)
		}
		ms := milliseconds(time.Since(r.began))
		r.reply(engine.Reply{Kind: engine.ReplyPP, Pos: to, Total: len(prompt), Ms: ms, Rate: rate(to-r.reused, ms)})
		if r.lib.Aborting() {
			r.finish = engine.FinishCancel
			return nil
		}
	}
	switch status := r.store(prompt[last:], true); {
	case status == Aborted:
		r.finish = engine.FinishCancel
	case status != OK:
		return fmt.Errorf("read the last prompt token: %s", status)
	}
	return nil
}

// decode emits tokens until one ends the answer. Every emitted token has been
// printed; the last one is not stored, so that a continuation resumes at its
// prompt's last token but one.
func (r *generation) decode() error {
	var lp engine.Logprob
	for {
		mask, ok := r.askMask()
		if !ok {
			r.finish = engine.FinishCancel
			return nil
		}
		logits := r.lib.Logits()
		if r.gen.Logprobs > 0 {
			r.raw = append(r.raw[:0], logits...) // scores are of the model, before penalties and masks
		}
		id, ok := r.sampler.sample(logits, mask, len(r.gen.IDs)+r.emitted)
		if !ok {
			r.finish = engine.FinishNonfinite
			return nil
		}
		if r.gen.Logprobs > 0 {
			score(r.raw, id, r.gen.Logprobs, &lp)
			lp.Index = r.emitted
			r.reply(engine.Reply{Kind: engine.ReplyLogprob, ID: id, LP: lp})
		} else {
			r.reply(engine.Reply{Kind: engine.ReplyToken, ID: id})
		}
		r.emitted++
		r.sampler.accept(id)
		switch {
		case r.lib.IsEnd(id):
			r.finish = engine.FinishStop
			return nil
		case r.lib.Aborting():
			r.finish = engine.FinishCancel
			return nil
		case r.emitted == r.gen.MaxNew:
			r.finish = engine.FinishLength
			return nil
		}
		switch status := r.store([]int32{id}, true); {
		case status == Aborted:
			r.finish = engine.FinishCancel
			return nil
		case status != OK:
			return fmt.Errorf("decode token %d: %s", r.emitted, status)
		}
	}
}

// askMask asks for the next token's mask when the GEN is masked. ok is false when
// the answer is no mask: the request then ends as cancelled.
func (r *generation) askMask() (mask *engine.Mask, ok bool) {
	if !r.gen.Mask {
		return nil, true
	}
	r.reply(engine.Reply{Kind: engine.ReplyMask})
	var c engine.Command
	line, open := <-r.lines
	if !open || engine.ParseCommand(line, &c) != nil {
		return nil, false
	}
	return &c.Mask, c.Kind == engine.CmdMaskFree || c.Kind == engine.CmdMaskAllow
}

func (r *generation) done() {
	now := time.Now()
	read := max(r.held()-r.reused-max(r.emitted-1, 0), 0)
	d := engine.Done{
		Generated: r.emitted, Prompt: len(r.gen.IDs), Finish: r.finish, Reused: r.reused, Read: read,
		PromptMs: milliseconds(r.read.Sub(r.began)), DecodeMs: milliseconds(now.Sub(r.read)),
	}
	r.reply(engine.Reply{Kind: engine.ReplyDone, Done: d})
	l := engine.LogLine{
		Kind: engine.LogServed, Tokens: d.Prompt, Reused: d.Reused, Read: read, Ms: d.PromptMs, Rate: rate(read, d.PromptMs),
		Generated: d.Generated, DecodeMs: d.DecodeMs, DecodeRate: rate(d.Generated, d.DecodeMs), Cancelled: d.Finish == engine.FinishCancel,
	}
	if fresh := d.Prompt - d.Reused; l.Cancelled && read < fresh {
		l.ReadOf = fresh
	}
	r.log(l)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func rate(tokens int, ms float64) float64 {
	if ms <= 0 {
		return 0
	}
	return float64(tokens) / ms * 1000
}
