package sched

import (
	"fmt"
	"strings"
)

// State is where one request stands. The zero value is a request that the
// machine does not know.
type State uint8

// The states, in the order of a request's life.
const (
	StateNone     State = iota // not accepted, or forgotten
	StateWaiting               // accepted, no GEN yet
	StateReading               // its GEN was sent, no token of it has come
	StateDecoding              // tokens come
	StateStopping              // STOP was written, its drain runs to DONE
	StateParked                // stopped for another; its ids and seed are kept
	StateEnded                 // told its end, exactly once
	states
)

var stateNames = [states]string{"none", "waiting", "reading", "decoding", "stopping", "parked", "ended"}

// String returns the word used in status, journal and comments.
func (s State) String() string {
	if s < states {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Active says that the request holds the engine.
func (s State) Active() bool {
	return s == StateReading || s == StateDecoding || s == StateStopping
}

// transitions is the whole life of a request: why it may go from one state to
// another; "" means never. set consults it; the design note prints it.
var transitions = [states][states]string{
	StateNone: {
		StateWaiting: "Arrive",
	},
	StateWaiting: {
		StateReading: "Start",
		StateEnded:   "Cancel, TimedOut, LoadFailed",
	},
	StateReading: {
		StateReading:  "SliceDone, the next slice starts",
		StateDecoding: "FirstToken",
		StateStopping: "Stop: a sooner request, its own Cancel, forced, stalled",
		StateParked:   "SliceDone, a sooner request starts",
		StateWaiting:  "Done nonfinite before any token, once",
		StateEnded:    "Done, Refused, EngineDied",
	},
	StateDecoding: {
		StateStopping: "Stop: a sooner request, its own Cancel or Enough, forced, stalled",
		StateEnded:    "Done, EngineDied",
	},
	StateStopping: {
		StateReading: "Done before anything was gained since the last park",
		StateParked:  "Done, neither finished nor cancelled",
		StateEnded:   "Done finished or cancelled, SliceDone cancelled, EngineDied",
	},
	StateParked: {
		StateReading: "Start resume",
		StateEnded:   "Cancel, Enough, EngineDied, LoadFailed",
	},
}

// Table renders the transitions as Markdown: a row a state, a column a state to
// go to. The package's design note holds it and a test compares the two.
func Table() string {
	var b strings.Builder
	b.WriteString("| from \\ to |")
	for to := StateWaiting; to < states; to++ {
		fmt.Fprintf(&b, " %s |", to)
	}
	b.WriteString("\n|---|")
	b.WriteString(strings.Repeat("---|", int(states-StateWaiting)))
	b.WriteString("\n")
	for from := StateNone; from < StateEnded; from++ {
		fmt.Fprintf(&b, "| %s |", from)
		for to := StateWaiting; to < states; to++ {
			why := transitions[from][to]
			if why == "" {
				why = "-"
			}
			fmt.Fprintf(&b, " %s |", why)
		}
		b.WriteString("\n")
	}
	return b.String()
}
