package audit

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"interlude/results"
	"interlude/workloads"
)

// judgeAnswers judges every answer of a known request, those of warm-ups and
// A/A slots too.
func (e *evidence) judgeAnswers() {
	if e.requests == nil {
		e.notRun("answers", "%s", e.unread)
		return
	}
	for i := range e.data.Records {
		rec := &e.data.Records[i]
		req := e.request(rec)
		if req == nil || e.data.CutShort(rec) {
			continue
		}
		e.Judgements = append(e.Judgements, judge(rec, req))
	}
	for i := range e.Judgements {
		e.verdicts[e.Judgements[i].Record] = &e.Judgements[i]
	}
}

// sides sorts the couples of a run by who was wrong.
type sides struct {
	right                    int
	beyond                   int      // wrong in both, where the manifest only scores
	wrongB, wrongA, wrongAll []couple // completed, and not what was promised
	failB, failA, failAll    []couple // not completed
}

func (e *evidence) sort() sides {
	var s sides
	for _, c := range e.couples() {
		if c.a == nil || c.b == nil {
			continue // the ledger names it
		}
		va, vb := e.verdicts[c.a.ID], e.verdicts[c.b.ID]
		if va == nil || vb == nil {
			continue
		}
		failA, failB := failed(c.a), failed(c.b)
		wrongA, wrongB := !failA && !va.Right, !failB && !vb.Right
		if wrongA == wrongB || failA || failB { // else one arm could do it, and the other one is held to that
			if wrongA && va.Scored {
				s.beyond++
			}
			wrongA, wrongB = wrongA && !va.Scored, wrongB && !vb.Scored
		}
		switch {
		case failA && failB:
			s.failAll = append(s.failAll, c)
		case failB:
			s.failB = append(s.failB, c)
		case failA:
			s.failA = append(s.failA, c)
		}
		switch {
		case wrongB && (wrongA || failA):
			s.wrongAll = append(s.wrongAll, c)
		case wrongB:
			s.wrongB = append(s.wrongB, c)
		case wrongA:
			s.wrongA = append(s.wrongA, c)
		case !failA && !failB && va.Right:
			s.right++
		}
	}
	return s
}

// failed reports an unplanned end that is not completion.
func failed(rec *results.Record) bool {
	return rec.Outcome != results.Completed && (rec.Outcome != results.Cancelled || rec.Planned == "")
}

// checkArms compares the arms answer by answer. What is wrong in both alike is
// listed, never dropped.
func (e *evidence) checkArms() {
	if e.requests == nil {
		e.notRun("answers_by_arm", "%s", e.unread)
		return
	}
	if e.data.Run.Kind != "ab" {
		e.checkOneArm()
		return
	}
	s := e.sort()
	weight := results.Doubt
	if e.deterministic() {
		weight = results.Broken
	}
	for _, c := range s.wrongB {
		v := e.verdicts[c.b.ID]
		e.fail("wrong_in_on_only", weight, []string{c.b.ID, c.a.ID}, v.Excerpt, "%s (%s, pair %d) is wrong with the flag on and right with it off: %s", c.request, c.b.Class, c.pair, some(v.Faults))
	}
	for _, c := range s.wrongA {
		v := e.verdicts[c.a.ID]
		e.fail("wrong_in_off_only", results.Note, []string{c.a.ID, c.b.ID}, v.Excerpt, "%s (%s, pair %d) is wrong with the flag off and right with it on: %s", c.request, c.a.Class, c.pair, some(v.Faults))
	}
	// An engine that cannot err by itself and errs in both arms means that the rig
	// or the server damages answers whatever the flag: nothing else is believable.
	weight = results.Note
	if e.deterministic() {
		weight = results.Doubt
	}
	for _, c := range s.wrongAll {
		v := e.verdicts[c.b.ID]
		e.fail("wrong_in_both_arms", weight, []string{c.b.ID, c.a.ID}, v.Excerpt, "%s (%s, pair %d) is wrong in both arms: %s", c.request, c.b.Class, c.pair, some(v.Faults))
	}
	e.checkFailures(s)
	e.checkAA()
	if len(s.wrongA)+len(s.wrongB)+len(s.wrongAll) == 0 {
		text := "none wrong in either"
		if s.beyond > 0 {
			text = fmt.Sprintf("%d wrong in both that the manifest only scores, none wrong in one alone", s.beyond)
		}
		e.pass("answers_by_arm", "%d requests right in both arms, %s", s.right, text)
	}
}

// checkAA tells what went wrong in the off/off pairs, which no count of an arm holds:
// the band of noise that they give is that of what did complete.
func (e *evidence) checkAA() {
	const check = "off_off_answers"
	n, faults := 0, 0
	for i := range e.data.Records {
		rec := &e.data.Records[i]
		v := e.verdicts[rec.ID]
		if !rec.AA || v == nil || !measured(rec) || e.data.CutShort(rec) {
			continue
		}
		n++
		switch {
		case failed(rec):
			faults++
			e.fail(check, results.Note, []string{rec.ID}, rec.Error, "%s (%s) of an off/off pair ended as %s", rec.ID, rec.Class, rec.Outcome)
		case !v.Right && !v.Scored:
			faults++
			weight := results.Note
			if e.deterministic() { // it cannot err by itself
				weight = results.Doubt
			}
			e.fail(check, weight, []string{rec.ID}, v.Excerpt, "%s (%s) of an off/off pair is wrong: %s", rec.ID, rec.Class, some(v.Faults))
		}
	}
	if n > 0 && faults == 0 {
		e.pass(check, "%d requests of off/off pairs are right", n)
	}
}

// checkOneArm judges the answers of a run that has nothing to compare them with:
// every request that the plan did not end itself must complete and be right.
func (e *evidence) checkOneArm() {
	wrong, right := 0, 0
	for i := range e.data.Records {
		rec := &e.data.Records[i]
		v := e.verdicts[rec.ID]
		if v == nil || !measured(rec) || e.data.CutShort(rec) {
			continue
		}
		if e.controls(rec.Pair) {
			e.checkControl(rec, v)
			continue
		}
		switch {
		case failed(rec) && (rec.Planned == "" || rec.Planned == "cancel"):
			e.fail("unplanned_failure", results.Broken, []string{rec.ID}, rec.Error, "%s (%s) ended as %s", rec.ID, rec.Class, rec.Outcome)
		case !failed(rec) && !v.Right && !v.Scored:
			e.fail("wrong_answer", results.Broken, []string{rec.ID}, v.Excerpt, "%s (%s): %s", rec.ID, rec.Class, some(v.Faults))
		default:
			right++
			continue
		}
		wrong++
	}
	if wrong == 0 {
		e.pass("answers", "%d requests ended as planned with right answers", right)
	}
}

// checkControl tells what went wrong in the control of a soak: the server's own
// trouble with its flag off, which the verdict is not about.
func (e *evidence) checkControl(rec *results.Record, v *results.Judgement) {
	switch {
	case failed(rec):
		e.fail("control", results.Note, []string{rec.ID}, rec.Error, "%s (%s) ended as %s with the flag off", rec.ID, rec.Class, rec.Outcome)
	case !v.Right && !v.Scored:
		e.fail("control", results.Note, []string{rec.ID}, v.Excerpt, "%s (%s) with the flag off: %s", rec.ID, rec.Class, some(v.Faults))
	}
}

// checkFailures compares how often the arms failed to complete: an exact McNemar
// test on the requests that completed in one arm only.
func (e *evidence) checkFailures(s sides) {
	p := mcnemar(len(s.failA), len(s.failB))
	died := e.deaths(results.On)
	switch {
	case len(s.failB) > len(s.failA) && p < 0.05:
		e.fail("failures_by_arm", results.Broken, ids(s.failB), outcomesOf(s.failB), "%d requests completed only with the flag off, %d only with it on (exact McNemar p = %.3g)%s", len(s.failB), len(s.failA), p, died)
	case len(s.failB) > 0:
		e.fail("failures_by_arm", results.Doubt, ids(s.failB), outcomesOf(s.failB), "%d requests completed only with the flag off, %d only with it on (exact McNemar p = %.3g)%s: %s", len(s.failB), len(s.failA), p, died, outcomesOf(s.failB))
	case len(s.failA) > 0:
		e.fail("failures_by_arm", results.Note, ids(s.failA), outcomesOf(s.failA), "%d requests completed only with the flag on: %s", len(s.failA), outcomesOf(s.failA))
	default:
		e.pass("failures_by_arm", "the arms completed the same requests")
	}
	for _, c := range s.failAll {
		e.fail("failed_in_both_arms", results.Note, []string{c.b.ID, c.a.ID}, c.b.Error, "%s (pair %d) was %s with the flag on and %s with it off", c.request, c.pair, c.b.Outcome, c.a.Outcome)
	}
}

func ids(list []couple) []string {
	var out []string
	for _, c := range list {
		out = append(out, c.b.ID, c.a.ID)
	}
	return out
}

func outcomesOf(list []couple) string {
	var out []string
	for _, c := range list {
		out = append(out, fmt.Sprintf("%s %s, off %s", c.b.ID, c.b.Outcome, c.a.Outcome))
	}
	return some(out)
}

// mcnemar is the exact two-sided p of a against b discordant pairs: the binomial
// test of one half.
func mcnemar(a, b int) float64 {
	n, k := a+b, min(a, b)
	if n == 0 {
		return 1
	}
	tail := 0.0
	lf := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	for i := 0; i <= k; i++ {
		tail += math.Exp(lf(n) - lf(i) - lf(n-i) - float64(n)*math.Ln2)
	}
	return min(1, 2*tail)
}

// rate counts how often something came out of how many trials.
type rate struct{ hits, of int }

func (r rate) add(hit bool) rate {
	if hit {
		r.hits++
	}
	return rate{r.hits, r.of + 1}
}

// fewer is the exact one-sided p of a's share of hits being as far below b's as it
// is if both had the same chance (Fisher 1935). 1 where either has no trial.
func fewer(a, b rate) float64 {
	if a.of == 0 || b.of == 0 {
		return 1
	}
	lf := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	choose := func(n, k int) float64 { return lf(n) - lf(k) - lf(n-k) }
	hits, p := a.hits+b.hits, 0.0
	for k := max(0, hits-b.of); k <= a.hits; k++ {
		p += math.Exp(choose(a.of, k) + choose(b.of, hits-k) - choose(a.of+b.of, hits))
	}
	return min(1, p)
}

// checkCanaries compares greedy prompts that were run alone: every answer must
// equal the first one that the same binary gave with the flag off; in a run
// without that arm, the first one at all.
func (e *evidence) checkCanaries() {
	const check = "canary"
	reference := map[string]*results.Record{}
	anyOff := slices.ContainsFunc(e.data.Run.Slots, func(s results.SlotInfo) bool { return s.Arm == results.Off && s.Pair > 0 })
	for i := range e.data.Records {
		rec := &e.data.Records[i]
		if rec.Class == workloads.Canary && (rec.Arm == results.Off || !anyOff) && rec.Outcome == results.Completed && reference[rec.TemplateHash] == nil {
			reference[rec.TemplateHash] = rec
		}
	}
	n, faults := 0, 0
	rates := map[string]rate{} // by arm, the reference itself left out
	for i := range e.data.Records {
		rec := &e.data.Records[i]
		if rec.Class != workloads.Canary || e.data.CutShort(rec) {
			continue
		}
		ref := reference[rec.TemplateHash]
		if ref == nil {
			e.fail(check, results.Doubt, []string{rec.ID}, "", "no canary that could be the reference completed, so %s has none", rec.ID)
			faults++
			continue
		}
		n++
		at, same := sameAnswer(ref, rec)
		if ref != rec {
			rates[rec.Arm] = rates[rec.Arm].add(same)
		}
		if !same {
			faults++
			weight := results.Broken
			if !e.deterministic() {
				weight = results.Note
			}
			e.fail(check, weight, []string{rec.ID, ref.ID}, excerpt(rec.Text, at), "canary %s (arm %s) differs from %s at byte %d", rec.ID, rec.Arm, ref.ID, at)
		}
	}
	off, on := rates[results.Off], rates[results.On]
	if p := fewer(on, off); !e.deterministic() && p < 0.05 {
		e.fail(check, results.Doubt, nil, "", "canaries equal their reference less often with the flag on, in %d of %d, than with it off, in %d of %d (exact one-sided p = %.3g)", on.hits, on.of, off.hits, off.of, p)
	}
	switch {
	case n == 0 && faults == 0:
		e.notRun(check, "the plan has no canaries")
	case faults == 0:
		e.pass(check, "%d canaries equal their reference", n)
	}
}

// sameAnswer compares what two records said, byte for byte; call ids are the
// server's own.
func sameAnswer(a, b *results.Record) (at int, same bool) {
	if a.Text != b.Text {
		return commonPrefix(a.Text, b.Text), false
	}
	if a.Reasoning != b.Reasoning || a.FinishReason != b.FinishReason || len(a.Tools) != len(b.Tools) {
		return 0, false
	}
	for i := range a.Tools {
		if a.Tools[i].Name != b.Tools[i].Name || a.Tools[i].Arguments != b.Tools[i].Arguments {
			return 0, false
		}
	}
	return 0, true
}

// identical counts the couples of long answers, both completed, that are byte
// equal.
func (e *evidence) identical() (equal, total int, differ []couple) {
	for _, c := range e.couples() {
		if c.a == nil || c.b == nil || c.a.Class != workloads.Long || c.a.Outcome != results.Completed || c.b.Outcome != results.Completed {
			continue
		}
		total++
		if _, same := sameAnswer(c.a, c.b); same {
			equal++
		} else {
			differ = append(differ, c)
		}
	}
	return equal, total, differ
}

// checkIdentical demands byte-equal long answers between the arms where the
// engine is deterministic. Elsewhere the identity rate of the A/A slots says how
// much of the difference is the engine's own.
func (e *evidence) checkIdentical() {
	const check = "identical_long_answers"
	equal, total, differ := e.identical()
	if total == 0 {
		e.notRun(check, "no long answer completed in both arms")
		return
	}
	if len(differ) == 0 {
		e.pass(check, "%d of %d long answers are byte-equal between the arms", equal, total)
		return
	}
	if !e.deterministic() {
		same, pairs := e.identicalAA()
		weight, text := results.Note, "no off/off pairs say how much of that is the engine's own (`--aa N`)"
		if pairs > 0 {
			p := fewer(rate{equal, total}, rate{same, pairs})
			text = fmt.Sprintf("between off and off it is %d of %d (exact one-sided p = %.3g)", same, pairs, p)
			if p < 0.05 {
				weight = results.Doubt
			}
		}
		e.fail(check, weight, ids(differ), "", "%d of %d long answers are byte-equal between the arms; %s", equal, total, text)
		return
	}
	for _, c := range differ {
		at, _ := sameAnswer(c.a, c.b)
		e.fail(check, results.Broken, []string{c.b.ID, c.a.ID}, excerpt(c.b.Text, at),
			"%s (pair %d) differs between the arms from byte %d on; off says %q", c.request, c.pair, at, strings.ToValidUTF8(excerpt(c.a.Text, at), "?"))
	}
}

// identicalAA is the identity rate of the off/off pairs.
func (e *evidence) identicalAA() (equal, total int) {
	first := map[string]*results.Record{}
	for i := range e.data.Records {
		rec := &e.data.Records[i]
		if !rec.AA || rec.Class != workloads.Long || rec.Outcome != results.Completed {
			continue
		}
		key := fmt.Sprintf("%d/%s", rec.Pair, rec.Request)
		if first[key] == nil {
			first[key] = rec
			continue
		}
		total++
		if _, same := sameAnswer(first[key], rec); same {
			equal++
		}
	}
	return equal, total
}

// checkStreams lists protocol faults that left the answer intact.
func (e *evidence) checkStreams() {
	const check = "stream_protocol"
	var faults, records []string
	onlyB := false
	for i := range e.data.Records {
		rec := &e.data.Records[i]
		if len(rec.Faults) == 0 || failed(rec) {
			continue
		}
		faults, records = append(faults, rec.ID+": "+some(rec.Faults)), append(records, rec.ID)
		onlyB = onlyB || rec.Arm == results.On
	}
	for i := range e.data.Records {
		rec := &e.data.Records[i]
		onlyB = onlyB && !(len(rec.Faults) > 0 && !failed(rec) && rec.Arm == results.Off)
	}
	if len(faults) == 0 {
		e.pass(check, "no completed stream broke the protocol")
		return
	}
	weight := results.Note
	if onlyB {
		weight = results.Doubt
	}
	e.fail(check, weight, records, "", "%d completed streams broke the protocol: %s", len(faults), some(faults))
}
