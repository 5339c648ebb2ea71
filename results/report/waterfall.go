package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
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
	names := []string{"lateness", "wait for the holder", "STOP → DONE", "park and restore", "own read", "first window", "decode, not streamed", "unexplained"}
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
			for i, v := range []float64{w.Late, w.Wait, w.Stop, w.Park, w.Read, w.Window, w.Decode, w.Rest} {
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
	p.para("Medians over the probes of each arm. Lateness is the harness's own. STOP → DONE comes from the server's journal and park and restore from the engine's log; where one is not kept its part is `%s` and lies inside the wait or the read. The first window is one median gap of the probe's own stream; an answer that is not streamed arrives when all of it is decoded, and has that time instead (median over those alone). What is left over is unexplained.", dash)
	p.table(false, append([]string{"arm", "n"}, names...), rows)
	if rests > 0 {
		p.para("**%d probes have an unexplained rest of more than %.0f ms**; the checks below list them.", rests, 1000*audit.UnexplainedLimit)
	}
	s.overhead(p, falls)
	return s.met(p, falls)
}

// Steps and time that a probe may wait beside its own read: what is left of the
// window that the engine is in, STOP → DONE, and its own first window.
const (
	overheadSteps = 3
	overheadTime  = 0.050 // s
)

// overhead says per arm of a paired run what probes waited beside their own read, in
// time and in steps: the median gap between two outputs of the long answer in the
// same slot.
func (s *source) overhead(p *page, falls map[string]audit.Waterfall) {
	if s.run.Kind != "ab" {
		return
	}
	var rows [][]string
	for _, arm := range s.arms() {
		gaps := map[int][]float64{}
		s.each(arm, func(r *results.Record) {
			if r.Class == "long" && r.Planned == "" {
				gaps[r.Slot] = append(gaps[r.Slot], r.ITL()...)
			}
		})
		var beside, steps, step []float64
		within := 0
		s.each(arm, func(r *results.Record) {
			w, ok := falls[r.ID]
			ttft, has := r.TTFT()
			one := nearestRank(gaps[r.Slot], 0.5)
			if !ok || !has || !(one > 0) {
				return
			}
			v := ttft - w.Read
			beside, steps, step = append(beside, v), append(steps, v/one), append(step, one)
			if v <= overheadSteps*one+overheadTime {
				within++
			}
		})
		if n := len(beside); n > 0 {
			rows = append(rows, []string{arm, fmt.Sprint(n), fmt.Sprintf("%.1f ms", 1000*nearestRank(beside, 0.5)), fmt.Sprintf("%.1f ms", 1000*nearestRank(step, 0.5)),
				fmt.Sprintf("%.2f", nearestRank(steps, 0.5)), fmt.Sprintf("%d of %d", within, n)})
		}
	}
	if len(rows) == 0 {
		return
	}
	p.para("What a probe waited beside its own read: TTFT less the read of its own prompt. A step is the median gap between two outputs of the long answer in the same slot.")
	p.table(false, []string{"arm", "n", "TTFT − own read, median", "a step", "in steps, median", fmt.Sprintf("TTFT ≤ own read + %d steps + %.0f ms", overheadSteps, 1000*overheadTime)}, rows)
}

// slowLimit is the TTFT at ×1, in seconds, above which a probe with the flag on is
// explained by name.
const slowLimit = 8.0

// mostSlow bounds the table of slow probes, for a run that has little else.
const mostSlow = 200

// untoldLimit is how much of a slow probe's TTFT, in seconds, may have no name
// before the table marks it.
const untoldLimit = 0.5

// met says what probes found when they arrived, and explains by name those that
// waited long although the flag was on.
func (s *source) met(p *page, falls map[string]audit.Waterfall) error {
	met, err := audit.Meetings(s.fsys)
	if err != nil {
		return err
	}
	limit := slowLimit
	if s.run.Speed > 0 {
		limit /= s.run.Speed
	}
	found := map[string][]float64{}
	var list []slow
	s.each(results.On, func(r *results.Record) {
		v, ok := r.TTFT()
		if !ok || r.Class != "probe" {
			return
		}
		m, known := met[r.ID]
		if known {
			found[m.Found] = append(found[m.Found], v)
		}
		if v > limit {
			list = append(list, slow{r.ID, v, m.Held, falls[r.ID]})
		}
	})
	if len(found) > 0 {
		p.para("What held the engine when a probe of arm on arrived (from the journal; the first that fits): nothing; a request that must not be stopped; another short one; an answer being written (decode); a read of more than a chunk (long); a shorter one, of a prompt that was known in part (restored) or not at all (cold).")
		var rows [][]string
		for _, name := range audit.FoundNames() {
			if v := found[name]; len(v) > 0 {
				rows = append(rows, []string{name, fmt.Sprint(len(v)), secs(nearestRank(v, 0.5)), secs(nearestRank(v, 0.95)), secs(nearestRank(v, 1))})
			}
		}
		p.table(false, []string{"found", "n", "TTFT median", "p95", "max"}, rows)
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b slow) int { return -cmp.Compare(a.ttft, b.ttft) })
	var rows [][]string
	for _, x := range list[:min(mostSlow, len(list))] {
		rows = append(rows, x.row())
	}
	p.para("%d probes of arm on waited more than %s. Each with who held the engine between its arrival and its start, its own times, and what of its TTFT none of these tells:", len(list), secs(limit))
	p.table(true, []string{"probe", "TTFT", "held by", "sent late", "park, restore, own read", "first output", "untold"}, rows)
	return nil
}

// slow is a probe that waited long, and where its time went.
type slow struct {
	id   string
	ttft float64 // s
	held []audit.Share
	fall audit.Waterfall
}

// row explains it by name.
func (x *slow) row() []string {
	told := func(parts ...float64) float64 {
		sum := 0.0
		for _, v := range parts {
			if !math.IsNaN(v) {
				sum += v
			}
		}
		return sum
	}
	own, first := told(x.fall.Park, x.fall.Read), told(x.fall.Window, x.fall.Decode)
	untold := x.ttft - x.fall.Late - own - first
	for _, h := range x.held {
		untold -= h.Seconds
	}
	text := fmt.Sprintf("%.2f s", untold)
	if math.Abs(untold) > untoldLimit {
		text = mark("**" + text + "**")
	}
	return []string{mark(code(x.id)), secs(x.ttft), holders(x.held), fmt.Sprintf("%.2f s", x.fall.Late), fmt.Sprintf("%.2f s", own), fmt.Sprintf("%.2f s", first), text}
}

// holders writes the four longest shares and the sum of the others.
func holders(list []audit.Share) string {
	if len(list) == 0 {
		return "nobody, or no journal tells"
	}
	var parts []string
	rest := 0.0
	for i, h := range list {
		if i < 4 {
			parts = append(parts, fmt.Sprintf("%s %s %.2f s", h.Request, h.Doing, h.Seconds))
		} else {
			rest += h.Seconds
		}
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("%d others %.2f s", len(list)-4, rest))
	}
	return strings.Join(parts, ", ")
}
