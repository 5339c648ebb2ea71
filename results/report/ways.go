package report

import (
	"fmt"
	"math"
	"slices"

	"interlude/results"
)

// What the reference reports of its one native exit: structured errors on both APIs
// within toldReference, a new request loaded and succeeded in againReference.
const (
	toldReference  = 1.228  // s
	againReference = 23.621 // s
)

// cellsText is the cells of a run as counts.
func cellsText(cells []results.Cell) string {
	passed, failed, notRun := results.Tally(cells)
	text := fmt.Sprintf("%d of %d cells passed", passed, len(cells))
	if failed > 0 {
		text += fmt.Sprintf(", **%d failed**", failed)
	}
	if notRun > 0 {
		text += fmt.Sprintf(", %d could not run", notRun)
	}
	return text
}

// ways is one line a way of ending the engine: the worst over its moments and APIs,
// beside what the reference reports of its own.
func (s *source) ways(p *page) {
	if s.run.Kind != "inject" || len(s.summary.Cells) == 0 {
		return
	}
	var order []string
	by := map[string][]results.Cell{}
	for _, c := range s.summary.Cells {
		if by[c.How] == nil {
			order = append(order, c.How)
		}
		by[c.How] = append(by[c.How], c)
	}
	rows := make([][]string, 0, len(order)+1)
	for _, how := range order {
		cells := by[how]
		passed, failed, notRun := results.Tally(cells)
		hung, silent, orphans := 0, 0, 0
		for _, c := range cells {
			hung, silent, orphans = hung+c.Hung, silent+c.Silent, orphans+c.Orphans
		}
		rows = append(rows, []string{how, fmt.Sprint(passed), fmt.Sprint(failed), fmt.Sprint(notRun),
			worst(cells, func(c results.Cell) *float64 { return c.Told }), limitRange(cells), worst(cells, func(c results.Cell) *float64 { return c.ServedAgain }),
			fmt.Sprint(hung), fmt.Sprint(silent), fmt.Sprint(orphans)})
	}
	rows = append(rows, []string{"the reference's: native exit", dash, dash, dash, secs(toldReference), dash, secs(againReference), dash, dash, dash})
	moments := "every moment"
	if s.onlyAt() != "" {
		moments = "the moments that were run (" + s.onlyAt() + ")"
	}
	p.para("Each way of ending the engine, at its worst over %s and API:", moments)
	p.table(false, []string{"way", "passed", "failed", "not run", "told", "limit", "served again", "hung", "silent", "orphans"}, rows)
	text := "Told runs until the last client whose request the engine held knew by a structured error, served again until a new request had its answer, the load of the engine and the requests queued before it included. The last line is the reference's own, with a real model on an RTX 3090 under Windows 11: both its APIs answered with structured errors within 1.228 s, and a new request loaded the model and succeeded in 23.621 s."
	switch {
	case s.run.Speed > 1:
		text += fmt.Sprintf(" At ×%g the engine loads, reads and writes %g times as fast as the profile, so served again is no time that a user would wait, and is not to be held against the reference's; multiplied by %g it is at most what the same run would take at ×1. Told is the server's and the operating system's own work, which no speed divides; a silent engine is waited for as long as the column limit says.", s.run.Speed, s.run.Speed, s.run.Speed)
	case s.run.Emulated != "":
		text += " The load of our emulated engine takes what its profile says."
	}
	p.para("%s", text)
	if text := s.relayText(); text != "" {
		p.para("%s", text)
	}
}

// worst is the largest of the values that there are.
func worst(cells []results.Cell, of func(results.Cell) *float64) string {
	most := math.Inf(-1)
	for _, c := range cells {
		if v := of(c); v != nil {
			most = max(most, *v)
		}
	}
	return secs(most)
}

// limitRange is the least and the largest limit of told among the cells.
func limitRange(cells []results.Cell) string {
	var list []float64
	for _, c := range cells {
		if c.Limit != nil {
			list = append(list, *c.Limit)
		}
	}
	if len(list) == 0 {
		return dash
	}
	least, most := slices.Min(list), slices.Max(list)
	if least == most {
		return secs(most)
	}
	return secs(least) + " to " + secs(most)
}
