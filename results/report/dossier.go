package report

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"interlude/results"
)

// Part is one run of a dossier: its directory and how a reader gets to it.
type Part struct {
	Link string // relative, with forward slashes
	FS   fs.FS
}

// Dossier makes one page out of several judged runs: what they say together first,
// then each for itself, the paired ones before the others. Each part names its
// revision; nothing is pooled, neither over builds, models, engines nor hosts. The
// tested revision is that of the run that started last; runs of other revisions
// stand under earlier evidence.
func Dossier(parts []Part) ([]byte, error) {
	d, err := loadDossier(parts)
	if err != nil {
		return nil, err
	}
	var p page
	p.heading(1, d.title())
	d.warn(&p)
	d.questions(&p)
	d.picture(&p)
	d.tables(&p)
	p.para("%s", d.tested())
	d.overview(&p)
	p.heading(2, "The answers, run by run")
	d.answers(&p)
	for i := range d.parts {
		if d.current(i) {
			d.part(&p, i)
		}
	}
	if slices.ContainsFunc(d.index(), func(i int) bool { return !d.current(i) }) {
		p.heading(2, "Earlier evidence, not rerun on this base")
		for i := range d.parts {
			if !d.current(i) {
				d.part(&p, i)
			}
		}
	}
	p.heading(2, "Failed and earlier attempts")
	d.failed(&p)
	d.notRun(&p)
	d.limits(&p)
	return []byte(p.String()), nil
}

// dossier is several runs, the paired ones first.
type dossier struct {
	parts    []*source
	links    []string
	revision string
	newest   int
}

func loadDossier(parts []Part) (*dossier, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("dossier: no run was named")
	}
	d := &dossier{}
	for _, kind := range []string{"ab", ""} {
		for _, part := range parts {
			s, err := load(part.FS)
			if err != nil {
				return nil, fmt.Errorf("dossier: %s: %w", part.Link, err)
			}
			if (s.run.Kind == "ab") == (kind == "ab") {
				d.parts, d.links = append(d.parts, s), append(d.links, part.Link)
			}
		}
	}
	for i, s := range d.parts {
		if s.run.Started > d.parts[d.newest].run.Started { // RFC 3339 in UTC sorts as text
			d.newest = i
		}
	}
	d.revision = d.parts[d.newest].run.Revision
	return d, nil
}

func (d *dossier) index() []int {
	list := make([]int, len(d.parts))
	for i := range list {
		list[i] = i
	}
	return list
}

// current reports whether a part was run on the tested revision.
func (d *dossier) current(i int) bool { return d.parts[i].run.Revision == d.revision }

// name is a part as a link to its report, called by the last element of its path:
// manifests repeat, directories do not.
func (d *dossier) name(i int) string {
	return "[" + escape(path.Base(d.links[i])) + "](" + d.links[i] + "/README.md)"
}

func (d *dossier) names(of []int) string {
	var list []string
	for _, i := range of {
		list = append(list, d.name(i))
	}
	return strings.Join(list, ", ")
}

// tested says what was tested, and what was tested before it.
func (d *dossier) tested() string {
	revisions := distinct(d.parts, func(s *source) string { return orDash(s.run.Revision) })
	text := fmt.Sprintf("Tested revision: %s.", code(orDash(d.revision)))
	if len(revisions) > 1 {
		var of []int
		for i := range d.parts {
			if d.current(i) {
				of = append(of, i)
			}
		}
		text = fmt.Sprintf("Tested revision: %s, that of the run that started last (%s). The parts span %d revisions; those of another stand under *Earlier evidence*, whether or not what they measured has changed since.", code(orDash(d.revision)), d.names(of), len(revisions))
	}
	return text + " Each part names its own run, revision, engine and host. Nothing is pooled over different ones."
}

func (d *dossier) title() string {
	return fmt.Sprintf("%s: %s", plural(len(d.parts), "run"), d.verdicts())
}

// verdicts counts what the parts concluded.
func (d *dossier) verdicts() string {
	var order []string
	n := map[string]int{}
	for _, s := range d.parts {
		v := s.run.Kind + " " + s.verdict()
		if n[v] == 0 {
			order = append(order, v)
		}
		n[v]++
	}
	for i, v := range order {
		if n[v] > 1 {
			order[i] = fmt.Sprintf("%d × %s", n[v], v)
		}
	}
	return strings.Join(order, ", ")
}

// warn says first what is not hardware. The tables name each run's engine.
func (d *dossier) warn(p *page) {
	var emulated []string
	n := 0
	for _, s := range d.parts {
		if s.run.Emulated != "" {
			n++
			if name := code(s.run.Emulated); !slices.Contains(emulated, name) {
				emulated = append(emulated, name)
			}
		}
	}
	named := distinct(d.parts, (*source).realEngine)
	switch {
	case n == len(d.parts):
		p.para("> **The engine is emulated in every run of this page:** its timings come from a profile (%s), not from hardware. Servers, scheduler, clients and processes are real.", strings.Join(emulated, ", "))
	case n > 0:
		p.para("> **The engine is emulated in %d of the %d runs:** its timings come from a profile (%s), not from hardware. The other %d had a real one: %s. Servers, scheduler, clients and processes are real in all. Every row below says which engine it is about.",
			n, len(d.parts), strings.Join(emulated, ", "), len(d.parts)-n, strings.Join(named, ", "))
	case len(named) > 0:
		p.para("> **The engine is real in every run of this page:** %s.", strings.Join(named, ", "))
	}
}

// overview is one row a run.
func (d *dossier) overview(p *page) {
	p.heading(2, "Overview")
	var rows [][]string
	for i, s := range d.parts {
		rows = append(rows, []string{mark(d.name(i)), s.workload(), s.verdict(), short(s.run.Revision), s.engineName(), s.run.Host.OS + "/" + s.run.Host.Arch, day(s.run.Started)})
	}
	p.table(true, []string{"run", "workload", "verdict", "revision", "engine", "host", "date"}, rows)
}

func short(revision string) string {
	if len(revision) > 12 {
		return revision[:12]
	}
	return orDash(revision)
}

func (s *source) engineName() string {
	if s.run.Emulated != "" {
		return fmt.Sprintf("emulated %s ×%g", s.run.Emulated, s.run.Speed)
	}
	if b := s.backend(); b != "" {
		return b
	}
	return orDash(s.run.Engine)
}

// workload is the kind of a run and its manifest, once where they are called alike.
func (s *source) workload() string {
	if s.run.Kind == s.plan.Name {
		return s.run.Kind
	}
	return s.run.Kind + " " + s.plan.Name
}

// key is the one number of a run; none of an INVALID one.
func (d *dossier) key(i int) string {
	s := d.parts[i]
	off, on := s.arm(results.Off), s.arm(s.onlyArm())
	switch {
	case s.invalid():
		return "withheld"
	case s.run.Kind == "ab":
		return fmt.Sprintf("short TTFT %s → %s, n = %s", distText(off.TTFTShort), distText(s.arm(results.On).TTFTShort), plural(s.summary.Pairs, "pair"))
	case len(s.summary.Cells) > 0:
		return strings.ReplaceAll(cellsText(s.summary.Cells), "*", "")
	case on.TTFTShort == nil:
		return outcomeText(on.Requests)
	}
	return fmt.Sprintf("short TTFT %s; %s", threeOf(on.TTFTShort), outcomeText(on.Requests))
}

// line is a run in one sentence.
func (d *dossier) line(i int) string {
	s := d.parts[i]
	return fmt.Sprintf("%s (%s) on %s, revision %s, %s: **%s**, %s. %s", escape(s.workload()), d.name(i), escape(s.engineName()), code(short(s.run.Revision)), day(s.run.Started), s.verdict(), escape(d.key(i)), code(s.again()))
}

// part is the first screen of one run, one level down.
func (d *dossier) part(p *page, i int) {
	s := d.parts[i]
	p.heading(2, escape(s.workload()+": "+path.Base(d.links[i])))
	p.para("Run %s (%s), revision %s%s, engine %s, host %s/%s, %s. Command: %s", d.name(i), escape(s.run.ID), code(orDash(s.run.Revision)), dirty(s.run.Dirty),
		escape(s.engineName()), s.run.Host.OS, s.run.Host.Arch, day(s.run.Started), code(s.again()))
	p.para("Verdict: **%s**. %s", s.verdict(), s.sentence())
	for _, r := range s.summary.Reasons {
		p.item("%s", escape(r))
	}
	p.end()
	switch {
	case s.invalid():
		p.para("Its numbers are withheld; its own page keeps them in an appendix.")
	case s.run.Kind == "ab":
		s.effects(p)
		s.correctness(p)
	default:
		s.oneArm(p)
		if n := len(s.summary.Cells); n > 0 {
			p.para("%s; the table of all %d stands in [its report](%s/README.md).", cellsText(s.summary.Cells), n, d.links[i])
			s.ways(p)
		}
	}
	d.found(p, i)
}

// found is what the audit says of a part: what it holds against it, what it
// disclosed, what it could not check.
func (d *dossier) found(p *page, i int) {
	s := d.parts[i]
	if list := alike(s.failedFindings(results.Broken, results.Invalid, results.Worse, results.Doubt)); len(list) > 0 {
		p.para("**The audit holds against the run:**")
		for _, g := range list {
			p.item("%s", finding(g))
		}
		p.end()
	} else {
		p.para("The audit holds nothing against the run.")
	}
	if list := alike(s.failedFindings(results.Note)); len(list) > 0 {
		p.para("It disclosed:")
		for _, g := range list {
			p.item("%s", finding(g))
		}
		p.end()
	}
	if slices.ContainsFunc(s.findings, func(f results.Finding) bool { return f.Status == "not_run" }) {
		p.para("It could not check:")
		s.unchecked(p)
		p.end()
	}
}
