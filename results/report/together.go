package report

import (
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"interlude/results"
	"interlude/results/stats"
)

// tables are the runs side by side, each row one of them: nothing is pooled.
func (d *dossier) tables(p *page) {
	var paired, single [][]string
	for i, s := range d.parts {
		if s.run.Kind == "ab" {
			paired = append(paired, s.pairedRow(mark(d.name(i))))
		} else {
			single = append(single, s.singleRow(mark(d.name(i))))
		}
	}
	if len(paired) > 0 {
		p.para("**Off against on, in pairs.** Times are medians over all short requests of an arm; the changes are pair by pair, with their 95 %% interval. INCONCLUSIVE can be due to one guard: the answers run by run, below, name it.")
		p.table(true, []string{"run", "engine", "verdict", "pairs", "short TTFT", "change of short TTFT", "change of output rate", "long answers over 5 % slower", "longest pause by a park", "long answers byte-equal"}, paired)
	}
	if len(single) > 0 {
		p.para("**One server with the flag on.** Times are median, p95 and maximum.")
		p.table(true, []string{"run", "engine", "verdict", "short TTFT", "parks", "switch cost", "longest pause by a park", "unplanned failures", "lost prefix tokens", "cells"}, single)
	}
}

func (s *source) pairedRow(name string) []string {
	row := []string{name, s.engineName(), s.verdict(), fmt.Sprint(s.summary.Pairs)}
	if s.invalid() {
		return append(row, "withheld", dash, dash, dash, dash, dash)
	}
	off, on := s.arm(results.Off), s.arm(results.On)
	change := func(key string) string {
		if d, ok := s.delta(key); ok {
			return ends(d)
		}
		return dash
	}
	slower, equal := dash, dash
	if c := s.slower()["long"]; c[1] > 0 {
		slower = fmt.Sprintf("%d of %d", c[0], c[1])
	}
	if e := s.summary.Identical; e != nil {
		equal = fmt.Sprintf("%d of %d", e.Equal, e.Total)
	}
	return append(row, distText(off.TTFTShort)+" → "+distText(on.TTFTShort), change("ttft_short"), change("output_tok_s"), slower, optSecs(on.LongestPause), equal)
}

func (s *source) singleRow(name string) []string {
	arm := s.onlyArm()
	a := s.arm(arm)
	row := []string{name, s.engineName(), s.verdict()}
	if s.invalid() {
		return append(row, "withheld", dash, dash, dash, dash, dash, dash)
	}
	cells := dash
	if len(s.summary.Cells) > 0 {
		cells = strings.ReplaceAll(cellsText(s.summary.Cells), "*", "")
	}
	return append(row, threeOf(a.TTFTShort), optInt(a.Parks), s.switchText(arm), optSecs(a.LongestPause), unplanned(a.Requests, s.struck(arm)), optInt(a.LostPrefix), cells)
}

// picture shows one pair of one run: the first that passed on a real engine, else
// the first that has one.
func (d *dossier) picture(p *page) {
	best := -1
	for i, s := range d.parts {
		if s.invalid() || !has(s.fsys, "plots/timeline.svg") {
			continue
		}
		good := s.run.Emulated == "" && stats.ExitCode(s.summary.Verdict) == 0
		if best < 0 || good {
			best = i
		}
		if good {
			break
		}
	}
	if best < 0 {
		return
	}
	x, err := d.parts[best].timelinePicture()
	if err != nil || x.svg == nil {
		return
	}
	x.file = d.links[best] + "/" + x.file
	x.caption = fmt.Sprintf("One pair of %s (%s). %s", d.name(best), escape(d.parts[best].engineName()), x.caption)
	x.show(p)
}

func has(fsys fs.FS, name string) bool {
	_, err := fs.Stat(fsys, name)
	return err == nil
}

// reach is the least and the greatest of a number over runs of one kind of engine.
type reach struct {
	low, high float64
	n         int
}

func (x *reach) add(v float64) {
	if x.n == 0 {
		x.low, x.high = v, v
	}
	x.low, x.high, x.n = min(x.low, v), max(x.high, v), x.n+1
}

// kind names the engines whose numbers may stand in one range with this run's.
func (s *source) kind() string {
	switch {
	case s.run.Emulated == "":
		return "real engines"
	case s.run.Speed == 1 || s.run.Speed == 0:
		return "emulated engines"
	}
	return fmt.Sprintf("emulated engines at ×%g", s.run.Speed)
}

// kinds lists those of the valid parts, real engines first.
func (d *dossier) kinds() []string {
	var list []string
	for _, s := range d.parts {
		if !s.invalid() && !slices.Contains(list, s.kind()) {
			list = append(list, s.kind())
		}
	}
	slices.SortStableFunc(list, func(a, b string) int { return -strings.Compare(a[:1], b[:1]) })
	return list
}

// ranges gathers a number of each valid paired run by kind of engine, and writes the
// range of each kind.
func (d *dossier) ranges(of func(*source) (float64, bool), write func(reach) string) string {
	var out []string
	for _, kind := range d.kinds() {
		var by reach
		for _, s := range d.parts {
			if s.run.Kind != "ab" || s.invalid() || s.kind() != kind {
				continue
			}
			if v, ok := of(s); ok && !math.IsNaN(v) {
				by.add(v)
			}
		}
		if by.n > 0 {
			out = append(out, fmt.Sprintf("%s on %s (%s)", write(by), kind, plural(by.n, "run")))
		}
	}
	return strings.Join(out, ", ")
}

// between writes a range, once where both ends read alike.
func between(x reach, write func(float64) string) string {
	low, high := write(x.low), write(x.high)
	if low == high {
		return low
	}
	return low + " to " + high
}

// guardCalls counts what a guard said over the valid paired runs.
func (d *dossier) guardCalls(name string) string {
	n, runs := map[stats.Call]int{}, 0
	for _, s := range d.parts {
		if m := s.analysis.Metrics[name]; s.run.Kind == "ab" && !s.invalid() && m != nil && s.plan.Guards[name] > 0 {
			n[m.GuardCall]++
			runs++
		}
	}
	if runs == 0 {
		return ""
	}
	return fmt.Sprintf("the loss allowed by the plan was kept in %d of %s, exceeded in %d, not settled in %d", n[stats.Pass], plural(runs, "paired run"), n[stats.Fail], n[stats.Unsure])
}

// longestPauses are the longest that a park kept a stream waiting, by kind of engine,
// each with its run.
func (d *dossier) longestPauses() string {
	var out []string
	for _, kind := range d.kinds() {
		best, at := 0.0, -1
		for i, s := range d.parts {
			if v := s.arm(s.onlyArm()).LongestPause; v != nil && !s.invalid() && s.kind() == kind && *v > best {
				best, at = *v, i
			}
		}
		if at >= 0 {
			out = append(out, fmt.Sprintf("%s on %s (%s)", secs(best), kind, d.name(at)))
		}
	}
	if len(out) == 0 {
		return "No park kept a stream waiting."
	}
	return "The longest that a park kept a stream waiting: " + strings.Join(out, ", ") + "."
}

// count counts the valid parts for which something holds.
func (d *dossier) count(holds func(*source) bool) int {
	n := 0
	for _, s := range d.parts {
		if !s.invalid() && holds(s) {
			n++
		}
	}
	return n
}

// failed reports whether a request with the flag on ended as nobody had planned.
func (s *source) failed() bool {
	arm := s.onlyArm()
	return unexpected(s.arm(arm).Requests, s.struck(arm)) > 0
}
