package report

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"interlude/results"
)

// PR makes the block that a pull request wants, to be pasted as it is: title with
// its area, problem and result, approach, validation, failed attempts, not run,
// limits. It names the revision and never more than this run supports.
func PR(fsys fs.FS) ([]byte, error) {
	s, err := load(fsys)
	if err != nil {
		return nil, err
	}
	var p page
	p.para("%s", s.prTitle())
	p.para("### Problem and result")
	p.para("%s", problem)
	p.para("%s Verdict of the run: **%s**.", s.sentence(), s.verdict())
	for _, r := range s.summary.Reasons {
		p.item("%s", escape(r))
	}
	p.end()
	if s.run.Emulated != "" {
		p.para("The engine was **emulated** (profile %s, ×%g). The numbers show the scheduler and the server, not the speed of any hardware.", code(s.run.Emulated), s.run.Speed)
	}
	p.para("### Approach")
	p.para("Policy %s. STOP, drain every accepted token through DONE, then resume with the original token ids plus the accepted output; parser, UTF-8 decoder, tool-call identity and seed stay with the request. Off by default.", code(s.plan.Policy))
	p.para("### Validation")
	p.para("Tested revision: %s%s, %s, %s/%s. %s", code(orDash(s.run.Revision)), dirty(s.run.Dirty), day(s.run.Started), s.run.Host.OS, s.run.Host.Arch, code(s.again()))
	if s.run.Emulated == "" {
		p.para("%s", s.prMachine())
	}
	switch {
	case s.invalid():
		p.para("The run is INVALID; its numbers are withheld.")
	case s.run.Kind == "ab":
		s.prNumbers(&p)
	default:
		s.prOneArm(&p)
	}
	s.prPassed(&p)
	s.prFailed(&p)
	s.notRun(&p)
	s.prEarlier(&p)
	s.limits(&p)
	if s.run.Chain != "" {
		p.para("%d records, each with the hash of the one before; the last hashes to %s. Plan %s.", s.run.Records, code(s.run.Chain), code(s.run.PlanHash))
	}
	// A block inside a pull request starts its headings one level lower.
	return []byte(strings.ReplaceAll(p.String(), "\n## ", "\n### ")), nil
}

// problem is what every block begins with.
const problem = "A short interactive request on a single engine waits for a long answer to finish. `solo_priority` lets it run in between: the long generation is stopped, everything it has said is kept, and it goes on afterwards on the same stream."

// prEarlier keeps the reference's published numbers apart, where the workload is
// the reference's.
func (s *source) prEarlier(p *page) {
	if !s.comparable() && !s.comparableHour() {
		return
	}
	p.para("### Earlier evidence (not rerun on this base)")
	if s.comparable() {
		for _, r := range reference() {
			p.item("%s: %d flag-off/on pairs, short TTFT %s, aggregate %s tok/s, on an RTX 3090 with the native engine.", r.name, r.pairs, both(r.ttft, secs), both(r.tokS, trimFloat))
		}
	} else {
		for _, r := range referenceHours() {
			p.item("%s: %s; short TTFT, median / p95 / max, %s; %s pauses, on an RTX 3090 with the native engine.", r.name, r.outcomes, r.ttft, r.parks)
		}
	}
	p.end()
}

// prMachine says what computed: engine, model, its quantization, the processor, the
// library.
func (s *source) prMachine() string {
	parts := []string{"Engine " + escape(s.engineName())}
	for _, f := range s.run.Files {
		if f.Role == "binary" {
			continue
		}
		text := f.Role + " " + code(f.Name)
		if f.Note != "" {
			text += " (" + escape(f.Note) + ")"
		}
		if f.Role == "library" {
			text += ", SHA-256 " + code(short(f.SHA256))
		}
		parts = append(parts, text)
	}
	for _, slot := range s.run.Slots {
		if v := slot.Info["engine"]; v != "" {
			parts = append(parts, "announced as "+code(v)+", threads "+escape(orDash(slot.Info["threads"])))
			break
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.run.Versions)) {
		parts = append(parts, escape(name)+" "+code(gist(s.run.Versions[name])))
	}
	return strings.Join(append(parts, fmt.Sprintf("%s, %d cores%s", escape(orDash(s.run.Host.CPU)), s.run.Host.Cores, escape(gpu(s.run.Host)))), "; ") + "."
}

// prTitle carries the area, the problem and the result.
func (s *source) prTitle() string {
	off, on := s.arm(results.Off), s.arm(results.On)
	result := s.verdict()
	if !s.invalid() && off.TTFTShort != nil && on.TTFTShort != nil && off.TTFTShort.Median != nil && on.TTFTShort.Median != nil {
		result = fmt.Sprintf("short TTFT %s → %s", secs(*off.TTFTShort.Median), secs(*on.TTFTShort.Median))
	}
	switch {
	case s.run.Kind == "ab":
		result += ", n = " + plural(s.summary.Pairs, "pair")
	case len(s.summary.Cells) > 0:
		result = fmt.Sprintf("%s %s: %s", s.run.Kind, s.verdict(), strings.ReplaceAll(cellsText(s.summary.Cells), "*", ""))
	default:
		result = fmt.Sprintf("%s %s, n = %s", s.run.Kind, s.verdict(), plural(s.arm(s.onlyArm()).Requests.Planned, "request"))
	}
	where := ", " + s.realEngine()
	if s.run.Emulated != "" {
		where = ", emulated engine"
		if s.run.Speed != 1 {
			where += fmt.Sprintf(" ×%g", s.run.Speed)
		}
	}
	return fmt.Sprintf("[Engine] solo_priority: let a short request run inside a long one (%s%s)", result, where)
}

func (s *source) prNumbers(p *page) {
	off, on := s.arm(results.Off), s.arm(results.On)
	p.item("Short TTFT, median: %s → %s (%s).", distText(off.TTFTShort), distText(on.TTFTShort), interval(s.summary.Deltas["ttft_short"]))
	p.item("Output rate of the pair: %s → %s tok/s (%s).", optNumber(off.OutputTokS, 3), optNumber(on.OutputTokS, 3), interval(s.summary.Deltas["output_tok_s"]))
	p.item("Pair, sent to last token: %s → %s (%s); derived from the same measurement as the rate.", optSecs(off.Block), optSecs(on.Block), interval(s.summary.Deltas["block_s"]))
	p.item("Long answers, end to end, median: %s → %s; longest pause of a stream %s.", distText(off.LongE2E), distText(on.LongE2E), optSecs(on.LongestPause))
	p.item("Parks %s, switch cost %s, lost prefix tokens %s. Tool round trips right: %s off, %s on.", optInt(on.Parks), s.switchText(results.On), optInt(on.LostPrefix), s.tripsText(results.Off), s.tripsText(results.On))
	if mark := s.scoredMark("audit"); mark != "" && off.Audits != nil && on.Audits != nil {
		p.item("Audits exact%s: %d of %d off, %d of %d on.", mark, off.Audits.Exact, off.Audits.Total, on.Audits.Exact, on.Audits.Total)
	}
	p.end()
	p.para("%s", s.aggregation())
}

// prOneArm leads with what a run of one arm counts.
func (s *source) prOneArm(p *page) {
	arm := s.onlyArm()
	a := s.arm(arm)
	p.item("%s%s.", outcomeText(a.Requests), s.struckText(arm))
	if n := len(s.summary.Cells); n > 0 {
		p.item("%s.", cellsText(s.summary.Cells))
	}
	if a.Audits != nil {
		p.item("Audits exact: %d of %d%s.", a.Audits.Exact, a.Audits.Total, s.scoredMark("audit"))
	}
	if a.StrictJSON != nil {
		p.item("Strict JSON: %d of %d.", a.StrictJSON.Passed, a.StrictJSON.Total)
	}
	if trips := s.tripsText(arm); trips != dash {
		p.item("Tool round trips right: %s.", trips)
	}
	p.item("Parks %s, lost prefix tokens %s, switch cost %s.", optInt(a.Parks), optInt(a.LostPrefix), s.switchText(arm))
	if d := a.TTFTShort; d != nil {
		p.item("Short TTFT, median / p95 / max: %s; longest pause of a stream %s.", threeOf(d), optSecs(a.LongestPause))
	}
	if c := s.cancellations(); len(c) > 0 {
		var parts []string
		for _, row := range c {
			parts = append(parts, fmt.Sprintf("%d while %s", row.planned, row.state))
		}
		p.item("Cancelled by their clients, as planned: %s.", strings.Join(parts, ", "))
	}
	if text := s.driftText(); text != "" {
		p.item("Drift: %s.", text)
	}
	p.end()
	if s.run.Kind == "inject" {
		s.ways(p)
	}
	p.para("%s", switchWhole)
}

// struckText names the requests that the run itself ended.
func (s *source) struckText(arm string) string {
	if n := s.struck(arm); n > 0 {
		return fmt.Sprintf(", %d ended by the run itself as planned", n)
	}
	return ""
}

// driftText is every slope that has a budget.
func (s *source) driftText() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(s.summary.Slopes)) {
		if v := s.summary.Slopes[name]; v.Budget != nil {
			parts = append(parts, fmt.Sprintf("%s %s an hour (%s to %s, budget %s)", escape(name), unit(name)(v.PerHour), unit(name)(v.Low), unit(name)(v.High), unit(name)(v.Budget)))
		}
	}
	return strings.Join(parts, "; ")
}

// claim is a line of the block and whether all of it holds.
type claim struct {
	text  string
	holds bool
}

// claims are what was checked, arm beside arm. A count of answers that the manifest
// only scores is no claim that could fail.
func (s *source) claims() []claim {
	var list []claim
	arms := []string{results.Off, results.On}
	if s.run.Kind != "ab" {
		arms = []string{s.onlyArm()}
	}
	// said writes one value an arm; ok is whether it is whole in every arm that has it.
	said := func(what string, of func(*results.Arm) (a, b int, known bool)) {
		var parts []string
		ok := true
		for _, arm := range arms {
			a, b, known := of(s.arm(arm))
			if !known {
				return
			}
			ok = ok && a == b
			parts = append(parts, fmt.Sprintf("%d of %d with the flag %s", a, b, arm))
		}
		list = append(list, claim{what + ": " + strings.Join(parts, ", ") + ".", ok})
	}
	said("Requests that ended as planned", func(a *results.Arm) (int, int, bool) {
		return a.Requests.Completed + a.Requests.Cancelled + s.struckOf(a), a.Requests.Planned, true
	})
	said("Audits exact", func(a *results.Arm) (int, int, bool) {
		if a.Audits == nil || s.scoredMark("audit") != "" {
			return 0, 0, false
		}
		return a.Audits.Exact, a.Audits.Total, true
	})
	said("Strict JSON", func(a *results.Arm) (int, int, bool) {
		if a.StrictJSON == nil {
			return 0, 0, false
		}
		return a.StrictJSON.Passed, a.StrictJSON.Total, true
	})
	if e := s.summary.Identical; e != nil {
		list = append(list, claim{fmt.Sprintf("Long answers byte-equal between the arms: %d of %d.", e.Equal, e.Total), e.Equal == e.Total})
	}
	return list
}

// struckOf is struck for an arm of a run of one arm.
func (s *source) struckOf(a *results.Arm) int {
	for name, x := range s.summary.Arms {
		if x == a && s.run.Kind != "ab" {
			return s.struck(name)
		}
	}
	return 0
}

func (s *source) prPassed(p *page) {
	p.para("Passed:")
	for _, c := range s.claims() {
		if c.holds && s.run.Kind == "ab" { // the numbers of a run of one arm say it already
			p.item("%s", c.text)
		}
	}
	passed := map[string]bool{}
	for _, f := range s.findings {
		if f.Status == "pass" {
			passed[f.Check] = true
		}
	}
	p.item("%d checks of the audit: %s.", len(passed), escape(strings.Join(slices.Sorted(maps.Keys(passed)), ", ")))
	p.end()
}

// prFailed keeps in every claim that does not hold, every failed check and every
// earlier attempt; what was disclosed and changes no verdict stands apart.
func (s *source) prFailed(p *page) {
	p.para("Failed attempts:")
	n := 0
	item := func(format string, args ...any) {
		p.item(format, args...)
		n++
	}
	for _, c := range s.claims() {
		if !c.holds {
			item("%s", c.text)
		}
	}
	for _, g := range alike(s.failedFindings(results.Broken, results.Invalid, results.Worse, results.Doubt)) {
		item("%s", finding(g))
	}
	for _, a := range starts(s) {
		if a.Run != s.run.ID {
			item("%s", a.text())
		}
	}
	if n == 0 {
		p.item("None: the ledger that this run began with has no earlier start at its workload and target, and no check failed.")
	}
	p.end()
	notes := alike(s.failedFindings(results.Note))
	if len(notes) == 0 {
		return
	}
	p.para("Disclosed:")
	for _, g := range notes {
		p.item("%s", finding(g))
	}
	p.end()
}

// finding is a group of findings in one line.
func finding(group []results.Finding) string {
	text := fmt.Sprintf("%s (%s): %s", escape(group[0].Check), group[0].Weight, escape(group[0].Text))
	if len(group) > 1 {
		text += fmt.Sprintf(" (and %d more like it)", len(group)-1)
	}
	return text
}

// day is the date of an RFC 3339 time.
func day(t string) string {
	date, _, _ := strings.Cut(t, "T")
	return orDash(date)
}
