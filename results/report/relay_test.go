package report_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlude/audit/audittest"
	"interlude/results"
)

// TestTheRelayIsTold: a page says that the relay stood between, by what each cell was
// struck and who died; one without it says nothing of a relay.
func TestTheRelayIsTold(t *testing.T) {
	yes, told := true, 0.03
	cell := func(how, when, by string) results.Cell {
		return results.Cell{How: how, When: when, API: "chat", By: by, Told: &told, Pass: &yes}
	}
	for _, c := range []struct {
		cells []results.Cell
		want  []string
		never []string
	}{
		{[]results.Cell{cell("kill", "decode", ""), cell("half", "read", "")}, nil, []string{"relay", "| by"}},
		{[]results.Cell{cell("kill", "decode", "signal"), cell("kill", "drain", "relay"), cell("half", "read", "relay"), {How: "close", When: "read", API: "chat", By: "relay", NotRun: "x"}},
			[]string{"In 1 cell the signal went to the engine itself", "In 2 cells the relay played the strike: half ended the relay", "kill sent the signal to the engine itself while the relay held its line back", "One in a drain", "| kill  | relay  | drain", "fails from within"},
			[]string{"close closed", "silence froze", "abort", "INFO, near"}},
		{[]results.Cell{cell("kill", "decode", "signal")}, []string{"In 1 cell the signal went to the engine itself"}, []string{"played", "fails from within"}},
	} {
		dir := judged(t, audittest.Options{Kind: "inject"}, nil)
		data, err := os.ReadFile(filepath.Join(dir, results.SummaryFile))
		if err != nil {
			t.Fatal(err)
		}
		var s results.Summary
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatal(err)
		}
		s.Cells = c.cells
		if err := results.WriteJSON(dir, results.SummaryFile, s); err != nil {
			t.Fatal(err)
		}
		_, page := render(t, dir)
		for _, text := range c.want {
			if !strings.Contains(page, text) {
				t.Errorf("%v: %q is missing", c.cells, text)
			}
		}
		for _, text := range c.never {
			if strings.Contains(page, text) {
				t.Errorf("%v: %q stands on the page", c.cells, text)
			}
		}
	}
}
