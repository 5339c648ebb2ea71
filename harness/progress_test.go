package harness

import (
	"testing"
	"time"

	"interlude/results"
)

// A line of the bar fits into the terminal, however narrow.
func TestBarFitsIntoTheTerminal(t *testing.T) {
	p := &progress{now: "slot 6/16, pair 3 on", ttft: ", probe TTFT 0.04 s"}
	for columns, want := range map[int]string{
		200: "slot 6/16, pair 3 on, probe TTFT 0.04 s, 1m0s left ",
		61:  "slot 6/16, pair 3 on, probe TTFT 0.04 s, 1m0s left ",
		60:  "slot 6/16, pair 3 on, 1m0s left ",
		42:  "slot 6/16, pair 3 on, 1m0s left ",
		40:  "1m0s left ",
	} {
		if got := p.fitting(time.Minute, columns); got != want {
			t.Errorf("%d columns: %q, want %q", columns, got, want)
		}
	}
}

// Requests that the plan ends early, or that a slot has no use for, do not look like
// failures.
func TestTallyTellsPlannedEnds(t *testing.T) {
	var y tally
	for _, rec := range []results.Record{
		{Outcome: results.Completed}, {Outcome: results.Cancelled, Planned: "cancel"}, {Outcome: results.NotSent, Planned: "lifecycle"}, {Outcome: results.StreamError},
	} {
		y.add(&rec)
	}
	if y.requests != 3 || y.completed != 1 || y.rest() != ", 1 ended as planned" {
		t.Errorf("%d of %d completed%s", y.completed, y.requests, y.rest())
	}
}
