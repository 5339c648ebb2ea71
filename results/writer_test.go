package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"
)

func newWriter(t *testing.T) *Writer {
	t.Helper()
	w, err := Create(filepath.Join(t.TempDir(), "runs", "r"), []byte("{\"plan\": 1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sample(i int) *Record {
	yes := true
	zero := 0
	return &Record{ID: fmt.Sprintf("1/A%d", i), Request: fmt.Sprintf("A%d", i), Slot: 1, Pair: 1, Arm: "off", Class: "long", Stream: true, Due: 5, Sent: 6,
		Reused: &yes, FirstToken: 9, LastToken: 12, End: 13, Chunks: []Chunk{{9, 4}, {12, 7}}, Outcome: Completed, Text: "größe 🌍 <b> \u2028",
		Usage: &Usage{Prompt: 3, Completion: 4, Total: 7, Cached: &zero}, Tools: []ToolCall{{Index: &zero, ID: "c", Name: "t", Arguments: `{"a":1}`}},
		Timings: Timings{"prompt_ms": 1.5}}
}

// write makes a finished run of n records.
func write(t *testing.T, w *Writer, n int) {
	t.Helper()
	must(t, w.SetRun(&Run{ID: "r", Kind: "ab", Status: "started", PlanHash: HashLine([]byte("{\"plan\": 1}\n"))}))
	for i := range n {
		must(t, w.Record(sample(i)))
		must(t, w.Event(Event{Kind: "server_start", Text: "x"}))
		must(t, w.Sample(Sample{At: Stamp(i + 1), Slot: 1, Metrics: map[string]float64{"a": 1}}))
	}
}

func TestWriteAndRead(t *testing.T) {
	w := newWriter(t)
	write(t, w, 3)
	must(t, w.SetRun(&Run{ID: "r", Kind: "ab", Status: "complete"}))
	d, err := Open(os.DirFS(w.Dir()))
	must(t, err)
	if len(d.Records) != 3 || len(d.Events) != 3 || len(d.Samples) != 3 || d.Run.Records != 3 || d.Run.Chain != d.Chain || d.Run.Schema != Schema {
		t.Fatalf("%d records, %d events, %d samples, run %+v", len(d.Records), len(d.Events), len(d.Samples), d.Run)
	}
	want := sample(1)
	want.Schema, want.Prev = Schema, d.Records[1].Prev
	if !reflect.DeepEqual(*want, d.Records[1]) {
		t.Errorf("read  %+v\nwrote %+v", d.Records[1], *want)
	}
	raw, err := os.ReadFile(filepath.Join(w.Dir(), RecordsFile))
	must(t, err)
	prev := d.PlanHash
	for i, line := range strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n") {
		if d.Records[i].Prev != prev {
			t.Errorf("record %d is linked to %s, the line before it has %s", i, d.Records[i].Prev, prev)
		}
		prev = HashLine([]byte(line))
	}
	if prev != d.Chain {
		t.Errorf("chain ends with %s, read %s", prev, d.Chain)
	}
	if strings.Contains(string(raw), `\u003c`) || strings.Contains(string(raw), "\r") {
		t.Error("the lines hold HTML escapes or CR")
	}
	for _, dm := range d.Damage {
		if dm.File != AttemptsFile {
			t.Errorf("damage: %v", dm)
		}
	}
}

// TestH124KilledAtAnyByte cuts records.jsonl at every byte: each whole line is
// read, a half one is reported, and the run can be continued after it.
func TestH124KilledAtAnyByte(t *testing.T) {
	w := newWriter(t)
	write(t, w, 3)
	must(t, w.Close())
	whole, err := os.ReadFile(filepath.Join(w.Dir(), RecordsFile))
	must(t, err)
	for cut := 0; cut <= len(whole); cut += 7 {
		must(t, os.WriteFile(filepath.Join(w.Dir(), RecordsFile), whole[:cut], 0o644))
		lines := strings.Count(string(whole[:cut]), "\n")
		half := cut > 0 && whole[cut-1] != '\n'
		d, err := Open(os.DirFS(w.Dir()))
		must(t, err)
		found := false
		for _, dm := range d.Damage {
			found = found || dm.Kind == HalfLine && dm.File == RecordsFile && dm.Line == lines+1
		}
		if len(d.Records) != lines || found != half {
			t.Fatalf("cut at %d: %d records of %d lines, half line reported %v, is %v", cut, len(d.Records), lines, found, half)
		}
	}
	must(t, os.WriteFile(filepath.Join(w.Dir(), RecordsFile), whole[:len(whole)-5], 0o644))
	again, data, err := Resume(w.Dir(), []byte("{\"plan\": 1}\n"))
	must(t, err)
	if len(data.Records) != 2 {
		t.Fatalf("%d records before the resume", len(data.Records))
	}
	must(t, again.Record(sample(9)))
	must(t, again.SetRun(&Run{Status: "complete"}))
	must(t, again.Close())
	d, err := Open(os.DirFS(w.Dir()))
	must(t, err)
	if len(d.Records) != 3 || d.Records[2].Request != "A9" || d.Records[2].Prev != data.Chain || d.Run.Records != 3 {
		t.Errorf("after the resume: %d records, the last %s linked to %s", len(d.Records), d.Records[2].Request, d.Records[2].Prev)
	}
}

func TestH128ResumeRefusesAnotherPlan(t *testing.T) {
	w := newWriter(t)
	write(t, w, 1)
	must(t, w.Close())
	if _, _, err := Resume(w.Dir(), []byte("{\"plan\": 2}\n")); !errors.Is(err, ErrOtherPlan) {
		t.Errorf("error %v", err)
	}
	must(t, os.WriteFile(filepath.Join(w.Dir(), RecordsFile), []byte("{\"schema\":1}\nnot json\n{}\n"), 0o644))
	if _, _, err := Resume(w.Dir(), []byte("{\"plan\": 1}\n")); err == nil || !strings.Contains(err.Error(), "records.jsonl line 2") {
		t.Errorf("a damaged line inside: %v", err)
	}
}

func TestCreateRefusesWhatExists(t *testing.T) {
	w := newWriter(t)
	if _, err := Create(w.Dir(), nil); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("error %v", err)
	}
}

// A file that somebody reads is replaced as soon as they have done.
func TestWriteFileBesideAReader(t *testing.T) {
	dir := t.TempDir()
	if err := WriteFile(dir, "run.json", []byte("old")); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(filepath.Join(dir, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { reader.Close() })
	if err := WriteFile(dir, "run.json", []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "run.json")); err != nil || string(got) != "new" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestDiskFullIsNamed(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil || runtime.GOOS == "windows" { // Wine shows that of the system below
		t.Skip("no /dev/full here")
	}
	w := newWriter(t)
	write(t, w, 1)
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must(t, err)
	real := w.files[EventsFile]
	w.files[EventsFile] = f
	err = w.Event(Event{Kind: "cancel"})
	w.files[EventsFile] = real
	f.Close()
	if !errors.Is(err, ErrDiskFull) || !strings.Contains(err.Error(), EventsFile) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v", err)
	}
	must(t, w.Event(Event{Kind: "cancel"}))
}

func TestH76NoNaNReachesAFile(t *testing.T) {
	w := newWriter(t)
	write(t, w, 0)
	r := sample(0)
	r.Timings = Timings{"prompt_ms": math.NaN(), "predicted_ms": 3}
	must(t, w.Record(r))
	must(t, w.Sample(Sample{At: 1, Metrics: map[string]float64{"up": 1, "rate": math.Inf(1)}}))
	if err := w.WriteJSON(SummaryFile, map[string]float64{"x": math.NaN()}); err == nil {
		t.Error("NaN in a summary is no error")
	}
	if _, err := os.Stat(filepath.Join(w.Dir(), SummaryFile)); err == nil {
		t.Error("a refused file is there")
	}
	d, err := Open(os.DirFS(w.Dir()))
	must(t, err)
	if f := d.Records[0].Faults; len(f) != 1 || f[0] != "timing_not_finite:prompt_ms" || len(d.Records[0].Timings) != 1 {
		t.Errorf("faults %v, timings %v", f, d.Records[0].Timings)
	}
	if s := d.Samples[0]; len(s.Metrics) != 1 || !strings.Contains(s.Error, "rate") {
		t.Errorf("sample %+v", s)
	}
}

// TestWholeFilesAreReplaced: nothing but the new file is left behind.
func TestWholeFilesAreReplaced(t *testing.T) {
	w := newWriter(t)
	write(t, w, 0)
	for i := range 3 {
		must(t, w.WriteJSON(SummaryFile, map[string]int{"n": i}))
	}
	entries, err := os.ReadDir(w.Dir())
	must(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".new") {
			t.Errorf("%s is left behind", e.Name())
		}
	}
	raw, err := os.ReadFile(filepath.Join(w.Dir(), SummaryFile))
	must(t, err)
	if string(raw) != "{\n  \"n\": 2\n}\n" {
		t.Errorf("%q", raw)
	}
}

func TestWriterTakesManyGoroutines(t *testing.T) {
	w := newWriter(t)
	write(t, w, 0)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 50 {
				if err := w.Record(sample(i*50 + k)); err != nil {
					t.Error(err)
				}
				if err := w.Sample(Sample{At: 1}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	d, err := Open(os.DirFS(w.Dir()))
	must(t, err)
	prev := d.PlanHash
	if len(d.Records) != 400 {
		t.Fatalf("%d records", len(d.Records))
	}
	for _, r := range d.Records {
		if r.Prev != prev {
			t.Fatal("the chain is broken")
		}
		line, err := encode(r)
		must(t, err)
		prev = HashLine(line)
	}
}

func TestOpenNamesWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(os.DirFS(dir)); err == nil || !strings.Contains(err.Error(), "is this a run directory?") {
		t.Errorf("empty: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, PlanFile), []byte("{}"), 0o644))
	if _, err := Open(os.DirFS(dir)); err == nil || !strings.Contains(err.Error(), RunFile) {
		t.Errorf("no run.json: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, RunFile), []byte(`{"schema": 99}`), 0o644))
	if _, err := Open(os.DirFS(dir)); err == nil || !strings.Contains(err.Error(), "schema 99") {
		t.Errorf("newer schema: %v", err)
	}
}

func TestRunName(t *testing.T) {
	at := time.Date(2026, 11, 29, 17, 4, 5, 0, time.FixedZone("x", 3600))
	if got := RunName(at, "paired-short"); got != "20261129-160405Z-paired-short" {
		t.Error(got)
	}
}

func TestAppendNote(t *testing.T) {
	w := newWriter(t)
	write(t, w, 1)
	must(t, w.Close())
	at := time.Date(2026, 11, 29, 17, 4, 5, 6e6, time.UTC)
	must(t, AppendNote(w.Dir(), "the fan was loud", at))
	d, err := Open(os.DirFS(w.Dir()))
	must(t, err)
	if e := d.Events[1]; e.Kind != "disclosure" || e.Text != "the fan was loud" || e.Time != "2026-11-29T17:04:05.006Z" {
		t.Errorf("%+v", e)
	}
	if err := AppendNote(t.TempDir(), "x", at); err == nil {
		t.Error("a note to no run")
	}
}

func TestChunkIsAPair(t *testing.T) {
	b, err := json.Marshal([]Chunk{{5, 3}})
	must(t, err)
	if string(b) != "[[5,3]]" {
		t.Errorf("%s", b)
	}
	var c Chunk
	if err := json.Unmarshal([]byte(`{"at":1}`), &c); err == nil {
		t.Error("an object is no chunk")
	}
}

// FuzzOpen: whatever stands in the files, each whole line is a record or named as
// damage, and nothing panics.
func FuzzOpen(f *testing.F) {
	f.Add([]byte("{\"id\":\"1/A1\",\"chunks\":[[5,3]]}\n{\"id\":"))
	f.Add([]byte("null\n[]\n{}\n"))
	f.Add([]byte("\n\n\xff\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		fsys := fstest.MapFS{PlanFile: {Data: []byte("{}")}, RunFile: {Data: []byte(`{"schema":1}`)},
			RecordsFile: {Data: data}, EventsFile: {}, SamplesFile: {}, AttemptsFile: {}}
		d, err := Open(fsys)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Count(string(data), "\n")
		if len(data) > 0 && data[len(data)-1] != '\n' {
			lines++
		}
		if len(d.Records)+len(d.Damage) != lines {
			t.Fatalf("%d lines, %d records, damage %v", lines, len(d.Records), d.Damage)
		}
	})
}
