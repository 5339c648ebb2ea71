package report

import (
	"fmt"
	"math"

	"interlude/results"
)

// beside puts every arm of a run with controls into one table: what a user would
// get from each of these servers for the same requests.
func (s *source) beside(p *page) {
	arms := s.arms()
	if !s.hasControl() {
		return
	}
	var rows [][]string
	for _, arm := range arms {
		a := s.arm(arm)
		var ttft, rate []float64
		s.each(arm, func(r *results.Record) {
			switch {
			case r.Planned != "":
			case r.Class == "probe":
				ttft = append(ttft, orInf(r.TTFT()))
			case r.Class == "long":
				rate = append(rate, streamRate(r))
			}
		})
		rows = append(rows, []string{arm, fmt.Sprint(a.Slots), fmt.Sprint(len(ttft)), secs(nearestRank(ttft, 0.5)), secs(nearestRank(ttft, 1)),
			number(nearestRank(rate, 0.5)), optNumber(a.OutputTokS, 1), optNumber(a.TotalTokS, 1), s.memory(arm)})
	}
	p.heading(2, "Side by side")
	p.para("The same requests at the same moments to each server, one fresh server a slot. Arms beside off and on are controls: they ran after the pairs, and enter no statistic; how they were started stands under *What was run*. The rate of the long answer runs from its first to its last token, waits and other requests' work included; memory is the largest sum over a server's processes.")
	p.table(false, []string{"arm", "slots", "short requests", "TTFT median", "TTFT max", "long answer, tok/s", "output tok/s in all", "with prompts", "memory"}, rows)
}

// streamRate is output tokens a second between the first and the last one; NaN
// for an answer without both.
func streamRate(r *results.Record) float64 {
	if r.Usage == nil || r.Usage.Completion < 2 || r.LastToken <= r.FirstToken {
		return math.NaN()
	}
	return float64(r.Usage.Completion-1) / (float64(r.LastToken-r.FirstToken) / 1e9)
}

func number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return dash
	}
	return fmt.Sprintf("%.1f", v)
}

// memory is the largest resident size of an arm's processes together.
func (s *source) memory(arm string) string {
	of := map[int]bool{}
	for _, slot := range s.run.Slots {
		of[slot.Slot] = slot.Arm == arm
	}
	var most uint64
	for _, sample := range s.data.Samples {
		if of[sample.Slot] {
			most = max(most, sample.Procs["server"].RSS+sample.Procs["engine"].RSS)
		}
	}
	if most == 0 {
		return dash
	}
	return fmt.Sprintf("%.0f MiB", float64(most)/(1<<20))
}
