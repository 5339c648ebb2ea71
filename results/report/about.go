package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"interlude/results"
)

// whatWasRun names everything that decides what was measured.
func (s *source) whatWasRun(p *page) {
	p.heading(2, "What was run")
	r := s.run
	rows := [][]string{
		{"run", mark(code(r.ID)) + ", " + r.Kind + ", " + r.Status},
		{"command", mark(code(s.again()))},
		{"started, ended", r.Started + ", " + orDash(r.Ended)},
		{"revision", orDash(r.Revision) + dirty(r.Dirty)},
		{"toolchain", r.Toolchain},
		{"workload", s.plan.Name + ", seed " + fmt.Sprint(s.plan.Seed) + ", tokens counted by " + s.plan.Counter},
		{"plan", mark(code(r.PlanHash))},
		{"target, engine, policy", s.plan.Target + ", " + s.plan.Engine + ", " + s.plan.Policy},
		{"host", fmt.Sprintf("%s/%s, %s, %d cores, %.0f GiB%s", r.Host.OS, r.Host.Arch, orDash(r.Host.CPU), r.Host.Cores, float64(r.Host.Memory)/(1<<30), gpu(r.Host))},
	}
	if r.Emulated != "" {
		rows = append(rows, []string{"timings from", fmt.Sprintf("emulated profile %s, ×%g", r.Emulated, r.Speed)})
	}
	for _, f := range r.Files {
		rows = append(rows, []string{f.Role, fmt.Sprintf("%s, %d bytes, SHA-256 %s%s", f.Name, f.Bytes, f.SHA256, note(f.Note))})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		rows = append(rows, []string{"version: " + name, r.Versions[name]})
	}
	p.table(true, []string{"", ""}, rows)
	if info := s.engineInfo(); info != dash {
		p.para("The engine announced:")
		p.fence("text", info)
	}
	if s.plan.Manifest.About != "" {
		p.para("The workload: %s", escape(s.plan.Manifest.About))
	}
	s.commands(p)
}

func orDash(s string) string {
	if s == "" {
		return dash
	}
	return s
}

func note(s string) string {
	if s == "" {
		return ""
	}
	return ", " + s
}

func dirty(d bool) string {
	if d {
		return ", with uncommitted changes"
	}
	return ""
}

func gpu(h results.Host) string {
	if h.GPU == "" {
		return ", no GPU in use"
	}
	return ", " + h.GPU + " " + h.Driver
}

func (s *source) engineInfo() string {
	for _, slot := range s.run.Slots {
		if len(slot.Info) > 0 {
			var parts []string
			for _, k := range slices.Sorted(maps.Keys(slot.Info)) {
				parts = append(parts, k+"="+slot.Info[k])
			}
			return strings.Join(parts, " ")
		}
	}
	return dash
}

// method tells how the numbers came about, for somebody who was not there.
func (s *source) method(p *page) {
	p.heading(2, "Method")
	defer s.calibration(p)
	if s.run.Kind != "ab" {
		p.para("%s, proved to be ours (the listener belongs to our own child, the flag is read back from it), driven by a plan that was hashed before the first start. %s Stamps are taken when bytes are read; TTFT ends at the first piece of reasoning, content or tool text, not at a role chunk or a comment. %s", s.servers(), dueText, leftOut)
		if length, ok := s.controlled(); ok {
			p.para("After it the first %v of the same plan were sent to a fresh server with the flag off: a control, in the slot of pair 0, which no statistic and no verdict looks at.", length)
		}
		return
	}
	var order []string
	aa := 0
	for _, slot := range s.plan.Slots {
		name := slot.Arm
		if slot.AA {
			name += " (A/A)"
			aa++
		}
		order = append(order, name)
	}
	p.para("%d server starts in this order: %s. Two neighbours make a pair; the pair is the unit, never the request. Each slot has a fresh server on a free port, proved to be ours (the listener belongs to our own child, the flag is read back from it), a warm-up of prompts that occur nowhere else, and a canary. Both arms of a pair are asked the same questions; each pair is asked new ones.",
		len(s.plan.Slots), escape(strings.Join(order, ", ")))
	p.para("%s Stamps are taken when bytes are read; decoding comes after. TTFT ends at the first piece of reasoning, content or tool text, not at a role chunk or a comment. %s", dueText, leftOut)
	p.para("Primary metric `%s`, margin ±%g %%; guards: %s. The effect is the mean of ln(on/off) over the pairs, its interval Student's t with a term for the order of the arms (plain paired t for 3 pairs). Rules and margins stood in `plan.json`, hashed before the first start.",
		s.plan.Primary, 100*s.plan.Margin, escape(s.guards()))
}

// dueText says when probes are sent, leftOut what no number is about.
const (
	dueText = "Each probe is due at a moment that the plan fixes, counted from the start or from what another request was seen to do (sent, its k-th token, parked), and is never sent later because an answer is late."
	leftOut = "Warm-ups and canaries enter no number, requests that the plan itself ends no percentile; nothing else is left out, and nothing after the fact."
)

// servers says on how many servers a run of one arm was made.
func (s *source) servers() string {
	n := 0
	for _, slot := range s.plan.Slots {
		if slot.Pair > 0 {
			n++
		}
	}
	if n > 1 {
		return fmt.Sprintf("%d fresh servers, one after another", n)
	}
	return "One fresh server"
}

func (s *source) calibration(p *page) {
	if s.run.Calibrated != nil {
		c := s.run.Calibrated
		p.para("The client itself, against a stream with true send stamps before the first start: %d events over %d streams, delay p50 %.2f ms, p99 %.2f ms, max %.2f ms.",
			c.Events, c.Streams, 1000*c.P50, 1000*c.P99, 1000*c.Max)
	}
}

func (s *source) guards() string {
	if len(s.plan.Guards) == 0 {
		return "none"
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(s.plan.Guards)) {
		parts = append(parts, fmt.Sprintf("%s %g %%", k, 100*s.plan.Guards[k]))
	}
	return strings.Join(parts, ", ")
}

// notes keeps in what went wrong on the way: findings, deviations, disclosures,
// earlier attempts.
func (s *source) notes(p *page) {
	p.heading(2, "Checks, deviations and disclosures")
	passed := map[string]bool{}
	for _, f := range s.findings {
		if f.Status == "pass" {
			passed[f.Check] = true
		}
	}
	list := s.failedFindings(results.Broken, results.Invalid, results.Worse, results.Doubt, results.Note)
	p.para("%d checks passed: %s.", len(passed), escape(strings.Join(slices.Sorted(maps.Keys(passed)), ", ")))
	if len(list) == 0 {
		p.para("No check failed, and nothing was disclosed.")
	}
	for _, g := range alike(list) {
		s.note(p, g[0], len(g))
	}
	p.end()
	s.attempts(p)
}

// alike groups findings that differ in their numbers only, so that what happened in
// each of sixteen slots is said once. What names records stands alone.
func alike(list []results.Finding) [][]results.Finding {
	var groups [][]results.Finding
	index := map[string]int{}
	for _, f := range list {
		key := f.Check + f.Weight + strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' || r == '.' {
				return -1
			}
			return r
		}, f.Text)
		at, ok := index[key]
		if !ok || len(f.Records) > 0 {
			at = len(groups)
			index[key] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], f)
	}
	return groups
}

// note is one failed check: what it found, the raw evidence, the command that
// shows it.
func (s *source) note(p *page, f results.Finding, times int) {
	text := escape(f.Text)
	if times > 1 {
		text += fmt.Sprintf(" (and %d more like it)", times-1)
	}
	long := len(f.Evidence) > 80 || strings.Contains(f.Evidence, "\n")
	if f.Evidence != "" && !long && times == 1 {
		text += " — " + code(f.Evidence)
	}
	if len(f.Records) > 0 {
		text += "; see " + code(f.Command)
	}
	p.item("**%s** (%s): %s", escape(f.Check), escape(f.Weight), text)
	if long {
		p.end()
		p.fence("text", f.Evidence)
	}
}

// reproduce ends the page: one command, the files, the end of the chain.
func (s *source) reproduce(p *page) {
	p.heading(2, "Reproduce, check, files")
	again := s.environment() + "interlude ab --plan plan.json"
	if s.run.Kind != "ab" {
		again = s.again()
	}
	if slices.ContainsFunc(s.run.Slots, func(x results.SlotInfo) bool { return len(x.Argv) == 0 && s.foreign(x) }) {
		again = "# set the environment variables that the target " + s.plan.Target + " names\n" + again
	}
	p.fence("sh", again+"   # the same again, elsewhere\ninterlude audit .   # judge these files again\ninterlude show . "+s.example()+"   # one request, event by event")
	p.para("Files: `plan.json` (what was to be done), `run.json` (what was run), `records.jsonl` (a line a request), `events.jsonl`, `samples.jsonl`, `attempts.jsonl`, `findings.json`, `judgements.json`, `summary.json` (this page for machines), `slots/` (logs of each server and engine where kept), `plots/`.")
	if s.run.Chain != "" {
		p.para("Each line of `records.jsonl` carries the hash of the line before it. %d records; the last one hashes to %s. An edited record breaks this chain.", s.run.Records, code(s.run.Chain))
	}
}

func (s *source) example() string {
	for i := range s.records {
		if s.records[i].Class == "probe" {
			return s.records[i].ID
		}
	}
	if len(s.records) > 0 {
		return s.records[0].ID
	}
	return "ID"
}
