package report_test

import (
	"slices"
	"strings"
	"testing"

	"interlude/audit/audittest"
	"interlude/results"
	"interlude/workloads"
)

// A run with a control shows every arm in one table; one without shows none.
func TestControlsStandSideBySide(t *testing.T) {
	const title = "## Side by side"
	if _, page := render(t, judged(t, audittest.Options{}, nil)); strings.Contains(page, title) {
		t.Error("a run of two arms has a table of controls")
	}
	_, page := render(t, judged(t, audittest.Options{}, func(b *audittest.Build) {
		last := b.Run.Slots[len(b.Run.Slots)-1]
		last.Slot, last.Pair, last.Arm = last.Slot+1, 0, "np1"
		var more []results.Record
		for _, r := range b.Records {
			if r.Slot != 1 {
				continue
			}
			r.ID, r.Slot, r.Pair, r.Arm = strings.Replace(r.ID, "1/", "9/", 1), last.Slot, 0, "np1"
			more = append(more, r)
		}
		b.Run.Slots = append(b.Run.Slots, last)
		b.Records = append(b.Records, more...)
		b.Plan.Slots = append(slices.Clone(b.Plan.Slots), workloads.Slot{Slot: last.Slot, Arm: "np1"})
		b.Run.PlanHash = b.Plan.Hash()
		b.Samples = append(b.Samples, results.Sample{Slot: last.Slot, Procs: map[string]results.Proc{"server": {RSS: 300 << 20}, "engine": {RSS: 100 << 20}, "harness": {RSS: 1 << 40}}})
	}))
	_, table, found := strings.Cut(page, title)
	if !found {
		t.Fatal("no table")
	}
	for _, line := range strings.Split(table, "\n") {
		if strings.HasPrefix(strings.ReplaceAll(line, " ", ""), "|np1|1|") {
			if !strings.Contains(line, "400 MiB") {
				t.Errorf("the memory of the control's processes is missing: %s", line)
			}
			return
		}
	}
	t.Errorf("no row for the control in:\n%.800s", table)
}
