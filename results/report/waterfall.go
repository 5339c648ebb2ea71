package report

import (
	"fmt"
	"math"
	"strings"

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
	return s.slow(p)
}

// slowLimit is the TTFT at ×1, in seconds, above which a probe with the flag on is
// explained by name.
const slowLimit = 8.0

// slow names what held the engine while a probe waited long although the flag was on.
func (s *source) slow(p *page) error {
	limit := slowLimit
	if s.run.Speed > 0 {
		limit /= s.run.Speed
	}
	list, err := audit.SlowProbes(s.fsys, limit)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, x := range list {
		if r := s.record(x.Record); r == nil || r.Arm != results.On {
			continue
		}
		held := strings.Join(x.Held, ", ")
		if held == "" {
			held = "no journal tells"
		}
		rows = append(rows, []string{mark(code(x.Record)), secs(x.Seconds), held})
	}
	if len(rows) > 0 {
		p.para("Every probe of arm on that waited more than %s, and what held the engine between its arrival and its start:", secs(limit))
		p.table(true, []string{"probe", "TTFT", "held by"}, rows)
	}
	return nil
}

func (s *source) record(id string) *results.Record {
	for i := range s.records {
		if s.records[i].ID == id {
			return &s.records[i]
		}
	}
	return nil
}
