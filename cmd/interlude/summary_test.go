package main

import (
	"bytes"
	"strings"
	"testing"

	"interlude/results"
)

// A run of rows shows how many passed, and no table of arms that were not compared.
func TestRowsAreCounted(t *testing.T) {
	yes, no := true, false
	s := results.Summary{Kind: "lifecycle", Verdict: "BROKEN", Arms: map[string]*results.Arm{results.On: {Requests: results.Requests{Sent: 9}}},
		Cells: []results.Cell{{Pass: &yes}, {Pass: &yes}, {Pass: &no}, {NotRun: "no images"}}}
	var out bytes.Buffer
	printSummary(&out, s)
	if got := out.String(); !strings.Contains(got, "2 of 4 rows passed, 1 failed, 1 not run") || strings.Contains(got, "TTFT") {
		t.Error(got)
	}
}
