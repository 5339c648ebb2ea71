package audittest

import (
	"path/filepath"

	"interlude/audit"
	"interlude/results"
	"interlude/results/stats"
	"interlude/workloads"
)

// Make writes a correct run, in which plant has lied where it is not nil, into a
// folder of its own below parent, and returns that folder.
func Make(parent string, o Options, plant func(*Build)) (string, error) {
	b, err := New(o)
	if err != nil {
		return "", err
	}
	if plant != nil {
		plant(b)
	}
	dir := filepath.Join(parent, "run")
	return dir, b.Write(dir)
}

// Judge says of a run directory what cmd says of one: the audit's opinion and the
// summary.
func Judge(dir string) (*audit.Report, results.Summary, error) {
	fsys := results.Dir(dir)
	r, err := audit.Judge(fsys, Counter())
	if err != nil {
		return nil, results.Summary{}, err
	}
	data, err := results.Open(fsys)
	if err != nil {
		return nil, results.Summary{}, err
	}
	f := stats.Facts{Kind: data.Run.Kind}
	if p, err := workloads.ReadPlan(data.Plan); err == nil { // a plan that is none is the audit's to name
		f = stats.Facts{Kind: p.Kind, Primary: p.Primary, Margin: p.Margin, Guards: p.Guards}
		for _, s := range p.Slots {
			if !s.AA {
				f.Pairs = max(f.Pairs, s.Pair)
			}
		}
	}
	return r, stats.Summarise(data, r.Judgements, r.Findings, f), nil
}
