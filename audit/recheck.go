package audit

import (
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"

	"interlude/results"
)

// Recheck computes every count, percentile and delta of a summary again from the
// records, with code that shares nothing with results/stats, and demands
// equality. Definitions: results/doc.go and experiment.md, section 5.
func Recheck(fsys fs.FS, judgements []results.Judgement, s results.Summary) ([]results.Finding, error) {
	data, err := results.Open(fsys)
	if err != nil {
		return nil, fmt.Errorf("recheck: %w", err)
	}
	return recheckData(data, judgements, s), nil
}

func recheckData(data *results.Data, judgements []results.Judgement, s results.Summary) []results.Finding {
	c := recheck{data: data, judged: map[string]*results.Judgement{}}
	for i := range judgements {
		c.judged[judgements[i].Record] = &judgements[i]
	}
	c.run(s)
	const check = "recomputed"
	if len(c.wrong) > 0 {
		return []results.Finding{{Check: check, Status: Fail, Weight: results.Invalid, Evidence: strings.Join(c.wrong[:min(len(c.wrong), 10)], "\n"),
			Text: fmt.Sprintf("%d of %d numbers of the summary are not what the records give: %s", len(c.wrong), c.n, some(c.wrong)), Command: "interlude audit DIR"}}
	}
	return []results.Finding{{Check: check, Status: Pass, Text: fmt.Sprintf("%d counts, percentiles and deltas of the summary, computed a second time, are equal", c.n)}}
}

type recheck struct {
	data   *results.Data
	judged map[string]*results.Judgement
	n      int
	wrong  []string
}

// same compares one optional number; absent must meet absent.
func (c *recheck) same(name string, got *float64, want float64) {
	c.n++
	switch {
	case got == nil && math.IsNaN(want):
	case got == nil:
		c.wrong = append(c.wrong, fmt.Sprintf("%s is absent, recomputed %.9g", name, want))
	case math.IsNaN(want):
		c.wrong = append(c.wrong, fmt.Sprintf("%s is %.9g, recomputed absent", name, *got))
	case math.Abs(*got-want) > 1e-9*max(1, math.Abs(want)):
		c.wrong = append(c.wrong, fmt.Sprintf("%s is %.9g, recomputed %.9g", name, *got, want))
	}
}

func (c *recheck) count(name string, got *int, want int, known bool) {
	var g *float64
	if got != nil {
		v := float64(*got)
		g = &v
	}
	w := float64(want)
	if !known {
		w = math.NaN()
	}
	c.same(name, g, w)
}

func (c *recheck) run(s results.Summary) {
	arms := map[string][]results.SlotInfo{}
	for _, slot := range c.data.Run.Slots {
		if !slot.AA {
			arms[slot.Arm] = append(arms[slot.Arm], slot)
		}
	}
	paired := c.data.Run.Kind == "ab"
	for _, arm := range slices.Sorted(maps.Keys(arms)) {
		got := s.Arms[arm]
		if got == nil {
			c.wrong = append(c.wrong, "arm "+arm+" is absent")
			continue
		}
		c.arm(arm+".", got, arms[arm], paired)
	}
	if paired {
		c.pairs(s)
	}
}

// slotRecords are the measured records of one slot.
func (c *recheck) slotRecords(slot int) []*results.Record {
	var list []*results.Record
	for i := range c.data.Records {
		if r := &c.data.Records[i]; r.Slot == slot && measured(r) {
			list = append(list, r)
		}
	}
	return list
}

func (c *recheck) arm(name string, got *results.Arm, slots []results.SlotInfo, paired bool) {
	var every, whole []*results.Record
	complete := 0
	var out, total, span []float64
	for _, s := range slots {
		recs := c.slotRecords(s.Slot)
		every = append(every, recs...)
		if !s.Complete {
			continue
		}
		complete++
		whole = append(whole, recs...)
		b := blockOf(recs, paired)
		out, total, span = append(out, b.output), append(total, b.total), append(span, b.seconds)
	}
	c.count(name+"slots", &got.Slots, complete, true)
	c.outcomes(name, got.Requests, every)
	c.dist(name+"ttft_short_s", got.TTFTShort, ttfts(whole, "probe"))
	c.dist(name+"ttft_long_s", got.TTFTLong, ttfts(whole, "long"))
	c.dist(name+"long_e2e_s", got.LongE2E, e2es(whole))
	c.dist(name+"itl_s", got.ITL, gaps(whole))
	c.same(name+"output_tok_s", got.OutputTokS, middle(out))
	c.same(name+"total_tok_s", got.TotalTokS, middle(total))
	c.same(name+"block_s", got.Block, middle(span))
	c.answers(name, got, whole)
	c.counters(name, got, slots)
	c.drafts(name, got.Drafts, whole)
}

// drafts sums the engine's speculative tokens anew.
func (c *recheck) drafts(name string, got *results.Drafts, recs []*results.Record) {
	offered, accepted, known := 0, 0, false
	for _, r := range recs {
		if n, ok := r.Timings["draft_n"]; ok {
			known = true
			offered, accepted = offered+int(n), accepted+int(r.Timings["draft_n_accepted"])
		}
	}
	var o, a *int
	if got != nil {
		o, a = &got.Offered, &got.Accepted
	}
	c.count(name+"drafts.offered", o, offered, known)
	c.count(name+"drafts.accepted", a, accepted, known)
}

func (c *recheck) outcomes(name string, q results.Requests, recs []*results.Record) {
	n := map[results.Outcome]int{}
	for _, r := range recs {
		n[r.Outcome]++
	}
	for _, x := range []struct {
		key  string
		got  int
		want int
	}{
		{"planned", q.Planned, len(recs)}, {"sent", q.Sent, len(recs) - n[results.NotSent]}, {"completed", q.Completed, n[results.Completed]},
		{"cancelled", q.Cancelled, n[results.Cancelled]}, {"refused", q.Refused, n[results.RefusedOutcome]}, {"truncated", q.Truncated, n[results.Truncated]},
		{"stream_error", q.StreamError, n[results.StreamError]}, {"transport_error", q.TransportError, n[results.TransportError]},
		{"timeout", q.Timeout, n[results.Timeout]}, {"cut_off", q.CutOff, n[results.CutOff]}, {"not_sent", q.NotSent, n[results.NotSent]},
	} {
		c.count(name+"requests."+x.key, &x.got, x.want, true)
	}
}

func (c *recheck) dist(name string, got *results.Dist, values []float64) {
	if len(values) == 0 {
		if got != nil {
			c.wrong = append(c.wrong, name+" is present, the records give no value")
		}
		c.n++
		return
	}
	if got == nil {
		c.n++
		c.wrong = append(c.wrong, name+" is absent")
		return
	}
	c.count(name+".n", &got.N, len(values), true)
	c.same(name+".median", got.Median, rank(values, 50))
	c.same(name+".p95", got.P95, rank(values, 95))
	c.same(name+".max", got.Max, rank(values, 100))
}

// answers counts right answers anew from the judgements.
func (c *recheck) answers(name string, got *results.Arm, recs []*results.Record) {
	var audits, exact, shorts, right, strict, strictOf, trips, tools int
	ended := map[string]*results.Record{}
	for _, r := range recs {
		ended[fmt.Sprint(r.Slot, "/", r.Conversation, "/", r.Turn)] = r
	}
	good := func(r *results.Record) int {
		if j := c.judged[r.ID]; r.Outcome == results.Completed && j != nil && j.Right {
			return 1
		}
		return 0
	}
	for _, r := range recs {
		if j := c.judged[r.ID]; j != nil && j.Strict != nil {
			strictOf++
			if *j.Strict {
				strict++
			}
		}
		if r.Planned != "" {
			continue
		}
		switch r.Class {
		case "audit":
			audits++
			exact += good(r)
		case "probe", "short":
			shorts++
			right += good(r)
		case "tool":
			tools++
			before := ended[fmt.Sprint(r.Slot, "/", r.Conversation, "/", r.Turn-1)]
			if len(r.Tools) == 0 && before != nil && len(before.Tools) > 0 && good(before) == 1 {
				trips += good(r)
			}
		}
	}
	pick := func(v *int, ok bool) *int {
		if !ok {
			return nil
		}
		return v
	}
	a, sh, st := got.Audits, got.ShortAnswers, got.StrictJSON
	if a == nil {
		a = &results.Exact{}
	}
	if sh == nil {
		sh = &results.Right{}
	}
	if st == nil {
		st = &results.Passed{}
	}
	c.count(name+"audits.exact", pick(&a.Exact, got.Audits != nil), exact, audits > 0)
	c.count(name+"audits.total", pick(&a.Total, got.Audits != nil), audits, audits > 0)
	c.count(name+"short_answers.right", pick(&sh.Right, got.ShortAnswers != nil), right, shorts > 0)
	c.count(name+"short_answers.total", pick(&sh.Total, got.ShortAnswers != nil), shorts, shorts > 0)
	c.count(name+"strict_json.passed", pick(&st.Passed, got.StrictJSON != nil), strict, strictOf > 0)
	c.count(name+"strict_json.total", pick(&st.Total, got.StrictJSON != nil), strictOf, strictOf > 0)
	c.count(name+"tool_round_trips", got.RoundTrips, trips, tools > 0)
}

// counters sums the witness counters of the complete slots.
func (c *recheck) counters(name string, got *results.Arm, slots []results.SlotInfo) {
	sum := func(of func(results.SlotInfo) (float64, bool)) float64 {
		total, n := 0.0, 0
		for _, s := range slots {
			if !s.Complete {
				continue
			}
			v, ok := of(s)
			if !ok {
				return math.NaN()
			}
			total, n = total+v, n+1
		}
		if n == 0 {
			return math.NaN()
		}
		return total
	}
	named := func(key string) func(results.SlotInfo) (float64, bool) {
		return func(s results.SlotInfo) (float64, bool) { return counter(s.Witness, key) }
	}
	for _, x := range []struct {
		key string
		of  func(results.SlotInfo) (float64, bool)
		got *int
	}{{"parks", parks, got.Parks}, {"lost_prefix_tokens", named("lost_prefix_tokens"), got.LostPrefix}, {"reread_tokens", named("reread_tokens"), got.Reread}} {
		v := sum(x.of)
		c.count(name+x.key, x.got, int(math.Round(v)), !math.IsNaN(v))
	}
	c.same(name+"switch_s", got.Switch, sum(named("switch_seconds")))
	longest := math.NaN()
	for _, s := range slots {
		if s.Complete {
			longest = fmax(longest, stoodStill(c.slotRecords(s.Slot)))
		}
	}
	if math.IsNaN(longest) && sum(parks) == 0 {
		longest = 0
	}
	c.same(name+"longest_pause_s", got.LongestPause, longest)
}
