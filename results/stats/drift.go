package stats

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"interlude/results"
)

// bin is the width of the medians that a drift is fitted to, in seconds at speed 1.
const bin = 300.0

// series is one quantity over the time of a run.
type series struct{ at, y []float64 }

func (s *series) add(at results.Stamp, y float64) {
	s.at, s.y = append(s.at, float64(at)/1e9), append(s.y, y)
}

// slopes fits a drift to everything that was sampled, per hour as measured. The
// first five minutes are left out: caches fill then.
func (a *Analysis) slopes() {
	width := bin
	if v := a.data.Run.Speed; v > 0 {
		width /= v
	}
	out := map[string]results.Slope{}
	all := a.series()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		x, y := Medians(s.at, s.y, width)
		for len(x) > 0 && x[0] < s.at[0]+width {
			x, y = x[1:], y[1:]
		}
		one := results.Slope{}
		if b, ok := a.Facts.Budgets[name]; ok {
			one.Budget = &b
		}
		if slope, i, ok := TheilSen(x, y); ok {
			per, low, high := slope*3600, i.Low*3600, i.High*3600
			one.PerHour, one.Low, one.High = &per, &low, &high
		}
		if one.PerHour != nil || one.Budget != nil {
			out[name] = one
		}
	}
	if len(out) > 0 {
		a.Summary.Slopes = out
	}
}

// series collects the samples of processes, the queue, and the times of requests.
func (a *Analysis) series() map[string]*series {
	all := map[string]*series{}
	add := func(name string, at results.Stamp, y float64) {
		if all[name] == nil {
			all[name] = new(series)
		}
		all[name].add(at, y)
	}
	beside := map[int]bool{}
	for _, s := range a.slots {
		beside[s.Slot] = a.control(s)
	}
	for _, s := range a.data.Samples {
		if beside[s.Slot] {
			continue // it has a clock of its own
		}
		for name, p := range s.Procs {
			for field, v := range map[string]float64{"rss_bytes": float64(p.RSS), "live_heap_bytes": float64(p.Heap),
				"threads": float64(p.Threads), "handles": float64(p.Handles), "goroutines": float64(p.Goroutines)} {
				if v > 0 { // 0: the system does not tell
					add(name+"_"+field, s.At, v)
				}
			}
		}
		for _, name := range []string{"waiting", "strata:solo_waiting"} {
			if v, ok := s.Metrics[name]; ok {
				add("queue", s.At, v)
			}
		}
	}
	for _, s := range a.judged() {
		for _, r := range s.class(probe) {
			if v, ok := r.TTFT(); ok {
				add("ttft_short_s", r.Due, v)
			}
		}
		for _, r := range s.class(long) {
			if v, ok := Percentile(r.ITL(), 0.5); ok {
				add("itl_s", r.FirstToken, v)
			}
		}
	}
	for _, s := range all {
		sortSeries(s)
	}
	return all
}

func sortSeries(s *series) {
	order := make([]int, len(s.at))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(s.at[i], s.at[j]) })
	at, y := make([]float64, len(order)), make([]float64, len(order))
	for k, i := range order {
		at[k], y[k] = s.at[i], s.y[i]
	}
	s.at, s.y = at, y
}

// budgets compares the run with what was allowed before it began: a slope by its
// interval, ttft_short_p95_s by its estimate and upper end, ttft_short_max_s and
// longest_pause_s by the value. Budgets that nothing was measured for are named
// as not run by the report, not failed here.
func (a *Analysis) budgets() (worse, unsure []string) {
	for _, name := range slices.Sorted(maps.Keys(a.Facts.Budgets)) {
		budget := a.Facts.Budgets[name]
		low, high, ok := a.measuredFor(name)
		switch {
		case !ok:
		case low > budget:
			worse = append(worse, fmt.Sprintf("%s: %.4g is more than its budget %.4g", name, low, budget))
		case math.IsInf(high, 1):
			unsure = append(unsure, fmt.Sprintf("%s: so few were measured that its 95 %% interval has no upper end, and whether the budget %.4g holds is open: a longer run tells", name, budget))
		case high > budget:
			unsure = append(unsure, fmt.Sprintf("%s: its interval reaches %.4g, beyond its budget %.4g", name, high, budget))
		}
	}
	return worse, unsure
}

// measuredFor returns the interval of what a budget limits.
func (a *Analysis) measuredFor(name string) (low, high float64, ok bool) {
	if s, found := a.Summary.Slopes[name]; found {
		if s.Low == nil || s.High == nil {
			return 0, 0, false
		}
		return *s.Low, *s.High, true
	}
	var probes []*results.Record
	pause, paused := 0.0, false
	for _, s := range a.judged() {
		probes = append(probes, s.class(probe)...)
		if v, ok := s.longestPause(); ok {
			pause, paused = max(pause, v), true
		}
	}
	ttft := times(probes, (*results.Record).TTFT)
	switch name {
	case "ttft_short_p95_s":
		v, known := Percentile(ttft, 0.95)
		if !known {
			return 0, 0, false
		}
		end, exists := UpperEnd(ttft, 0.95)
		if !exists {
			end = math.Inf(1)
		}
		return v, end, true
	case "ttft_short_max_s":
		v, known := Percentile(ttft, 1)
		return v, v, known
	case "longest_pause_s":
		return pause, pause, paused
	}
	return 0, 0, false
}
