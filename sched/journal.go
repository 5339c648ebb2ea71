package sched

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// The journal of a machine is a file of JSON lines, each complete:
//
//	{"journal":1,"config":{…}}                  the first line: version and Config, durations in ns
//	{"e":{"kind":"arrive","at":…,"id":…,…},"a":[{"kind":"start","id":…},…]}
//	{"truncated":N}                             N steps did not fit the writer's buffer; what follows cannot be replayed
//
// e is one Event as the machine was told it and a the actions it returned, in
// order, empty lists and zero fields left out, kinds, states, reasons and
// finishes by name, times in ns since the shell's origin. A fresh Machine of the same
// Config must return the same actions for the same events: Replay checks that.
const JournalVersion = 1

type journalLine struct {
	Journal   int      `json:"journal,omitzero"`
	Config    *Config  `json:"config,omitzero"`
	Event     *Event   `json:"e,omitzero"`
	Actions   []Action `json:"a,omitzero"`
	Truncated uint64   `json:"truncated,omitzero"`
}

// AppendJournalHeader writes the first line of a journal.
func AppendJournalHeader(dst []byte, c Config) []byte {
	return appendJournal(dst, journalLine{Journal: JournalVersion, Config: &c})
}

// AppendJournalStep writes one step.
func AppendJournalStep(dst []byte, e Event, actions []Action) []byte {
	return appendJournal(dst, journalLine{Event: &e, Actions: actions})
}

// AppendJournalTruncated marks that steps are missing.
func AppendJournalTruncated(dst []byte, steps uint64) []byte {
	return appendJournal(dst, journalLine{Truncated: steps})
}

func appendJournal(dst []byte, l journalLine) []byte {
	b, err := json.Marshal(l)
	if err != nil {
		panic(fmt.Sprintf("sched: journal line: %v", err)) // plain data always marshals
	}
	return append(append(dst, b...), '\n')
}

// Replayed is what a journal shows.
type Replayed struct {
	Config    Config
	Steps     int
	Truncated bool   // steps are missing, or the last line is cut: nothing can be said about the rest
	Differs   int    // line number of the first step whose actions differ; 0: none
	Want, Got string // that step's actions, as written and as a fresh machine returns them
	Counters  Counters
	Settled   []Settlement
}

// Settlement is one park's measured cost, as the machine settled it.
type Settlement struct {
	At   time.Duration
	ID   ID
	Cost time.Duration
}

// Replay feeds the events of a journal to a fresh machine. It fails on a line
// that is not of the format; a difference is a result, not an error.
func Replay(r io.Reader) (Replayed, error) {
	var out Replayed
	var m *Machine
	var actions []Action
	in := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			out.Truncated = out.Truncated || len(text) > 0
			break
		}
		if err != nil {
			return out, fmt.Errorf("journal line %d: %w", n, err)
		}
		var line journalLine
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&line); err != nil {
			return out, fmt.Errorf("journal line %d: %w", n, err)
		}
		switch {
		case m == nil:
			if line.Journal != JournalVersion || line.Config == nil {
				return out, fmt.Errorf("journal line %d: no header of version %d", n, JournalVersion)
			}
			if errs := line.Config.Validate(); len(errs) > 0 {
				return out, fmt.Errorf("journal line %d: config: %w", n, errors.Join(errs...))
			}
			out.Config = *line.Config
			m = New(out.Config)
		case line.Truncated > 0:
			out.Truncated = true
			out.Counters = m.Counters()
			return out, nil
		case line.Event == nil:
			return out, fmt.Errorf("journal line %d: no event", n)
		default:
			out.Steps++
			actions = m.Step(*line.Event, actions[:0])
			got, want := AppendJournalStep(nil, *line.Event, actions), AppendJournalStep(nil, *line.Event, line.Actions)
			if !bytes.Equal(got, want) && out.Differs == 0 {
				out.Differs, out.Want, out.Got = n, string(want), string(got)
			}
			for _, a := range line.Actions {
				if a.Kind == Settled {
					out.Settled = append(out.Settled, Settlement{At: line.Event.At, ID: a.ID, Cost: a.Cost})
				}
			}
		}
	}
	if m == nil {
		return out, errors.New("journal: empty")
	}
	out.Counters = m.Counters()
	return out, nil
}

// MarshalText writes the kind's name.
func (k EventKind) MarshalText() ([]byte, error) { return nameOf(eventNames[:], int(k), "event kind") }

// UnmarshalText reads it.
func (k *EventKind) UnmarshalText(b []byte) error {
	return named(eventNames[:], b, "event kind", func(i int) { *k = EventKind(i) })
}

// MarshalText writes the kind's name.
func (k ActionKind) MarshalText() ([]byte, error) {
	return nameOf(actionNames[:], int(k), "action kind")
}

// UnmarshalText reads it.
func (k *ActionKind) UnmarshalText(b []byte) error {
	return named(actionNames[:], b, "action kind", func(i int) { *k = ActionKind(i) })
}

// MarshalText writes the finish as the engine does.
func (f Finish) MarshalText() ([]byte, error) { return nameOf(finishNames[:], int(f), "finish") }

// UnmarshalText reads it.
func (f *Finish) UnmarshalText(b []byte) error {
	return named(finishNames[:], b, "finish", func(i int) { *f = Finish(i) })
}

// MarshalText writes the reason's word.
func (r Reason) MarshalText() ([]byte, error) { return nameOf(reasonNames[:], int(r), "reason") }

// UnmarshalText reads it.
func (r *Reason) UnmarshalText(b []byte) error {
	return named(reasonNames[:], b, "reason", func(i int) { *r = Reason(i) })
}

// MarshalText writes the state's name.
func (s State) MarshalText() ([]byte, error) { return nameOf(stateNames[:], int(s), "state") }

// UnmarshalText reads it.
func (s *State) UnmarshalText(b []byte) error {
	return named(stateNames[:], b, "state", func(i int) { *s = State(i) })
}

func nameOf(names []string, i int, what string) ([]byte, error) {
	if i < len(names) {
		return []byte(names[i]), nil
	}
	return nil, fmt.Errorf("%s %d has no name", what, i)
}

func named(names []string, b []byte, what string, set func(int)) error {
	for i, n := range names {
		if n == string(b) {
			set(i)
			return nil
		}
	}
	return fmt.Errorf("%s %q is unknown", what, b)
}

var (
	eventNames = [...]string{"", Arrive: "arrive", Cancel: "cancel", Resumed: "resumed", Reading: "reading",
		FirstToken: "first_token", Tokens: "tokens", Enough: "enough", Done: "done", SliceDone: "slice_done",
		Refused: "refused", TimedOut: "timed_out", EngineDied: "engine_died", LoadAsked: "load_asked", Loaded: "loaded",
		LoadFailed: "load_failed", MaintenanceAsked: "maintenance_asked", MaintenanceOver: "maintenance_over", Wake: "wake"}
	actionNames = [...]string{"", Start: "start", Stop: "stop", EndWell: "end_well", Fail: "fail", Reject: "reject",
		Load: "load", Kill: "kill", WakeAt: "wake_at", BeginMaintenance: "begin_maintenance", Told: "told", Settled: "settled"}
	finishNames = [...]string{"", FinishStop: "stop", FinishLength: "length", FinishCancel: "cancel",
		FinishNonfinite: "nonfinite", FinishError: "error"}
)
