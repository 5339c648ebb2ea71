package report

import (
	"fmt"
	"strings"

	"interlude/results"
	"interlude/results/stats"
)

// questions are what a reader of several runs wants to know first, a line each.
func (d *dossier) questions(p *page) {
	for _, q := range d.asked() {
		if q.lead == "" {
			q.lead = "Not known: no valid paired run is part of this page."
		}
		p.item("**%s** %s", q.text, q.lead)
	}
	p.end()
}

// answers are the same questions, run by run.
func (d *dossier) answers(p *page) {
	for _, q := range d.asked() {
		if len(q.runs) == 0 {
			continue
		}
		p.para("**%s**", q.text)
		for _, text := range q.runs {
			p.item("%s", text)
		}
		p.end()
	}
}

// question is one of them: its answer in a line, and what each run says.
type question struct {
	text, lead string
	runs       []string
}

func (d *dossier) asked() []question {
	return []question{
		{"Does it help, and by how much?", d.helped(), append(d.paired((*source).helps), d.other((*source).without)...)},
		{"What does it cost?", d.cost(), d.paired((*source).costs)},
		{"Who pays?", d.payers(), append(d.paired((*source).payers), d.other((*source).pauses)...)},
		{"Does it break anything?", d.broke(), append(d.paired((*source).kept), d.other((*source).kept)...)},
	}
}

// paired collects what one function says of every paired run.
func (d *dossier) paired(of func(*source) string) []string { return d.said(true, of) }

// other collects what one function says of every run of one arm.
func (d *dossier) other(of func(*source) string) []string { return d.said(false, of) }

func (d *dossier) said(ab bool, of func(*source) string) []string {
	var list []string
	for i, s := range d.parts {
		if (s.run.Kind == "ab") != ab {
			continue
		}
		text := "its numbers are withheld: **INVALID**"
		if !s.invalid() {
			text = of(s)
		}
		if text != "" {
			list = append(list, fmt.Sprintf("%s, %s: %s.", d.name(i), escape(s.engineName()), text))
		}
	}
	return list
}

// primary is the call of a paired run's primary metric.
func (s *source) primary() string {
	if m := s.analysis.Metrics[s.plan.Primary]; m != nil {
		return string(m.Call)
	}
	return string(stats.Unsure)
}

// helped counts the calls of the primary metrics, and says between which ends the
// short requests gained.
func (d *dossier) helped() string {
	n, runs := map[string]int{}, 0
	for _, s := range d.parts {
		if s.run.Kind == "ab" && !s.invalid() {
			runs++
			n[s.primary()]++
		}
	}
	if runs == 0 {
		return ""
	}
	text := fmt.Sprintf("The primary metric is better with the flag on in %d of %s, worse in %d.", n[string(stats.Better)], plural(runs, "paired run"), n[string(stats.Worse)])
	gain := func(of func(results.Delta) *float64) func(*source) (float64, bool) {
		return func(s *source) (float64, bool) {
			if v := of(s.summary.Deltas["ttft_short"]); v != nil && *v > 0 {
				return 1 / *v, true
			}
			return 0, false
		}
	}
	factor := func(v float64) string {
		if v < 1 {
			return "× " + digits(1/v)
		}
		return "÷ " + digits(v)
	}
	if by := d.ranges(gain(func(x results.Delta) *float64 { return x.Ratio }), func(x reach) string { return between(x, factor) }); by != "" {
		text += " Short requests' time to first token: " + by + "."
	}
	if least := d.ranges(gain(func(x results.Delta) *float64 { return x.High }), func(x reach) string { return factor(x.low) }); least != "" {
		text += " The weakest end of a 95 % interval: " + least + "."
	}
	return text
}

// cost is the change of the output rate, and what the guard made of it.
func (d *dossier) cost() string {
	by := d.ranges(func(s *source) (float64, bool) {
		if v := s.summary.Deltas["output_tok_s"].Ratio; v != nil {
			return *v, true
		}
		return 0, false
	}, func(x reach) string { return between(x, change) })
	if by == "" {
		return ""
	}
	text := "Output rate with the flag on: " + by
	if calls := d.guardCalls("output_tok_s"); calls != "" {
		text += "; " + calls
	}
	return text + "."
}

// payers are the long answers, run by run never pooled.
func (d *dossier) payers() string {
	by := d.ranges(func(s *source) (float64, bool) {
		c := s.slower()["long"]
		return 100 * float64(c[0]) / float64(c[1]), c[1] > 0
	}, func(x reach) string { return between(x, func(v float64) string { return fmt.Sprintf("%.0f %%", v) }) })
	if by == "" {
		return ""
	}
	return "The long answers that are overtaken. More than 5 % slower, end to end, than their partner with the flag off were, of a run's long answers: " + by + ". " + d.longestPauses()
}

// helps is the primary metric of a paired run, and what the verdict adds to it.
func (s *source) helps() string {
	off, on := s.arm(results.Off), s.arm(results.On)
	d, _ := s.delta(s.plan.Primary)
	text := fmt.Sprintf("short TTFT %s → %s", distText(off.TTFTShort), distText(on.TTFTShort))
	if s.plan.Primary != "ttft_short" {
		text = fmt.Sprintf("%s %s → %s", escape(s.plan.Primary), optSecs(off.Block), optSecs(on.Block))
	}
	text += fmt.Sprintf("; %s; n = %s: %s, verdict **%s**", interval(d), plural(d.N, "pair"), s.primary(), s.verdict())
	if stats.ExitCode(s.summary.Verdict) != 0 {
		text += " (" + escape(strings.Join(s.summary.Reasons, "; ")) + ")"
	}
	return text
}

// without is what the first requests of a soak met with the flag off, where a
// control sent them again, beside what they met with it on.
func (s *source) without() string {
	length, ok := s.controlled()
	asked := s.askedAgain()
	if !ok || len(asked) == 0 {
		return ""
	}
	return fmt.Sprintf("a control outside the verdict, the same requests of the first %v: short TTFT, median / p95 / max, %s with the flag off, %s with it on",
		length, s.metBy(results.Off, asked), s.metBy(results.On, asked))
}

// costs is throughput and switching.
func (s *source) costs() string {
	off, on := s.arm(results.Off), s.arm(results.On)
	return fmt.Sprintf("output tok/s of the pair %s → %s, %s; %s parks, switch cost %s", optNumber(off.OutputTokS, 2), optNumber(on.OutputTokS, 2),
		interval(s.summary.Deltas["output_tok_s"]), optInt(on.Parks), s.switchText(results.On))
}

// payers are the long answers: being overtaken costs at least the overtaker.
func (s *source) payers() string {
	off, on := s.arm(results.Off), s.arm(results.On)
	text := fmt.Sprintf("long answers, end to end, median %s → %s; longest pause of a stream %s", distText(off.LongE2E), distText(on.LongE2E), optSecs(on.LongestPause))
	if c := s.slower()["long"]; c[1] > 0 {
		text += fmt.Sprintf("; %d of %d long answers took over 5 %% longer than their partner", c[0], c[1])
	}
	return text
}

// pauses is what streams of a run of one arm had to wait in their middle.
func (s *source) pauses() string {
	a := s.arm(s.onlyArm())
	if s.run.Kind != "soak" || a.LongestPause == nil {
		return ""
	}
	return fmt.Sprintf("longest pause of a stream %s over %s parks; long answers, end to end, median %s", optSecs(a.LongestPause), optInt(a.Parks), distText(a.LongE2E))
}

// kept is the verdict, and what came out right and what did not, with the flag on.
func (s *source) kept() string { return "**" + s.verdict() + "**; " + s.right() }

func (s *source) right() string {
	arm := s.onlyArm()
	a := s.arm(arm)
	list := []string{"unplanned failures " + unplanned(a.Requests, s.struck(arm))}
	if len(s.summary.Cells) > 0 {
		list = append(list, cellsText(s.summary.Cells))
	}
	if a.Audits != nil {
		list = append(list, fmt.Sprintf("audits exact %d of %d%s", a.Audits.Exact, a.Audits.Total, s.offAudits()))
	}
	if a.StrictJSON != nil {
		list = append(list, fmt.Sprintf("strict JSON %d of %d", a.StrictJSON.Passed, a.StrictJSON.Total))
	}
	if e := s.summary.Identical; e != nil {
		list = append(list, fmt.Sprintf("%d of %d long answers byte-equal between the arms", e.Equal, e.Total))
	}
	if a.LostPrefix != nil {
		list = append(list, "lost prefix tokens "+optInt(a.LostPrefix))
	}
	return strings.Join(list, "; ")
}

// offAudits says how a count of audits that are only scored comes out in the other
// arm, where it is no fault.
func (s *source) offAudits() string {
	mark, off := s.scoredMark("audit"), s.arm(results.Off)
	if mark == "" || off.Audits == nil {
		return mark
	}
	return fmt.Sprintf(" (%d of %d with the flag off: scored, not demanded)", off.Audits.Exact, off.Audits.Total)
}

// broke counts the parts, and the earlier attempts, that broke something.
func (d *dossier) broke() string {
	broken := 0
	parts := map[string]bool{}
	for _, s := range d.parts {
		parts[s.run.ID] = true
		if s.summary.Verdict == results.VerdictBroken {
			broken++
		}
	}
	before := 0
	for _, a := range starts(d.parts...) {
		if !parts[a.Run] && a.end != nil && a.end.Verdict == results.VerdictBroken {
			before++
		}
	}
	text := fmt.Sprintf("**%d of %s BROKEN.**", broken, plural(len(d.parts), "run"))
	if broken == 0 {
		text = "No run of this page is BROKEN."
	}
	valid := d.count(func(*source) bool { return true })
	text += fmt.Sprintf(" Of %s, with the flag on, %d had a failure that was not planned, and %d lost processed prefixes.", plural(valid, "valid run"), d.count((*source).failed), d.count(func(s *source) bool {
		n := s.arm(s.onlyArm()).LostPrefix
		return n != nil && *n > 0
	}))
	if n := d.count(func(s *source) bool { return s.summary.Identical != nil }); n > 0 {
		text += fmt.Sprintf(" Long answers differed between the arms in %d of %s.", d.count(func(s *source) bool { e := s.summary.Identical; return e != nil && e.Equal < e.Total }), plural(n, "run"))
	}
	if before > 0 {
		text += fmt.Sprintf(" %s BROKEN: see *Failed and earlier attempts*.", plural(before, "earlier attempt")+" ended")
	}
	return text
}
