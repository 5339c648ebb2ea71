package report

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"

	"interlude/results"
	"interlude/results/stats"
)

// Files are the files of a report by their path in the run directory, with
// forward slashes.
type Files map[string][]byte

// source is a run directory, read.
type source struct {
	fsys       fs.FS
	run        results.Run
	data       *results.Data
	plan       plan
	summary    results.Summary
	findings   []results.Finding
	judgements map[string]results.Judgement // by record
	records    []results.Record             // measured, in the order in which they ended
	analysis   *stats.Analysis              // the numbers behind the summary
}

// plan is what a report needs of plan.json.
type plan struct {
	Name     string             `json:"name"`
	Seed     uint64             `json:"seed"`
	Counter  string             `json:"counter"`
	Policy   string             `json:"policy"`
	Engine   string             `json:"engine"`
	Target   string             `json:"target"`
	Primary  string             `json:"primary"`
	Margin   float64            `json:"margin"`
	Guards   map[string]float64 `json:"guards"`
	Budgets  map[string]float64 `json:"budgets"`
	Options  map[string]string  `json:"options"`
	Slots    []planSlot         `json:"slots"`
	Manifest struct {
		About string `json:"about"`
	} `json:"manifest"`
}

type planSlot struct {
	Pair int    `json:"pair"`
	Arm  string `json:"arm"`
	AA   bool   `json:"aa"`
}

// load reads a judged run. summary.json, findings.json and judgements.json must
// be there: interlude audit makes them.
func load(fsys fs.FS) (*source, error) {
	data, err := results.Open(fsys)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	s := &source{fsys: fsys, run: data.Run, data: data, judgements: map[string]results.Judgement{}}
	if err := json.Unmarshal(data.Plan, &s.plan); err != nil {
		return nil, fmt.Errorf("report: %s: %w", results.PlanFile, err)
	}
	var judged []results.Judgement
	for _, f := range []struct {
		name string
		into any
	}{{results.SummaryFile, &s.summary}, {results.FindingsFile, &s.findings}, {results.JudgementsFile, &judged}} {
		raw, err := fs.ReadFile(fsys, f.name)
		if err != nil {
			return nil, fmt.Errorf("report: %w: judge the run first with interlude audit", err)
		}
		if err := json.Unmarshal(raw, f.into); err != nil {
			return nil, fmt.Errorf("report: %s: %w", f.name, err)
		}
	}
	for _, j := range judged {
		s.judgements[j.Record] = j
	}
	for _, r := range data.Records {
		if r.Class != "warmup" && r.Class != "canary" {
			s.records = append(s.records, r)
		}
	}
	s.analysis = stats.Analyse(data, judged, s.findings, s.plan.facts(s.run.Kind))
	return s, nil
}

// facts are what the statistics need of the plan.
func (p *plan) facts(kind string) stats.Facts {
	pairs := map[int]bool{}
	for _, slot := range p.Slots {
		if slot.Pair > 0 && !slot.AA {
			pairs[slot.Pair] = true
		}
	}
	return stats.Facts{Kind: kind, Primary: p.Primary, Margin: p.Margin, Guards: p.Guards, Pairs: len(pairs), Budgets: p.Budgets}
}

// each calls f for every measured record of an arm outside A/A, those of slots that
// are not complete too.
func (s *source) each(arm string, f func(*results.Record)) {
	for i := range s.records {
		if r := &s.records[i]; r.Arm == arm && !r.AA {
			f(r)
		}
	}
}

// whole reports whether a slot is complete: statistics of an arm are of these alone.
func (s *source) whole(slot int) bool {
	return slices.ContainsFunc(s.run.Slots, func(x results.SlotInfo) bool { return x.Slot == slot && x.Complete })
}

// arms lists the arms of the run, off and on first.
func (s *source) arms() []string {
	list := []string{}
	seen := map[string]bool{}
	for _, arm := range []string{results.Off, results.On} {
		if s.summary.Arms[arm] != nil {
			list, seen[arm] = append(list, arm), true
		}
	}
	for _, slot := range s.run.Slots {
		if !seen[slot.Arm] && s.summary.Arms[slot.Arm] != nil {
			list, seen[slot.Arm] = append(list, slot.Arm), true
		}
	}
	return list
}

// invalid reports whether the run's numbers may not stand in a headline.
func (s *source) invalid() bool { return s.summary.Verdict == results.VerdictInvalid }

// failedFindings returns the failed checks of the given weights, in order.
func (s *source) failedFindings(weights ...string) []results.Finding {
	var list []results.Finding
	for _, w := range weights {
		for _, f := range s.findings {
			if f.Status == "fail" && f.Weight == w {
				list = append(list, f)
			}
		}
	}
	return list
}
