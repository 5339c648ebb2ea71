package report

import (
	"fmt"
	"math"

	"interlude/audit"
	"interlude/results"
)

// waterfall says where a probe's time to first token went.
func (s *source) waterfall(p *page) error {
	falls, err := audit.Falls(s.fsys)
	if err != nil {
		return err
	}
	p.heading(2, "Where a probe's time went")
	names := []string{"lateness", "wait for the holder", "STOP → DONE", "park and restore", "own read", "first window", "unexplained"}
	var rows [][]string
	rests := 0
	for _, arm := range s.arms() {
		parts := make([][]float64, len(names))
		n := 0
		s.each(arm, func(r *results.Record) {
			w, ok := falls[r.ID]
			if !ok {
				return
			}
			n++
			for i, v := range []float64{w.Late, w.Wait, w.Stop, w.Park, w.Read, w.Window, w.Rest} {
				if !math.IsNaN(v) {
					parts[i] = append(parts[i], v)
				}
			}
			if math.Abs(w.Rest) > audit.UnexplainedLimit {
				rests++
			}
		})
		if n == 0 {
			continue
		}
		row := []string{arm, fmt.Sprint(n)}
		for _, values := range parts {
			row = append(row, secs(nearestRank(values, 0.5)))
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		p.para("No completed probe carries the timings that this table needs.")
		return nil
	}
	p.para("Medians over the probes of each arm. Lateness is the harness's own. STOP → DONE comes from the server's journal and park and restore from the engine's log; where one is not kept its part is `%s` and lies inside the wait or the read. The first window is one median gap of the probe's own stream. What is left over is unexplained.", dash)
	p.table(false, append([]string{"arm", "n"}, names...), rows)
	if rests > 0 {
		p.para("**%d probes have an unexplained rest of more than %.0f ms**; the checks below list them.", rests, 1000*audit.UnexplainedLimit)
	}
	return nil
}
