package main

import (
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"interlude/results"
	"interlude/results/report"
)

func newCompare() *cobra.Command {
	return &cobra.Command{
		Use:     "compare RUN RUN…",
		GroupID: "judge",
		Short:   "Set the first screens of several judged runs side by side; nothing is pooled or tested",
		Long: `Shows the numbers of several runs beside each other and what differs between the
runs themselves. Runs of different days, builds or machines are no experiment: only
'ab' compares arms, in pairs of neighbouring slots.`,
		Example: `  interlude compare results/runs/<quantum> results/runs/<budget>`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage("%s takes two or more run directories (see --help)", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var runs []comparedRun
			for _, dir := range args {
				r, err := loadCompared(dir)
				if err != nil {
					return err
				}
				runs = append(runs, r)
			}
			return printCompared(cmd.OutOrStdout(), runs)
		},
	}
}

type comparedRun struct {
	name    string
	run     results.Run
	summary results.Summary
}

func loadCompared(dir string) (comparedRun, error) {
	r := comparedRun{name: filepath.Base(filepath.Clean(dir))}
	if !isFile(filepath.Join(dir, "summary.json")) {
		return r, notJudged(dir)
	}
	data, err := results.Open(results.Dir(dir))
	if err != nil {
		return r, fmt.Errorf("open run %s: %w", dir, err)
	}
	r.run = data.Run
	b, err := report.JSON(results.Dir(dir))
	if err == nil {
		err = strictJSON(b, &r.summary)
	}
	if err != nil {
		return r, fmt.Errorf("read the summary of %s: %w", dir, err)
	}
	return r, nil
}

func printCompared(out io.Writer, runs []comparedRun) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name string, value func(comparedRun) string) {
		fmt.Fprint(w, name)
		for _, r := range runs {
			fmt.Fprintf(w, "\t%s", value(r))
		}
		fmt.Fprintln(w)
	}
	row("run", func(r comparedRun) string { return r.name })
	row("verdict", func(r comparedRun) string { return r.summary.Verdict })
	row("kind", func(r comparedRun) string { return r.run.Kind })
	row("revision", func(r comparedRun) string { return orDash(r.run.Revision) })
	row("engine", func(r comparedRun) string { return r.run.Engine })
	row("emulated", func(r comparedRun) string { return orDash(r.run.Emulated) })
	row("speed", func(r comparedRun) string { return fmt.Sprintf("×%g", r.run.Speed) })
	row("plan", func(r comparedRun) string { return firstN(r.run.PlanHash, 12) })
	for _, arm := range []string{results.Off, results.On} {
		of := func(value func(*results.Arm) string) func(comparedRun) string {
			return func(r comparedRun) string {
				if a := r.summary.Arms[arm]; a != nil {
					return value(a)
				}
				return "-"
			}
		}
		row(arm+": short TTFT median, s", of(func(a *results.Arm) string { return median(a.TTFTShort) }))
		row(arm+": short TTFT p95, s", of(func(a *results.Arm) string { return p95(a.TTFTShort) }))
		row(arm+": short TTFT max, s", of(func(a *results.Arm) string { return maximum(a.TTFTShort) }))
		row(arm+": output tok/s", of(func(a *results.Arm) string { return number(a.OutputTokS) }))
		row(arm+": completed", of(func(a *results.Arm) string { return fmt.Sprintf("%d/%d", a.Requests.Completed, a.Requests.Planned) }))
		row(arm+": parks", of(func(a *results.Arm) string { return count(a.Parks) }))
		row(arm+": lost prefix tokens", of(func(a *results.Arm) string { return count(a.LostPrefix) }))
	}
	for _, metric := range []string{"ttft_short", "output_tok_s", "block_s"} {
		row("on/off "+metric, func(r comparedRun) string { return ratio(r.summary, metric) })
	}
	return w.Flush()
}

func p95(d *results.Dist) string {
	if d == nil {
		return "-"
	}
	return number(d.P95)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func firstN(s string, n int) string { return s[:min(n, len(s))] }
