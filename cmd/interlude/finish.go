package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"interlude/audit"
	"interlude/results"
	"interlude/results/report"
	"interlude/results/stats"
	"interlude/workloads"
)

// finish judges a run directory and writes what follows from its records:
// judgements.json, findings.json, summary.json, README.md and the plots. It needs
// nothing but the directory, so anyone can repeat it on a copy.
func finish(dir string) (results.Summary, error) {
	s, judged, err := judge(dir)
	if err != nil {
		return s, err
	}
	for _, f := range []struct {
		name  string
		value any
	}{{"judgements.json", judged.Judgements}, {"findings.json", judged.Findings}, {"summary.json", s}} {
		if err := results.WriteJSON(dir, f.name, f.value); err != nil {
			return s, err
		}
	}
	return s, writeReport(dir)
}

// judge is finish without writing: the audit, the summary, and the audit's own
// computation of every number in it. A number that does not come out the same
// twice makes the run INVALID.
func judge(dir string) (results.Summary, *audit.Report, error) {
	var s results.Summary
	fsys := results.Dir(dir)
	data, err := results.Open(fsys)
	if err != nil {
		return s, nil, fmt.Errorf("open run %s: %w", dir, err)
	}
	plan, err := workloads.ReadPlan(data.Plan)
	if err != nil {
		return s, nil, fmt.Errorf("read plan.json of %s: %w", dir, err)
	}
	judged, err := audit.Judge(fsys, counterNamed(plan.Counter))
	if err != nil {
		return s, nil, fmt.Errorf("audit %s: %w", dir, err)
	}
	facts := factsOf(plan)
	if facts.Cells, err = cellsOf(dir); err != nil {
		return s, nil, err
	}
	s = stats.Summarise(data, judged.Judgements, judged.Findings, facts)
	again, err := audit.Recheck(fsys, judged.Judgements, s)
	if err != nil {
		return s, nil, fmt.Errorf("recompute the summary of %s: %w", dir, err)
	}
	judged.Findings = append(judged.Findings, again...)
	return stats.Summarise(data, judged.Judgements, judged.Findings, facts), judged, nil
}

// factsOf is what a plan promised, in the words of stats, which may not import
// workloads.
func factsOf(p *workloads.Plan) stats.Facts {
	perSlot := 0
	for _, r := range p.Requests {
		if r.Class != workloads.Warmup && r.Class != workloads.Canary {
			perSlot++
		}
	}
	pairs := map[int]bool{}
	for _, s := range p.Slots {
		if s.Pair > 0 && !s.AA {
			pairs[s.Pair] = true
		}
	}
	return stats.Facts{
		Kind: p.Kind, Primary: p.Primary, Margin: p.Margin, Guards: p.Guards, Pairs: len(pairs), PerSlot: perSlot, Budgets: p.Budgets,
	}
}

// cellsOf reads what an injection wrote of its matrix; other runs have none.
func cellsOf(dir string) ([]results.Cell, error) {
	var cells []results.Cell
	b, err := os.ReadFile(filepath.Join(dir, "cells.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = strictJSON(b, &cells)
	}
	if err != nil {
		return nil, fmt.Errorf("read cells.json: %w", err)
	}
	return cells, nil
}

// writeReport renders the page and its plots into the run directory.
func writeReport(dir string) error {
	files, err := report.Render(results.Dir(dir))
	if err != nil {
		return fmt.Errorf("report %s: %w", dir, err)
	}
	return writeFiles(dir, files)
}

func writeFiles(dir string, files report.Files) error {
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if err := results.WriteFile(filepath.Dir(path), filepath.Base(path), data); err != nil {
			return err
		}
	}
	return nil
}

// conclude prints the first screen and turns the verdict into the exit code.
func conclude(out io.Writer, dir string, s results.Summary) error {
	printSummary(out, s)
	fmt.Fprintf(out, "\nreport: %s\n", filepath.Join(dir, "README.md"))
	if code := stats.ExitCode(s.Verdict); code != 0 {
		return exit{code: code}
	}
	return nil
}

func seconds(d time.Duration) string { return d.Round(time.Second).String() }
