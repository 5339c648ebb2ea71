package audit_test

import (
	"fmt"
	"io/fs"
	"math"
	"path"
	"testing"

	"interlude/audit"
	"interlude/results"
	"interlude/sched"
)

// TestPausesAreThoseOfTheJournal holds the pauses that clients saw in published runs
// against what their servers wrote down: tool calls whose text was held back while
// they were parked, parks in a read, drained tokens that came with the comment.
func TestPausesAreThoseOfTheJournal(t *testing.T) {
	for _, run := range []string{"lifecycle-emulated", "paired-short-emulated", "L1-stop-only-emulated", "read-small-smollm2-cpu"} {
		fsys := results.Dir("../results/published/20261129-" + run)
		data, err := results.Open(fsys)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range data.Run.Slots {
			want := journalled(t, fsys, s.Slot)
			var recs []*results.Record
			for i := range data.Records {
				if data.Records[i].Slot == s.Slot {
					recs = append(recs, &data.Records[i])
				}
			}
			got := audit.StoodStill(recs)
			if math.IsNaN(got) != math.IsNaN(want) || math.Abs(got-want) > 0.02 {
				t.Errorf("%s, slot %d: %.3f s by its clients, %.3f s by its journal", run, s.Slot, got, want)
			}
		}
	}
}

// journalled is the longest pause by a journal: from the last token or progress of a
// read before a park to the first one after it.
func journalled(t *testing.T, fsys fs.FS, slot int) float64 {
	t.Helper()
	f, err := fsys.Open(path.Join("slots", fmt.Sprintf("%02d", slot), results.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	longest := math.NaN()
	last, open := map[sched.ID]float64{}, map[sched.ID]float64{}
	_, err = sched.Replay(f, func(e sched.Event, actions []sched.Action) {
		switch e.Kind {
		case sched.Reading, sched.FirstToken, sched.Tokens:
			if from := open[e.ID]; from > 0 {
				if v := e.At.Seconds() - from; !(v <= longest) {
					longest = v
				}
			}
			last[e.ID], open[e.ID] = e.At.Seconds(), 0
		}
		for _, a := range actions {
			if a.Kind == sched.Told && a.State == sched.StateParked {
				open[a.ID] = last[a.ID]
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return longest
}
