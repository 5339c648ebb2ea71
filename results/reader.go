package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// Kinds of damage of a run directory.
const (
	HalfLine = "half_line" // the last line has no end: the writer was killed
	BadLine  = "bad_line"  // a line inside is not what it should be
	Missing  = "missing"   // a file that every run has is not there
)

// Damage is something in a run directory that could not be read.
type Damage struct {
	File   string
	Line   int   // from 1
	Offset int64 // bytes from the start of the file to the start of the line
	Kind   string
	Text   string
}

func (d Damage) String() string {
	if d.Line == 0 {
		return fmt.Sprintf("%s: %s", d.File, d.Text)
	}
	return fmt.Sprintf("%s line %d: %s", d.File, d.Line, d.Text)
}

// Data is a run directory as read.
type Data struct {
	Plan     []byte // plan.json as it stands
	PlanHash string
	Run      Run
	Records  []Record
	Chain    string // hash of the last whole record line, or of the plan
	Events   []Event
	Samples  []Sample
	Attempts []Attempt // this and earlier starts with the same manifest and target
	Damage   []Damage

	broken string // id of the first record that does not carry the hash of what stands before it
}

// Open reads a run directory. Half-written last lines and unreadable lines are
// left out and listed in Damage; only a directory without a readable plan.json
// and run.json, or one of a newer schema, is an error.
func Open(fsys fs.FS) (*Data, error) {
	d := new(Data)
	var err error
	if d.Plan, err = fs.ReadFile(fsys, PlanFile); err != nil {
		return nil, fmt.Errorf("open the run: %w: is this a run directory?", err)
	}
	d.PlanHash = HashLine(d.Plan)
	d.Chain = d.PlanHash
	raw, err := fs.ReadFile(fsys, RunFile)
	if err != nil {
		return nil, fmt.Errorf("open the run: %w: the run ended before it started anything", err)
	}
	if err := json.Unmarshal(raw, &d.Run); err != nil {
		return nil, fmt.Errorf("open the run: %s: %w", RunFile, err)
	}
	if d.Run.Schema > Schema {
		return nil, fmt.Errorf("open the run: schema %d, this program knows %d: use a newer one", d.Run.Schema, Schema)
	}
	if d.Records, err = lines[Record](d, fsys, RecordsFile); err != nil {
		return nil, err
	}
	if d.Events, err = lines[Event](d, fsys, EventsFile); err != nil {
		return nil, err
	}
	if d.Samples, err = lines[Sample](d, fsys, SamplesFile); err != nil {
		return nil, err
	}
	d.Attempts, err = lines[Attempt](d, fsys, AttemptsFile)
	return d, err
}

// lines reads a file of one JSON value a line.
func lines[T any](d *Data, fsys fs.FS, name string) ([]T, error) {
	raw, err := fs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		d.Damage = append(d.Damage, Damage{File: name, Kind: Missing, Text: "is missing"})
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the run: %w", err)
	}
	var list []T
	offset, n := int64(0), 0
	for line := range bytes.Lines(raw) {
		n++
		start := offset
		offset += int64(len(line))
		text, whole := bytes.CutSuffix(line, []byte("\n"))
		if !whole {
			d.Damage = append(d.Damage, Damage{name, n, start, HalfLine, "the last line is half written and left out"})
			break
		}
		var v T
		if err := json.Unmarshal(text, &v); err != nil {
			d.Damage = append(d.Damage, Damage{name, n, start, BadLine, err.Error()})
			continue
		}
		list = append(list, v)
		if r, ok := any(&v).(*Record); ok {
			if r.Prev != d.Chain && d.broken == "" {
				d.broken = r.ID
			}
			d.Chain = HashLine(text)
		}
	}
	return list, nil
}
