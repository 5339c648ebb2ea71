package stats

import (
	"fmt"
	"maps"
	"slices"

	"interlude/results"
)

// decidePaired applies the table of a paired run: the first rule that matches
// gives the verdict, every reason of that rule is named.
func (a *Analysis) decidePaired() {
	sortContrasts(a.OnlyOn)
	if a.tampered() {
		return
	}
	if reasons := a.broken(); len(reasons) > 0 {
		a.verdict(results.VerdictBroken, reasons)
		return
	}
	if reasons := a.weighed(results.Invalid); len(reasons) > 0 {
		a.verdict(results.VerdictInvalid, reasons)
		return
	}
	primary := a.Metrics[a.Facts.Primary]
	if reasons := append(a.guards(Fail), a.weighed(results.Worse)...); len(reasons) > 0 || primary != nil && primary.Call == Worse {
		if primary != nil && primary.Call == Worse {
			reasons = append([]string{a.primaryText(primary)}, reasons...)
		}
		a.verdict(results.VerdictWorse, reasons)
		return
	}
	if reasons := a.doubts(primary); len(reasons) > 0 {
		a.verdict(results.VerdictInconclusive, reasons)
		return
	}
	reasons := []string{a.primaryText(primary)}
	if primary.Call == Better {
		a.verdict(results.VerdictBetter, reasons)
		return
	}
	a.verdict(results.VerdictNoDifference, reasons)
}

// tampered comes before every rule: records that are not the ones that were written
// prove nothing, not even that a server is broken.
func (a *Analysis) tampered() bool {
	changed := slices.ContainsFunc(a.findings, func(f results.Finding) bool { return f.Check == "record_chain" && f.Status == "fail" })
	if changed {
		a.verdict(results.VerdictInvalid, a.weighed(results.Invalid))
	}
	return changed
}

func (a *Analysis) verdict(v string, reasons []string) {
	a.Summary.Verdict = v
	a.Summary.Reasons = append(a.Summary.Reasons, reasons...)
}

// broken lists what rule 1 finds: zero-tolerance events, answers wrong in B alone
// on a deterministic engine, more failures in B.
func (a *Analysis) broken() []string {
	reasons := a.weighed(results.Broken)
	named := a.named(results.Broken)
	if a.data.Run.Emulated != "" {
		for _, c := range a.OnlyOn {
			r := a.record(c, results.On)
			if r == nil || named[r.ID] || !r.Done() || !demanded(c.Class) && !a.strictFault(r) {
				continue
			}
			reasons = append(reasons, fmt.Sprintf("pair %d, %s (%s): right with the flag off, wrong with it on: %s", c.Pair, c.Request, c.Class, c.On))
		}
	}
	if a.McNemar < 0.05 && a.FailedOn > a.FailedOff {
		reasons = append(reasons, fmt.Sprintf("%d requests failed only with the flag on, %d only with it off (exact McNemar p = %.3g)", a.FailedOn, a.FailedOff, a.McNemar))
	}
	return reasons
}

// demanded are the classes whose answers must not change with the flag.
func demanded(class string) bool {
	return slices.Contains([]string{audit, tool, canary, probe, short}, class)
}

func (a *Analysis) strictFault(r *results.Record) bool {
	j := a.judgements[r.ID]
	return j != nil && j.Strict != nil && !*j.Strict
}

func (a *Analysis) record(c Contrast, arm string) *results.Record {
	for i := range a.data.Records {
		if r := &a.data.Records[i]; r.Pair == c.Pair && r.Request == c.Request && r.Arm == arm {
			return r
		}
	}
	return nil
}

// weighed lists the failed checks of one weight.
func (a *Analysis) weighed(weight string) []string {
	var reasons []string
	for _, f := range a.findings {
		if f.Status == "fail" && f.Weight == weight {
			reasons = append(reasons, f.Check+": "+f.Text)
		}
	}
	return reasons
}

// named holds the records that failed checks of one weight already name, so that
// nothing is listed twice.
func (a *Analysis) named(weight string) map[string]bool {
	ids := map[string]bool{}
	for _, f := range a.findings {
		if f.Status == "fail" && f.Weight == weight {
			for _, id := range f.Records {
				ids[id] = true
			}
		}
	}
	return ids
}

// guards lists the guards with this call.
func (a *Analysis) guards(call Call) []string {
	var reasons []string
	for _, name := range slices.Sorted(maps.Keys(a.Facts.Guards)) {
		if m := a.guard(name); m != nil && m.GuardCall == call {
			text := fmt.Sprintf("guard %s (−%.3g %%): %s: %s", name, 100*a.Facts.Guards[name], call, m.GuardWhy)
			if m.Name != name {
				text += fmt.Sprintf(" (judged by %s, since the answers differ in length by more than 3 %%)", m.Name)
			}
			reasons = append(reasons, text)
		}
	}
	return reasons
}

// guard is the metric that a guard looks at: where the answers of the arms differ
// in length by more than 3 %, time per task says more than tokens per second.
func (a *Analysis) guard(name string) *Metric {
	if name == "output_tok_s" && a.TimePerTask {
		return a.Metrics["block_s"]
	}
	return a.Metrics[name]
}

// doubts lists what rule 4 finds.
func (a *Analysis) doubts(primary *Metric) []string {
	reasons := a.weighed(results.Doubt) // causes, before what follows from them
	switch {
	case primary == nil:
		reasons = append(reasons, fmt.Sprintf("the primary metric %q is none of this program's", a.Facts.Primary))
	case len(a.pairs) < a.Facts.Pairs:
		reasons = append(reasons, fmt.Sprintf("%d of %d planned pairs are complete, and n was fixed in the plan", len(a.pairs), a.Facts.Pairs))
	case len(a.pairs) == 0:
		reasons = append(reasons, "no data: no pair is complete")
	}
	if primary != nil && (primary.Call == Unsure || primary.Call == Rig) {
		reasons = append(reasons, a.primaryText(primary))
	}
	reasons = append(reasons, a.guards(Unsure)...)
	named := a.named(results.Doubt)
	for _, c := range a.OnlyOn {
		if r := a.record(c, results.On); r != nil && named[r.ID] {
			continue
		}
		reasons = append(reasons, fmt.Sprintf("pair %d, %s (%s): right with the flag off, with it on: %s", c.Pair, c.Request, c.Class, c.On))
	}
	return reasons
}

// primaryText is the primary metric in one line.
func (a *Analysis) primaryText(m *Metric) string {
	text := fmt.Sprintf("%s: %s: %s", m.Name, m.Call, m.Why)
	if d := m.Delta(); d.Ratio != nil && d.Low != nil && d.High != nil {
		text = fmt.Sprintf("%s: %s, on/off %.4g [%.4g, %.4g], n = %d: %s", m.Name, m.Call, *d.Ratio, *d.Low, *d.High, d.N, m.Why)
	}
	if len(m.Pairs) < 6 {
		text += " (t interval alone: below 6 pairs no rank test can confirm it)"
	}
	return text
}

// decideOneArm applies the table of a run of one arm.
func (a *Analysis) decideOneArm() {
	if a.tampered() {
		return
	}
	reasons, named := a.weighed(results.Broken), a.named(results.Broken)
	for _, s := range a.judged() {
		for _, r := range a.all(s) {
			if r.Class == warmup || named[r.ID] || cancels(r) && !astray(r) && !r.Done() || a.data.CutShort(r) {
				continue
			}
			if f := a.fault(r); f != "" && (!r.Done() || demanded(r.Class) || a.strictFault(r)) {
				reasons = append(reasons, fmt.Sprintf("%s (%s): %s", r.ID, r.Class, f))
			}
		}
	}
	for _, c := range a.Facts.Cells {
		if c.Pass != nil && !*c.Pass {
			reasons = append(reasons, fmt.Sprintf("cell %s @ %s, %s: failed", c.How, c.When, c.API))
		}
	}
	worse, unsure := a.budgets()
	for _, step := range []struct {
		verdict string
		reasons []string
	}{
		{results.VerdictBroken, reasons},
		{results.VerdictInvalid, a.weighed(results.Invalid)},
		{results.VerdictWorse, append(worse, a.weighed(results.Worse)...)},
		{results.VerdictInconclusive, append(unsure, a.weighed(results.Doubt)...)},
	} {
		if len(step.reasons) > 0 {
			a.verdict(step.verdict, step.reasons)
			return
		}
	}
	if len(a.data.Records) == 0 {
		a.verdict(results.VerdictInconclusive, []string{"no data: no request was recorded"})
		return
	}
	a.verdict(results.VerdictPass, nil)
}
