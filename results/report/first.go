package report

import (
	"fmt"
	"math"
	"strings"

	"interlude/results"
	"interlude/results/stats"
)

// mostReasons bounds the reasons on the first screen; summary.json has them all.
const mostReasons = 12

// first writes the first screen: verdict, the four answers, a picture, effect, n,
// noise, failures, correctness, and the reference beside it.
func (s *source) first(p *page, pictures []picture) {
	p.heading(1, s.headline())
	if s.nothing() {
		p.para("**Nothing was measured,** so nothing below says anything about the server:")
		p.fence("text", s.cause())
		return
	}
	s.banner(p)
	if s.invalid() {
		p.para("%s", s.sentence())
		s.reasons(p)
		p.para("**Valid: no.** The numbers of this run are withheld here; they stand in the appendix with the reason.")
		s.correctness(p)
		s.gravest(p)
		return
	}
	s.inShort(p)
	switch {
	case len(s.summary.Reasons) > 0:
		p.para("Verdict **%s**:", s.verdict())
		s.reasons(p)
	case s.summary.Verdict == results.VerdictPass:
		p.para("Verdict **%s**: %s", s.verdict(), s.passed())
	}
	if len(pictures) > 0 {
		pictures[0].show(p)
	}
	if s.run.Kind == "ab" {
		s.effects(p)
		s.correctness(p)
	} else {
		s.ways(p)
		s.oneArm(p)
	}
	s.gravest(p)
	for i := range pictures[min(1, len(pictures)):] {
		pictures[i+1].show(p)
	}
}

// reasons lists those of the verdict, the first of them.
func (s *source) reasons(p *page) {
	for i, r := range s.summary.Reasons {
		if i == mostReasons {
			p.item("and %d more, below", len(s.summary.Reasons)-i)
			break
		}
		p.item("%s", escape(r))
	}
	if len(s.summary.Reasons) > 0 {
		p.end()
	}
}

func (s *source) headline() string {
	verdict := s.verdict()
	if s.nothing() {
		verdict += ", nothing was measured"
	}
	parts := []string{verdict + ": " + escape(s.plan.Name)}
	if s.run.Emulated != "" {
		parts = append(parts, "emulated engine, profile "+escape(s.run.Emulated))
	} else if b := s.backend(); b != "" {
		parts = append(parts, "engine on "+escape(b))
	}
	if s.run.Speed != 1 && s.run.Speed != 0 {
		parts = append(parts, fmt.Sprintf("×%g", s.run.Speed))
	}
	return strings.Join(parts, ", ")
}

// nothing reports whether no request was sent that counts.
func (s *source) nothing() bool {
	for i := range s.records {
		if s.records[i].Sent > 0 {
			return false
		}
	}
	return true
}

// cause is why nothing was measured, as the audit says it.
func (s *source) cause() string {
	for _, f := range s.findings {
		if f.Check == "measured" && f.Status == "fail" {
			return strings.TrimPrefix(f.Text, "nothing was measured: ")
		}
	}
	return orDash(s.run.Why)
}

// gist is the first line of a text, cut where it gets long; the rest is in the files.
func gist(s string) string {
	const most = 200
	line, rest, more := strings.Cut(strings.TrimSpace(s), "\n")
	if r := []rune(line); len(r) > most {
		line, more = string(r[:most]), true
	}
	if more || rest != "" {
		line += " …"
	}
	return line
}

// verdict adds the margin to NO DIFFERENCE.
func (s *source) verdict() string {
	if s.summary.Verdict == results.VerdictNoDifference {
		return fmt.Sprintf("%s WITHIN ±%g %%", s.summary.Verdict, 100*s.plan.Margin)
	}
	return s.summary.Verdict
}

// backend is what computed, from the first engine that said so.
func (s *source) backend() string {
	for _, slot := range s.run.Slots {
		if b := slot.Info["backend"]; b != "" {
			return strings.TrimSpace(b + " " + slot.Info["model"])
		}
	}
	return ""
}

// banner warns before any number is read.
func (s *source) banner(p *page) {
	if s.run.Emulated != "" {
		text := "> **The engine is emulated.** A process that speaks the native engine's protocol answered with timings of the profile " +
			code(s.run.Emulated) + ", not of hardware. The server, the scheduler, the client and all processes are real."
		if s.run.Speed != 1 {
			text += fmt.Sprintf(" **All engine times, due times and scheduler durations were divided by %g**; every number below is as measured, not scaled back.", s.run.Speed)
		}
		p.para("%s", text)
	} else if b := s.backend(); b != "" {
		p.para("> **The engine is real:** %s computed every token. That speaks for this model on this machine.", escape(b))
	}
	if s.run.Status != "complete" {
		p.para("> **The run is not complete** (%s): %s", escape(s.run.Status), escape(gist(s.run.Why)))
	}
}

// sentence says in words what was found.
func (s *source) sentence() string {
	off, on := s.arm(results.Off), s.arm(results.On)
	d := s.summary.Deltas["ttft_short"]
	switch {
	case s.invalid():
		return "What this run measured cannot be believed:"
	case s.run.Kind != "ab":
		return s.oneArmSentence()
	case s.plan.Primary == "ttft_short" && off.TTFTShort != nil && on.TTFTShort != nil && off.TTFTShort.Median != nil && on.TTFTShort.Median != nil:
		return fmt.Sprintf("A short request that arrives while the engine writes a long answer got its first token after **%s** with `solo_priority` off and after **%s** with it on (medians of %d and %d; pair by pair %s; n = %s).",
			optSecs(off.TTFTShort.Median), optSecs(on.TTFTShort.Median), off.TTFTShort.N, on.TTFTShort.N, interval(d), plural(d.N, "pair"))
	case s.plan.Primary == "block_s":
		return fmt.Sprintf("The workload took **%s** with `solo_priority` off and **%s** with it on (%s; n = %s).",
			optSecs(off.Block), optSecs(on.Block), interval(s.summary.Deltas["block_s"]), plural(s.summary.Deltas["block_s"].N, "pair"))
	}
	return "**No data:** no pair has a value of the primary metric in both arms."
}

// oneArmSentence says what a run without a second arm was.
func (s *source) oneArmSentence() string {
	a := s.arm(s.onlyArm())
	text := fmt.Sprintf("One `%s` with `solo_priority` %s, %s.", s.run.Kind, s.onlyArm(), outcomeText(a.Requests)+s.struckText(s.onlyArm()))
	if a.TTFTShort != nil {
		text += fmt.Sprintf(" Short requests got their first token after **%s** (median), %s at p95 and %s at most (n = %d).",
			optSecs(a.TTFTShort.Median), optSecs(a.TTFTShort.P95), optSecs(a.TTFTShort.Max), a.TTFTShort.N)
	}
	return text
}

// interval writes a delta with its 95 % interval, all in one notation.
func interval(d results.Delta) string {
	if d.Ratio == nil {
		return "no ratio"
	}
	write, low, high := notation(d)
	if low == nil || high == nil {
		return write(*d.Ratio) + ", no interval"
	}
	return fmt.Sprintf("%s, 95 %% interval %s to %s", write(*d.Ratio), write(*low), write(*high))
}

// ends is interval for a table whose head names the 95 %.
func ends(d results.Delta) string {
	text, between, ok := strings.Cut(interval(d), ", 95 % interval ")
	if !ok {
		return text
	}
	return text + " (" + between + ")"
}

// notation chooses how a ratio is read most easily: a factor where it is one
// throughout its interval, a change in percent where it is near 1. low and high are
// the ends in the order in which that notation grows.
func notation(d results.Delta) (write func(float64) string, low, high *float64) {
	low, high = d.Low, d.High
	all := func(holds func(float64) bool) bool {
		return holds(*d.Ratio) && (low == nil || holds(*low)) && (high == nil || holds(*high))
	}
	switch {
	case *d.Ratio >= 0.5 && *d.Ratio <= 2 || *d.Ratio <= 0:
		return change, low, high
	case all(func(v float64) bool { return v > 0 && v < 1 }):
		return func(v float64) string { return "÷ " + digits(1/v) }, high, low
	}
	return func(v float64) string { return "× " + digits(v) }, low, high
}

// effects is the table of the headline numbers.
func (s *source) effects(p *page) {
	flip := "sign-flip p"
	if s.adjusted() {
		flip = "approximate sign-flip p"
	}
	head := []string{"", "off", "on", "on against off (95 % interval)", "n pairs", flip}
	refs := reference()
	if s.comparable() {
		for _, r := range refs {
			head = append(head, fmt.Sprintf("%s (n = %d)", r.name, r.pairs))
		}
	}
	off, on := s.arm(results.Off), s.arm(results.On)
	var rows [][]string
	add := func(name, a, b string, key string, ref func(published) string) {
		d, known := s.delta(key)
		row := []string{name, a, b, dash, dash, dash}
		if known {
			row[3], row[4] = ends(d), fmt.Sprint(d.N)
			if d.PSignFlip != nil {
				row[5] = fmt.Sprintf("%.3g", *d.PSignFlip)
			}
		}
		if s.comparable() {
			for _, r := range refs {
				row = append(row, ref(r))
			}
		}
		rows = append(rows, row)
	}
	none := func(published) string { return dash }
	tokS := func(v float64) string { return fmt.Sprintf("%.2f", v) }
	add("short TTFT, median", distText(off.TTFTShort), distText(on.TTFTShort), "ttft_short", func(r published) string { return both(r.ttft, secs) })
	add("output tok/s of the pair", optNumber(off.OutputTokS, 2), optNumber(on.OutputTokS, 2), "output_tok_s", func(r published) string { return both(r.tokS, tokS) + " ¹" })
	add("total tok/s (prompt too)", optNumber(off.TotalTokS, 2), optNumber(on.TotalTokS, 2), "", none)
	add("pair, sent to last token", optSecs(off.Block), optSecs(on.Block), "block_s", func(r published) string { return both(r.block, secs) })
	add("long answer, end to end", distText(off.LongE2E), distText(on.LongE2E), "", none)
	add("longest pause of a stream by a park", optSecs(off.LongestPause), optSecs(on.LongestPause), "", none)
	add("parks (witness)", optInt(off.Parks), optInt(on.Parks), "", none)
	add("switch cost", s.switchText(results.Off), s.switchText(results.On), "", none)
	p.table(false, head, rows)
	p.para("%s%s", s.aggregation(), s.flips())
	if s.comparable() {
		p.para("¹ The reference calls this “aggregate”. Its two deltas are one measurement: 113.041 tok/s × 27.362 s = 108.803 tok/s × 28.428 s = 3,093 tokens, " +
			"which may include prompt tokens, so the second is derived from the first. The reference ran on Windows 11 with an RTX 3090 and the native engine.")
	}
	if s.comparable() && s.run.Emulated != "" {
		p.para("The reference lost 1.07 s a preemption, more than the emulated profile explains (its parameter `resume_rewarm` is 0 unless the argv below says otherwise). Do not read our throughput cost as an improvement on its −3.75 %%.")
	}
	p.para("%s", s.noise())
}

// adjusted reports whether the sign flips run over values less their slot-order effect.
func (s *source) adjusted() bool {
	m := s.analysis.Metrics[s.plan.Primary]
	return m != nil && m.Adjusted
}

// delta is a delta of the summary. That of an INVALID run withholds them; its
// appendix takes them from the analysis.
func (s *source) delta(key string) (results.Delta, bool) {
	d, ok := s.summary.Deltas[key]
	m := s.analysis.Metrics[key]
	if ok || !s.invalid() || m == nil || m.Effect == nil {
		return d, ok
	}
	return m.Delta(), true
}

// distText is a median with its n.
func distText(d *results.Dist) string {
	if d == nil {
		return dash
	}
	if d.Median == nil {
		return fmt.Sprintf("%s (n = %d)", dash, d.N)
	}
	return fmt.Sprintf("%s (n = %d)", secs(*d.Median), d.N)
}

func optInt(v *int) string {
	if v == nil {
		return dash
	}
	return fmt.Sprint(*v)
}

// noise says how much one arm differs from itself, and what the client adds.
func (s *source) noise() string {
	text := "A/A band: absent, since no off/off pairs were run (`--aa N` adds them); the spread between equal servers is not known, which is not the same as zero."
	if m := s.analysis.Metrics[s.plan.Primary]; m != nil && m.Noise != nil {
		aa := 0
		for _, slot := range s.run.Slots {
			if slot.AA && slot.Complete {
				aa++
			}
		}
		text = fmt.Sprintf("A/A: %s put the noise of the primary metric at ±%.2f %% (half-width for n = %d); a difference within it counts for nothing.", plural(aa/2, "off/off pair"), 100*math.Expm1(*m.Noise), s.summary.Pairs)
	}
	if d := s.summary.Delay; d != nil {
		text += fmt.Sprintf(" The client's own delay is %.2f ms at p99, measured before the first start.", 1000*d.P99)
	}
	if s.summary.Pairs > 0 && s.summary.Pairs < 6 {
		text += fmt.Sprintf(" With n = %d pairs only a t interval exists: nothing here is called significant.", s.summary.Pairs)
	}
	return text
}

// correctness is the second table of the first screen.
func (s *source) correctness(p *page) {
	arms := s.arms()
	head := append([]string{"correctness and failures"}, arms...)
	row := func(name string, f func(*results.Arm) string) []string {
		r := []string{name}
		for _, arm := range arms {
			r = append(r, f(s.arm(arm)))
		}
		return r
	}
	trips := []string{"tool round trips right"}
	for _, arm := range arms {
		trips = append(trips, s.tripsText(arm))
	}
	rows := [][]string{
		row("requests completed of planned", func(a *results.Arm) string { return fmt.Sprintf("%d of %d", a.Requests.Completed, a.Requests.Planned) }),
		row("failed (all other ends but planned cancels)", func(a *results.Arm) string { return failures(a.Requests) }),
		row("audits exact"+s.scoredMark("audit"), func(a *results.Arm) string {
			if a.Audits == nil {
				return dash
			}
			return fmt.Sprintf("%d of %d", a.Audits.Exact, a.Audits.Total)
		}),
		row("strict JSON", func(a *results.Arm) string {
			if a.StrictJSON == nil {
				return dash
			}
			return fmt.Sprintf("%d of %d", a.StrictJSON.Passed, a.StrictJSON.Total)
		}),
		row("short answers right", func(a *results.Arm) string {
			if a.ShortAnswers == nil {
				return dash
			}
			return fmt.Sprintf("%d of %d", a.ShortAnswers.Right, a.ShortAnswers.Total)
		}),
		trips,
		row("lost prefix tokens", func(a *results.Arm) string { return optInt(a.LostPrefix) }),
		row("tokens read again", func(a *results.Arm) string { return optInt(a.Reread) }),
	}
	p.table(false, head, rows)
	if e := s.summary.Identical; e != nil {
		p.para("Long answers byte-equal between the arms: **%d of %d**.", e.Equal, e.Total)
	}
}

// failures counts unplanned ends; no failure in N trials still has an upper bound.
func failures(r results.Requests) string { return unplanned(r, 0) }

// unplanned is failures without those that the run itself brought about.
func unplanned(r results.Requests, struck int) string {
	n := unexpected(r, struck)
	trials := r.Planned - r.Cancelled - struck
	if n == 0 && trials > 0 {
		return fmt.Sprintf("0 of %d (95 %% bound %.2g %%)", trials, 100*stats.ZeroBound(trials))
	}
	return fmt.Sprintf("%d of %d", n, trials)
}

// gravest lists what the audit holds against the run, right on the first screen.
func (s *source) gravest(p *page) {
	list := s.failedFindings(results.Broken, results.Invalid, results.Worse, results.Doubt)
	if len(list) == 0 {
		p.para("The audit holds nothing against the run. %s", s.below())
		return
	}
	p.para("**The audit holds against the run:**")
	for i, f := range list {
		if i == 8 {
			p.item("and %d more, below", len(list)-i)
			break
		}
		p.item("**%s** (%s): %s", escape(f.Check), escape(f.Weight), escape(f.Text))
	}
	p.end()
}

// below says what the audit found that is held against nobody, and where it stands.
func (s *source) below() string {
	notes := len(alike(s.failedFindings(results.Note)))
	notRun := 0
	for _, f := range s.findings {
		if f.Status == "not_run" {
			notRun++
		}
	}
	switch {
	case notes == 0 && notRun == 0:
		return "It disclosed nothing, and every check ran."
	case notRun == 0:
		return fmt.Sprintf("What it disclosed (%s) stands below under *Checks*; every check ran.", plural(notes, "thing"))
	case notes == 0:
		return fmt.Sprintf("It disclosed nothing; what it could not check (%s) stands below under *Not run*.", plural(notRun, "check"))
	}
	return fmt.Sprintf("What it disclosed (%s) stands below under *Checks*, what it could not check (%s) under *Not run*.", plural(notes, "thing"), plural(notRun, "check"))
}

// unexpected counts the ends that nobody planned.
func unexpected(r results.Requests, struck int) int {
	return r.Refused + r.Truncated + r.StreamError + r.TransportError + r.Timeout + r.CutOff + r.NotSent - struck
}

// scored counts the judged answers that the manifest scores and does not demand, of
// one class or of any ("").
func (s *source) scored(class string) (n, of int) {
	for _, j := range s.judgements {
		if class == "" || j.Class == class {
			of++
			if j.Scored {
				n++
			}
		}
	}
	return n, of
}

// scoredMark is added to the name of a count of answers that are only scored.
func (s *source) scoredMark(class string) string {
	if n, of := s.scored(class); n > 0 && n == of {
		return " (scored, not demanded)"
	}
	return ""
}
