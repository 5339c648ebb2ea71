package model

import (
	"math"
	"slices"
	"time"

	"interlude/engine"
	"interlude/engine/vocab"
)

func (e *Engine) beginDecode(out []engine.Reply) []engine.Reply {
	e.decodeAt = e.due
	out = append(out, engine.Reply{Kind: engine.ReplyReused, Reused: e.entry.reused})
	return e.nextWindow(out)
}

func (e *Engine) nextWindow(out []engine.Reply) []engine.Reply {
	if e.job.Mask {
		e.phase = asking
		return append(out, engine.Reply{Kind: engine.ReplyMask})
	}
	e.phase, e.due = window, e.due+e.cfg.Profile.Window
	return out
}

// Answer is the client's reply to an MQ, at the instant at; nil is a reply that
// is none, which ends the GEN with cancel.
func (e *Engine) Answer(at time.Duration, m *engine.Mask, out []engine.Reply) []engine.Reply {
	e.due = max(e.due, at)
	if m == nil {
		e.ledger.leave(&e.job, e.job.Text.Len()-1, false)
		return e.end(engine.FinishCancel, out)
	}
	e.mask = m
	e.phase, e.due = window, e.due+e.cfg.Profile.Window
	return out
}

// rows is how many tokens the window may accept: one in the first of a GEN and
// under a mask, else what the profile deals.
func (e *Engine) rows() (rows, offered int) {
	p := &e.cfg.Profile
	if e.windows == 0 || e.mask != nil && !e.mask.Free() {
		return 1, 0
	}
	at := (e.windows + e.deal) % len(p.WindowSizes)
	return int(p.WindowSizes[at]), int(p.Offered[at])
}

// decode ends a window: its tokens are printed as far as the budget goes, and
// all of them are consumed (engine-protocol §1.14).
func (e *Engine) decode(stop bool, out []engine.Reply) []engine.Reply {
	rows, offered := e.rows()
	e.windows++
	e.offered += offered
	var allow func(int32) bool
	if e.mask != nil && !e.mask.Free() {
		allow = e.mask.Allows
	}
	ended := false
	for row := 0; row < rows && !ended; row++ {
		id := e.job.Voice.Next(allow)
		at := e.job.Text.Len()
		e.job.Text.Append(id)
		if row > 0 {
			e.accepted++
		}
		if e.said == e.job.MaxNew {
			continue // accepted, not printed
		}
		out = append(out, e.token(id, at))
		e.said++
		ended = id == vocab.ImEnd || id == vocab.EndOfText
		if e.mask != nil && slices.Contains(e.mask.Cut, id) {
			break
		}
	}
	e.mask = nil
	switch {
	case ended:
		out = e.endDecode(engine.FinishStop, out)
	case stop:
		out = e.endDecode(engine.FinishCancel, out)
	case e.said == e.job.MaxNew:
		out = e.endDecode(engine.FinishLength, out)
	default:
		out = e.nextWindow(out)
	}
	return out
}

func (e *Engine) endDecode(finish string, out []engine.Reply) []engine.Reply {
	e.ledger.leave(&e.job, e.job.Text.Len()-1, false)
	return e.end(finish, out)
}

// end prints DONE and the log line of the GEN.
func (e *Engine) end(finish string, out []engine.Reply) []engine.Reply {
	read := e.pos - e.entry.reused
	if len(e.plan) == 0 {
		read = e.n - e.entry.reused // the last token went through the first window
	}
	promptMs, decodeMs := millis(e.decodeAt-e.begun), millis(e.due-e.decodeAt)
	lookups := 240 * (e.windows + read)
	out = append(out, engine.Reply{Kind: engine.ReplyDone, Done: engine.Done{
		Generated: e.said, Prompt: e.n, PromptMs: promptMs, DecodeMs: decodeMs, Finish: finish,
		Accepted: e.accepted, Offered: e.offered, Reused: e.entry.reused,
		Hits: lookups * 7 / 8, Lookups: lookups, RAMBlobs: lookups / 8, Read: read, Fields: engine.DoneFields}})
	line := engine.LogLine{Kind: engine.LogServed, Tokens: e.n, Reused: e.entry.reused, Read: read, Ms: promptMs,
		Rate: perSecond(read, promptMs), Generated: e.said, DecodeMs: decodeMs, DecodeRate: perSecond(e.said, decodeMs),
		Accepted: e.accepted, Offered: e.offered, Checkpoints: len(e.ledger.resident[e.ledger.current].marks),
		Cancelled: finish == engine.FinishCancel}
	if full := e.n - e.entry.reused; read < full {
		line.ReadOf = full
	}
	e.ledger.log = append(e.ledger.log, line)
	e.phase, e.job = idle, Job{}
	return out
}

// millis is a duration in milliseconds, to the microsecond.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func rounded(v float64) float64 { return math.Round(v*10) / 10 }

func perSecond(tokens int, ms float64) float64 {
	if ms <= 0 {
		return 0
	}
	return rounded(float64(tokens) / ms * 1000)
}
