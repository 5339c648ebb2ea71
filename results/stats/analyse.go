package stats

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"interlude/results"
)

// Facts is what the plan promised before the first start.
type Facts struct {
	Kind    string // ab, soak, inject, lifecycle
	Primary string // ttft_short or block_s
	Margin  float64
	Guards  map[string]float64 // output_tok_s, long_excess
	Pairs   int                // planned, outside A/A
	PerSlot int                // measured requests planned for each slot; 0 unknown
	Parks   string             // "none"
	Budgets map[string]float64 // of a run of one arm
	Cells   []results.Cell     // of inject
	Noise   *float64           // half-width of a stored A/A of the same environment
}

// PairValue is one metric in one pair.
type PairValue struct {
	Pair     int
	Off, On  *float64
	D        float64 // log ratio, more is better; NaN where a value is absent
	OffFirst bool
	Missing  []string
}

// Metric is one metric over all pairs.
type Metric struct {
	Name      string
	Rate      bool // more is better
	Pairs     []PairValue
	Effect    *Effect
	HL        *float64
	Companion *Interval
	SignFlip  *float64
	Adjusted  bool // the sign-flip p is approximate: the values are slot-adjusted
	Margin    float64
	Rig       float64
	Noise     *float64 // half-width of A/A for this n; nil: absent
	Call      Call
	Why       string
	GuardCall Call // for guards
	GuardWhy  string
}

// Contrast is one request whose answer is right in one arm of a pair only.
type Contrast struct {
	Pair    int
	Request string
	Class   string
	Off, On string // outcome, or what is wrong
}

// Analysis is everything that is said about a run in numbers.
type Analysis struct {
	Facts   Facts
	Summary results.Summary
	Metrics map[string]*Metric
	OnlyOn  []Contrast // right in off, not in on
	OnlyOff []Contrast // right in on, not in off
	Both    []Contrast // wrong in both
	McNemar float64    // failures (not completed), two-sided
	// FailedOn and FailedOff count requests that completed in the other arm only.
	FailedOn, FailedOff int
	// TimePerTask says that the answers of the arms differ in length by more than
	// 3 %, so that block_s stands in for output_tok_s.
	TimePerTask bool

	data       *results.Data
	findings   []results.Finding
	judgements map[string]*results.Judgement
	turns      map[turnKey]*results.Record
	slots      []*slot
	pairs      []pair
	aa         []pair
}

type turnKey struct {
	slot         int
	conversation string
	turn         int
}

// pair is two complete slots of the two arms, or of A/A.
type pair struct {
	n        int
	off, on  *slot
	offFirst bool
}

// Summarise is Analyse's summary.
func Summarise(d *results.Data, judgements []results.Judgement, findings []results.Finding, f Facts) results.Summary {
	return Analyse(d, judgements, findings, f).Summary
}

// Analyse computes every number of a run and its verdict.
func Analyse(d *results.Data, judgements []results.Judgement, findings []results.Finding, f Facts) *Analysis {
	a := &Analysis{Facts: f, data: d, findings: findings, Metrics: map[string]*Metric{},
		judgements: map[string]*results.Judgement{}, turns: map[turnKey]*results.Record{}}
	for i := range judgements {
		a.judgements[judgements[i].Record] = &judgements[i]
	}
	for i := range d.Records {
		r := &d.Records[i]
		a.turns[turnKey{r.Slot, r.Conversation, r.Turn}] = r
	}
	a.slots = slots(d)
	a.match()
	a.Summary = results.Summary{
		Schema: results.Schema, Run: d.Run.ID, Kind: f.Kind, Emulated: d.Run.Emulated, Speed: d.Run.Speed,
		Pairs: len(a.pairs), Arms: map[string]*results.Arm{}, Cells: f.Cells, Reasons: []string{},
	}
	a.arms()
	a.contrast()
	if d.Run.Calibrated != nil {
		a.Summary.Delay = &results.AddedDelay{P99: d.Run.Calibrated.P99}
	}
	if f.Kind == "ab" {
		a.metrics()
		a.decidePaired()
	} else {
		a.slopes()
		a.decideOneArm()
	}
	if a.Summary.Verdict == results.VerdictInvalid {
		a.Summary.Deltas = nil // withheld; Metrics keeps them for the appendix
	}
	return a
}

// match finds the complete pairs.
func (a *Analysis) match() {
	byPair := map[int][]*slot{}
	for _, s := range a.slots {
		if s.Pair > 0 && s.Complete {
			byPair[s.Pair] = append(byPair[s.Pair], s)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(byPair)) {
		two := byPair[n]
		if len(two) != 2 {
			continue
		}
		p := pair{n: n, off: two[0], on: two[1], offFirst: true}
		switch {
		case two[0].AA && two[1].AA:
			a.aa = append(a.aa, p)
		case two[0].Arm == results.Off && two[1].Arm == results.On:
			a.pairs = append(a.pairs, p)
		case two[0].Arm == results.On && two[1].Arm == results.Off:
			a.pairs = append(a.pairs, pair{n, two[1], two[0], false})
		}
	}
}

// arms sums up each arm and closes the client's ledger over them.
func (a *Analysis) arms() {
	lists := map[string][]*slot{}
	for _, s := range a.slots {
		if !s.AA {
			lists[s.Arm] = append(lists[s.Arm], s)
		}
	}
	ok := true
	for arm, list := range lists {
		a.Summary.Arms[arm] = a.arm(list)
		q := a.Summary.Arms[arm].Requests
		ok = ok && balanced(q) && (a.Facts.PerSlot == 0 || q.Planned == a.Facts.PerSlot*len(list))
	}
	for _, f := range a.findings {
		if strings.HasPrefix(f.Check, "ledger") && f.Status == "fail" {
			ok = false
		}
	}
	if len(lists) > 0 {
		a.Summary.Balanced = &ok
	}
}

// contrast compares the answers of the two arms of each pair.
func (a *Analysis) contrast() {
	same := results.Equal{}
	for _, p := range a.pairs {
		on := map[string]*results.Record{}
		for _, r := range a.all(p.on) {
			on[r.Request] = r
		}
		for _, r := range a.all(p.off) {
			q := on[r.Request]
			if q == nil || r.Class == warmup {
				continue
			}
			a.compare(p.n, r, q)
			if r.Class == long && r.Done() && q.Done() {
				same.Total++
				same.Equal += one(r.Text == q.Text && r.Reasoning == q.Reasoning)
			}
		}
	}
	a.McNemar = McNemar(a.FailedOn, a.FailedOff)
	if same.Total > 0 {
		a.Summary.Identical = &same
	}
}

// all returns every record of a slot, warm-ups and canaries too.
func (a *Analysis) all(s *slot) []*results.Record {
	var list []*results.Record
	for i := range a.data.Records {
		if r := &a.data.Records[i]; r.Slot == s.Slot {
			list = append(list, r)
		}
	}
	return list
}

func (a *Analysis) compare(n int, off, on *results.Record) {
	if cancels(off) {
		return
	}
	switch {
	case off.Done() && !on.Done():
		a.FailedOn++
	case on.Done() && !off.Done():
		a.FailedOff++
	}
	c := Contrast{n, off.Request, off.Class, a.fault(off), a.fault(on)}
	switch {
	case c.Off == "" && c.On != "":
		a.OnlyOn = append(a.OnlyOn, c)
	case c.Off != "" && c.On == "":
		a.OnlyOff = append(a.OnlyOff, c)
	case c.Off != "" && c.On != "":
		a.Both = append(a.Both, c)
	}
}

// fault says what is wrong with a record's answer; "" if nothing is, or if it was
// not judged, or if the manifest only scores it.
func (a *Analysis) fault(r *results.Record) string {
	if !r.Done() {
		return string(r.Outcome)
	}
	j := a.judgements[r.ID]
	if j == nil || j.Scored || j.Right && (j.Strict == nil || *j.Strict) {
		return ""
	}
	if len(j.Faults) > 0 {
		return some(j.Faults)
	}
	return "wrong answer"
}

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
			a.Summary.Deltas[name] = m.delta()
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
	} else if a.Facts.Noise != nil {
		m.Noise = a.Facts.Noise
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

// delta is on/off as a ratio, whichever way is better.
func (m *Metric) delta() results.Delta {
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

// sortContrasts orders by pair and request.
func sortContrasts(list []Contrast) {
	slices.SortFunc(list, func(a, b Contrast) int {
		return cmp.Or(cmp.Compare(a.Pair, b.Pair), strings.Compare(a.Request, b.Request))
	})
}
