package audit

import (
	"fmt"
	"math"
	"slices"

	"interlude/results"
)

// rank is the nearest-rank percentile (by ceiling) of values, a failure among
// them being +Inf; NaN where it falls on a failure.
func rank(values []float64, percent int) float64 {
	s := slices.Sorted(slices.Values(values))
	at := (len(s)*percent + 99) / 100 // ceiling in whole numbers: no rounding can move it
	v := s[max(at, 1)-1]
	if math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}

// middle is the median of the slots' values; NaN where one of them has none.
func middle(values []float64) float64 {
	if len(values) == 0 || slices.ContainsFunc(values, math.IsNaN) {
		return math.NaN()
	}
	return rank(values, 50)
}

// wanted reports whether a record of a class enters its numbers.
func wanted(r *results.Record, class string) bool { return r.Class == class && r.Planned == "" }

func ttfts(recs []*results.Record, class string) []float64 {
	var out []float64
	for _, r := range recs {
		if !wanted(r, class) {
			continue
		}
		v := math.Inf(1)
		if r.Outcome == results.Completed && r.FirstToken > 0 && r.FirstToken >= r.Due {
			v = float64(r.FirstToken-r.Due) / 1e9
		}
		out = append(out, v)
	}
	return out
}

func e2es(recs []*results.Record) []float64 {
	var out []float64
	for _, r := range recs {
		if !wanted(r, "long") {
			continue
		}
		v := math.Inf(1)
		last := r.LastToken
		if last == 0 {
			last = r.End
		}
		if r.Outcome == results.Completed && last >= r.Due {
			v = float64(last-r.Due) / 1e9
		}
		out = append(out, v)
	}
	return out
}

func gaps(recs []*results.Record) []float64 {
	var out []float64
	for _, r := range recs {
		if !wanted(r, "long") {
			continue
		}
		for i := 1; i < len(r.Chunks); i++ {
			if d := r.Chunks[i].At - r.Chunks[i-1].At; d >= 0 {
				out = append(out, float64(d)/1e9)
			}
		}
	}
	return out
}

// span is the block of a slot: seconds, output and total tokens a second; NaN
// where a request of it has no value.
type span struct{ seconds, output, total float64 }

// blockOf measures the long answers and probes of a slot, or all requests of a
// run with one arm.
func blockOf(recs []*results.Record, paired bool) span {
	none := span{math.NaN(), math.NaN(), math.NaN()}
	var from, to results.Stamp
	in, out := 0, 0
	counted := true
	for _, r := range recs {
		if paired && !wanted(r, "long") && !wanted(r, "probe") {
			continue
		}
		if paired && r.Outcome != results.Completed {
			return none
		}
		if r.Sent > 0 && (r.Class == "long" || !paired) && (from == 0 || r.Sent < from) {
			from = r.Sent
		}
		to = max(to, r.LastToken)
		switch {
		case r.Usage != nil:
			in, out = in+r.Usage.Prompt, out+r.Usage.Completion
		case r.Outcome == results.Completed:
			counted = false
		}
	}
	if from == 0 || to <= from {
		return none
	}
	s := span{seconds: float64(to-from) / 1e9, output: math.NaN(), total: math.NaN()}
	if counted {
		s.output, s.total = float64(out)/s.seconds, float64(in+out)/s.seconds
	}
	return s
}

// two is one pair of complete slots.
type two struct {
	slots [2]results.SlotInfo // off, on
	first bool                // off ran first
	have  int                 // bit 0: off, bit 1: on
}

// wholePairs are the pairs of which both slots are complete, in order.
func (c *recheck) wholePairs() (list []*two, whole func(pair int) bool) {
	byPair := map[int]*two{}
	var order []int
	for _, slot := range slices.SortedFunc(slices.Values(c.data.Run.Slots), func(a, b results.SlotInfo) int { return a.Slot - b.Slot }) {
		if slot.AA || slot.Pair == 0 || !slot.Complete || slot.Arm != results.Off && slot.Arm != results.On {
			continue
		}
		t := byPair[slot.Pair]
		if t == nil {
			t = &two{first: slot.Arm == results.Off}
			byPair[slot.Pair] = t
			order = append(order, slot.Pair)
		}
		i := 0
		if slot.Arm == results.On {
			i = 1
		}
		t.slots[i] = slot
		t.have |= 1 << i
	}
	whole = func(pair int) bool { return byPair[pair] != nil && byPair[pair].have == 3 }
	for _, n := range order {
		if whole(n) {
			list = append(list, byPair[n])
		}
	}
	return list, whole
}

// pairs recomputes the deltas.
func (c *recheck) pairs(s results.Summary) {
	list, whole := c.wholePairs()
	c.count("pairs", &s.Pairs, len(list), true)
	for _, m := range []struct {
		name string
		of   func([]*results.Record) float64
	}{
		{"ttft_short", func(r []*results.Record) float64 {
			if v := ttfts(r, "probe"); len(v) > 0 {
				return rank(v, 50)
			}
			return math.NaN()
		}},
		{"output_tok_s", func(r []*results.Record) float64 { return blockOf(r, true).output }},
		{"block_s", func(r []*results.Record) float64 { return blockOf(r, true).seconds }},
	} {
		var logs []float64
		var first []bool
		any := false
		for _, t := range list {
			a, b := m.of(c.slotRecords(t.slots[0].Slot)), m.of(c.slotRecords(t.slots[1].Slot))
			any = any || a > 0 || b > 0
			if a > 0 && b > 0 {
				logs, first = append(logs, math.Log(b/a)), append(first, t.first)
			}
		}
		got, ok := s.Deltas[m.name]
		if s.Verdict == results.VerdictInvalid || !any {
			if ok {
				c.wrong = append(c.wrong, "deltas."+m.name+" should be absent")
			}
			c.n++
			continue
		}
		e := estimate(logs, first)
		c.count("deltas."+m.name+".n", &got.N, len(logs), true)
		c.same("deltas."+m.name+".ratio", got.Ratio, math.Exp(e.theta))
		c.same("deltas."+m.name+".low", got.Low, math.Exp(e.low))
		c.same("deltas."+m.name+".high", got.High, math.Exp(e.high))
		c.same("deltas."+m.name+".p_sign_flip", got.PSignFlip, e.p)
	}
	c.equalText(s, whole)
}

func (c *recheck) equalText(s results.Summary, whole func(pair int) bool) {
	first := map[string]*results.Record{}
	equal, total := 0, 0
	for i := range c.data.Records {
		r := &c.data.Records[i]
		if r.AA || !whole(r.Pair) || r.Class != "long" || r.Outcome != results.Completed || r.Planned != "" {
			continue
		}
		key := fmt.Sprint(r.Pair, "/", r.Request)
		if first[key] == nil {
			first[key] = r
			continue
		}
		total++
		if first[key].Text == r.Text && first[key].Reasoning == r.Reasoning {
			equal++
		}
	}
	got := s.Identical
	if got == nil {
		got = &results.Equal{}
	}
	c.count("identical_long_answers.equal", &got.Equal, equal, true)
	c.count("identical_long_answers.total", &got.Total, total, true)
}

// estimated is the mean log ratio with its 95 % interval and sign-flip p.
type estimated struct{ theta, low, high, p float64 }

// estimate is Student's t with a slot-order term where both orders occur in at
// least four pairs, else the plain paired t; the sign flips run over the values
// less the order effect.
func estimate(d []float64, first []bool) estimated {
	none := estimated{math.NaN(), math.NaN(), math.NaN(), math.NaN()}
	n := len(d)
	if n == 0 {
		return none
	}
	var sum [2]float64
	var k [2]int
	for i, v := range d {
		g := 0
		if !first[i] {
			g = 1
		}
		sum[g], k[g] = sum[g]+v, k[g]+1
	}
	flat := d
	e := none
	switch {
	case n >= 4 && k[0] > 0 && k[1] > 0:
		mean := [2]float64{sum[0] / float64(k[0]), sum[1] / float64(k[1])}
		shift := (mean[0] - mean[1]) / 2
		flat = make([]float64, n)
		ss := 0.0
		for i, v := range d {
			g := 0
			flat[i] = v - shift
			if !first[i] {
				g, flat[i] = 1, v+shift
			}
			ss += (v - mean[g]) * (v - mean[g])
		}
		df := float64(n - 2)
		half := tPoint(df) * math.Sqrt(ss/df*(1/float64(k[0])+1/float64(k[1]))) / 2
		e.theta = (mean[0] + mean[1]) / 2
		e.low, e.high = e.theta-half, e.theta+half
	case n >= 2:
		e.theta = (sum[0] + sum[1]) / float64(n)
		ss := 0.0
		for _, v := range d {
			ss += (v - e.theta) * (v - e.theta)
		}
		half := tPoint(float64(n-1)) * math.Sqrt(ss/float64(n-1)/float64(n))
		e.low, e.high = e.theta-half, e.theta+half
	}
	e.p = flips(flat)
	return e
}

// flips is the exact two-sided sign-flip p; NaN beyond 24 values.
func flips(d []float64) float64 {
	if len(d) == 0 || len(d) > 24 {
		return math.NaN()
	}
	total, size := 0.0, 0.0
	for _, v := range d {
		total, size = total+v, size+math.Abs(v)
	}
	limit := math.Abs(total) - 1e-9*size
	var count func(i int, sum, left float64) int
	count = func(i int, sum, left float64) int {
		if i == len(d) {
			if math.Abs(sum) >= limit {
				return 1
			}
			return 0
		}
		if math.Abs(sum)+left < limit { // no way of setting the other signs gets there
			return 0
		}
		v := math.Abs(d[i])
		return count(i+1, sum+v, left-v) + count(i+1, sum-v, left-v)
	}
	return float64(count(0, 0, size)) / math.Pow(2, float64(len(d)))
}

// tPoint is the 97.5 % point of Student's t, by bisection on its distribution.
func tPoint(df float64) float64 {
	lo, hi := 0.0, 1e4
	for range 200 {
		mid := (lo + hi) / 2
		if 1-0.5*betaRatio(df/(df+mid*mid), df/2, 0.5) < 0.975 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}

// betaRatio is the regularised incomplete beta function I_x(a, b), by its
// continued fraction (Abramowitz and Stegun 26.5.8, evaluated as Lentz does).
func betaRatio(x, a, b float64) float64 {
	if x <= 0 || x >= 1 {
		return max(0, min(1, x))
	}
	if x > (a+1)/(a+b+2) {
		return 1 - betaRatio(1-x, b, a)
	}
	lg := func(v float64) float64 { r, _ := math.Lgamma(v); return r }
	front := math.Exp(lg(a+b)-lg(a)-lg(b)+a*math.Log(x)+b*math.Log(1-x)) / a
	const tiny = 1e-300
	f, c, d := 1.0, 1.0, 0.0
	for i := range 400 {
		m := float64(i / 2)
		num := 1.0
		switch {
		case i == 0:
		case i%2 == 0:
			num = m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		default:
			num = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		d = 1 + num*d
		if math.Abs(d) < tiny {
			d = tiny
		}
		d = 1 / d
		c = 1 + num/c
		if math.Abs(c) < tiny {
			c = tiny
		}
		f *= c * d
		if math.Abs(1-c*d) < 1e-15 {
			break
		}
	}
	return front * (f - 1)
}
