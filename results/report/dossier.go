package report

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"interlude/results"
	"interlude/results/stats"
)

// Part is one run of a dossier: its directory and how a reader gets to it.
type Part struct {
	Link string // relative, with forward slashes
	FS   fs.FS
}

// Dossier makes one page out of several judged runs. Each part names its revision;
// nothing is pooled, neither over builds, models, engines nor hosts. The tested
// revision is that of the run that started last; runs of other revisions stand
// under earlier evidence.
func Dossier(parts []Part) ([]byte, error) {
	d, err := loadDossier(parts)
	if err != nil {
		return nil, err
	}
	var p page
	p.heading(1, d.title())
	d.warn(&p)
	p.para("Tested revision: %s. Each part below names its own run, revision, engine and host. Nothing is pooled over different ones.", code(orDash(d.revision)))
	d.overview(&p)
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
	d.notRun(&p)
	d.limits(&p)
	return []byte(p.String()), nil
}

// DossierPR is the paste-ready block over several runs.
func DossierPR(parts []Part) ([]byte, error) {
	d, err := loadDossier(parts)
	if err != nil {
		return nil, err
	}
	var p page
	p.para("[Engine] solo_priority: let a short request run inside a long one (%s)", d.verdicts())
	d.warn(&p)
	p.para("### Validation")
	p.para("Tested revision: %s.", code(orDash(d.revision)))
	p.para("Passed:")
	for i, s := range d.parts {
		if d.current(i) && stats.ExitCode(s.summary.Verdict) == 0 {
			p.item("%s", d.line(i))
		}
	}
	p.end()
	p.para("Failed attempts:")
	n := d.findings(&p, results.Broken, results.Invalid, results.Worse, results.Doubt)
	for i, s := range d.parts {
		if d.current(i) && stats.ExitCode(s.summary.Verdict) != 0 {
			p.item("%s", d.line(i))
			n++
		}
	}
	if n == 0 {
		p.item("None in these runs.")
	}
	p.end()
	p.para("Disclosed:")
	if d.findings(&p, results.Note) == 0 {
		p.item("Nothing.")
	}
	p.end()
	d.notRun(&p)
	earlier := false
	for i := range d.parts {
		if d.current(i) {
			continue
		}
		if !earlier {
			p.para("### Earlier evidence (not rerun on this base)")
			earlier = true
		}
		p.item("%s", d.line(i))
	}
	p.end()
	d.limits(&p)
	return []byte(strings.ReplaceAll(p.String(), "\n## ", "\n### ")), nil
}

// findings lists the failed checks of the given weights, run by run.
func (d *dossier) findings(p *page, weights ...string) (n int) {
	for i, s := range d.parts {
		for _, g := range alike(s.failedFindings(weights...)) {
			p.item("%s: %s", code(d.links[i]), finding(g))
			n++
		}
	}
	return n
}

// dossier is several runs, the newest last.
type dossier struct {
	parts    []*source
	links    []string
	revision string
}

func loadDossier(parts []Part) (*dossier, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("dossier: no run was named")
	}
	d := &dossier{}
	for _, part := range parts {
		s, err := load(part.FS)
		if err != nil {
			return nil, fmt.Errorf("dossier: %s: %w", part.Link, err)
		}
		d.parts, d.links = append(d.parts, s), append(d.links, part.Link)
	}
	newest := d.parts[0]
	for _, s := range d.parts {
		if s.run.Started > newest.run.Started { // RFC 3339 in UTC sorts as text
			newest = s
		}
	}
	d.revision = newest.run.Revision
	return d, nil
}

func (d *dossier) index() []int {
	list := make([]int, len(d.parts))
	for i := range list {
		list[i] = i
	}
	return list
}

// current reports whether a part was run on the tested revision, without changes.
func (d *dossier) current(i int) bool { return d.parts[i].run.Revision == d.revision }

func (d *dossier) title() string {
	return fmt.Sprintf("%d runs: %s", len(d.parts), d.verdicts())
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

// warn says first what is not hardware.
func (d *dossier) warn(p *page) {
	var emulated, real []string
	for i, s := range d.parts {
		if s.run.Emulated != "" {
			emulated = append(emulated, code(d.links[i]))
		} else {
			real = append(real, code(d.links[i]))
		}
	}
	if len(emulated) > 0 {
		p.para("> **Emulated engines:** %s. Their timings come from a profile, not from hardware.", strings.Join(emulated, ", "))
	}
	if len(real) > 0 && len(emulated) > 0 {
		p.para("> Real engines: %s.", strings.Join(real, ", "))
	}
}

// overview is one row a run.
func (d *dossier) overview(p *page) {
	p.heading(2, "Overview")
	var rows [][]string
	for i, s := range d.parts {
		rows = append(rows, []string{mark("[" + escape(s.plan.Name) + "](" + d.links[i] + "/README.md)"), s.run.Kind, s.verdict(), d.key(i), short(s.run.Revision), s.engineName(), s.run.Host.OS + "/" + s.run.Host.Arch, day(s.run.Started)})
	}
	p.table(true, []string{"workload", "kind", "verdict", "in one line", "revision", "engine", "host", "date"}, rows)
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

// key is the one number of a run; none of an INVALID one.
func (d *dossier) key(i int) string {
	s := d.parts[i]
	off, on := s.arm(results.Off), s.arm(s.onlyArm())
	switch {
	case s.invalid():
		return "withheld"
	case s.run.Kind == "ab":
		return fmt.Sprintf("short TTFT %s → %s, n = %d pairs", distText(off.TTFTShort), distText(s.arm(results.On).TTFTShort), s.summary.Pairs)
	case len(s.summary.Cells) > 0:
		pass, ran := 0, 0
		for _, c := range s.summary.Cells {
			if c.Pass != nil {
				ran++
				if *c.Pass {
					pass++
				}
			}
		}
		return fmt.Sprintf("%d of %d cells passed, %d not run", pass, ran, len(s.summary.Cells)-ran)
	}
	return fmt.Sprintf("short TTFT %s; %s", threeOf(on.TTFTShort), outcomeText(on.Requests))
}

// line is a run in one sentence.
func (d *dossier) line(i int) string {
	s := d.parts[i]
	return fmt.Sprintf("%s %s on %s, revision %s, %s: **%s**, %s. %s", s.run.Kind, escape(s.plan.Name), escape(s.engineName()), code(short(s.run.Revision)), day(s.run.Started), s.verdict(), escape(d.key(i)), code(results.CommandLine(s.run.Command)))
}

// part is the first screen of one run, one level down.
func (d *dossier) part(p *page, i int) {
	s := d.parts[i]
	p.heading(2, fmt.Sprintf("%s: %s", escape(s.run.Kind), escape(s.plan.Name)))
	p.para("Run [%s](%s/README.md), revision %s%s, engine %s, host %s/%s, %s. Command: %s", escape(s.run.ID), d.links[i], code(orDash(s.run.Revision)), dirty(s.run.Dirty),
		escape(s.engineName()), s.run.Host.OS, s.run.Host.Arch, day(s.run.Started), code(results.CommandLine(s.run.Command)))
	p.para("Verdict: **%s**. %s", s.verdict(), s.sentence())
	switch {
	case s.invalid():
		p.para("Its numbers are withheld; its own page keeps them in an appendix.")
		s.gravest(p)
	case s.run.Kind == "ab":
		s.effects(p)
		s.correctness(p)
	default:
		s.oneArm(p)
		s.cells(p)
	}
}

// notRun keeps what no run of the dossier covers.
func (d *dossier) notRun(p *page) {
	d.union(p, "Not run", func(s *source) []string { return s.notRunList() }, true)
}

func (d *dossier) limits(p *page) {
	d.union(p, "Limits", func(s *source) []string { return s.limitList() }, false)
}

// union lists the sentences of all parts once; with every, only those that hold
// for each part of the tested revision.
func (d *dossier) union(p *page, title string, of func(*source) []string, every bool) {
	p.heading(2, title)
	count := map[string]int{}
	var order []string
	n := 0
	for i, s := range d.parts {
		if every && !d.current(i) {
			continue
		}
		n++
		for _, text := range of(s) {
			if count[text] == 0 {
				order = append(order, text)
			}
			count[text]++
		}
	}
	for _, text := range order {
		if !every || count[text] == n {
			p.item("%s", text)
		}
	}
	p.end()
}
