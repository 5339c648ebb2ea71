package relay

import (
	"errors"
	"strings"
	"syscall"
	"time"

	"interlude/engine/fault"
)

// strike does what a fault says in the place of line, which is empty where a
// moment has none. false: no reply is passed on any more.
func (r *relay) strike(f fault.Fault, line []byte) bool {
	switch f.How {
	case "garbage":
		r.out.write([]byte("\x00\xff T garbage\nT twelve\n"), false)
	case "dup":
		r.out.write(line, false)
	case "drop":
		return true
	case "exit":
		r.out.write(nil, true)
		r.die(&f, f.Code)
		return false
	case "half":
		r.out.write(line[:len(line)/2], true)
		r.die(&f, f.Code)
		return false
	case "err":
		r.out.write([]byte("ERR "+f.Arg+"\n"), true)
		r.die(&f, 1)
		return false
	case "silence":
		r.out.write(nil, true)
		r.hang(&f)
		return false
	case "close":
		r.out.close()
		r.hang(&f)
		return false
	case "signal":
		r.out.write(nil, true)
		if f.Arg != "STOP" {
			r.kills(&f)
			return false
		}
		r.standStill(&f)
	case "slow":
		r.out.write(nil, true)
		time.Sleep(f.Late)
	case "stall":
		r.out.write(nil, true)
		r.stall(&f)
	}
	r.out.write(line, true)
	return true
}

// die says how the process ends, and who it takes along.
func (r *relay) die(f *fault.Fault, code int) {
	r.say("%v: this process ends with code %d; the engine (pid %d), healthy until now, is killed", f, code, r.child.Pid())
	r.end(code)
}

// hang freezes the engine and says nothing any more, until somebody ends us or a
// minute after the end of the input.
func (r *relay) hang(f *fault.Fault) {
	r.hung.Store(true)
	r.freeze(f, "and nothing is passed on any more")
	// Who waits for a frozen engine to read waits no longer. Closing its input would
	// let it go before it has come to a stand.
	if in, ok := r.child.Stdin.(interface{ SetWriteDeadline(time.Time) error }); ok {
		_ = in.SetWriteDeadline(time.Now())
	}
}

// freeze makes the engine stand still.
func (r *relay) freeze(f *fault.Fault, then string) {
	if err := r.child.Send(stopSignal, true); err != nil {
		r.say("%v: %v; it computes on unheard, %s", f, err, then)
		return
	}
	r.say("%v: the engine (pid %d) is frozen, %s", f, r.child.Pid(), then)
}

// stall freezes the engine until a STOP has been passed on to it.
func (r *relay) stall(f *fault.Fault) {
	r.freeze(f, "until a STOP comes")
	for !r.heard() {
		select {
		case <-r.came:
			continue
		case <-r.over: // nobody will send one
		case <-r.child.Done():
			return
		}
		break
	}
	r.say("%v: the engine goes on", f)
	_ = r.child.Send(contSignal, true) // where it could not be frozen it never stood still
}

// heard tells whether the running GEN was stopped.
func (r *relay) heard() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.moments.Stopped
}

// signalTime is how long a signal may take to end the engine.
const signalTime = time.Second

// kills sends the engine the signal that ends it; the relay ends as it does.
func (r *relay) kills(f *fault.Fault) {
	r.say("%v: SIG%s to the engine (pid %d)", f, f.Arg, r.child.Pid())
	if err := r.child.Send(fault.Signals()[f.Arg], false); err != nil && !isDone(r.child.Done()) {
		r.say("%v: %v; it is killed", f, err)
		r.end(1)
	}
	// A signal takes its time: an engine that hears QUIT, or whose output is closed to
	// it, before that ends by the wrong thing. One that takes no notice goes on.
	select {
	case <-r.child.Done():
	case <-time.After(signalTime):
	}
}

// standStill stops the engine and this process, until somebody continues us.
func (r *relay) standStill(f *fault.Fault) {
	r.freeze(f, "and this process with it")
	if err := fault.Raise("STOP"); err != nil {
		r.say("%v: %v", f, err)
	}
	_ = r.child.Send(contSignal, true)
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// endAs ends as the engine has: with its exit code, or by its signal where that
// ends us without a word, else with 128 and the signal's number, as a shell says it.
func (r *relay) endAs(err error) int {
	var state interface {
		ExitCode() int
		Sys() any
	}
	if err == nil {
		return 0
	}
	if !errors.As(err, &state) {
		r.say("%v", err)
		return 1
	}
	if code := state.ExitCode(); code >= 0 {
		return code
	}
	sig := endedBy(state.Sys())
	r.say("the engine was ended by SIG%s, and so ends this process", nameOf(sig))
	return dieBy(sig)
}

// nameOf is the name of a signal in the words of package fault, or the system's.
func nameOf(sig syscall.Signal) string {
	for name, s := range fault.Signals() {
		if s == sig && s != 0 {
			return name
		}
	}
	return strings.ToUpper(sig.String())
}
