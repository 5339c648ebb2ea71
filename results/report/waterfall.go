package report

import (
	"fmt"

	"interlude/audit"
	"interlude/results"
)

// waterfall says where a probe's time to first token went.
func (s *source) waterfall(p *page) {
	p.heading(2, "Where a probe's time went")
	var rows [][]string
	rests := 0
	for _, arm := range s.arms() {
		parts := map[string][]float64{}
		n := 0
		s.each(arm, func(r *results.Record) {
			if r.Class != "probe" {
				return
			}
			f, ok := audit.Fall(r)
			if !ok {
				return
			}
			n++
			for _, part := range f.Parts {
				parts[part.Name] = append(parts[part.Name], part.Seconds)
			}
			if f.Rest > audit.UnexplainedLimit {
				rests++
			}
		})
		if n == 0 {
			continue
		}
		row := []string{arm, fmt.Sprint(n)}
		for _, name := range audit.FallNames() {
			row = append(row, secs(nearestRank(parts[name], 0.5)))
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		p.para("No completed probe carries the timings that this table needs.")
		return
	}
	p.para("Medians over the probes of each arm. Lateness is the harness's own; the wait for the holder ends when the server says it reads (it holds STOP → DONE); park, restore and own read is the engine's prompt time; the first window is one median gap of the probe's own stream. What is left over is unexplained.")
	p.table(false, append([]string{"arm", "n"}, audit.FallNames()...), rows)
	if rests > 0 {
		p.para("**%d probes have an unexplained rest of more than %.0f ms**; the audit lists them.", rests, 1000*audit.UnexplainedLimit)
	}
}
