package report

import (
	"strings"

	"interlude/results"
	"interlude/results/stats"
)

// DossierPR is the paste-ready block over several runs.
func DossierPR(parts []Part) ([]byte, error) {
	d, err := loadDossier(parts)
	if err != nil {
		return nil, err
	}
	var p page
	p.para("[Engine] solo_priority: let a short request run inside a long one (%s)", d.verdicts())
	d.warn(&p)
	p.para("### Problem and result")
	p.para("%s", problem)
	d.questions(&p)
	d.tables(&p)
	p.para("### Validation")
	p.para("%s", d.tested())
	p.para("Passed:")
	n := 0
	for i, s := range d.parts {
		if d.current(i) && stats.ExitCode(s.summary.Verdict) == 0 {
			p.item("%s", d.line(i))
			n++
		}
	}
	if n == 0 {
		p.item("No run of the tested revision.")
	}
	p.end()
	p.para("Failed attempts:")
	d.failed(&p)
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

// failed lists the parts that did not pass and why, what the audit holds against
// any part, and every earlier start at the same workloads and targets.
func (d *dossier) failed(p *page) {
	n := 0
	for i, s := range d.parts {
		if stats.ExitCode(s.summary.Verdict) == 0 {
			continue
		}
		p.item("%s: **%s**: %s.", d.name(i), s.verdict(), escape(strings.Join(s.summary.Reasons, "; ")))
		n++
	}
	n += d.findings(p, results.Broken, results.Invalid, results.Worse, results.Doubt)
	n += d.earlier(p)
	if n == 0 {
		p.item("None: every part passed, no check failed, and no part has an earlier attempt.")
	}
	p.end()
}

// findings lists the failed checks of the given weights, run by run.
func (d *dossier) findings(p *page, weights ...string) (n int) {
	for i, s := range d.parts {
		for _, g := range alike(s.failedFindings(weights...)) {
			p.item("%s: %s", d.name(i), finding(g))
			n++
		}
	}
	return n
}
