package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"interlude/results"
)

// picture is a plot beside the page: what it shows in words, for those who cannot see
// it, and what to look for in it.
type picture struct {
	file, said, caption string
	svg                 []byte
}

// show puts a picture on the page.
func (x *picture) show(p *page) {
	p.para("![%s](%s)", escape(x.said), x.file)
	if x.caption != "" {
		p.para("%s", x.caption)
	}
}

// pictures draws what the run has data for, the one that says most first.
func (s *source) pictures() ([]picture, error) {
	var list []picture
	for _, draw := range []func() (picture, error){s.timelinePicture, s.overTimePicture, s.ttftPicture, s.pairsPicture} {
		x, err := draw()
		if err != nil {
			return nil, err
		}
		if x.svg != nil {
			list = append(list, x)
		}
	}
	return list, nil
}

func (s *source) timelinePicture() (x picture, err error) {
	pair, lanes := s.timeline()
	if len(lanes) == 0 {
		return x, nil
	}
	x.file = "plots/timeline.svg"
	x.said = fmt.Sprintf("Timeline of pair %d. %s", pair, lanesSaid(lanes))
	x.caption = "One pair on one clock, from the client's own stamps. A thin line is a request that waits, a bar is one whose tokens flow, a pale bar one that the server says it has parked: the engine was somebody else's. Any other gap is the engine's or the machine's own."
	x.svg, err = timelinePlot(fmt.Sprintf("Who held the engine, pair %d (thin line: waiting; bar: tokens flow; pale: parked)%s", pair, s.tag()), x.said, lanes)
	return x, err
}

// mostSaid bounds the requests of an arm that are told in words.
const mostSaid = 8

// lanesSaid tells a timeline by its long answers and probes, arm by arm.
func lanesSaid(lanes []lane) string {
	byArm := map[string][]string{}
	for _, l := range lanes {
		if !strings.HasSuffix(l.name, "(long)") && !strings.HasSuffix(l.name, "(probe)") || len(l.spans) == 0 {
			continue
		}
		text := fmt.Sprintf("%s sent at %.1f s, output from %.1f to %.1f s", l.name, l.sent, l.spans[0][0], l.spans[len(l.spans)-1][1])
		for i, park := range l.parks {
			if i == 3 {
				text += fmt.Sprintf(" and %s more", times(len(l.parks)-i))
				break
			}
			text += fmt.Sprintf(", parked from %.1f to %.1f s", park[0], park[1])
		}
		byArm[l.arm] = append(byArm[l.arm], text)
	}
	var out []string
	for _, arm := range []string{results.Off, results.On} {
		said, more := byArm[arm], ""
		if n := len(said) - mostSaid; n > 0 {
			said, more = said[:mostSaid], fmt.Sprintf("; and %d more", n)
		}
		if len(said) > 0 {
			out = append(out, "Flag "+arm+": "+strings.Join(said, "; ")+more+".")
		}
	}
	return strings.Join(out, " ")
}

func (s *source) overTimePicture() (x picture, err error) {
	points := s.overTime()
	if s.run.Kind == "ab" || len(points) == 0 {
		return x, nil
	}
	byArm := map[string][]float64{}
	for _, v := range points {
		byArm[v.arm] = append(byArm[v.arm], v.ttft)
	}
	x.file = "plots/ttft-over-time.svg"
	x.said = "Time to first token of every short request over the run. " + armsSaid(byArm)
	x.svg, err = overTimePlot("Time to first token of short requests over the run (log scale)"+s.tag(), x.said, points)
	return x, err
}

// armsSaid tells a cloud of times by its middle and ends, arm by arm.
func armsSaid(byArm map[string][]float64) string {
	var out []string
	for _, arm := range []string{results.Off, results.On} {
		if v := byArm[arm]; len(v) > 0 {
			out = append(out, fmt.Sprintf("Flag %s: median %s, from %s to %s, n = %d.", arm, secs(nearestRank(v, 0.5)), secs(slices.Min(v)), secs(slices.Max(v)), len(v)))
		}
	}
	return strings.Join(out, " ")
}

func (s *source) ttftPicture() (x picture, err error) {
	var dots []dot
	byArm := map[string][]float64{}
	for _, arm := range []string{results.Off, results.On} {
		s.each(arm, func(r *results.Record) {
			if v, ok := r.TTFT(); ok && r.Class == "probe" && v > 0 {
				dots = append(dots, dot{arm, v})
				byArm[arm] = append(byArm[arm], v)
			}
		})
	}
	if len(dots) == 0 {
		return x, nil
	}
	x.file = "plots/ttft.svg"
	x.said = "Time to first token of each short request, arm beside arm. " + armsSaid(byArm)
	x.svg, err = ttftPlot("Time to first token of each short request (log scale)"+s.tag(), x.said, dots)
	return x, err
}

func (s *source) pairsPicture() (x picture, err error) {
	pairs := s.pairLines()
	if len(pairs) == 0 {
		return x, nil
	}
	what := "short TTFT"
	if s.plan.Primary != "ttft_short" {
		what = "sent to last token"
	}
	low, high := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{}
	less := 0
	for _, l := range pairs {
		low = [2]float64{min(low[0], l.off), min(low[1], l.on)}
		high = [2]float64{max(high[0], l.off), max(high[1], l.on)}
		if l.on < l.off {
			less++
		}
	}
	x.file = "plots/pairs.svg"
	x.said = fmt.Sprintf("Pair by pair, %s: %s to %s with the flag off, %s to %s with it on; less with it on in %d of %s.", what, secs(low[0]), secs(high[0]), secs(low[1]), secs(high[1]), less, plural(len(pairs), "pair"))
	x.caption = "Each grey line is one pair: the same questions, first token to last, in both arms. One odd pair cannot hide in an average here."
	x.svg, err = pairPlot(fmt.Sprintf("Each of %d pairs, %s (log scale)%s", len(pairs), what, s.tag()), x.said, pairs)
	return x, err
}

// tag marks a plot that may travel without its page.
func (s *source) tag() string {
	switch {
	case s.run.Emulated != "" && s.run.Speed != 1:
		return fmt.Sprintf(", emulated %s ×%g", s.run.Emulated, s.run.Speed)
	case s.run.Emulated != "":
		return ", emulated " + s.run.Emulated
	}
	return ""
}

// pairLines is the primary metric of each pair that has it in both arms.
func (s *source) pairLines() []pairLine {
	var list []pairLine
	if m := s.analysis.Metrics[s.plan.Primary]; m != nil {
		for _, p := range m.Pairs {
			if p.Off != nil && p.On != nil {
				list = append(list, pairLine{p.Pair, *p.Off, *p.On})
			}
		}
	}
	return list
}
