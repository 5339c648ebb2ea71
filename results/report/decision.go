package report

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"interlude/results/stats"
)

// decision shows what the decision table saw: one row a metric.
func (s *source) decision(p *page) {
	if len(s.analysis.Metrics) == 0 {
		return
	}
	p.heading(2, "How the verdict came about")
	var rows [][]string
	add := func(role string, m *stats.Metric, call stats.Call, why string) {
		row := []string{m.Name, role, fmt.Sprint(len(m.Pairs)), dash, dash, dash, percent(m.Margin), band(m.Rig), dash, string(call), why}
		if m.Effect != nil {
			row[3] = signed(m.Effect.Theta) + " [" + signed(m.Effect.Low) + ", " + signed(m.Effect.High) + "], " + m.Effect.Method
			row[4] = signed(m.Effect.Order)
		}
		if m.HL != nil && m.Companion != nil {
			row[5] = signed(*m.HL) + " [" + signed(m.Companion.Low) + ", " + signed(m.Companion.High) + "]"
		}
		if m.Noise != nil {
			row[8] = percent(*m.Noise)
		}
		rows = append(rows, row)
	}
	if m := s.analysis.Metrics[s.plan.Primary]; m != nil {
		add("primary", m, m.Call, m.Why)
	}
	for _, name := range slices.Sorted(maps.Keys(s.plan.Guards)) {
		if m := s.analysis.Metrics[name]; m != nil {
			add("guard", m, m.GuardCall, m.GuardWhy)
		}
	}
	p.para("θ is the mean of ln(on/off) over the pairs, turned so that **more is better**: +0.69 is twice as good. A metric is EQUAL inside its margin, BETTER or WORSE when the whole interval lies on one side of 0, and neither while five times the client's own delay (rig), the A/A noise, or the rank companion (from 6 pairs) could explain it. A guard passes while the interval stays above minus its margin. Margins are ratios: 5 %% is × 1.05 one way and ÷ 1.05, a loss of 4.76 %%, the other. long\\_excess is the long answers' end to end less the service of what overtook them, by the server's own timings: a park that hides in the overtaker's read counts as that service, and shows in its TTFT and in the output rate.")
	if s.analysis.TimePerTask {
		p.para("The answers of the arms differ in length by more than 3 %%, so time per task counts instead of tokens per second: the guard on the output rate is judged by block\\_s.")
	}
	p.table(true, []string{"metric", "role", "n", "θ [95 % interval]", "slot-order effect", "Hodges–Lehmann", "margin", "rig", "A/A", "call", "why"}, rows)
}

func signed(v float64) string { return fmt.Sprintf("%+.4f", v) }

func percent(logRatio float64) string { return fmt.Sprintf("±%.2f %%", 100*math.Expm1(logRatio)) }

func band(v float64) string {
	if math.IsInf(v, 0) {
		return "not known"
	}
	return percent(v)
}
