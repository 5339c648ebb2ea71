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
	p.para("A short interactive request on a single engine waits for a long answer to finish. `solo_priority` lets it run in between: the long generation is stopped, everything it has said is kept, and it goes on afterwards on the same stream.")
	p.para("%s Verdict of the run: **%s**.", s.sentence(), s.verdict())
	if s.run.Emulated != "" {
		p.para("The engine was **emulated** (profile %s, ×%g). The numbers show the scheduler and the server, not the speed of any hardware.", code(s.run.Emulated), s.run.Speed)
	}
	p.para("### Approach")
	p.para("Policy %s. STOP, drain every accepted token through DONE, then resume with the original token ids plus the accepted output; parser, UTF-8 decoder, tool-call identity and seed stay with the request. Off by default.", code(s.plan.Policy))
	p.para("### Validation")
	p.para("Tested revision: %s%s, %s, %s/%s. %s", code(orDash(s.run.Revision)), dirty(s.run.Dirty), day(s.run.Started), s.run.Host.OS, s.run.Host.Arch, code(results.CommandLine(s.run.Command)))
	if s.invalid() {
		p.para("The run is INVALID; its numbers are withheld.")
	} else {
		s.prNumbers(&p)
	}
	s.prPassed(&p)
	s.prFailed(&p)
	s.notRun(&p)
	if s.comparable() {
		p.para("### Earlier evidence (not rerun on this base)")
		for _, r := range reference() {
			p.item("%s: %d flag-off/on pairs, short TTFT %s, aggregate %s tok/s, on an RTX 3090 with the native engine.", r.name, r.pairs, both(r.ttft, secs), both(r.tokS, trimFloat))
		}
		p.end()
	}
	s.limits(&p)
	if s.run.Chain != "" {
		p.para("%d records, each with the hash of the one before; the last hashes to %s. Plan %s.", s.run.Records, code(s.run.Chain), code(s.run.PlanHash))
	}
	// A block inside a pull request starts its headings one level lower.
	return []byte(strings.ReplaceAll(p.String(), "\n## ", "\n### ")), nil
}

// prTitle carries the area, the problem and the result.
func (s *source) prTitle() string {
	off, on := s.arm(results.Off), s.arm(results.On)
	result := s.verdict()
	if !s.invalid() && off.TTFTShort != nil && on.TTFTShort != nil && off.TTFTShort.Median != nil && on.TTFTShort.Median != nil {
		result = fmt.Sprintf("short TTFT %s → %s", secs(*off.TTFTShort.Median), secs(*on.TTFTShort.Median))
	}
	where := ""
	if s.run.Emulated != "" {
		where = ", emulated engine"
		if s.run.Speed != 1 {
			where += fmt.Sprintf(" ×%g", s.run.Speed)
		}
	}
	return fmt.Sprintf("[Engine] solo_priority: let a short request run inside a long one (%s, n = %d pairs%s)", result, s.summary.Pairs, where)
}

func (s *source) prNumbers(p *page) {
	off, on := s.arm(results.Off), s.arm(results.On)
	p.item("Short TTFT, median: %s → %s (%s).", distText(off.TTFTShort), distText(on.TTFTShort), interval(s.summary.Deltas["ttft_short"]))
	p.item("Output rate of the pair: %s → %s tok/s (%s).", optNumber(off.OutputTokS, 3), optNumber(on.OutputTokS, 3), interval(s.summary.Deltas["output_tok_s"]))
	p.item("Pair, sent to last token: %s → %s (%s); derived from the same measurement as the rate.", optSecs(off.Block), optSecs(on.Block), interval(s.summary.Deltas["block_s"]))
	p.item("Values are medians of the slots; the changes are means over the pairs.")
	p.item("Parks %s, switch cost %s, lost prefix tokens %s.", optInt(on.Parks), optSecs(on.Switch), optInt(on.LostPrefix))
	p.end()
}

// claim is a line of the block and whether all of it holds.
type claim struct {
	text  string
	holds bool
}

// claims are what was checked, arm beside arm.
func (s *source) claims() []claim {
	off, on := s.arm(results.Off), s.arm(results.On)
	list := []claim{{fmt.Sprintf("%d of %d requests completed with the flag off, %d of %d with it on.", off.Requests.Completed, off.Requests.Planned, on.Requests.Completed, on.Requests.Planned),
		off.Requests.Completed+off.Requests.Cancelled == off.Requests.Planned && on.Requests.Completed+on.Requests.Cancelled == on.Requests.Planned}}
	if off.Audits != nil && on.Audits != nil {
		list = append(list, claim{fmt.Sprintf("Audits exact: %d of %d off, %d of %d on.", off.Audits.Exact, off.Audits.Total, on.Audits.Exact, on.Audits.Total),
			off.Audits.Exact == off.Audits.Total && on.Audits.Exact == on.Audits.Total})
	}
	if off.StrictJSON != nil && on.StrictJSON != nil {
		list = append(list, claim{fmt.Sprintf("Strict JSON: %d of %d off, %d of %d on. Tool round trips right: %s off, %s on.", off.StrictJSON.Passed, off.StrictJSON.Total, on.StrictJSON.Passed, on.StrictJSON.Total, optInt(off.RoundTrips), optInt(on.RoundTrips)),
			off.StrictJSON.Passed == off.StrictJSON.Total && on.StrictJSON.Passed == on.StrictJSON.Total})
	}
	if e := s.summary.Identical; e != nil {
		list = append(list, claim{fmt.Sprintf("Long answers byte-equal between the arms: %d of %d.", e.Equal, e.Total), e.Equal == e.Total})
	}
	return list
}

func (s *source) prPassed(p *page) {
	p.para("Passed:")
	for _, c := range s.claims() {
		if c.holds {
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
	ends := map[string]results.Attempt{}
	for _, a := range s.data.Attempts {
		if a.Phase == results.EndPhase {
			ends[a.Run] = a
		}
	}
	for _, a := range s.data.Attempts {
		if a.Phase != results.StartPhase || a.Run == s.run.ID {
			continue
		}
		end, ok := ends[a.Run]
		what := "never ended"
		if ok {
			what = strings.TrimSpace(end.Verdict + " " + end.Why)
		}
		item("Earlier attempt %d, %s, %s: %s", a.N, code(a.Run), a.Time, escape(gist(what)))
	}
	if n == 0 {
		p.item("None: this is the first start at this workload and target, and no check failed.")
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
