package audit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlude/audit"
	"interlude/audit/audittest"
	"interlude/results"
)

func TestStoredPagesMustFitTheRecords(t *testing.T) {
	dir, _, s := summarise(t, audittest.Options{}, nil)
	status := func(check string) string {
		for _, f := range audit.Stored(os.DirFS(dir), s) {
			if f.Check == check {
				return f.Status
			}
		}
		return "absent"
	}
	if a, b := status("stored_summary"), status("stored_page"); a != audit.NotRun || b != audit.NotRun {
		t.Errorf("nothing is stored, yet %s and %s", a, b)
	}
	if err := results.WriteJSON(dir, results.SummaryFile, s); err != nil {
		t.Fatal(err)
	}
	data, err := results.Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(dir, "README.md")
	if err := os.WriteFile(page, []byte("the last one hashes to `"+data.Chain+"`"), 0o644); err != nil {
		t.Fatal(err)
	}
	if a, b := status("stored_summary"), status("stored_page"); a != audit.Pass || b != audit.Pass {
		t.Errorf("what fits is judged %s and %s", a, b)
	}
	raw, err := os.ReadFile(filepath.Join(dir, results.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(raw), `"planned": 24`, `"planned": 25`, 1)
	if err := os.WriteFile(filepath.Join(dir, results.SummaryFile), []byte(edited), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(page, []byte(strings.Repeat("0", 64)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, f := range audit.Stored(os.DirFS(dir), s) {
		if f.Status != audit.Fail || f.Weight != results.Invalid {
			t.Errorf("%s: %s %s", f.Check, f.Status, f.Text)
		}
		if f.Check == "stored_summary" && !strings.Contains(f.Text, "arms.off.requests.planned is 25, recomputed 24") && !strings.Contains(f.Text, "arms.on.requests.planned is 25, recomputed 24") {
			t.Errorf("the edited key is not named: %s", f.Text)
		}
	}
}

// TestStoredSlopesWithoutSamples: a copy that left its samples out is not accused of
// slopes that nobody can compute again.
func TestStoredSlopesWithoutSamples(t *testing.T) {
	dir, _, s := summarise(t, audittest.Options{}, nil)
	stored, steep := s, 1e6
	stored.Slopes = map[string]results.Slope{"engine_rss_bytes": {PerHour: &steep}}
	if err := results.WriteJSON(dir, results.SummaryFile, stored); err != nil {
		t.Fatal(err)
	}
	status := func() string {
		for _, f := range audit.Stored(os.DirFS(dir), s) {
			if f.Check == "stored_summary" {
				return f.Status
			}
		}
		return ""
	}
	if status() != audit.Fail {
		t.Error("a slope that the samples do not give is believed")
	}
	if err := os.Remove(filepath.Join(dir, results.SamplesFile)); err != nil {
		t.Fatal(err)
	}
	if got := status(); got != audit.NotRun {
		t.Errorf("of a copy without samples: %q, want that it did not run", got)
	}
}

// Records that were taken away are the ledger's fault and not the server's, which
// counted right.
func TestDeletedRecordsBreakNoServer(t *testing.T) {
	for name, change := range map[string]func(lines []string) []string{
		"deleted":     func(l []string) []string { return append(l[:len(l)-4:len(l)-4], l[len(l)-3:]...) },
		"half a line": func(l []string) []string { l[len(l)-1] = l[len(l)-1][:40]; return l },
	} {
		r := fabricate(t, audittest.Options{}, nil, func(dir string) {
			path := filepath.Join(dir, results.RecordsFile)
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := change(strings.SplitAfter(strings.TrimSuffix(string(raw), "\n"), "\n"))
			if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644); err != nil {
				t.Fatal(err)
			}
		})
		if w := r.Worst(); w != results.Invalid || len(failed(r, "record_chain")) == 0 {
			t.Errorf("%s: judged %q:\n%s", name, w, dump(r))
		}
	}
}
