package report

import (
	"fmt"
	"io/fs"

	"interlude/results"
)

// Render makes README.md and its plots from a judged run directory.
func Render(fsys fs.FS) (Files, error) {
	s, err := load(fsys)
	if err != nil {
		return nil, err
	}
	files := Files{}
	if err := s.plots(files); err != nil {
		return nil, err
	}
	var p page
	s.first(&p)
	s.pictures(&p, files)
	s.whatWasRun(&p)
	s.method(&p)
	if !s.invalid() {
		if err := s.numbers(&p); err != nil {
			return nil, err
		}
	}
	s.answers(&p)
	s.notes(&p)
	s.notRun(&p)
	s.limits(&p)
	s.reproduce(&p)
	if s.invalid() {
		p.heading(2, "Appendix: numbers of an invalid run")
		p.para("They are kept so that nothing disappears. They support no claim, for the reasons at the top of this page.")
		if s.run.Kind == "ab" {
			s.effects(&p)
		} else {
			s.oneArm(&p)
		}
		if err := s.numbers(&p); err != nil {
			return nil, err
		}
	}
	files["README.md"] = []byte(p.String())
	return files, nil
}

// numbers are the sections that a run's timings fill.
func (s *source) numbers(p *page) error {
	s.cells(p)
	s.beside(p)
	s.decision(p)
	s.classes(p)
	if err := s.waterfall(p); err != nil {
		return err
	}
	s.whoPays(p)
	s.cancels(p)
	s.parks(p)
	s.drift(p)
	return nil
}

// plots draws what the run has data for.
func (s *source) plots(files Files) error {
	var dots []dot
	for _, arm := range []string{results.Off, results.On} {
		s.each(arm, func(r *results.Record) {
			if v, ok := r.TTFT(); ok && r.Class == "probe" && v > 0 {
				dots = append(dots, dot{arm, v})
			}
		})
	}
	if len(dots) > 0 {
		img, err := ttftPlot("TTFT of each short request (log scale)"+s.tag(), dots)
		if err != nil {
			return err
		}
		files["plots/ttft.svg"] = img
	}
	if pairs := s.pairLines(); len(pairs) > 0 {
		what := "short TTFT"
		if s.plan.Primary != "ttft_short" {
			what = "sent to last token"
		}
		img, err := pairPlot(fmt.Sprintf("Each of %d pairs, %s%s", len(pairs), what, s.tag()), pairs)
		if err != nil {
			return err
		}
		files["plots/pairs.svg"] = img
	}
	if s.run.Kind != "ab" && len(dots) > 0 {
		img, err := overTimePlot("TTFT of short requests over the run (log scale)"+s.tag(), s.overTime())
		if err != nil {
			return err
		}
		files["plots/ttft-over-time.svg"] = img
	}
	if pair, lanes := s.timeline(); len(lanes) > 0 {
		img, err := timelinePlot(fmt.Sprintf("Who held the engine, pair %d (thin line: waiting; bar: tokens flow; pale: parked)%s", pair, s.tag()), lanes)
		if err != nil {
			return err
		}
		files["plots/timeline.svg"] = img
	}
	return nil
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

// pictures shows the plots, each with what to look for.
func (s *source) pictures(p *page, files Files) {
	if files["plots/timeline.svg"] != nil {
		p.para("![Timeline of one pair](plots/timeline.svg)")
		p.para("One pair on one clock, from the client's own stamps. A thin line is a request that waits, a bar is one whose tokens flow, a pale bar one that the server says it has parked: the engine was somebody else's. Any other gap is the engine's or the machine's own.")
	}
	if files["plots/ttft-over-time.svg"] != nil {
		p.para("![TTFT over the run](plots/ttft-over-time.svg)")
	}
	if files["plots/ttft.svg"] != nil {
		p.para("![TTFT by arm](plots/ttft.svg)")
	}
	if files["plots/pairs.svg"] != nil {
		p.para("![Pair plot](plots/pairs.svg)")
		p.para("Each grey line is one pair: the same questions, first token to last, in both arms. One odd pair cannot hide in an average here.")
	}
}
