package model

import (
	"slices"

	"interlude/engine"
)

// piece is what one PP line tells about: a chunk or a short segment.
type piece struct {
	to      int
	batched bool
	kind    markKind // a checkpoint is taken at its end
}

// appendPlan cuts what is unread into segments, and those into chunks
// (engine-protocol §1.6). The last prompt token belongs to the first window.
func (e *Engine) appendPlan(plan []piece) []piece {
	j, from, end := &e.job, e.pos, e.n-1
	root, turn := j.Text.Boundary(rootFrom), j.Text.LastBoundary()
	if turn == 1 {
		turn = 0 // every prompt begins so: nothing worth a checkpoint
	}
	cuts := [...]int{root, turn, j.Pin, end}
	slices.Sort(cuts[:])
	at := from
	for _, cut := range cuts {
		if cut <= at || cut > end {
			continue
		}
		batched := cut-at > e.cfg.Profile.SmallMax
		if batched {
			e.batched += cut - at
		}
		for at < cut {
			to := cut
			if batched {
				to = min(cut, e.nextEdge(from, at))
			}
			p := piece{to: to, batched: batched}
			if to == root {
				p.kind |= markRoot
			}
			if to == turn && !j.NoCheckpoint {
				p.kind |= markTurn
			}
			if to == j.Pin {
				p.kind |= markPin
			}
			plan = append(plan, p)
			at = to
		}
	}
	return plan
}

// nextEdge is the next edge of the chunk grid behind pos: absolute where stopped
// reads are kept, else counted from where this read began.
func (e *Engine) nextEdge(from, pos int) int {
	if e.cfg.ResumePrefill {
		from = 0
	}
	return from + ((pos-from)/e.chunk+1)*e.chunk
}

// reached ends a piece of the plan: a PP line, and the checkpoints due there.
func (e *Engine) reached(pos int, out []engine.Reply) []engine.Reply {
	p := e.plan[0]
	if p.batched {
		e.left -= pos - e.pos
	}
	e.pos, e.plan = pos, e.plan[1:]
	kind := p.kind
	if p.batched && !e.job.NoCheckpoint && e.ledger.due(pos) {
		kind |= markPeriodic
	}
	if kind != 0 {
		e.ledger.checkpoint(pos, kind)
	}
	return append(out, e.progress())
}

func (e *Engine) progress() engine.Reply {
	r := engine.Reply{Kind: engine.ReplyPP, Pos: e.pos, Total: e.n, Ms: millis(e.due - e.begun)}
	if r.Ms > 0 {
		r.Rate = rounded(float64(e.pos-e.entry.reused) / r.Ms * 1000)
	}
	return r
}

// stoppable tells whether a STOP is noticed at this place of the read. Where
// stopped reads are kept it is only on the grid, so that nothing is read twice.
func (e *Engine) stoppable() bool {
	return !e.cfg.ResumePrefill || e.pos == e.entry.reused || e.pos%e.chunk == 0
}

// read chooses what follows in the read.
func (e *Engine) read(stop bool, out []engine.Reply) []engine.Reply {
	e.stopping = e.stopping || stop && len(e.plan) > 0 && e.stoppable()
	p := &e.cfg.Profile
	switch {
	case e.lent && (e.stopping || e.left == 0):
		e.phase, e.due = refill, e.due+p.refill(e.batched)
	case e.stopping:
		return e.endRead(out)
	case len(e.plan) == 0:
		return e.beginDecode(out)
	case !e.plan[0].batched:
		e.phase, e.due = small, e.due+p.SmallToken
	case !e.paid:
		e.paid = true
		e.phase, e.due = lend, e.due+p.lend(e.batched)
	default:
		e.phase, e.due = chunk, e.due+p.readChunk(e.pos, e.plan[0].to, e.batched)
	}
	return out
}

// endRead ends a GEN that was stopped in its read.
func (e *Engine) endRead(out []engine.Reply) []engine.Reply {
	e.ledger.leave(&e.job, e.pos, true)
	e.decodeAt = e.due
	out = append(out, engine.Reply{Kind: engine.ReplyReused, Reused: e.entry.reused})
	return e.end(engine.FinishCancel, out)
}
