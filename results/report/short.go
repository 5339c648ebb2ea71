package report

import (
	"fmt"

	"interlude/results"
	"interlude/results/stats"
)

// inShort answers on one run's page, before any table, what every reader asks.
func (s *source) inShort(p *page) {
	if len(s.summary.Cells) > 0 { // it was about none of the others
		p.para("%s", s.sentence())
		if s.run.Kind == "inject" {
			p.item("**How soon does a client know that its engine is gone?** %s", s.known())
		}
		p.item("**Does it break anything?** %s", s.breaks())
		p.end()
		return
	}
	broken := s.summary.Verdict == results.VerdictBroken
	if broken { // nothing else matters as much
		p.item("**Does it break anything?** %s", s.breaks())
	}
	p.item("**Does a short request run inside a long answer?** %s%s", s.runsInside(), s.sentence())
	if text := s.without(); text != "" {
		p.item("**And without it?** There is %s.", text)
	}
	p.item("**What does it cost?** %s", s.price())
	p.item("**Who pays?** %s", s.pays())
	if !broken {
		p.item("**Does it break anything?** %s", s.breaks())
	}
	p.end()
}

// known is how soon clients were told, at the worst over the cells, and apart from
// these where an engine only fell silent: it is waited for.
func (s *source) known() string {
	var gone, silent []results.Cell
	hung, without, orphans := 0, 0, 0
	for _, c := range s.summary.Cells {
		if c.Limit != nil && *c.Limit > toldReference { // waiting is part of it
			silent = append(silent, c)
		} else {
			gone = append(gone, c)
		}
		hung, without, orphans = hung+c.Hung, without+c.Silent, orphans+c.Orphans
	}
	text := "Within " + worst(gone, told) + "."
	if len(gone) == 0 {
		text = ""
	}
	if len(silent) > 0 {
		text += fmt.Sprintf(" One that only fell silent was given up after %s at most (limit %s).", worst(silent, told), limitRange(silent))
	}
	return text + fmt.Sprintf(" A new request was served again after %s at most. Clients left hanging %d, successes without an answer %d, processes left behind %d.",
		worst(s.summary.Cells, func(c results.Cell) *float64 { return c.ServedAgain }), hung, without, orphans)
}

func told(c results.Cell) *float64 { return c.Told }

// runsInside is the answer in a word, where two arms were compared: that of the
// primary metric alone, whatever else the verdict rests on.
func (s *source) runsInside() string {
	m := s.analysis.Metrics[s.plan.Primary]
	if s.run.Kind != "ab" {
		return s.parkedAtAll()
	}
	if m == nil {
		return ""
	}
	short := s.plan.Primary == "ttft_short"
	switch {
	case m.Call == stats.Better && short:
		return "Yes. "
	case m.Call == stats.Better:
		return "The flag makes the work quicker. "
	case m.Call == stats.Worse:
		return "No, it is worse off. "
	case m.Call == stats.Equal && s.arm(results.On).TTFTShort == nil:
		return "Nothing short was asked. "
	case m.Call == stats.Equal:
		return fmt.Sprintf("No difference beyond ±%g %%. ", 100*s.plan.Margin)
	}
	return "Not shown. "
}

// parkedAtAll is the answer of a run that compares nothing.
func (s *source) parkedAtAll() string {
	switch n := s.arm(s.onlyArm()).Parks; {
	case n == nil:
		return ""
	case *n == 0:
		return "Not seen here: nothing was parked. "
	default:
		return fmt.Sprintf("Yes: running requests were parked %s. ", times(*n))
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// passed says what the PASS of a run without a second arm stands for.
func (s *source) passed() string {
	text := "no unplanned failure, no wrong answer where the plan demands a right one, nothing that the audit holds against the run"
	if n := len(s.plan.Budgets); n > 0 {
		text += ", no budget exceeded"
		if k := s.unmeasured(); k > 0 {
			text += fmt.Sprintf(" (but for %d of the %d nothing could be measured: *Drift* names them)", k, n)
		}
	}
	p95, ok := s.plan.Budgets["ttft_short_p95_s"]
	most, okMost := s.plan.Budgets["ttft_short_max_s"]
	if ok && okMost {
		text += fmt.Sprintf(" (short TTFT: %s for the upper end of the p95, %s at most; *Drift* has the others)", secs(p95), secs(most))
	}
	return text + "."
}

// unmeasured counts the budgets of drifts that no slope was found for.
func (s *source) unmeasured() int {
	n := 0
	for name := range s.plan.Budgets {
		if v, ok := s.summary.Slopes[name]; ok && v.High == nil {
			n++
		}
	}
	return n
}

// price is throughput and switching, with what the guard made of it.
func (s *source) price() string {
	on := s.arm(s.onlyArm())
	switching := fmt.Sprintf("By the server's estimate switching between requests took %s, over %s.", s.switchText(s.onlyArm()), parksText(on.Parks))
	if on.Switch == nil {
		switching = "What switching took is not known: the server does not say."
	}
	if s.run.Kind != "ab" {
		return switching + " " + s.broughtWithout()
	}
	off := s.arm(results.Off)
	d, ok := s.delta("output_tok_s")
	if !ok {
		return "Output rate: not known. " + switching
	}
	guard := s.guarded("output_tok_s", "Less than the %s that were allowed. ", "**More than the %s that were allowed.** ",
		"**Not settled:** the interval does not tell whether it is less than the %s that were allowed. ")
	return fmt.Sprintf("%sOutput %s → %s tok/s (medians of the slots; pair by pair %s; n = %s). %s", guard, optNumber(off.OutputTokS, 2), optNumber(on.OutputTokS, 2), interval(d), plural(d.N, "pair"), switching)
}

// broughtWithout is what a control of a soak brought in the same time.
func (s *source) broughtWithout() string {
	length, ok := s.controlled()
	if !ok || len(s.askedAgain()) == 0 {
		return "Nothing here says what the same load would have brought without it (`interlude soak --control` measures that, `interlude simulate` predicts it)."
	}
	seconds := length.Seconds() / max(s.run.Speed, 1e-9)
	return fmt.Sprintf("In the time of the first %v the flag off brought %s output tok/s, the flag on %s (one slot of each: no interval).", length, number(s.rateWithin(results.Off, seconds)), number(s.rateWithin(results.On, seconds)))
}

func parksText(n *int) string {
	if n == nil {
		return "an unknown number of parks"
	}
	return plural(*n, "park")
}

// guarded is what a guard says: the sentence for its call, in which the margin stands
// for %s; "" where the plan has no such guard.
func (s *source) guarded(name, kept, exceeded, unsettled string) string {
	m, margin := s.analysis.Metrics[name], s.plan.Guards[name]
	if m == nil || margin == 0 {
		return ""
	}
	text := unsettled
	switch m.GuardCall {
	case stats.Pass:
		text = kept
	case stats.Fail:
		text = exceeded
	}
	return fmt.Sprintf(text, fmt.Sprintf("%g %%", 100*margin))
}

// pays is what the requests that were overtaken had of it.
func (s *source) pays() string {
	on := s.arm(s.onlyArm())
	pause := fmt.Sprintf("The longest that a park kept a stream waiting: %s.", optSecs(on.LongestPause))
	if s.run.Kind != "ab" {
		if on.LongE2E == nil {
			return pause
		}
		return fmt.Sprintf("The long requests that are overtaken. %s Long answers took %s from due to last token (median; n = %d); nothing here compares them with a server without the flag.", pause, optSecs(on.LongE2E.Median), on.LongE2E.N)
	}
	off := s.arm(results.Off)
	if off.LongE2E == nil || on.LongE2E == nil {
		return pause
	}
	text := fmt.Sprintf("The long answers that are overtaken: %s → %s from due to last token, medians.", distText(off.LongE2E), distText(on.LongE2E))
	if c := s.slower()["long"]; c[1] > 0 {
		text += fmt.Sprintf(" %d of %d took more than 5 %% longer than with the flag off.", c[0], c[1])
	}
	text += s.guarded("long_excess", " Apart from the service of what overtook them they lost less than the %s that were allowed.",
		" **Apart from the service of what overtook them they lost more than the %s that were allowed.**",
		" **Not settled:** whether, apart from the service of what overtook them, they lost less than the %s that were allowed.")
	return text + " " + pause
}

// breaks is what came out right, and whether anything is held against the run.
func (s *source) breaks() string {
	text := "Nothing that was checked: "
	switch {
	case s.summary.Verdict == results.VerdictBroken:
		text = "**Yes, for the reasons below.** "
	case len(s.failedFindings(results.Broken, results.Invalid, results.Worse, results.Doubt)) > 0 || len(s.analysis.OnlyOn) > 0:
		text = "**There is doubt, for the reasons below.** "
	}
	return text + s.right() + "."
}
