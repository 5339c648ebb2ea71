package stats

import (
	"fmt"
	"math"
	"slices"

	"interlude/results"
)

// metrics computes the paired metrics and their calls.
func (a *Analysis) metrics() {
	a.metric("ttft_short", false, (*slot).ttftShort)
	a.metric("output_tok_s", true, func(s *slot) value { return s.outputRate(false) })
	a.metric("block_s", false, func(s *slot) value { return s.blockSeconds(false) })
	a.metric("long_excess", false, (*slot).longExcess)
	a.TimePerTask = a.lengthsDiffer()
	a.Summary.Deltas = map[string]results.Delta{}
	for _, name := range []string{"ttft_short", "output_tok_s", "block_s"} {
		if m := a.Metrics[name]; m.known() {
			a.Summary.Deltas[name] = m.Delta()
		}
	}
}

// lengthsDiffer compares the completion tokens of the blocks of the two arms. The
// guard of output_tok_s lends its margin to block_s then.
func (a *Analysis) lengthsDiffer() bool {
	var off, on float64
	for _, p := range a.pairs {
		b, _ := p.off.block(false)
		c, _ := p.on.block(false)
		off, on = off+float64(b.completion), on+float64(c.completion)
	}
	return off > 0 && on > 0 && math.Abs(math.Log(on/off)) > math.Log1p(0.03)
}

// known reports whether any pair has a value: a manifest without probes has no
// ttft_short at all.
func (m *Metric) known() bool {
	return slices.ContainsFunc(m.Pairs, func(p PairValue) bool { return p.Off != nil || p.On != nil })
}

func (a *Analysis) metric(name string, rate bool, of func(*slot) value) {
	m := &Metric{Name: name, Rate: rate, Margin: math.Log1p(a.Facts.Margin)}
	if guard, ok := a.Facts.Guards[name]; ok {
		m.Margin = math.Log1p(guard)
	}
	var d []float64
	var first []bool
	var missing []string
	for _, p := range a.pairs {
		v := pairValue(p, rate, of)
		m.Pairs = append(m.Pairs, v)
		missing = append(missing, v.Missing...)
		if len(v.Missing) == 0 {
			d, first = append(d, v.D), append(first, v.OffFirst)
		}
	}
	m.estimate(d, first)
	var aa []float64
	for _, p := range a.aa {
		if v := pairValue(p, rate, of); len(v.Missing) == 0 {
			aa = append(aa, v.D)
		}
	}
	if half, ok := Noise(aa, len(d)); ok {
		m.Noise = &half
	}
	m.Rig = a.rig(m)
	e := Evidence{m.Effect, m.Companion, m.Margin, m.Rig, m.Noise, missing}
	m.Call, m.Why = Decide(e)
	m.GuardCall, m.GuardWhy = Guard(e)
	a.Metrics[name] = m
}

func pairValue(p pair, rate bool, of func(*slot) value) PairValue {
	off, on := of(p.off), of(p.on)
	v := PairValue{Pair: p.n, D: math.NaN(), OffFirst: p.offFirst, Missing: append(off.missing, on.missing...)}
	for _, x := range []struct {
		value
		to *(*float64)
	}{{off, &v.Off}, {on, &v.On}} {
		switch {
		case len(x.missing) > 0:
		case x.v > 0 && !math.IsInf(x.v, 0):
			*x.to = &x.v
		default:
			v.Missing = append(v.Missing, fmt.Sprintf("a positive value in pair %d", p.n))
		}
	}
	if v.Off != nil && v.On != nil {
		v.D = math.Log(*v.Off / *v.On)
		if rate {
			v.D = -v.D
		}
	}
	return v
}

// estimate fits the effect: crossover t for n ≥ 4 with both orders, paired t below.
func (m *Metric) estimate(d []float64, first []bool) {
	values := d
	if e, ok := Crossover(d, first); ok {
		m.Effect, m.Adjusted = &e, true
		values = Adjusted(d, first, e.Order)
	} else if e, ok := PairedT(d); ok {
		m.Effect = &e
	}
	if p, ok := SignFlip(values); ok {
		m.SignFlip = &p
	}
	if len(d) >= 6 {
		if estimate, i, ok := HodgesLehmann(values); ok {
			m.HL, m.Companion = &estimate, &i
		}
	}
}

// rig is the band within which the client's own delay could make a difference of times.
func (a *Analysis) rig(m *Metric) float64 {
	var delay *float64
	if c := a.data.Run.Calibrated; c != nil {
		delay = &c.P99
	}
	if m.Rate {
		if b := a.Metrics["block_s"]; b != nil {
			return b.Rig
		}
		return RigBand(delay, smaller(a.pairs, func(s *slot) value { return s.blockSeconds(false) }))
	}
	var off, on []float64
	for _, p := range m.Pairs {
		if p.Off != nil && p.On != nil {
			off, on = append(off, *p.Off), append(on, *p.On)
		}
	}
	return RigBand(delay, lesser(off, on))
}

func smaller(pairs []pair, of func(*slot) value) *float64 {
	var off, on []float64
	for _, p := range pairs {
		a, b := of(p.off), of(p.on)
		if len(a.missing)+len(b.missing) == 0 {
			off, on = append(off, a.v), append(on, b.v)
		}
	}
	return lesser(off, on)
}

func lesser(off, on []float64) *float64 {
	a, ok := Percentile(off, 0.5)
	b, ok2 := Percentile(on, 0.5)
	if !ok || !ok2 {
		return nil
	}
	v := min(a, b)
	return &v
}

// Delta is on/off as a ratio, whichever way is better.
func (m *Metric) Delta() results.Delta {
	d := results.Delta{PSignFlip: m.SignFlip}
	for _, p := range m.Pairs {
		d.N += one(!math.IsNaN(p.D))
	}
	if m.Effect == nil {
		return d
	}
	sign := -1.0
	if m.Rate {
		sign = 1
	}
	ratio, x, y := math.Exp(sign*m.Effect.Theta), math.Exp(sign*m.Effect.Low), math.Exp(sign*m.Effect.High)
	low, high := min(x, y), max(x, y)
	for v, to := range map[*float64]**float64{&ratio: &d.Ratio, &low: &d.Low, &high: &d.High} {
		if !math.IsInf(*v, 0) && !math.IsNaN(*v) {
			*to = v
		}
	}
	return d
}
