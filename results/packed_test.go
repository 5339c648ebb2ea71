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
