package relay

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"interlude/engine"
	"interlude/engine/fault"
	"interlude/harness/supervise"
)

// orphanFor is how long an engine may outlive the end of its input.
const orphanFor = time.Minute

// idleEvery is how often an idle relay looks for a fault: no line asks for it.
const idleEvery = 20 * time.Millisecond

// relay is one engine and who speaks to it. One goroutine carries commands, one
// replies; each may find a fault and play it.
type relay struct {
	child  *supervise.Child
	stderr io.Writer
	out    *output

	came   chan struct{} // one token: a line was passed on to the engine
	ending chan int      // one code: a fault ends the process so
	over   chan struct{} // closed at the end of the input
	passed chan struct{} // closed when no reply is passed on any more
	hung   atomic.Bool   // nothing is passed on any more, and the engine is frozen

	mu      sync.Mutex // of the rest: both directions decide the moment
	faults  *fault.File
	moments fault.Moments
	loaded  bool // it has announced itself
	ready   bool
	waiting int  // GENs without their last line
	running bool // a GEN has had its RESUME, and not its last line
	deaf    bool // STOPs are kept from the engine until the GEN ends
	quit    bool
	since   time.Time // idle since; zero: not yet
	reply   engine.Reply
}

// Main runs the engine argv behind the faults of a file ("": none) and returns the
// exit code: the engine's, or what a fault wants; 2 for a fault file that cannot be
// read, 1 for an engine that cannot be started. stdout is closed when the engine
// closes its own.
func Main(argv []string, faults string, stdin io.Reader, stdout io.WriteCloser, stderr io.Writer) int {
	r := &relay{stderr: stderr, out: newOutput(stdout), came: make(chan struct{}, 1), ending: make(chan int, 1), passed: make(chan struct{}), over: make(chan struct{})}
	if faults != "" {
		var err error
		if r.faults, err = fault.Open(faults); err != nil {
			r.say("%v", err)
			return 2
		}
	}
	// From here on a signal is the engine's, also one that comes before it is up.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, passedOn()...)
	defer signal.Stop(signals)
	var err error
	if r.child, err = supervise.Start(supervise.Spec{Argv: argv, Stderr: stderr, Pipes: true}); err != nil {
		r.say("%v", err)
		return 1
	}
	go r.commands(stdin)
	go r.replies()
	return r.last(signals)
}

// passedOn are the signals that the engine gets instead of us: a closed terminal's
// too, unless somebody (nohup) has had it ignored.
func passedOn() []os.Signal {
	list := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// last waits for the end, whatever brings it, and leaves nothing behind.
func (r *relay) last(signals <-chan os.Signal) int {
	var idle <-chan time.Time
	if r.faults != nil {
		t := time.NewTicker(idleEvery)
		defer t.Stop()
		idle = t.C
	}
	for {
		select {
		case code := <-r.ending:
			return r.kill(code)
		case s := <-signals:
			sig := s.(syscall.Signal)
			if r.hung.Load() { // a frozen engine hears nothing
				return r.kill(128 + int(sig))
			}
			if err := r.child.Send(sig, false); err != nil && !isDone(r.child.Done()) {
				return r.kill(128 + int(sig)) // a system without such signals
			}
		case <-idle:
			if f, ok := r.idleFault(); ok {
				go r.strike(f, nil) // it may take its time
			}
		case <-r.child.Done():
			<-r.passed
			select {
			case code := <-r.ending:
				return code // the engine met its end while a fault was under way
			default:
				return r.endAs(r.child.Err())
			}
		}
	}
}

// kill ends the engine and everything below it.
func (r *relay) kill(code int) int {
	if err := r.child.Kill(); err != nil {
		r.say("%v", err)
	}
	return code
}

// end makes the process end with a code; the first one counts.
func (r *relay) end(code int) {
	select {
	case r.ending <- code:
	default:
	}
}

// say leaves a line in the engine's log.
func (r *relay) say(format string, args ...any) {
	fmt.Fprintf(r.stderr, "[relay] "+format+"\n", args...)
}

// commands carries what the server writes.
func (r *relay) commands(stdin io.Reader) {
	in := newLines(stdin)
	for {
		line, starts, err := in.next()
		if (!starts || r.command(line)) && !r.hung.Load() {
			_, _ = r.child.Stdin.Write(line) // a dead engine is seen elsewhere
		}
		select {
		case r.came <- struct{}{}: // whoever stalls looks whether it was a STOP
		default:
		}
		if err != nil {
			break
		}
	}
	if f, ok := r.quitFault(); ok {
		r.strike(f, nil)
	}
	close(r.over)
	_ = r.child.Stdin.Close()
	time.AfterFunc(orphanFor, func() {
		r.say("the engine still runs a minute after the end of its input: it is killed")
		r.end(1)
	})
}

// command takes note of a line for the engine, or of its beginning; false: it is
// not to be passed on.
func (r *relay) command(line []byte) bool {
	verb := line
	if i := bytes.IndexAny(line, " \r\n"); i >= 0 {
		verb = line[:i]
	}
	switch string(verb) {
	case "GEN", "GENI":
		r.mu.Lock()
		r.waiting, r.since = r.waiting+1, time.Time{}
		r.mu.Unlock()
	case "STOP":
		return r.stopped()
	case "QUIT":
		if f, ok := r.quitFault(); ok {
			r.strike(f, nil)
		}
	}
	return true
}

// stopped takes note of a STOP; false: the engine is deaf to it.
func (r *relay) stopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == 0 && !r.running {
		return true // it means nothing to an idle engine
	}
	if !r.moments.Stopped {
		if f, deaf := r.faults.Take(fault.Deaf); deaf {
			r.deaf = true
			r.say("%v: STOP does not reach the engine", &f)
		}
	}
	if r.deaf {
		return false
	}
	r.moments.Stopped = true
	return true
}

func (r *relay) quitFault() (fault.Fault, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.quit {
		return fault.Fault{}, false // QUIT, and then the end of the input
	}
	r.quit = true
	return r.faults.Take(fault.Quitting)
}

func (r *relay) idleFault() (fault.Fault, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() || r.hung.Load() {
		return fault.Fault{}, false
	}
	return r.faults.Take(fault.Idle(time.Since(r.since)))
}

// replies carries what the engine says.
func (r *relay) replies() {
	defer close(r.passed)
	in := newLines(r.child.Stdout)
	defer r.child.Stdout.Close()
	for {
		line, starts, err := in.next()
		if r.hung.Load() {
			return
		}
		if starts && bytes.HasSuffix(line, []byte{'\n'}) {
			if f, ok := r.lineFault(line); ok {
				if !r.strike(f, line) {
					// Unheard, but read: where it cannot be frozen it computes on, and
					// would end when nobody takes what it says.
					_, _ = io.Copy(io.Discard, r.child.Stdout)
					return
				}
				line = nil
			}
		}
		r.out.write(line, err != nil || !in.more())
		r.rests()
		if err != nil {
			r.out.close() // the engine has closed its own
			return
		}
	}
}

// lineFault takes note of a reply and finds the fault in its place.
func (r *relay) lineFault(line []byte) (f fault.Fault, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = engine.ParseReply(line, &r.reply) // a broken one is passed on like any other
	switch r.reply.Kind {
	case engine.ReplyInfo, engine.ReplyReady:
		r.ready = r.ready || r.reply.Kind == engine.ReplyReady
		if !r.loaded {
			r.loaded = true
			return r.faults.Take(fault.Loading)
		}
	case engine.ReplyResume:
		r.running, r.since = true, time.Time{}
	}
	f, ok = r.faults.Take(r.moments.At(&r.reply))
	if r.reply.Kind == engine.ReplyDone || r.reply.Kind == engine.ReplyErr {
		r.moments, r.running, r.deaf = fault.Moments{}, false, false
		r.waiting = max(0, r.waiting-1)
	}
	return f, ok
}

// rests begins an idle time once the last line of a GEN has been passed on.
func (r *relay) rests() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() && r.ready && !r.running && r.waiting == 0 {
		r.since = time.Now()
	}
}
