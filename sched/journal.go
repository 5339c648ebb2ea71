package sched

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// A journal is a text file: a header with the configuration, then each event and,
// behind a tab, each action that it caused. A line "truncated" says that the
// writer could not keep up; what follows it does not follow from what stands
// before it.
const (
	journalHeader    = "interlude journal 1 "
	journalTruncated = "truncated"
)

// AppendJournalHeader appends the first line of a journal.
func AppendJournalHeader(dst []byte, c Config) ([]byte, error) {
	j, err := json.Marshal(c)
	if err != nil {
		return dst, fmt.Errorf("write the journal's header: %w", err)
	}
	dst = append(dst, journalHeader...)
	return append(append(dst, j...), '\n'), nil
}

// AppendJournal appends one Step: its event and what it caused.
func AppendJournal(dst []byte, e Event, actions []Action) []byte {
	dst = append(e.AppendText(dst), '\n')
	for _, a := range actions {
		dst = append(a.AppendText(append(dst, '\t')), '\n')
	}
	return dst
}

// AppendJournalTruncated appends the mark of a journal that lost lines.
func AppendJournalTruncated(dst []byte) []byte {
	return append(append(dst, journalTruncated...), '\n')
}

// Replayed is what a fresh machine made of a journal.
type Replayed struct {
	Config    Config
	Events    int
	Actions   int
	Truncated bool     // marked so, or its last line is cut: nothing is claimed beyond
	Mismatch  string   // the first difference, "" none
	Counters  Counters // of the fresh machine
}

// Replay feeds a journal's events to a fresh machine and compares its actions
// with the recorded ones. visit, if not nil, sees each event with the actions of
// the fresh machine. The error is for what is no journal; a difference is a
// Mismatch.
func Replay(r io.Reader, visit func(Event, []Action)) (Replayed, error) {
	var rep Replayed
	in := bufio.NewReader(r)
	header, err := in.ReadBytes('\n')
	if err != nil || !bytes.HasPrefix(header, []byte(journalHeader)) {
		return rep, fmt.Errorf("replay a journal: no header %q", journalHeader)
	}
	if err := json.Unmarshal(header[len(journalHeader):], &rep.Config); err != nil {
		return rep, fmt.Errorf("replay a journal: header: %w", err)
	}
	if errs := rep.Config.Validate(); len(errs) > 0 {
		return rep, fmt.Errorf("replay a journal: header: %w", errs[0])
	}
	m := New(rep.Config)
	var want []Action // not yet seen in the journal
	var actions []Action
	var text []byte
	for n := 2; ; n++ {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			rep.Truncated = rep.Truncated || len(line) > 0
			break
		}
		if err != nil {
			return rep, fmt.Errorf("replay a journal: line %d: %w", n, err)
		}
		line = line[:len(line)-1]
		if string(line) == journalTruncated {
			rep.Truncated = true
			break
		}
		if len(line) > 0 && line[0] == '\t' {
			rep.Actions++
			if len(want) == 0 {
				rep.Mismatch = fmt.Sprintf("line %d: recorded %q, the machine does nothing more", n, line[1:])
				break
			}
			if text = want[0].AppendText(text[:0]); !bytes.Equal(text, line[1:]) {
				rep.Mismatch = fmt.Sprintf("line %d: recorded %q, the machine does %q", n, line[1:], text)
				break
			}
			want = want[1:]
			continue
		}
		if len(want) > 0 {
			break
		}
		e, err := ParseEvent(string(line))
		if err != nil {
			return rep, fmt.Errorf("replay a journal: line %d: %w", n, err)
		}
		rep.Events++
		actions = m.Step(e, actions[:0])
		if visit != nil {
			visit(e, actions)
		}
		want = actions
	}
	if len(want) > 0 && rep.Mismatch == "" && !rep.Truncated {
		rep.Mismatch = fmt.Sprintf("after event %d: the machine also does %q", rep.Events, want[0].AppendText(nil))
	}
	rep.Counters = m.Counters()
	return rep, nil
}
