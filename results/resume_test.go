package results

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What would end INVALID however it went on is refused before an hour is measured for
// nothing.
func TestResumeRefusesEditedFiles(t *testing.T) {
	for name, c := range map[string]struct {
		file, old, new, want string
	}{
		"as it was":       {RecordsFile, "", "", ""},
		"edited plan":     {RunFile, HashLine([]byte("{}")), strings.Repeat("0", 64), "one of them was edited"},
		"edited record":   {RecordsFile, `"1/a"`, `"1/x"`, "breaks before 1/b"},
		"no record":       {RecordsFile, "all", "", "slot 1 is complete in run.json and has no record"},
		"half a record":   {RecordsFile, `"id":"1/c"`, "half", ""},
		"deleted in half": {RecordsFile, "first", "", "breaks before 1/b"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			dir, plan := filepath.Join(t.TempDir(), "run"), []byte("{}")
			w, err := Create(dir, plan)
			if err != nil {
				t.Fatal(err)
			}
			run := Run{Schema: Schema, PlanHash: HashLine(plan), Slots: []SlotInfo{{Slot: 1, Complete: true}}}
			err = w.WriteJSON(RunFile, run)
			for _, id := range []string{"1/a", "1/b", "1/c"} {
				err = errors.Join(err, w.Record(&Record{ID: id, Slot: 1}))
			}
			if err = errors.Join(err, w.Close()); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, c.file)
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			switch c.old {
			case "":
			case "all":
				raw = nil
			case "first":
				_, raw, _ = bytes.Cut(raw, []byte("\n"))
			default:
				if !bytes.Contains(raw, []byte(c.old)) {
					t.Fatalf("%s is not in %s", c.old, raw)
				}
				if c.new == "half" {
					raw = raw[:bytes.Index(raw, []byte(c.old))]
				} else {
					raw = bytes.Replace(raw, []byte(c.old), []byte(c.new), 1)
				}
			}
			if err := os.WriteFile(path, raw, 0o644); err != nil {
				t.Fatal(err)
			}
			w, _, err = Resume(dir, plan)
			switch {
			case err == nil && c.want == "":
				err = w.Close()
				if err != nil {
					t.Error(err)
				}
			case err == nil || c.want == "" || !strings.Contains(err.Error(), c.want):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
