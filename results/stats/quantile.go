package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Percentile is the nearest rank by ceiling: the smallest value that is not below
// the fraction p of all of them. Failed requests stand in values as +Inf; false if
// there is no value or the percentile falls on a failure.
func Percentile(values []float64, p float64) (float64, bool) {
	if len(values) == 0 || math.IsNaN(p) || p < 0 || p > 1 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(values))
	v := stat.Quantile(p, stat.Empirical, sorted, nil)
	return v, !math.IsInf(v, 0) && !math.IsNaN(v)
}

// UpperEnd is the one-sided upper 95 % end of the percentile p: the smallest
// order statistic x(k) with P(Binomial(n, p) < k) ≥ 0.95. It exists from n = 29
// for p90, 59 for p95 and 299 for p99; false below that, or where it falls on a failure.
func UpperEnd(values []float64, p float64) (float64, bool) {
	n := len(values)
	if n == 0 || p <= 0 || p >= 1 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(values))
	b := distuv.Binomial{N: float64(n), P: p}
	for k := 1; k <= n; k++ {
		if b.CDF(float64(k-1)) >= 0.95 {
			return sorted[k-1], !math.IsInf(sorted[k-1], 0)
		}
	}
	return 0, false
}

// MedianInterval is the exact two-sided 95 % interval of the median, from the order
// statistics: x(k) and x(n−k+1) for the largest k with P(Binomial(n, ½) < k) ≤ 0.025.
// It exists from n = 6; false below that, or where an end falls on a failure.
func MedianInterval(values []float64) (Interval, bool) {
	n := len(values)
	b := distuv.Binomial{N: float64(n), P: 0.5}
	k := 0
	for k < n && b.CDF(float64(k)) <= 0.025 {
		k++
	}
	if k == 0 {
		return Interval{}, false
	}
	sorted := slices.Sorted(slices.Values(values))
	i := Interval{sorted[k-1], sorted[n-k]}
	return i, !math.IsInf(i.Low, 0) && !math.IsInf(i.High, 0)
}
