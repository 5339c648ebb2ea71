package loop

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"interlude/engine"
	"interlude/sched"
)

// errGrace is how long an ERR in the middle of a GEN is held before the engine
// counts as healthy: natively it is the last word of a process that then exits.
const errGrace = 250 * time.Millisecond

// generation is one GEN from the moment its line was queued for the engine to
// its DONE, its refusal or the death of the engine. The zero value: none runs.
type generation struct {
	req     *Request // nil: the engine is idle
	serial  uint64   // which GEN of this loop; a late timer or mask names it
	ids     []int32  // what the GEN line carried
	upto    int      // > 0: a read slice
	budget  int      // tokens asked for
	ckpt    bool     // the session stays afterwards
	resumed bool     // RESUME was read: only now a STOP cannot be lost
	pos     int      // how far the prompt has been read
	tokens  int      // T lines
	err     string   // an ERR came after RESUME
}

// start writes the GEN of a Start action.
func (l *Loop) start(a sched.Action) {
	r := l.requests[a.ID]
	if r == nil || l.conn == nil {
		l.log.Error("a start names no live request or no engine", "id", a.ID)
		return
	}
	g := r.gen(a)
	l.serial++
	l.current = generation{req: r, serial: l.serial, ids: g.IDs, upto: a.Upto, budget: g.MaxNew, ckpt: !g.NoCheckpoint}
	r.leaveQueue(l.at)
	l.line = g.Append(l.line[:0])
	l.write(l.line)
}

// stop writes STOP. The machine asks for it only after RESUME: earlier the engine
// may throw it away when it takes the GEN.
func (l *Loop) stop(id sched.ID) {
	if r := l.current.req; r != nil && r.id == id {
		l.write([]byte("STOP\n"))
	}
}

// reply turns one line of the engine into what it means for the present GEN.
// Before RESUME only a refusal can come: anything else is a late word of an
// earlier GEN, and so is everything while none runs.
func (l *Loop) reply(r *engine.Reply) {
	g := &l.current
	if r.Kind == engine.ReplyBroken {
		l.malformed(r)
		return
	}
	early := g.req == nil || !g.resumed && r.Kind != engine.ReplyResume && r.Kind != engine.ReplyErr
	if r.Kind == engine.ReplyErr && r.Fatal {
		l.flush()
		l.kill(fmt.Errorf("engine: ERR %s", r.Text))
		return
	}
	if early || g.resumed && r.Kind == engine.ReplyResume {
		l.stray(r)
		return
	}
	switch r.Kind {
	case engine.ReplyToken:
		l.fresh = append(l.fresh, r.ID)
		return
	case engine.ReplyLogprob:
		l.fresh = append(l.fresh, r.ID)
		l.scored = append(l.scored, l.logprob(g, &r.LP))
		return
	}
	l.flush()
	if r.Kind == engine.ReplyResume && r.Reused > len(g.ids) || r.Kind == engine.ReplyPP && r.Pos > len(g.ids) {
		why := fmt.Sprintf("%s is beyond the prompt of %d tokens", bytes.TrimSpace(r.Append(nil)), len(g.ids))
		l.malformed(&engine.Reply{Text: why, Fatal: r.Kind == engine.ReplyResume})
		return
	}
	switch r.Kind {
	case engine.ReplyResume:
		l.onResume(r.Reused)
	case engine.ReplyPP:
		g.pos = r.Pos
		l.step(sched.Event{Kind: sched.Reading, ID: g.req.id, N: r.Pos, Total: r.Total})
		l.reading(g)
	case engine.ReplyMask:
		l.mask()
	case engine.ReplyDone:
		l.onDone(&r.Done)
	case engine.ReplyErr:
		l.onErr(r.Text)
	}
}

// stray counts and logs a line that belongs to no GEN.
func (l *Loop) stray(r *engine.Reply) {
	switch r.Kind {
	case engine.ReplyOther, engine.ReplyInfo, engine.ReplyUnsupported:
		return
	}
	l.counters.Strays++
	l.log.Warn("the engine said something that no request asked for; ignored", "line", string(r.Append(nil)))
}

// logprob copies a score out of the reader's memory and counts it over the
// whole answer instead of one GEN.
func (l *Loop) logprob(g *generation, lp *engine.Logprob) engine.Logprob {
	out := *lp
	out.Index = len(g.req.emitted()) + len(l.fresh) - 1
	out.Top = append([]engine.TopLogprob(nil), lp.Top...)
	return out
}

// flush hands the tokens of the lines just read to their request, drained ones
// included, and then to the machine. A slice's token and that of a
// prefill_only request are thrown away.
func (l *Loop) flush() {
	n, g := len(l.fresh), &l.current
	if n == 0 {
		return
	}
	first := g.tokens == 0
	g.tokens += n
	r := g.req
	if g.tokens > g.budget {
		l.fail(r, sched.ReasonEngineError, fmt.Errorf("engine: %d tokens where at most %d were asked for", g.tokens, g.budget))
	}
	if r.params.Logprobs > 0 && g.upto == 0 && len(l.scored) != n {
		l.fail(r, sched.ReasonEngineError, fmt.Errorf("engine: %d scores for %d tokens", len(l.scored), n))
	}
	if first && g.upto == 0 { // before the tokens, so that a client reads "decoding" before the first of them
		l.step(sched.Event{Kind: sched.FirstToken, ID: r.id})
	}
	if g.upto == 0 && !r.spec.PrefillOnly && r.failure == nil {
		r.ids = append(r.ids, l.fresh...)
		r.stats.Output += n
		if !r.left.Load() {
			r.buf.tokens(l.fresh, l.scored)
		}
	}
	l.fresh, l.scored = l.fresh[:0], l.scored[:0]
	if g.upto > 0 {
		return
	}
	l.step(sched.Event{Kind: sched.Tokens, ID: r.id, N: n})
}

func (l *Loop) onResume(reused int) {
	g := &l.current
	r := g.req
	g.resumed, g.pos = true, reused
	l.ledger.begin(r.prefix(g.ids), reused)
	if !r.resumed {
		r.resumed = true
		r.stats.Cached = reused
	}
	lost := l.machine.Counters().LostPrefix
	l.step(sched.Event{Kind: sched.Resumed, ID: r.id, N: reused})
	if n := l.machine.Counters().LostPrefix - lost; n > 0 {
		l.log.Warn("the engine lost a prefix that it held: it is read again", "request", r.spec.Label, "tokens", n, "slice", g.upto > 0)
	}
}

func (l *Loop) onDone(d *engine.Done) {
	g := l.current
	r := g.req
	r.add(d)
	finish := sched.ParseFinish(d.Finish)
	switch {
	case g.err != "":
		finish = sched.FinishError
	case r.failure != nil:
	case d.Generated != g.tokens:
		r.failure = fmt.Errorf("engine: DONE counts %d tokens, %d were printed", d.Generated, g.tokens)
		finish = sched.FinishError
	case g.upto > 0 && g.tokens == 0 && well(finish):
		r.failure = fmt.Errorf("engine: a read of %d tokens ended as %s without a token", g.upto, finish)
		finish = sched.FinishError
	}
	l.leave(finish)
	if g.upto > 0 && well(finish) { // any other end of a slice is one of the request
		l.step(sched.Event{Kind: sched.SliceDone, ID: r.id, N: g.upto, Finish: finish, Stats: statsOf(d)})
		return
	}
	r.finish = finish
	l.step(sched.Event{Kind: sched.Done, ID: r.id, Finish: finish, Stats: statsOf(d)})
}

// well says that a GEN ended as it was asked to.
func well(f sched.Finish) bool { return f == sched.FinishStop || f == sched.FinishLength }

// leave ends the present GEN and notes what the engine keeps of it: after a
// decode the prompt and all tokens but the last (and perhaps some beyond a budget
// that ran out within a window), after a stopped read only checkpoints.
func (l *Loop) leave(finish sched.Finish) {
	g := &l.current
	r := g.req
	p := r.prefix(g.ids)
	read, alone := len(g.ids), g.upto > 0 || r.spec.PrefillOnly // one token, thrown away
	if g.tokens == 0 {
		read = g.pos
	} else if !alone && r.failure == nil {
		p.ids = r.ids[:len(r.ids)-1]
	}
	over := finish == sched.FinishLength && !alone
	l.ledger.end(p, len(g.ids), read, over, g.tokens > 0 && r.failure == nil, g.ckpt)
	l.current = generation{}
}

// prefix is what the engine compares of a GEN of r over ids.
func (r *Request) prefix(ids []int32) prefix {
	p := prefix{ids: ids, cvec: 1, image: r.spec.Image != ""}
	if r.params.Cvec != nil {
		p.cvec = *r.params.Cvec
	}
	return p
}

// onErr follows an ERR line that names no DONE. Before RESUME it refuses the GEN
// and the engine is idle and healthy. After it, the process is about to end: the
// verdict waits for that a moment.
func (l *Loop) onErr(text string) {
	g := &l.current
	g.req.failure = fmt.Errorf("engine: ERR %s", text)
	if !g.resumed {
		l.refused()
		return
	}
	g.err = text
	serial := g.serial
	l.after(errGrace, func(l *Loop) {
		if l.current.serial == serial {
			l.refused()
		}
	})
}

func (l *Loop) refused() {
	r := l.current.req
	l.current = generation{}
	l.step(sched.Event{Kind: sched.Refused, ID: r.id})
}

// malformed follows a line that breaks the protocol. A token may have been lost,
// so the request it belongs to fails; the engine is drained and goes on. Where the
// line was the GEN's RESUME or DONE nothing says any more where that begins or ends:
// a drain would wait for what has gone by.
func (l *Loop) malformed(line *engine.Reply) {
	l.flush()
	l.counters.Malformed++
	why := fmt.Errorf("engine: %s", line.Text)
	l.log.Warn("the engine broke the protocol", "why", line.Text)
	switch r := l.current.req; {
	case r == nil:
	case line.Fatal:
		l.kill(why)
	default:
		l.fail(r, sched.ReasonEngineError, why)
	}
}

// mask answers an MQ: each needs exactly one line, in a drain too, whose tokens
// are the request's like any other. Without a masker it is MF.
func (l *Loop) mask() {
	g := &l.current
	r := g.req
	if r.masking {
		l.counters.Malformed++
		l.fail(r, sched.ReasonEngineError, errors.New("engine: MQ before the last one had its answer"))
	}
	if r.spec.Masker == nil || r.failure != nil {
		l.write([]byte("MF\n"))
		return
	}
	r.masking = true
	serial, emitted := g.serial, r.emitted()[:len(r.emitted()):len(r.emitted())]
	l.workers.Go(func() {
		line, err := answerMask(r.spec.Masker, emitted)
		l.inbox.put(func(l *Loop) {
			r.masking = false
			if l.current.serial != serial {
				return
			}
			if err != nil {
				l.fail(r, sched.ReasonEngineError, err)
			}
			l.write(line)
		})
	})
}

// answerMask keeps a panic of one request's constraint away from the others. The
// engine gets its line even so.
func answerMask(masker func([]int32) ([]byte, error), emitted []int32) (line []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
		if err != nil {
			line, err = []byte("MF\n"), fmt.Errorf("token mask after %d tokens: %w", len(emitted), err)
		}
	}()
	return masker(emitted)
}

func (r *Request) add(d *engine.Done) {
	s := &r.stats
	s.Read += max(d.Read, 0)
	s.Accept += d.Accepted
	s.Offered += d.Offered
	s.PromptTime += milliseconds(d.PromptMs)
	s.DecodeTime += milliseconds(d.DecodeMs)
}

func statsOf(d *engine.Done) sched.Stats {
	return sched.Stats{Generated: d.Generated, Prompt: d.Prompt, Read: d.Read, Reused: d.Reused,
		PromptTime: milliseconds(d.PromptMs), DecodeTime: milliseconds(d.DecodeMs)}
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
