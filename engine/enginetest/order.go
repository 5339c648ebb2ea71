package enginetest

import (
	"fmt"
	"slices"

	"interlude/engine"
)

// order holds the lines of one GEN to engine-protocol §1.6 and §1.7.
type order struct {
	prompt, maxNew int
	mask, logprobs bool

	begun, read, done bool // RESUME, REUSED or a token, DONE
	resume            int
	pos               int // of the last PP
	ms                float64
	tokens            int
	faults            []string
}

func (o *order) fault(format string, args ...any) {
	o.faults = append(o.faults, fmt.Sprintf(format, args...))
}

// see takes the next line.
func (o *order) see(r *engine.Reply) {
	if o.done {
		o.fault("a line after the last one: %s", r.Append(nil))
		return
	}
	if !o.begun && r.Kind != engine.ReplyResume && r.Kind != engine.ReplyErr && r.Kind != engine.ReplyOther {
		o.fault("%q before RESUME", r.Append(nil))
	}
	switch r.Kind {
	case engine.ReplyResume:
		if o.begun {
			o.fault("a second RESUME")
		}
		if o.begun, o.resume = true, r.Reused; r.Reused >= o.prompt {
			o.fault("RESUME %d of a prompt of %d tokens: the last one is always read", r.Reused, o.prompt)
		}
	case engine.ReplyPP:
		o.seeProgress(r)
	case engine.ReplyReused:
		if o.read {
			o.fault("REUSED after the read was over")
		}
		if o.read = true; r.Reused != o.resume {
			o.fault("RESUME %d, but REUSED %d", o.resume, r.Reused)
		}
	case engine.ReplyToken, engine.ReplyLogprob:
		if o.logprobs != (r.Kind == engine.ReplyLogprob) {
			o.fault("a T line where LP was asked for, or the other way round")
		}
		if r.Kind == engine.ReplyLogprob && r.LP.Index != o.tokens {
			o.fault("LP %d is token %d of its GEN", r.LP.Index, o.tokens)
		}
		o.read = true
		if o.tokens++; o.tokens > o.maxNew {
			o.fault("token %d of at most %d", o.tokens, o.maxNew)
		}
	case engine.ReplyMask:
		if o.read = true; !o.mask {
			o.fault("MQ without mask=1")
		}
	case engine.ReplyDone:
		o.done = true
		o.seeDone(&r.Done)
	case engine.ReplyErr:
		o.done = true
	case engine.ReplyInfo, engine.ReplyReady, engine.ReplyBroken, engine.ReplyUnsupported:
		o.fault("%s%s inside a GEN", r.Append(nil), r.Text)
	}
}

func (o *order) seeProgress(r *engine.Reply) {
	switch {
	case o.read:
		o.fault("PP %d after the read was over", r.Pos)
	case r.Total != o.prompt:
		o.fault("PP says a prompt of %d tokens, it has %d", r.Total, o.prompt)
	case r.Pos <= max(o.pos, o.resume):
		o.fault("PP %d after %d: no progress", r.Pos, max(o.pos, o.resume))
	case r.Pos >= o.prompt:
		o.fault("PP %d of %d: the last token belongs to the first window", r.Pos, o.prompt)
	case r.Ms < o.ms:
		o.fault("PP at %g ms after %g ms", r.Ms, o.ms)
	}
	o.pos, o.ms = r.Pos, r.Ms
}

func (o *order) seeDone(d *engine.Done) {
	known := []string{engine.FinishStop, engine.FinishLength, engine.FinishCancel, engine.FinishNonfinite, engine.FinishError}
	switch {
	case d.Generated != o.tokens:
		o.fault("DONE counts %d tokens, %d came", d.Generated, o.tokens)
	case d.Prompt != o.prompt:
		o.fault("DONE counts %d prompt tokens, there were %d", d.Prompt, o.prompt)
	case !slices.Contains(known, d.Finish):
		o.fault("DONE finish %q", d.Finish)
	case d.Finish == engine.FinishLength && o.tokens != o.maxNew:
		o.fault("DONE length after %d of %d tokens", o.tokens, o.maxNew)
	case d.Finish == engine.FinishStop && o.tokens == 0:
		o.fault("DONE stop without a token")
	case d.Reused >= 0 && d.Reused != o.resume:
		o.fault("RESUME %d, but DONE says %d", o.resume, d.Reused)
	case d.Read > o.prompt-o.resume:
		o.fault("DONE read %d of %d unread tokens", d.Read, o.prompt-o.resume)
	case d.PromptMs < 0 || d.DecodeMs < 0:
		o.fault("DONE with negative times")
	}
}
