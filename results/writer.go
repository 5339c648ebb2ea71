package results

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Files of a run directory.
const (
	PlanFile       = "plan.json"
	RunFile        = "run.json"
	RecordsFile    = "records.jsonl"
	EventsFile     = "events.jsonl"
	SamplesFile    = "samples.jsonl"
	JournalFile    = "journal.jsonl" // of one server, in the folder of its slot
	EngineLogFile  = "engine.log"    // the same
	SummaryFile    = "summary.json"
	FindingsFile   = "findings.json"
	JudgementsFile = "judgements.json"
	AttemptsFile   = "attempts.jsonl"
)

var (
	// ErrExists says that the run directory is already there.
	ErrExists = errors.New("the run directory exists")
	// ErrDiskFull says that a write failed for lack of space; everything written before it is kept.
	ErrDiskFull = errors.New("the disk is full")
	// ErrOtherPlan says that a run cannot be resumed under another plan.
	ErrOtherPlan = errors.New("the run was made under another plan")
)

// Writer writes one run directory. Its methods may be called from any goroutine.
type Writer struct {
	dir string

	mu      sync.Mutex
	files   map[string]*os.File
	last    string // hash of the last record line, or of the plan
	records int
}

// RunName is the name of a run directory: UTC time to the second, then name.
func RunName(at time.Time, name string) string {
	return at.UTC().Format("20060102-150405") + "Z-" + name
}

// HashLine is the hex SHA-256 of a line without its line end, or of a whole file.
func HashLine(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// Create makes the directory dir, which must not exist, and writes the plan as
// its first file. The error is ErrExists or ErrDiskFull where it is one of them.
func Create(dir string, plan []byte) (*Writer, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, fmt.Errorf("create the run directory: %w", named(err))
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("create %s: %w: choose another --out, or continue it with --resume", dir, ErrExists)
		}
		return nil, fmt.Errorf("create the run directory: %w", named(err))
	}
	w := &Writer{dir: dir, last: HashLine(plan)}
	if err := w.WriteFile(PlanFile, plan); err != nil {
		return nil, err
	}
	return w, w.open()
}

// Resume opens a run directory to continue it. plan must be byte for byte the
// plan it was started with, else the error is ErrOtherPlan. Half-written last
// lines are cut off; data.Damage names them. A damaged line inside is an error. What
// a copy carries packed is unpacked first.
func Resume(dir string, plan []byte) (w *Writer, data *Data, err error) {
	have, err := os.ReadFile(filepath.Join(dir, PlanFile))
	if err != nil {
		return nil, nil, fmt.Errorf("resume %s: %w", dir, err)
	}
	if !bytes.Equal(have, plan) {
		return nil, nil, fmt.Errorf("resume %s: %w (hash %s, asked for %s): start a new run", dir, ErrOtherPlan, HashLine(have), HashLine(plan))
	}
	for _, name := range []string{RecordsFile, EventsFile, SamplesFile} {
		if err := unpackHere(dir, name); err != nil {
			return nil, nil, fmt.Errorf("resume %s: %w", dir, err)
		}
	}
	if data, err = Open(Dir(dir)); err != nil {
		return nil, nil, fmt.Errorf("resume %s: %w", dir, err)
	}
	if err := data.continuable(); err != nil {
		return nil, nil, fmt.Errorf("resume %s: %w; `interlude audit` tells more; start a new run", dir, err)
	}
	w = &Writer{dir: dir, last: data.Chain, records: len(data.Records)}
	for _, d := range data.Damage {
		if d.Kind == Missing {
			continue
		}
		if d.Kind != HalfLine {
			return nil, nil, fmt.Errorf("resume %s: %s: a run with this damage cannot be continued; start a new one", dir, d)
		}
		if err := os.Truncate(filepath.Join(dir, d.File), d.Offset); err != nil {
			return nil, nil, fmt.Errorf("resume %s: cut the half-written line of %s: %w", dir, d.File, err)
		}
	}
	return w, data, w.open()
}

// continuable refuses what would be INVALID however it went on: files that are not
// those that were written.
func (d *Data) continuable() error {
	if d.Run.PlanHash != d.PlanHash {
		return fmt.Errorf("plan.json hashes to %.12s, and run.json was begun under %.12s: one of them was edited", d.PlanHash, d.Run.PlanHash)
	}
	if d.broken != "" {
		return fmt.Errorf("the chain of records.jsonl breaks before %s: a record was edited, deleted or inserted", d.broken)
	}
	has := map[int]bool{}
	for _, r := range d.Records {
		has[r.Slot] = true
	}
	for _, s := range d.Run.Slots {
		if s.Complete && !has[s.Slot] {
			return fmt.Errorf("slot %d is complete in run.json and has no record in records.jsonl", s.Slot)
		}
	}
	return nil
}

func (w *Writer) open() error {
	w.files = map[string]*os.File{}
	for _, name := range []string{RecordsFile, EventsFile, SamplesFile} {
		f, err := os.OpenFile(filepath.Join(w.dir, name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return errors.Join(fmt.Errorf("open %s: %w", name, named(err)), w.Close())
		}
		w.files[name] = f
	}
	return nil
}

// Dir is the run directory.
func (w *Writer) Dir() string { return w.dir }

// Path is the place of a file of the run; its folder is made.
func (w *Writer) Path(elem ...string) (string, error) {
	p := filepath.Join(append([]string{w.dir}, elem...)...)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return "", fmt.Errorf("make the folder of %s: %w", filepath.Join(elem...), named(err))
	}
	return p, nil
}

// planHash is the hash of the plan, the first link of the chain.
func (w *Writer) planHash() (string, error) {
	plan, err := os.ReadFile(filepath.Join(w.dir, PlanFile))
	if err != nil {
		return "", fmt.Errorf("hash the plan: %w", err)
	}
	return HashLine(plan), nil
}

// SetRun replaces run.json. Once the status is no longer "started" it also keeps
// the number of records and the end of their chain.
func (w *Writer) SetRun(r *Run) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := *r
	out.Schema = Schema
	if out.Status != "started" {
		out.Records, out.Chain = w.records, w.last
	}
	return w.WriteJSON(RunFile, out)
}

// Record appends one request that ended and links it to the one before. r.Schema
// and r.Prev are set. Timings that are not finite are left out and named in Faults.
func (w *Writer) Record(r *Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Schema, r.Prev = Schema, w.last
	for _, name := range slices.Sorted(maps.Keys(r.Timings)) {
		if v := r.Timings[name]; math.IsNaN(v) || math.IsInf(v, 0) {
			delete(r.Timings, name)
			r.Faults = append(r.Faults, "timing_not_finite:"+name)
		}
	}
	line, err := encode(r)
	if err != nil {
		return fmt.Errorf("record %s: %w", r.ID, err)
	}
	if err := w.append(RecordsFile, line); err != nil {
		return fmt.Errorf("record %s: %w", r.ID, err)
	}
	w.last = HashLine(line)
	w.records++
	return nil
}

// Event appends something that happened to the run.
func (w *Writer) Event(e Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	line, err := encode(e)
	if err == nil {
		err = w.append(EventsFile, line)
	}
	if err != nil {
		return fmt.Errorf("event %s: %w", e.Kind, err)
	}
	return nil
}

// Sample appends one reading. Values that are not finite are left out and named
// in its Error.
func (w *Writer) Sample(s Sample) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := map[string]float64{}
	for _, name := range slices.Sorted(maps.Keys(s.Metrics)) {
		if v := s.Metrics[name]; math.IsNaN(v) || math.IsInf(v, 0) {
			s.Error = strings.TrimPrefix(s.Error+fmt.Sprintf("; %s is %v", name, v), "; ")
		} else {
			kept[name] = v
		}
	}
	s.Metrics = kept
	line, err := encode(s)
	if err == nil {
		err = w.append(SamplesFile, line)
	}
	if err != nil {
		return fmt.Errorf("sample: %w", err)
	}
	return nil
}

// append writes one line at once. When that fails half-way, what it left is cut
// off again, so that the next line starts clean.
func (w *Writer) append(name string, line []byte) error {
	f := w.files[name]
	if f == nil {
		return fmt.Errorf("append to %s: the writer is closed", name)
	}
	before, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("append to %s: %w", name, named(err))
	}
	if _, err = f.Write(append(line, '\n')); err != nil {
		return errors.Join(fmt.Errorf("append to %s: %w", name, named(err)), f.Truncate(before))
	}
	return nil
}

// flush makes what was appended survive a power cut.
func (w *Writer) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for name, f := range w.files {
		if err := f.Sync(); err != nil {
			errs = append(errs, fmt.Errorf("sync %s: %w", name, named(err)))
		}
	}
	return errors.Join(errs...)
}

// Close syncs and closes the files. A second call does nothing.
func (w *Writer) Close() error {
	err := w.flush()
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, f := range w.files {
		err = errors.Join(err, f.Close())
		delete(w.files, name)
	}
	return err
}

// WriteJSON replaces a whole file of the run by v, atomically.
func (w *Writer) WriteJSON(name string, v any) error { return WriteJSON(w.dir, name, v) }

// WriteFile replaces a whole file of the run, atomically.
func (w *Writer) WriteFile(name string, data []byte) error { return WriteFile(w.dir, name, data) }
