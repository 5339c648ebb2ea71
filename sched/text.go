package sched

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

var eventNames = [...]string{
	Arrive: "arrive", Cancel: "cancel", Resumed: "resumed", Reading: "reading",
	FirstToken: "first", Tokens: "tokens", Enough: "enough", Done: "done",
	SliceDone: "slice", Refused: "refused", TimedOut: "timeout", EngineDied: "died",
	LoadAsked: "load", Loaded: "loaded", LoadFailed: "load_failed",
	MaintenanceAsked: "maintenance", MaintenanceOver: "maintenance_over", Wake: "wake", Stalled: "stalled",
}

var actionNames = [...]string{
	Start: "start", Stop: "stop", EndWell: "end", Fail: "fail", Reject: "reject",
	Load: "load", Kill: "kill", WakeAt: "wake", BeginMaintenance: "maintenance",
	Told: "told", Settled: "settled",
}

var finishNames = [...]string{"", "stop", "length", "cancel", "nonfinite", "error"}

func name[K ~uint8](k K, names []string) string {
	if int(k) < len(names) && names[k] != "" {
		return names[k]
	}
	return strconv.Itoa(int(k))
}

// String returns the word of the journal and the story scripts.
func (k EventKind) String() string { return name(k, eventNames[:]) }

// String returns the word of the journal and the story scripts.
func (k ActionKind) String() string { return name(k, actionNames[:]) }

// String returns the engine's word, "" for none.
func (f Finish) String() string {
	if int(f) < len(finishNames) {
		return finishNames[f]
	}
	return strconv.Itoa(int(f))
}

// ParseFinish reads the engine's word; an unknown one counts as an error of the
// engine's.
func ParseFinish(word string) Finish {
	for f, s := range finishNames {
		if s == word {
			return Finish(f)
		}
	}
	return FinishError
}

// eventFields lists what an Event may carry beside At, Kind and ID, in the order
// of print. A field at its zero value is not printed.
var eventFields = []struct {
	key  string
	num  func(*Event) *int
	flag func(*Event) *bool
	dur  func(*Event) *time.Duration
}{
	{key: "n", num: func(e *Event) *int { return &e.N }},
	{key: "total", num: func(e *Event) *int { return &e.Total }},
	{key: "epoch", num: func(e *Event) *int { return &e.Epoch }},
	{key: "priority", num: func(e *Event) *int { return &e.Request.Priority }},
	{key: "explicit", flag: func(e *Event) *bool { return &e.Request.Explicit }},
	{key: "prompt", num: func(e *Event) *int { return &e.Request.Prompt }},
	{key: "unread", num: func(e *Event) *int { return &e.Request.Unread }},
	{key: "max", num: func(e *Event) *int { return &e.Request.MaxNew }},
	{key: "oneshot", flag: func(e *Event) *bool { return &e.Request.OneShot }},
	{key: "protected", flag: func(e *Event) *bool { return &e.Request.Protected }},
	{key: "prefill", flag: func(e *Event) *bool { return &e.Request.PrefillOnly }},
	{key: "image", flag: func(e *Event) *bool { return &e.Request.Image }},
	{key: "generated", num: func(e *Event) *int { return &e.Stats.Generated }},
	{key: "sprompt", num: func(e *Event) *int { return &e.Stats.Prompt }},
	{key: "sread", num: func(e *Event) *int { return &e.Stats.Read }},
	{key: "sreused", num: func(e *Event) *int { return &e.Stats.Reused }},
	{key: "sprompt_time", dur: func(e *Event) *time.Duration { return &e.Stats.PromptTime }},
	{key: "sdecode_time", dur: func(e *Event) *time.Duration { return &e.Stats.DecodeTime }},
	{key: "resume_prefill", flag: func(e *Event) *bool { return &e.Engine.ResumePrefill }},
	{key: "prefill_chunk", num: func(e *Event) *int { return &e.Engine.PrefillChunk }},
	{key: "sequences", num: func(e *Event) *int { return &e.Engine.Sequences }},
	{key: "cache_mib", num: func(e *Event) *int { return &e.Engine.CacheMiB }},
	{key: "emulated", flag: func(e *Event) *bool { return &e.Engine.Emulated }},
}

// AppendText appends the event as one line without its end:
// "<at> <kind> [<id>] [key=value|flag] …".
func (e Event) AppendText(dst []byte) []byte {
	dst = append(dst, e.At.String()...)
	dst = append(dst, ' ')
	dst = append(dst, e.Kind.String()...)
	if e.ID != 0 {
		dst = append(dst, ' ')
		dst = strconv.AppendUint(dst, uint64(e.ID), 10)
	}
	if e.Finish != FinishNone {
		dst = append(append(dst, " finish="...), e.Finish.String()...)
	}
	for _, f := range eventFields {
		switch {
		case f.num != nil && *f.num(&e) != 0:
			dst = append(append(append(dst, ' '), f.key...), '=')
			dst = strconv.AppendInt(dst, int64(*f.num(&e)), 10)
		case f.flag != nil && *f.flag(&e):
			dst = append(append(dst, ' '), f.key...)
		case f.dur != nil && *f.dur(&e) != 0:
			dst = append(append(append(dst, ' '), f.key...), '=')
			dst = append(dst, f.dur(&e).String()...)
		}
	}
	return dst
}

// ParseEvent reads a line of AppendText. The error names the word at fault.
func ParseEvent(line string) (Event, error) {
	var e Event
	words := strings.Fields(line)
	if len(words) < 2 {
		return e, fmt.Errorf("event %q: want a time and a kind", line)
	}
	at, err := time.ParseDuration(words[0])
	if err != nil {
		return e, fmt.Errorf("event %q: time: %w", line, err)
	}
	e.At = at
	for k, s := range eventNames {
		if s != "" && s == words[1] {
			e.Kind = EventKind(k)
		}
	}
	if e.Kind == 0 {
		return e, fmt.Errorf("event %q: unknown kind %q", line, words[1])
	}
	for i, w := range words[2:] {
		if err := e.parseWord(w, i == 0); err != nil {
			return e, fmt.Errorf("event %q: %w", line, err)
		}
	}
	return e, nil
}

func (e *Event) parseWord(w string, first bool) error {
	key, value, eq := strings.Cut(w, "=")
	if id, err := strconv.ParseUint(key, 10, 64); first && !eq && err == nil {
		e.ID = ID(id)
		return nil
	}
	if key == "finish" {
		e.Finish = ParseFinish(value)
		if e.Finish.String() != value || value == "" {
			return fmt.Errorf("unknown finish %q", value)
		}
		return nil
	}
	for _, f := range eventFields {
		if f.key != key {
			continue
		}
		var err error
		switch {
		case f.flag != nil && !eq:
			*f.flag(e) = true
		case f.num != nil && eq:
			*f.num(e), err = strconv.Atoi(value)
		case f.dur != nil && eq:
			*f.dur(e), err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("%q needs a value, or takes none", key)
		}
		return err
	}
	return fmt.Errorf("unknown field %q", key)
}

// AppendText appends the action as one line without its end.
func (a Action) AppendText(dst []byte) []byte {
	dst = append(dst, a.Kind.String()...)
	if a.ID != 0 {
		dst = append(dst, ' ')
		dst = strconv.AppendUint(dst, uint64(a.ID), 10)
	}
	if a.State != StateNone {
		dst = append(append(dst, ' '), a.State.String()...)
	}
	if a.Reason != ReasonNone {
		dst = append(append(dst, ' '), a.Reason.String()...)
	}
	if a.Resume {
		dst = append(dst, " resume"...)
	}
	if a.Upto != 0 {
		dst = strconv.AppendInt(append(dst, " upto="...), int64(a.Upto), 10)
	}
	if a.NoCheckpoint {
		dst = append(dst, " ckpt=0"...)
	}
	if a.N != 0 {
		dst = strconv.AppendInt(append(dst, " n="...), int64(a.N), 10)
	}
	if a.At != 0 {
		dst = append(append(dst, " at="...), a.At.String()...)
	}
	if a.Cost != 0 {
		dst = append(append(dst, " cost="...), a.Cost.String()...)
	}
	return dst
}
