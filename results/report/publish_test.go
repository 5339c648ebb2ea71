package report_test

import (
	"bytes"
	"encoding/base64"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlude/audit"
	"interlude/audit/audittest"
	"interlude/results"
	"interlude/results/report"
)

func TestPublish(t *testing.T) {
	dir := judged(t, audittest.Options{}, func(b *audittest.Build) {
		b.Events = append(b.Events, results.Event{Kind: "server_start", Text: "started on host buildbox-17 in /home/someone/x"})
		b.Logs[2] += "cwd /home/someone/x\n" + noise(8<<20)
		b.Logs[3] += "cwd /home/someone/x\n" + strings.Repeat("a line that nobody needs\n", 300_000)
	})
	files, _ := render(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "README.md"), files["README.md"], 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := report.Publish(os.DirFS(dir), []string{"buildbox-17", "/home/someone"}, "2026-11-30T00:00:00Z")
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for name, data := range out {
		total += len(data)
		if bytes.Contains(data, []byte("buildbox-17")) || bytes.Contains(data, []byte("/home/someone")) {
			t.Errorf("%s still names the machine", name)
		}
	}
	if total > 5<<20 {
		t.Errorf("%d bytes", total)
	}
	if out["slots/02/engine.log"] != nil || out["slots/02/engine.log.gz"] != nil || out["slots/01/engine.log"] == nil || out["slots/03/engine.log.gz"] == nil {
		t.Error("the one log that does not fit should be left out, a large one packed, the others kept")
	}
	copied := filepath.Join(t.TempDir(), "copy")
	for name, data := range out {
		path := filepath.Join(copied, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	long, err := fs.ReadFile(results.Dir(copied), "slots/03/engine.log")
	if err != nil || !bytes.Contains(long, []byte("a line that nobody needs")) || bytes.Contains(long, []byte("/home/someone")) {
		t.Errorf("the packed log: %d bytes, %v", len(long), err)
	}
	twice, err := report.Publish(results.Dir(copied), nil, "2026-11-30T00:00:00Z")
	if err != nil || !bytes.Equal(twice["slots/03/engine.log.gz"], out["slots/03/engine.log.gz"]) {
		t.Errorf("a copy of the copy differs: %v", err)
	}
	r, _, err := audittest.Judge(copied)
	if err != nil {
		t.Fatal(err)
	}
	if w := r.Worst(); w != "" && w != results.Note {
		t.Errorf("the copy is judged %s", w)
	}
	named := map[string]bool{}
	for _, f := range r.Findings {
		if f.Status == audit.NotRun {
			named[f.Check] = true
		}
	}
	if !named["trimmed_copy"] || !named["lost_prefix"] {
		t.Errorf("the audit of a trimmed copy does not say what became NotRun: %v", named)
	}
	if _, err := report.Publish(os.DirFS(dir), []string{"paired with"}, ""); err != nil {
		t.Errorf("a text that is nowhere cannot be in the way: %v", err)
	}
	if _, err := report.Publish(os.DirFS(dir), []string{`"class":"probe"`}, ""); err == nil {
		t.Error("a hidden text in the records is not refused")
	}
}

// A file that is large even when it is packed is packed once, and one that lies
// there both plain and packed travels once.
func TestPackedOnce(t *testing.T) {
	dir := judged(t, audittest.Options{}, nil)
	want := []byte(noise(2 << 20))
	small, err := results.Pack(want)
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{"README.md": []byte("# a page\n"), "journal.jsonl": want, "journal.jsonl.gz": small} {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := report.Publish(os.DirFS(dir), nil, "2026-11-30T00:00:00Z")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := results.Unpack(bytes.NewReader(out["journal.jsonl.gz"])); err != nil || !bytes.Equal(got, want) || out["journal.jsonl"] != nil {
		t.Errorf("the journal: %d bytes, %v", len(got), err)
	}
	for name := range out {
		if filepath.Ext(filepath.Base(name)) == ".gz" && filepath.Ext(name[:len(name)-3]) == ".gz" {
			t.Errorf("%s was packed twice", name)
		}
	}
	if bytes.Contains(out[results.EventsFile], []byte("journal.jsonl")) {
		t.Error("the journal is called left out")
	}
}

// noise is a text of n random bytes, which packing does not make much smaller.
func noise(n int) string {
	raw := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(raw)
	return base64.StdEncoding.EncodeToString(raw)
}
