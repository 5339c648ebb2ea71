package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"interlude/results"
)

// rig is a paired run as the reference tells it: a long answer A1, a probe P1, an
// audit A2 and a tool round trip B1, B2 in each slot.
type rigRun struct {
	data       results.Data
	judgements []results.Judgement
	findings   []results.Finding
	facts      Facts
}

const second = results.Stamp(1e9)

func at(s float64) results.Stamp { return results.Stamp(math.Round(s * 1e9)) }

// newRun makes n pairs and aa A/A pairs. Slot times jitter by a fraction of a per
// mille, so that intervals have a width.
func newRun(n, aa int) *rigRun {
	r := &rigRun{facts: Facts{Kind: "ab", Primary: "ttft_short", Margin: 0.05, Pairs: n, PerSlot: 5,
		Guards: map[string]float64{"output_tok_s": 0.05, "long_excess": 0.05}}}
	r.data.Run = results.Run{ID: "run", Kind: "ab", Speed: 1, Emulated: "rtx3090-iq3s", Status: "complete",
		Calibrated: &results.Calibration{P99: 0.0005}}
	for pair := 1; pair <= n+aa; pair++ {
		arms := []string{"off", "on"}
		if pair%4 == 2 || pair%4 == 3 {
			arms = []string{"on", "off"}
		}
		if pair > n {
			arms = []string{"off", "off"}
		}
		for _, arm := range arms {
			r.slot(pair, arm, pair > n)
		}
	}
	return r
}

func (r *rigRun) slot(pair int, arm string, aa bool) {
	n := len(r.data.Run.Slots) + 1
	j := 1 + 0.0002*float64((n*7)%5)
	witness := map[string]float64{"preemptions": 0, "switch_seconds": 0, "lost_prefix_tokens": 0, "reread_tokens": 0}
	ttft, probeEnd, longEnd := 20.128*j, 27.362*j, 27.12*j
	if arm == "on" {
		ttft, probeEnd, longEnd = 0.561*j, 7.8*j, 27.7*j
		witness = map[string]float64{"strata:solo_preemptions_total": 1, "switch_seconds": 0.25, "lost_prefix_tokens": 0, "reread_tokens": 0}
	}
	r.data.Run.Slots = append(r.data.Run.Slots, results.SlotInfo{Slot: n, Pair: pair, Arm: arm, AA: aa, Complete: true, Witness: witness})
	add := func(rec results.Record) {
		rec.ID, rec.Slot, rec.Pair, rec.Arm, rec.AA = fmt.Sprintf("%d/%s", n, rec.Request), n, pair, arm, aa
		rec.End = rec.LastToken + 1
		if rec.Outcome == "" {
			rec.Outcome = results.Completed
		}
		r.data.Records = append(r.data.Records, rec)
		yes := true
		judgement := results.Judgement{Record: rec.ID, Class: rec.Class, Right: true}
		if rec.Class == audit || rec.Request == "B2" {
			judgement.Strict = &yes
		}
		r.judgements = append(r.judgements, judgement)
	}
	add(results.Record{Request: "warmup-1", Class: warmup, Conversation: "w", Due: 1, Sent: 2, FirstToken: 5, LastToken: 9})
	add(results.Record{Request: "canary-1", Class: canary, Conversation: "c", Due: 1, Sent: 2, FirstToken: 5, LastToken: 9})
	long1 := results.Record{Request: "A1", Class: long, Conversation: "A", Due: at(100), Sent: at(100.0001), FirstToken: at(100.5), LastToken: at(100 + longEnd),
		Usage: &results.Usage{Prompt: 627, Completion: 2215}, Text: fmt.Sprint("text of pair ", pair),
		Chunks: []results.Chunk{{At: at(100.5), Bytes: 4}, {At: at(107), Bytes: 900}, {At: at(100 + longEnd), Bytes: 400}}}
	if arm == "on" {
		long1.States = []results.Seen{{At: at(107.05), Text: ": parked"}, {At: at(108), Text: ": resumed"}}
		long1.Chunks = []results.Chunk{{At: at(100.5), Bytes: 4}, {At: at(107), Bytes: 500}, {At: at(108.2), Bytes: 400}, {At: at(100 + longEnd), Bytes: 400}}
	}
	add(long1)
	add(results.Record{Request: "P1", Class: probe, Conversation: "P", Due: at(107), Sent: at(107.0002), FirstToken: at(107) + at(ttft), LastToken: at(100 + probeEnd),
		Usage: &results.Usage{Prompt: 230, Completion: 21}, Timings: results.Timings{"prompt_ms": 400, "predicted_ms": 190, "draft_n": 10, "draft_n_accepted": 7}})
	add(results.Record{Request: "A2", Class: audit, Conversation: "A", Turn: 1, Due: at(130), Sent: at(130), FirstToken: at(131), LastToken: at(133)})
	index := 0
	add(results.Record{Request: "B1", Class: tool, Conversation: "B", Due: at(133), Sent: at(133), FirstToken: at(134), LastToken: at(135),
		Tools: []results.ToolCall{{Index: &index, ID: "call_1", Name: "t", Arguments: "{}"}}})
	add(results.Record{Request: "B2", Class: tool, Conversation: "B", Turn: 1, Due: at(135), Sent: at(135), FirstToken: at(136), LastToken: at(137)})
}

func (r *rigRun) analyse() *Analysis { return Analyse(&r.data, r.judgements, r.findings, r.facts) }

func (r *rigRun) record(id string) *results.Record {
	for i := range r.data.Records {
		if r.data.Records[i].ID == id {
			return &r.data.Records[i]
		}
	}
	panic(id)
}

func (r *rigRun) judgement(id string) *results.Judgement {
	for i := range r.judgements {
		if r.judgements[i].Record == id {
			return &r.judgements[i]
		}
	}
	panic(id)
}

// Parks by force are parks, whoever counts them apart.
func TestParksByForce(t *testing.T) {
	r := newRun(8, 0)
	for i := range r.data.Run.Slots {
		if s := &r.data.Run.Slots[i]; s.Arm == "on" {
			s.Witness["forced_parks"] = 3
		}
	}
	if s := r.analyse().Summary; *s.Arms["on"].Parks != 8+8*3 || *s.Arms["off"].Parks != 0 {
		t.Errorf("%d parks on, %d off", *s.Arms["on"].Parks, *s.Arms["off"].Parks)
	}
}

func TestAnalysePaired(t *testing.T) {
	s := newRun(8, 0).analyse().Summary
	if s.Verdict != results.VerdictBetter || len(s.Reasons) != 1 || s.Pairs != 8 {
		t.Fatalf("%s %v, %d pairs", s.Verdict, s.Reasons, s.Pairs)
	}
	off, on := s.Arms["off"], s.Arms["on"]
	if off.Slots != 8 || off.Requests != (results.Requests{Planned: 40, Sent: 40, Completed: 40}) {
		t.Errorf("off: %d slots, %+v", off.Slots, off.Requests)
	}
	near(t, "ttft off", *off.TTFTShort.Median, 20.128, 0.02)
	near(t, "ttft on", *on.TTFTShort.Median, 0.561, 0.001)
	near(t, "block off", *off.Block, 27.362, 0.03)
	near(t, "block on", *on.Block, 27.7, 0.03)
	near(t, "output off", *off.OutputTokS, 2236/27.362, 0.1)
	near(t, "total off", *off.TotalTokS, 113.041, 0.12) // the reference's aggregate: 3,093 tokens in 27.362 s
	near(t, "pause on", *on.LongestPause, 1.2, 1e-6)
	near(t, "pause off", *off.LongestPause, 0, 0)
	near(t, "switch", *on.Switch, 8*0.25, 1e-9)
	if *off.Parks != 0 || *on.Parks != 8 || *on.LostPrefix != 0 || *on.RoundTrips != 8 || *on.Audits != (results.Exact{Exact: 8, Total: 8}) ||
		*on.ShortAnswers != (results.Right{Right: 8, Total: 8}) || *on.StrictJSON != (results.Passed{Passed: 16, Total: 16}) || *on.Drafts != (results.Drafts{Offered: 80, Accepted: 56}) {
		b, _ := json.Marshal(on)
		t.Errorf("on: %s", b)
	}
	d := s.Deltas["ttft_short"]
	near(t, "ratio", *d.Ratio, 0.561/20.128, 1e-4)
	near(t, "p", *d.PSignFlip, 2.0/256, 1e-12)
	if d.N != 8 || *d.Low > *d.Ratio || *d.High < *d.Ratio || *d.High > 0.03 {
		t.Errorf("delta %v [%v, %v], n %d", *d.Ratio, *d.Low, *d.High, d.N)
	}
	if out := s.Deltas["output_tok_s"]; *out.Ratio > 0.99 || *out.Ratio < 0.98 {
		t.Errorf("on/off of tok/s is %v, the on arm is slower", *out.Ratio)
	}
	if *s.Identical != (results.Equal{Equal: 8, Total: 8}) || !*s.Balanced || s.Delay.P99 != 0.0005 {
		t.Errorf("identical %+v, balanced %v, delay %+v", *s.Identical, *s.Balanced, s.Delay)
	}
}

// TestExcessIsNotBlamedForTheOvertaker: the long answer ends 0.58 s later and was
// overtaken by a service of 0.59 s; nothing is left to blame.
func TestExcessIsNotBlamedForTheOvertaker(t *testing.T) {
	a := newRun(8, 0).analyse()
	m := a.Metrics["long_excess"]
	if m.GuardCall != Pass {
		t.Errorf("%s: %s", m.GuardCall, m.GuardWhy)
	}
	near(t, "off", *m.Pairs[0].Off, 27.12, 0.05)
	near(t, "on", *m.Pairs[0].On, 27.7-0.59, 0.05)
}

// TestEarlierRequestsDoNotOvertake: one that was sent before the long answer and
// ended within it was in front of it in any order.
func TestEarlierRequestsDoNotOvertake(t *testing.T) {
	r := newRun(4, 0)
	before := *r.analyse().Metrics["long_excess"].Pairs[0].Off
	early := r.record("1/A2")
	early.Sent, early.LastToken = at(99), at(101)
	early.Timings = results.Timings{"prompt_ms": 1000, "predicted_ms": 1000}
	near(t, "off", *r.analyse().Metrics["long_excess"].Pairs[0].Off, before, 1e-9)
}

func TestRoundTripNeedsCalls(t *testing.T) {
	r := newRun(4, 0)
	r.record("1/B1").Tools = nil
	r.judgement("4/B1").Right = false
	if n := *r.analyse().Summary.Arms["off"].RoundTrips; n != 2 {
		t.Errorf("%d round trips of 4: in one nothing was called, in another the wrong thing", n)
	}
}

// TestVerdicts edits the good run in one way each.
func TestVerdicts(t *testing.T) {
	fail := func(check, weight string) func(r *rigRun) {
		return func(r *rigRun) {
			r.findings = append(r.findings, results.Finding{Check: check, Status: "fail", Weight: weight, Text: "evidence"})
		}
	}
	each := func(arm, request string, edit func(*results.Record)) func(r *rigRun) {
		return func(r *rigRun) {
			for i := range r.data.Records {
				if rec := &r.data.Records[i]; rec.Request == request && (arm == "" || rec.Arm == arm) {
					edit(rec)
				}
			}
		}
	}
	swap := func(r *rigRun) { // the flag makes everything worse
		for i := range r.data.Run.Slots {
			s := &r.data.Run.Slots[i]
			s.Arm = map[string]string{"off": "on", "on": "off"}[s.Arm]
		}
		for i := range r.data.Records {
			r.data.Records[i].Arm = map[string]string{"off": "on", "on": "off"}[r.data.Records[i].Arm]
		}
	}
	for _, c := range []struct {
		name string
		edit func(r *rigRun)
		want string
		says string
	}{
		{"nothing", func(*rigRun) {}, results.VerdictBetter, "ttft_short: BETTER"},
		{"slower", swap, results.VerdictWorse, "ttft_short: WORSE"},
		{"wrong audit only on", func(r *rigRun) { r.judgement("2/A2").Right = false }, results.VerdictBroken, "pair 1, A2"},
		{"wrong audit only off", func(r *rigRun) { r.judgement("1/A2").Right = false }, results.VerdictBetter, ""},
		{"wrong audit in both", func(r *rigRun) { r.judgement("1/A2").Right, r.judgement("2/A2").Right = false, false }, results.VerdictBetter, ""},
		{"wrong tool turn only on", func(r *rigRun) { r.judgement("2/B1").Right = false }, results.VerdictBroken, "B1"},
		{"wrong short answer only on", func(r *rigRun) { r.judgement("2/P1").Right = false }, results.VerdictBroken, "P1"},
		{"wrong canary only on", func(r *rigRun) { r.judgement("2/canary-1").Right = false }, results.VerdictBroken, "canary-1"},
		{"not strict only on", func(r *rigRun) { no := false; r.judgement("2/B2").Strict = &no }, results.VerdictBroken, "B2"},
		{"scored answers that no arm gets right", func(r *rigRun) { scored(r, "1/A2", "2/A2") }, results.VerdictBetter, ""},
		{"a scored answer right only on", func(r *rigRun) { scored(r, "1/A2", "2/A2"); r.judgement("2/A2").Right = true }, results.VerdictBetter, ""},
		{"a scored answer right only off", func(r *rigRun) {
			scored(r, "1/A2", "2/A2")
			r.data.Run.Emulated, r.judgement("1/A2").Right = "", true
		}, results.VerdictInconclusive, "pair 1, A2 (audit): right with the flag off"},
		{"a scored answer that the flag ended", func(r *rigRun) { scored(r, "1/A1", "2/A1"); r.record("2/A1").Outcome = results.Truncated }, results.VerdictInconclusive, "pair 1, A1 (long): right with the flag off, with it on: truncated"},
		{"on real hardware it is doubt", func(r *rigRun) { r.data.Run.Emulated = ""; r.judgement("2/A2").Right = false }, results.VerdictInconclusive, "A2"},
		{"long answer wrong only on", func(r *rigRun) { r.judgement("2/A1").Right = false }, results.VerdictInconclusive, "A1"},
		{"one request fails only on", func(r *rigRun) { r.record("2/B2").Outcome = results.Truncated }, results.VerdictInconclusive, "truncated"},
		{"H56: the slow ones are refused", each("on", "B2", func(rec *results.Record) { rec.Outcome = results.RefusedOutcome }), results.VerdictBroken, "8 requests failed only with the flag on"},
		{"failures in off alone", each("off", "B2", func(rec *results.Record) { rec.Outcome = results.RefusedOutcome }), results.VerdictBetter, ""},
		{"a probe fails in off", func(r *rigRun) { r.record("1/P1").Outcome = results.Timeout }, results.VerdictInconclusive, "1/P1"},
		{"H73: no probe succeeds", each("", "P1", func(rec *results.Record) { rec.Outcome = results.RefusedOutcome }), results.VerdictInconclusive, "ttft_short: UNSURE"},
		{"H73: nothing succeeds", func(r *rigRun) {
			for i := range r.data.Records {
				r.data.Records[i].Outcome = results.TransportError
			}
		}, results.VerdictInconclusive, "ttft_short: UNSURE"},
		{"zero tolerance", fail("lost_token", results.Broken), results.VerdictBroken, "lost_token: evidence"},
		{"broken before invalid", func(r *rigRun) { fail("a", results.Invalid)(r); fail("b", results.Broken)(r) }, results.VerdictBroken, "b: evidence"},
		{"records that were changed prove nothing", func(r *rigRun) {
			fail("flag", results.Invalid)(r)
			fail("record_chain", results.Invalid)(r)
			fail("b", results.Broken)(r)
		}, results.VerdictInvalid, "record_chain: evidence"},
		{"invalid", fail("flag", results.Invalid), results.VerdictInvalid, "flag: evidence"},
		{"invalid before worse", func(r *rigRun) { swap(r); fail("flag", results.Invalid)(r) }, results.VerdictInvalid, "flag"},
		{"a budget of the audit", fail("early", results.Worse), results.VerdictWorse, "early"},
		{"a doubt", fail("slots", results.Doubt), results.VerdictInconclusive, "slots"},
		{"a note changes nothing", fail("deviation", results.Note), results.VerdictBetter, ""},
		{"throughput falls", each("on", "A1", func(rec *results.Record) { rec.LastToken += at(4) }), results.VerdictWorse, "guard long_excess"},
		{"a slot is incomplete", func(r *rigRun) { r.data.Run.Slots[0].Complete = false }, results.VerdictInconclusive, "7 of 8 planned pairs"},
		{"no calibration", func(r *rigRun) { r.data.Run.Calibrated = nil }, results.VerdictInconclusive, "RIG"},
		{"a slow client", func(r *rigRun) { r.data.Run.Calibrated.P99 = 9 }, results.VerdictInconclusive, "RIG"},
		{"usage is missing", each("", "A1", func(rec *results.Record) { rec.Usage = nil }), results.VerdictInconclusive, "the server's usage"},
		{"equal", func(r *rigRun) {
			each("", "P1", func(rec *results.Record) { rec.FirstToken = rec.Due + at(0.5+0.0001*float64(rec.Slot%3)) })(r)
		}, results.VerdictNoDifference, "ttft_short: EQUAL"},
		{"an unknown primary", func(r *rigRun) { r.facts.Primary = "speed" }, results.VerdictInconclusive, `"speed"`},
		{"no records", func(r *rigRun) { r.data.Records, r.data.Run.Slots = nil, nil }, results.VerdictInconclusive, "planned pairs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRun(8, 0)
			c.edit(r)
			s := r.analyse().Summary
			if s.Verdict != c.want || !strings.Contains(strings.Join(s.Reasons, "\n"), c.says) {
				t.Errorf("%s %v, want %s with %q", s.Verdict, s.Reasons, c.want, c.says)
			}
			if _, err := json.Marshal(s); err != nil {
				t.Errorf("H76: the summary is no JSON: %v", err)
			}
			if (s.Verdict == results.VerdictInvalid) != (s.Deltas == nil) {
				t.Errorf("deltas of %s: %v", s.Verdict, s.Deltas)
			}
		})
	}
}

// scored makes answers such as a manifest only scores, and wrong.
func scored(r *rigRun, ids ...string) {
	for _, id := range ids {
		r.judgement(id).Right, r.judgement(id).Scored = false, true
	}
}

// TestNothingIsNamedTwice: what a check of the audit names is not named again.
func TestNothingIsNamedTwice(t *testing.T) {
	r := newRun(4, 0)
	r.judgement("2/A2").Right = false
	r.findings = []results.Finding{{Check: "wrong_in_on_only", Status: "fail", Weight: results.Broken, Records: []string{"2/A2", "1/A2"}, Text: "A2"}}
	if s := r.analyse().Summary; s.Verdict != results.VerdictBroken || len(s.Reasons) != 1 {
		t.Errorf("%s %q", s.Verdict, s.Reasons)
	}
	r.data.Run.Emulated = ""
	r.findings[0].Weight = results.Doubt
	if s := r.analyse().Summary; s.Verdict != results.VerdictInconclusive || len(s.Reasons) != 1 {
		t.Errorf("%s %q", s.Verdict, s.Reasons)
	}
}

func TestQuickSaysThatOnlyTExists(t *testing.T) {
	r := newRun(3, 0)
	a := r.analyse()
	if m := a.Metrics["ttft_short"]; m.Effect.Method != "paired t" || m.Companion != nil || *m.SignFlip != 0.25 {
		t.Errorf("%+v", m)
	}
	if s := a.Summary; s.Verdict != results.VerdictBetter || !strings.Contains(s.Reasons[0], "t interval alone") {
		t.Errorf("%s %v", s.Verdict, s.Reasons)
	}
}

// TestNoiseBand: the band comes from A/A slots, which enter no arm.
func TestNoiseBand(t *testing.T) {
	r := newRun(4, 2)
	a := r.analyse()
	m := a.Metrics["ttft_short"]
	if m.Noise == nil || *m.Noise <= 0 || a.Summary.Arms["off"].Slots != 4 || a.Summary.Pairs != 4 {
		t.Fatalf("noise %v, %d off slots", m.Noise, a.Summary.Arms["off"].Slots)
	}
	for i := range r.data.Records { // one arm against itself differs more than the arms do
		if rec := &r.data.Records[i]; rec.AA && rec.Class == probe && rec.Slot%2 == 0 {
			rec.FirstToken = rec.Due + 1
		}
	}
	if s := r.analyse().Summary; s.Verdict != results.VerdictInconclusive {
		t.Errorf("%s although A/A differs more than A/B", s.Verdict)
	}
	if newRun(4, 0).analyse().Metrics["ttft_short"].Noise != nil {
		t.Error("a band without A/A slots")
	}
}

// TestControlsStandOutside: a third arm has figures and no pairs.
func TestControlsStandOutside(t *testing.T) {
	r := newRun(4, 0)
	r.slot(0, "upstream", false)
	s := r.analyse().Summary
	if s.Arms["upstream"] == nil || s.Pairs != 4 || s.Verdict != results.VerdictBetter {
		t.Errorf("%v %d %s", s.Arms["upstream"], s.Pairs, s.Verdict)
	}
}

func TestPlannedCancellationsEnterNoNumber(t *testing.T) {
	r := newRun(4, 0)
	for i := range r.data.Records {
		if rec := &r.data.Records[i]; rec.Request == "B2" {
			rec.Planned, rec.Outcome = "cancel", results.Cancelled
		}
	}
	s := r.analyse().Summary
	if s.Verdict != results.VerdictBetter || s.Arms["on"].Requests.Cancelled != 4 || *s.Arms["on"].RoundTrips != 0 || !*s.Balanced {
		t.Errorf("%s %v %+v", s.Verdict, s.Reasons, s.Arms["on"].Requests)
	}
}

// A request that was complete before its client left has kept the strict contract,
// or has not.
func TestCompletedBeforeItsClientLeft(t *testing.T) {
	r := newRun(4, 0)
	for i := range r.data.Records {
		if rec := &r.data.Records[i]; rec.Request == "A2" {
			rec.Planned = "cancel"
		}
	}
	if on := r.analyse().Summary.Arms["on"]; *on.StrictJSON != (results.Passed{Passed: 8, Total: 8}) || on.Audits != nil {
		t.Errorf("strict %+v, audits %+v", *on.StrictJSON, on.Audits)
	}
	r = soakRun()
	r.record("1/A2").Planned = "cancel"
	no := false
	r.judgement("1/A2").Right, r.judgement("1/A2").Strict = false, &no
	if s := r.analyse().Summary; s.Verdict != results.VerdictBroken {
		t.Errorf("wrong, and %s", s.Verdict)
	}
}

func TestLedger(t *testing.T) {
	r := newRun(4, 0)
	r.data.Records = r.data.Records[:len(r.data.Records)-1]
	if s := r.analyse().Summary; *s.Balanced {
		t.Error("a planned request without a record balances")
	}
	r = newRun(4, 0)
	r.record("1/B1").Outcome = "vanished"
	if s := r.analyse().Summary; *s.Balanced {
		t.Error("an unknown outcome balances")
	}
}

func TestAbsentIsAbsent(t *testing.T) {
	r := newRun(4, 0)
	for i := range r.data.Run.Slots {
		r.data.Run.Slots[i].Witness = nil
	}
	for i := range r.data.Records {
		r.data.Records[i].Timings, r.data.Records[i].States = nil, nil
	}
	s := r.analyse().Summary
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"parks", "switch_s", "lost_prefix_tokens", "reread_tokens", "drafts", "slopes", "cells", "null"} {
		if strings.Contains(string(b), `"`+key+`"`) || key == "null" && strings.Contains(string(b), key) {
			t.Errorf("%s stands in %s", key, b)
		}
	}
	near(t, "inferred pause", *s.Arms["on"].LongestPause, 1.2, 1e-6)
	if s.Arms["off"].LongestPause != nil {
		t.Errorf("a pause of the off arm: %v", *s.Arms["off"].LongestPause)
	}
}

// TestTimePerTask: an arm that says more in the same time is not faster.
func TestTimePerTask(t *testing.T) {
	r := newRun(8, 0)
	for i := range r.data.Records {
		if rec := &r.data.Records[i]; rec.Request == "A1" && rec.Arm == "on" {
			rec.Usage.Completion *= 2
			rec.LastToken += at(6) // twice the tokens in 20 % more time: output_tok_s rises
		}
	}
	a := r.analyse()
	if !a.TimePerTask || a.Metrics["output_tok_s"].GuardCall != Pass || a.Summary.Verdict != results.VerdictWorse {
		t.Fatalf("%v, guard %s, %s", a.TimePerTask, a.Metrics["output_tok_s"].GuardCall, a.Summary.Verdict)
	}
	if !strings.Contains(strings.Join(a.Summary.Reasons, "\n"), "judged by block_s") {
		t.Errorf("%v", a.Summary.Reasons)
	}
	if newRun(8, 0).analyse().TimePerTask {
		t.Error("equal lengths differ")
	}
}

func soakRun() *rigRun {
	r := &rigRun{facts: Facts{Kind: "soak", Budgets: map[string]float64{}}}
	r.data.Run = results.Run{ID: "soak", Kind: "soak", Speed: 1, Emulated: "x", Status: "complete"}
	r.slot(1, "on", false)
	for i := range 720 { // one hour, a sample each 5 s
		p := results.Proc{RSS: 100e6 + uint64(i%7)*1000, Heap: 5e6 + uint64(i%5)*100, Threads: 9, Goroutines: 20}
		r.data.Samples = append(r.data.Samples, results.Sample{At: results.Stamp(i+1) * 5 * second, Slot: 1,
			Metrics: map[string]float64{"strata:solo_waiting": float64(i % 3)}, Procs: map[string]results.Proc{"server": p}})
	}
	return r
}

func TestSoak(t *testing.T) {
	leak := func(perHour float64) func(*rigRun) {
		return func(r *rigRun) {
			r.facts.Budgets["server_live_heap_bytes"] = 1e6
			for i := range r.data.Samples {
				p := r.data.Samples[i].Procs["server"]
				p.Heap += uint64(perHour * float64(i) / 720)
				r.data.Samples[i].Procs["server"] = p
			}
		}
	}
	for _, c := range []struct {
		name string
		edit func(*rigRun)
		want string
		says string
	}{
		{"clean", func(*rigRun) {}, results.VerdictPass, ""},
		{"heap within its budget", leak(0), results.VerdictPass, ""},
		{"heap grows", leak(5e6), results.VerdictWorse, "server_live_heap_bytes"},
		{"heap straddles", func(r *rigRun) {
			leak(0)(r)
			for i := range r.data.Samples { // medians that go up and down
				p := r.data.Samples[i].Procs["server"]
				p.Heap += uint64(i/60%3) * 8000000
				r.data.Samples[i].Procs["server"] = p
			}
		}, results.VerdictInconclusive, "server_live_heap_bytes"},
		{"wrong audit", func(r *rigRun) { r.judgement("1/A2").Right = false }, results.VerdictBroken, "1/A2"},
		{"unplanned failure", func(r *rigRun) { r.record("1/A1").Outcome = results.StreamError }, results.VerdictBroken, "stream_error"},
		{"a planned cancellation", func(r *rigRun) {
			r.record("1/A1").Outcome, r.record("1/A1").Planned = results.Cancelled, "cancel"
		}, results.VerdictPass, ""},
		{"a planned cancellation that breaks", func(r *rigRun) {
			r.record("1/A1").Outcome, r.record("1/A1").Planned = results.StreamError, "cancel"
		}, results.VerdictBroken, "1/A1"},
		{"an injected failure", func(r *rigRun) {
			r.record("1/A1").Outcome, r.record("1/A1").Planned = results.StreamError, "inject"
		}, results.VerdictPass, ""},
		{"rig", func(r *rigRun) {
			r.findings = []results.Finding{{Check: "clock", Status: "fail", Weight: results.Invalid, Text: "jump"}}
		}, results.VerdictInvalid, "clock"},
		{"probes too slow", func(r *rigRun) { r.facts.Budgets["ttft_short_max_s"] = 0.1 }, results.VerdictWorse, "ttft_short_max_s"},
		{"too few probes to be sure", func(r *rigRun) { r.facts.Budgets["ttft_short_p95_s"] = 9 }, results.VerdictInconclusive, "ttft_short_p95_s"},
		{"a failed cell", func(r *rigRun) {
			no := false
			r.facts.Cells = []results.Cell{{How: "kill", When: "idle", API: "chat", Pass: &no}}
		}, results.VerdictBroken, "kill @ idle"},
		{"a cell not run", func(r *rigRun) {
			r.facts.Cells = []results.Cell{{How: "kill", When: "idle", API: "chat", NotRun: "why"}}
		}, results.VerdictPass, ""},
		{"no data", func(r *rigRun) { r.data.Records = nil }, results.VerdictInconclusive, "no data"},
		{"cut off at its end", func(r *rigRun) {
			r.data.Run.Slots[0].Complete, r.record("1/A1").Outcome = false, results.CutOff
		}, results.VerdictBroken, "cut_off"},
		{"interrupted", func(r *rigRun) {
			r.data.Run.Why, r.data.Run.Slots[0].Complete, r.record("1/A1").Outcome = results.Interrupted, false, results.CutOff
			r.findings = []results.Finding{{Check: "slots", Status: "fail", Weight: results.Doubt, Text: "slot 1: interrupted in it"}}
		}, results.VerdictInconclusive, "interrupted in it"},
		{"records that were changed", func(r *rigRun) {
			r.judgement("1/A2").Right = false
			r.findings = []results.Finding{{Check: "record_chain", Status: "fail", Weight: results.Invalid, Text: "edited"}}
		}, results.VerdictInvalid, "edited"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := soakRun()
			c.edit(r)
			s := r.analyse().Summary
			if s.Verdict != c.want || !strings.Contains(strings.Join(s.Reasons, "\n"), c.says) {
				t.Errorf("%s %v, want %s with %q; slopes %+v", s.Verdict, s.Reasons, c.want, c.says, s.Slopes)
			}
			if _, err := json.Marshal(s); err != nil {
				t.Error(err)
			}
		})
	}
	r := soakRun()
	leak(3e6)(r)
	near(t, "slope", *r.analyse().Summary.Slopes["server_live_heap_bytes"].PerHour, 3e6, 2e4)
}

// TestSlopeNeedsTime: a run too short for an interval has a budget and no slope.
func TestSlopeNeedsTime(t *testing.T) {
	r := soakRun()
	r.facts.Budgets["server_rss_bytes"] = 1
	r.data.Samples = r.data.Samples[:200]
	s := r.analyse().Summary.Slopes["server_rss_bytes"]
	if s.Budget == nil || s.PerHour != nil {
		t.Errorf("%+v", s)
	}
}
