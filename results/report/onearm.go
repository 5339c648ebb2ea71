package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"interlude/results"
	"interlude/results/stats"
)

// hour is what a published soak of the reference reports; "" where it says nothing.
type hour struct {
	name, ttft, outcomes, trips, audits, parks, lost, strict string
}

func referenceHours() [2]hour {
	return [2]hour{
		{"reference, v0.1.44.1, one hour", "0.669 / 7.054 / 46.503 s", "409 requests: 395 completed, 14 cancelled as planned", "94", "28 of 28", "301", "0", "395 of 395"},
		{"reference, 0.2.0-beta, one hour", dash + " / " + dash + " / 46.663 s", "424 requests: 410 completed, 14 cancelled as planned", dash, dash, "290", dash, dash},
	}
}

// struck counts the requests that the run itself ended or let end (an injection, a
// disconnect) and that ended in anything but a completion or a planned cancel.
func (s *source) struck(arm string) int {
	n := 0
	s.each(arm, func(r *results.Record) {
		if r.Planned != "" && r.Outcome != results.Completed && r.Outcome != results.Cancelled {
			n++
		}
	})
	return n
}

// oneArm is the table of headline numbers of a run without a second arm.
func (s *source) oneArm(p *page) {
	arm := s.onlyArm()
	a := s.arm(arm)
	refs := referenceHours()
	soak := s.comparableHour()
	head := []string{"", "arm " + arm}
	if soak {
		for _, r := range refs {
			head = append(head, r.name)
		}
	}
	var rows [][]string
	add := func(name, value string, of func(hour) string) {
		row := []string{name, value}
		if soak {
			for _, r := range refs {
				row = append(row, of(r))
			}
		}
		rows = append(rows, row)
	}
	none := func(hour) string { return dash }
	if s.run.Kind == "soak" {
		add("from the first request to the last end", minutes(s.busy(arm)), func(hour) string { return "one hour" })
	}
	if a.TTFTShort != nil {
		add("short TTFT, median / p95 / max", threeOf(a.TTFTShort), func(h hour) string { return h.ttft })
		add("its 95 % upper end at p95", s.upperEnd(arm), none)
	}
	add("requests", outcomeText(a.Requests), func(h hour) string { return h.outcomes })
	struck := s.struck(arm)
	if struck > 0 {
		add("ended by the run itself, as planned", fmt.Sprint(struck), none)
	}
	add("unplanned failures", unplanned(a.Requests, struck), none)
	if trips := s.tripsText(arm); trips != dash {
		add("tool round trips right", trips, func(h hour) string { return h.trips })
	}
	if a.Audits != nil {
		add("audits exact", fmt.Sprintf("%d of %d", a.Audits.Exact, a.Audits.Total), func(h hour) string { return h.audits })
	}
	if a.StrictJSON != nil {
		add("strict JSON", fmt.Sprintf("%d of %d", a.StrictJSON.Passed, a.StrictJSON.Total), func(h hour) string { return h.strict })
	}
	add("parks", optInt(a.Parks), func(h hour) string { return h.parks })
	add("lost prefix tokens", optInt(a.LostPrefix), func(h hour) string { return h.lost })
	add("tokens read again", optInt(a.Reread), none)
	add("switch cost", s.switchText(arm), none)
	if a.LongestPause != nil {
		add("longest pause of a stream by a park", optSecs(a.LongestPause), none)
	}
	add("output tok/s over the run", optNumber(a.OutputTokS, 2), none)
	p.table(false, head, rows)
	p.para("%s", switchWhole)
	s.control(p)
}

// onlyArm is the arm of a run of one arm: on, unless it never ran.
func (s *source) onlyArm() string {
	if list := s.arms(); len(list) > 0 && s.summary.Arms[results.On] == nil {
		return list[0]
	}
	return results.On
}

func threeOf(d *results.Dist) string {
	if d == nil {
		return dash
	}
	return fmt.Sprintf("%s / %s / %s (n = %d)", optSecs(d.Median), optSecs(d.P95), optSecs(d.Max), d.N)
}

func outcomeText(r results.Requests) string {
	return fmt.Sprintf("%s: %d completed, %d cancelled as planned", plural(r.Planned, "request"), r.Completed, r.Cancelled)
}

// upperEnd is the one-sided 95 % upper end of the p95 of short TTFTs; below
// n = 59 there is none.
func (s *source) upperEnd(arm string) string {
	var ttft []float64
	s.each(arm, func(r *results.Record) {
		if r.Class == "probe" && r.Planned == "" {
			ttft = append(ttft, orInf(r.TTFT()))
		}
	})
	v, ok := stats.UpperEnd(ttft, 0.95)
	if !ok || math.IsInf(v, 0) {
		return fmt.Sprintf("%s (n = %d)", dash, len(ttft))
	}
	return fmt.Sprintf("%s (n = %d)", secs(v), len(ttft))
}

// drift is the table of slopes against their budgets.
func (s *source) drift(p *page) {
	if len(s.summary.Slopes) == 0 {
		return
	}
	p.heading(2, "Drift over the run")
	p.para("Theil–Sen slopes of 5-minute medians, per hour, with their 95 %% interval; the first five minutes are left out. A slope keeps its budget while the upper end stays below it; one whose low end is above 0 really rises, and its budget is what this run was allowed. MB are 1,000,000 bytes, handles and the like are counted.")
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(s.summary.Slopes)) {
		v := s.summary.Slopes[name]
		kept := dash
		if v.Budget != nil {
			kept = "not known"
			if v.High != nil && v.Low != nil {
				switch {
				case *v.High <= *v.Budget:
					kept = "kept"
				case *v.Low > *v.Budget:
					kept = "exceeded"
				default:
					kept = "straddles"
				}
			}
		}
		write := unit(name)
		rows = append(rows, []string{name, write(v.PerHour), write(v.Low), write(v.High), write(v.Budget), kept})
	}
	p.table(false, []string{"quantity", "per hour", "low", "high", "budget", ""}, rows)
}

// unit writes a slope, or a budget of one, by the ending of its quantity's name.
func unit(name string) func(*float64) string {
	by, format := 1.0, "%.4g"
	switch {
	case strings.HasSuffix(name, "_bytes"):
		by, format = 1e6, "%.3g MB"
	case strings.HasSuffix(name, "_s"):
		by, format = 1e-3, "%.3g ms"
	}
	return func(v *float64) string {
		if v == nil {
			return dash
		}
		return fmt.Sprintf(format, *v/by)
	}
}

// cells is the matrix of a run that ends the engine, or the rows of a lifecycle.
func (s *source) cells(p *page) {
	if len(s.summary.Cells) == 0 {
		return
	}
	var rows [][]string
	lifecycle := s.run.Kind == "lifecycle"
	for _, c := range s.summary.Cells {
		verdict := "pass"
		switch {
		case c.Pass == nil:
			verdict = "not run: " + c.NotRun
		case !*c.Pass:
			verdict = mark("**FAIL**") + ": " + c.Why
		}
		if lifecycle {
			rows = append(rows, []string{c.How, c.When, c.API, verdict, c.Evidence})
			continue
		}
		row := []string{c.How, c.When, c.API, withMedian(c.Told, c.ToldMedian), optSecs(c.Limit), withMedian(c.ServedAgain, c.ServedAgainMedian),
			fmt.Sprint(c.Hung), fmt.Sprint(c.Silent), fmt.Sprint(c.Orphans), blast(c.Blast), verdict}
		if s.relayed() {
			row = slices.Insert(row, 1, cmp.Or(c.By, dash))
		}
		rows = append(rows, row)
	}
	if lifecycle {
		p.heading(2, "Rows")
		p.para("%s.", cellsText(s.summary.Cells))
		p.table(true, []string{"what", "when", "API", "verdict", "evidence"}, rows)
		return
	}
	p.heading(2, "Cells")
	p.para("%s.", cellsText(s.summary.Cells))
	s.ways(p)
	text := "Every cell. A silent engine is waited for as long as its limit says. Hung, silent, orphans: clients without an end, successes without an answer, processes left behind. Others: how requests ended that the engine did not hold."
	head := []string{"how", "when", "API", "told", "limit", "served again", "hung", "silent", "orphans", "others", "verdict"}
	if s.relayed() {
		text += " By: a signal to the engine itself, or the relay."
		head = slices.Insert(head, 1, "by")
	}
	p.para("%s", text)
	p.table(true, head, rows)
}

// withMedian is the worst of several repetitions with their median, or the one value.
func withMedian(worst, median *float64) string {
	if median == nil {
		return optSecs(worst)
	}
	return optSecs(worst) + " (median " + optSecs(median) + ")"
}

// blast says how the requests ended that were not hit.
func blast(b map[string]int) string {
	var out []string
	for _, what := range slices.Sorted(maps.Keys(b)) {
		text := what
		if b[what] > 1 {
			text = fmt.Sprintf("%d × %s", b[what], what)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}
