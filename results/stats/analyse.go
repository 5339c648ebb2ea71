package stats

import (
	"cmp"
	"maps"
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
	Budgets map[string]float64 // of a run of one arm
	Cells   []results.Cell     // of inject
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
		ok = ok && balanced(q) && (a.control(list[0]) || a.allPlanned(q.Planned-repeated(list), list))
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

// control reports whether a slot of a run of one arm is beside it, outside the
// verdict. It is sent a part of what was planned, and the audit's ledger counts that.
func (a *Analysis) control(s *slot) bool { return a.Facts.Kind != "ab" && s.Pair == 0 }

// judged are the slots that a run of one arm is about.
func (a *Analysis) judged() []*slot {
	return slices.DeleteFunc(slices.Clone(a.slots), a.control)
}

// repeated counts the records of requests that were sent again because the run
// itself had ended the engine under them.
func repeated(list []*slot) int {
	n := 0
	for _, s := range list {
		seen := map[string]int{}
		for _, r := range s.records {
			if seen[r.Request]++; seen[r.Request] > 1 {
				n++
			}
		}
	}
	return n
}

// allPlanned reports whether slots have as many records as were planned: exactly in
// complete ones, at most in others, whose last requests a killed harness could not
// write down.
func (a *Analysis) allPlanned(n int, list []*slot) bool {
	complete := 0
	for _, s := range list {
		complete += one(s.Complete)
	}
	per := a.Facts.PerSlot
	return per == 0 || per*complete <= n && n <= per*len(list)
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
	c := Contrast{n, off.Request, off.Class, a.wrong(off), a.wrong(on)}
	if (c.Off == "") == (c.On == "") || !off.Done() || !on.Done() { // else one arm could do it, and the other one is held to that
		c.Off, c.On = a.fault(off), a.fault(on)
	}
	switch {
	case c.Off == "" && c.On != "":
		a.OnlyOn = append(a.OnlyOn, c)
	case c.Off != "" && c.On == "":
		a.OnlyOff = append(a.OnlyOff, c)
	case c.Off != "" && c.On != "":
		a.Both = append(a.Both, c)
	}
}

// fault says what is wrong with a record's answer by itself; "" if nothing is, or if
// it was not judged, or if the manifest only scores it.
func (a *Analysis) fault(r *results.Record) string {
	if j := a.judgements[r.ID]; r.Done() && j != nil && j.Scored {
		return ""
	}
	return a.wrong(r)
}

// wrong is fault for a comparison of the arms: what a manifest scores, because the
// model may not be able to do it, is held against an arm if the other one could.
func (a *Analysis) wrong(r *results.Record) string {
	if !r.Done() {
		return string(r.Outcome)
	}
	j := a.judgements[r.ID]
	if j == nil || j.Right && (j.Strict == nil || *j.Strict) {
		return ""
	}
	if len(j.Faults) > 0 {
		return some(j.Faults)
	}
	return "wrong answer"
}

// sortContrasts orders by pair and request.
func sortContrasts(list []Contrast) {
	slices.SortFunc(list, func(a, b Contrast) int {
		return cmp.Or(cmp.Compare(a.Pair, b.Pair), strings.Compare(a.Request, b.Request))
	})
}
