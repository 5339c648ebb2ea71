package fault

import (
	"time"

	"interlude/engine"
)

// Moments counts the lines of the running GEN, for the moments that name one. The
// zero value is the beginning of a GEN.
type Moments struct {
	chunks, tokens int
	Stopped        bool // a STOP came to this GEN
}

// At counts one line of the GEN and returns what tells the faults that strike in
// its place.
func (m *Moments) At(r *engine.Reply) func(*Fault) bool {
	when, k := "", 0
	switch r.Kind {
	case engine.ReplyResume:
		if r.Reused > 0 {
			when = "restored"
		}
	case engine.ReplyPP:
		m.chunks++
		when, k = "read", m.chunks
	case engine.ReplyToken, engine.ReplyLogprob:
		m.tokens++
		when, k = "token", m.tokens
	case engine.ReplyDone:
		when = "done"
	}
	return func(f *Fault) bool {
		if f.How == "deaf" {
			return false // it strikes where the STOP comes in
		}
		return f.When == when && f.K == k || f.When == "stop" && when == "done" && m.Stopped
	}
}

// Loading tells the faults of an engine that is about to announce itself.
func Loading(f *Fault) bool { return f.When == "load" }

// Quitting tells the faults of an engine that was told to go.
func Quitting(f *Fault) bool { return f.When == "quit" }

// Deaf tells the fault that takes the place of a STOP.
func Deaf(f *Fault) bool { return f.How == "deaf" }

// Idle tells the faults of an engine that has had nothing to do for so long.
func Idle(since time.Duration) func(*Fault) bool {
	return func(f *Fault) bool { return f.When == "idle" && since >= f.Idle }
}
