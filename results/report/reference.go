package report

import "interlude/results"

// published is one set of numbers of the reports that this project reproduces.
type published struct {
	name  string
	ttft  [2]float64 // off, on, s
	tokS  [2]float64
	block [2]float64 // 0: not given
	pairs int
}

// reference are the two published sets, newest first. They were measured on
// Windows 11 with an RTX 3090 and the native engine.
func reference() [2]published {
	return [2]published{
		{name: "reference, v0.1.44.1", ttft: [2]float64{20.128, 0.561}, tokS: [2]float64{113.041, 108.803}, block: [2]float64{27.362, 28.428}, pairs: 3},
		{name: "reference, 0.2.0-beta", ttft: [2]float64{20.523, 0.610}, tokS: [2]float64{111.29, 107.88}, pairs: 3},
	}
}

// comparable reports whether the workload of this run is the reference's: the
// same prompt and answer lengths at the same moment.
func (s *source) comparable() bool { return s.run.Kind == "ab" && s.plan.Name == "paired-short" }

// both writes off → on of a published value.
func both(v [2]float64, format func(float64) string) string {
	if v[0] == 0 {
		return dash
	}
	ratio := v[1] / v[0]
	write, _, _ := notation(results.Delta{Ratio: &ratio})
	return format(v[0]) + " → " + format(v[1]) + " (" + write(ratio) + ")"
}

// arm returns an arm of the summary; an empty one where the run has none, so that
// a run in which nothing was measured still makes a page.
func (s *source) arm(name string) *results.Arm {
	if a := s.summary.Arms[name]; a != nil {
		return a
	}
	return &results.Arm{}
}

// comparableHour reports whether the workload of this run is that of the reference's
// soak: three long conversations, cancellations and interactive requests.
func (s *source) comparableHour() bool { return s.run.Kind == "soak" && s.plan.Name == "soak" }
