package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Interval is a 95 % interval.
type Interval struct{ Low, High float64 }

// Holds reports whether x lies in the interval.
func (i Interval) Holds(x float64) bool { return i.Low <= x && x <= i.High }

// Effect is an estimate with its 95 % interval.
type Effect struct {
	Theta float64
	Interval
	DF     float64
	Order  float64 // estimated slot-order effect π; 0 in a plain paired t
	Method string
}

// PairedT is Student's t on the mean of d, df n − 1. False for n < 2.
func PairedT(d []float64) (Effect, bool) {
	n := float64(len(d))
	if n < 2 {
		return Effect{}, false
	}
	mean, sd := stat.MeanStdDev(d, nil)
	half := tQuantile(n-1) * sd / math.Sqrt(n)
	return Effect{Theta: mean, Interval: Interval{mean - half, mean + half}, DF: n - 1, Method: "paired t"}, true
}

// Crossover is Student's t with a slot-order term: the effect is the mean of the
// two orders' means, its variance is pooled within the orders, df n − 2 (the
// two-period crossover, Hills and Armitage 1979, without carry-over, since each
// slot has a fresh server). first[i] says that arm A ran first in pair i. False
// unless both orders have a pair and n ≥ 4.
func Crossover(d []float64, first []bool) (Effect, bool) {
	var ab, ba []float64
	for i, v := range d {
		if first[i] {
			ab = append(ab, v)
		} else {
			ba = append(ba, v)
		}
	}
	if len(d) < 4 || len(ab) == 0 || len(ba) == 0 {
		return Effect{}, false
	}
	m1, m2 := stat.Mean(ab, nil), stat.Mean(ba, nil)
	df := float64(len(d) - 2)
	pooled := (squares(ab, m1) + squares(ba, m2)) / df
	theta := (m1 + m2) / 2
	half := tQuantile(df) * math.Sqrt(pooled*(1/float64(len(ab))+1/float64(len(ba)))) / 2
	return Effect{theta, Interval{theta - half, theta + half}, df, (m1 - m2) / 2, "crossover t"}, true
}

// squares is Σ (x − mean)².
func squares(x []float64, mean float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += (v - mean) * (v - mean)
	}
	return sum
}

// tQuantile is the 97.5 % point of Student's t.
func tQuantile(df float64) float64 { return distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(0.975) }

// Adjusted removes the slot-order effect from d: d − π·s, s = +1 where A ran first.
func Adjusted(d []float64, first []bool, order float64) []float64 {
	out := make([]float64, len(d))
	for i, v := range d {
		out[i] = v - order
		if !first[i] {
			out[i] = v + order
		}
	}
	return out
}

// Noise is the half-width that pairs of one arm with itself give to the estimate
// of n pairs: the mean is known to be 0, so σ² = Σd²/k with k degrees of freedom.
// False without A/A pairs.
func Noise(aa []float64, n int) (float64, bool) {
	if len(aa) == 0 || n == 0 {
		return 0, false
	}
	k := float64(len(aa))
	return tQuantile(k) * math.Sqrt(squares(aa, 0)/k) / math.Sqrt(float64(n)), true
}
