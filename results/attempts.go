package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Phases of an attempt.
const (
	StartPhase = "start"
	EndPhase   = "end"
)

// lockAge is when a lock left by a killed process may be taken away.
const lockAge = 10 * time.Second

// Ledger is attempts.jsonl of a folder of runs: one line when a run starts, before
// any work, one when it ends. Starts are numbered from 1 for each manifest and
// target together, so that a gap shows a line taken away.
type Ledger struct{ path string }

// OpenLedger names the ledger of the folder that holds run directories.
func OpenLedger(runs string) *Ledger { return &Ledger{filepath.Join(runs, AttemptsFile)} }

// Start appends the start of a run and returns its number. The line is on the
// disk when Start returns.
func (l *Ledger) Start(a Attempt) (int, error) {
	a.Phase = StartPhase
	err := l.locked(func(list []Attempt) (*Attempt, error) {
		a.N = 1
		for _, b := range list {
			if b.Phase == StartPhase && b.Manifest == a.Manifest && b.Target == a.Target {
				a.N = max(a.N, b.N+1)
			}
		}
		return &a, nil
	})
	if err != nil {
		return 0, fmt.Errorf("write the start of %s into the ledger of attempts: %w; it is kept beside the runs of the folder that a run is started in: start it in one that can be written", a.Run, err)
	}
	return a.N, nil
}

// End appends how attempt a, as it was started, ended.
func (l *Ledger) End(a Attempt) error {
	a.Phase = EndPhase
	if err := l.locked(func([]Attempt) (*Attempt, error) { return &a, nil }); err != nil {
		return fmt.Errorf("write the end of %s into the ledger of attempts: %w", a.Run, err)
	}
	return nil
}

// Read returns all lines of one manifest and target, "" for any.
func (l *Ledger) Read(manifest, target string) ([]Attempt, error) {
	all, err := l.read()
	if err != nil {
		return nil, err
	}
	var list []Attempt
	for _, a := range all {
		if (manifest == "" || a.Manifest == manifest) && (target == "" || a.Target == target) {
			list = append(list, a)
		}
	}
	return list, nil
}

// CopyTo writes the lines of one manifest and target so far into a run directory.
func (l *Ledger) CopyTo(dir, manifest, target string) error {
	list, err := l.Read(manifest, target)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, a := range list {
		line, err := encode(a)
		if err != nil {
			return fmt.Errorf("copy the ledger of attempts: %w", err)
		}
		b.Write(append(line, '\n'))
	}
	return WriteFile(dir, AttemptsFile, b.Bytes())
}

func (l *Ledger) read() ([]Attempt, error) {
	raw, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the ledger of attempts: %w", err)
	}
	var list []Attempt
	for line := range bytes.Lines(raw) {
		var a Attempt
		if json.Unmarshal(line, &a) == nil { // a line cut by a kill stays in the file and counts for nothing
			list = append(list, a)
		}
	}
	return list, nil
}

// locked appends what f makes of the present lines while no other process does.
func (l *Ledger) locked(f func([]Attempt) (*Attempt, error)) error {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
		return named(err)
	}
	unlock, err := lock(l.path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	list, err := l.read()
	if err != nil {
		return err
	}
	a, err := f(list)
	if err != nil {
		return err
	}
	line, err := encode(a)
	if err != nil {
		return err
	}
	return appendLine(l.path, line)
}

// lock makes a file that must not exist, waiting up to lockAge for its owner; an
// older one was left by a killed process.
func lock(path string) (unlock func(), err error) {
	for range 2 * int(lockAge/(20*time.Millisecond)) {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o644)
		if err == nil {
			return func() { os.Remove(path) }, f.Close()
		}
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrPermission) {
			return nil, named(err)
		}
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > lockAge {
			os.Remove(path)
			continue
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, fmt.Errorf("%s stays locked: remove it if no other run is starting", path)
}

// appendLine appends one line to a file that any process may append to. A line
// half written before is closed first.
func appendLine(path string, line []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return named(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		last := []byte{0}
		if _, err := f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return named(err)
	}
	return named(f.Sync())
}

// AppendNote appends a dated disclosure to a finished run.
func AppendNote(dir, text string, at time.Time) error {
	if _, err := os.Stat(filepath.Join(dir, RunFile)); err != nil {
		return fmt.Errorf("note: %w: is this a run directory?", err)
	}
	line, err := encode(Event{Time: at.UTC().Format("2006-01-02T15:04:05.000Z07:00"), Kind: "disclosure", Text: text})
	if err == nil {
		err = unpackHere(dir, EventsFile)
	}
	if err == nil {
		err = appendLine(filepath.Join(dir, EventsFile), line)
	}
	if err != nil {
		return fmt.Errorf("note: %w", err)
	}
	return nil
}
