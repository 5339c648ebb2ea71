package results

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPackedFilesAreRead: a file that is there packed alone is read under its own
// name; one that is there is read as it is; one that is broken is an error that
// names the packed file.
func TestPackedFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	want := []byte(strings.Repeat("{}\n", 10_000))
	small, err := Pack(want)
	if err != nil || len(small) >= len(want) {
		t.Fatalf("%d bytes packed as %d: %v", len(want), len(small), err)
	}
	for name, raw := range map[string][]byte{"a.jsonl.gz": small, "b.jsonl": []byte("plain"), "b.jsonl.gz": small, "c.jsonl.gz": small[:len(small)/2]} {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fsys := Dir(dir)
	if got, err := fs.ReadFile(fsys, "a.jsonl"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("packed: %d bytes, %v", len(got), err)
	}
	if info, err := fs.Stat(fsys, "a.jsonl"); err != nil || info.Size() != int64(len(want)) || info.Name() != "a.jsonl" {
		t.Errorf("packed: %v, %v", info, err)
	}
	if got, err := fs.ReadFile(fsys, "b.jsonl"); err != nil || string(got) != "plain" {
		t.Errorf("plain: %q, %v", got, err)
	}
	if _, err := fs.ReadFile(fsys, "c.jsonl"); err == nil || !strings.Contains(err.Error(), "c.jsonl.gz") {
		t.Errorf("broken: %v", err)
	}
	if _, err := fs.ReadFile(fsys, "d.jsonl"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

// TestStatUnpacksNothing: to ask for a packed file's size costs its last four bytes,
// and a file that is no packed one is an error only to those who read it.
func TestStatUnpacksNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "slots"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{"slots/a.jsonl.gz": []byte("no gzip at all\x2a\x00\x00\x00"), "b.jsonl.gz": []byte("no")} {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fsys := Dir(dir)
	if info, err := fs.Stat(fsys, "slots/a.jsonl"); err != nil || info.Size() != 42 || info.Name() != "a.jsonl" || info.IsDir() {
		t.Errorf("packed: %v, %v", info, err)
	}
	if _, err := fs.Stat(fsys, "b.jsonl"); err == nil || !strings.Contains(err.Error(), "b.jsonl.gz") {
		t.Errorf("too short for a length: %v", err)
	}
	if info, err := fs.Stat(fsys, "slots"); err != nil || !info.IsDir() {
		t.Errorf("a folder: %v, %v", info, err)
	}
	if _, err := fs.Stat(fsys, "c.jsonl"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

// TestResumeOfAPackedCopy: what a copy carries packed goes on where it ended; a new
// file beside it would hide it.
func TestResumeOfAPackedCopy(t *testing.T) {
	dir, plan := filepath.Join(t.TempDir(), "run"), []byte("{}")
	w, err := Create(dir, plan)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.WriteJSON(RunFile, Run{Schema: Schema, PlanHash: HashLine(plan)}), w.Sample(Sample{At: 1, Slot: 1}), w.Record(&Record{ID: "1/a"}), w.Close()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{SamplesFile, RecordsFile} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		small, err := Pack(raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(filepath.Join(dir, name+Packed), small, 0o644), os.Remove(filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
	}
	w, had, err := Resume(dir, plan)
	if err != nil {
		t.Fatal(err)
	}
	if len(had.Samples) != 1 || len(had.Records) != 1 {
		t.Errorf("%d samples and %d records were there", len(had.Samples), len(had.Records))
	}
	if err := errors.Join(w.Sample(Sample{At: 2, Slot: 1}), w.Record(&Record{ID: "1/b"}), w.Close()); err != nil {
		t.Fatal(err)
	}
	now, err := Open(Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	if len(now.Samples) != 2 || len(now.Records) != 2 || now.Records[1].Prev == now.PlanHash {
		t.Errorf("%d samples, %d records, %+v", len(now.Samples), len(now.Records), now.Damage)
	}
}

func FuzzUnpack(f *testing.F) {
	small, _ := Pack([]byte("x"))
	f.Add(small)
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := Unpack(bytes.NewReader(raw))
		if err != nil {
			return
		}
		if again, err := Pack(got); err != nil {
			t.Fatal(err)
		} else if back, err := Unpack(bytes.NewReader(again)); err != nil || !bytes.Equal(back, got) {
			t.Fatalf("%q packed and unpacked is %q: %v", got, back, err)
		}
	})
}
