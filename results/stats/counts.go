package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// McNemar is the exact two-sided p of the discordant pairs: b wrong only in B, c
// wrong only in A. 1 if there are none.
func McNemar(b, c int) float64 {
	n := b + c
	if n == 0 {
		return 1
	}
	return math.Min(1, 2*distuv.Binomial{N: float64(n), P: 0.5}.CDF(float64(min(b, c))))
}

// ZeroBound is the upper 95 % bound of a rate of which n trials showed nothing:
// 1 − 0.05^(1/n). 1 for n = 0.
func ZeroBound(n int) float64 {
	if n <= 0 {
		return 1
	}
	return 1 - math.Pow(0.05, 1/float64(n))
}
