package emulate

import (
	"bufio"
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// inbox is the engine's view of stdin: a reader queues lines without limit; a
// line that is exactly STOP sets a flag and is never queued (engine-protocol
// §1.3).
type inbox struct {
	stop atomic.Bool
	halt chan struct{} // one token: a STOP came
	over chan struct{} // closed at the end of input
	wake chan struct{} // one token: something was queued

	mu    sync.Mutex
	lines [][]byte
}

func newInbox(r io.Reader) *inbox {
	in := &inbox{halt: make(chan struct{}, 1), over: make(chan struct{}), wake: make(chan struct{}, 1)}
	go in.read(r)
	return in
}

func (in *inbox) read(r io.Reader) {
	defer close(in.over)
	br := bufio.NewReaderSize(r, 1<<16)
	for {
		line, err := br.ReadBytes('\n')
		if err != nil {
			return // an unfinished line is no command
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'})
		if string(line) == "STOP" {
			in.stop.Store(true)
			notify(in.halt)
			continue
		}
		in.mu.Lock()
		in.lines = append(in.lines, line)
		in.mu.Unlock()
		notify(in.wake)
	}
}

// notify leaves a token unless one lies there.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// awaitStop blocks until a STOP has come that no command has cleared, or the input
// is over.
func (in *inbox) awaitStop() {
	for !in.stop.Load() {
		select {
		case <-in.halt:
		case <-in.over:
			return
		}
	}
}

// next takes the oldest line; ok is false when there is none now.
func (in *inbox) next() (line []byte, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.lines) == 0 {
		return nil, false
	}
	line = in.lines[0]
	in.lines[0] = nil
	in.lines = in.lines[1:]
	return line, true
}

// arrival says why wait returned.
type arrival uint8

const (
	aLine arrival = iota
	aTick
	theEnd
)

// wait blocks for the next line, a tick (ticks may be nil) or the end of input,
// which comes after every line.
func (in *inbox) wait(ticks <-chan time.Time) ([]byte, arrival) {
	for {
		if line, ok := in.next(); ok {
			return line, aLine
		}
		select {
		case <-in.wake:
		case <-ticks:
			return nil, aTick
		case <-in.over:
			if line, ok := in.next(); ok {
				return line, aLine
			}
			return nil, theEnd
		}
	}
}
