package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"interlude/audit"
	"interlude/results"
	"interlude/results/stats"
)

func newAudit() *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:     "audit DIR",
		GroupID: "judge",
		Short:   "Say what in a run directory can be believed",
		Long: `Judges a run from its files alone: was it admissible, are the answers right, do
counts, order, logs and journal agree, and does every number of the summary come
out again when it is computed a second time by other code. Nothing is written.

Exit code 0 whatever the speed verdict, 12 when the run is INVALID, 13 when it is BROKEN.`,
		Example: `  interlude audit results/runs/<run>
  interlude audit results/published/<run> --all      # passed checks too
  interlude audit <run> --json | less`,
		Args: exactly(1, "a run directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, judged, err := judge(args[0])
			if err != nil {
				return err
			}
			judged.Findings = append(judged.Findings, audit.Stored(os.DirFS(args[0]), s)...)
			out := cmd.OutOrStdout()
			if asJSON {
				b, err := indentJSON(judged.Findings)
				if err != nil {
					return err
				}
				if _, err := out.Write(b); err != nil {
					return err
				}
			} else {
				printFindings(out, judged, all)
			}
			return believable(s, judged)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print findings.json")
	cmd.Flags().BoolVar(&all, "all", false, "print passed checks too")
	return cmd
}

// believable turns what makes a run INVALID or BROKEN into the exit code, whatever
// its speed verdict. What a directory says of itself counts too.
func believable(s results.Summary, judged *audit.Report) error {
	code := stats.ExitCode(s.Verdict)
	if code != invalidCode && code != brokenCode {
		switch judged.Worst() {
		case results.Broken:
			code = brokenCode
		case results.Invalid:
			code = invalidCode
		}
	}
	if code == invalidCode || code == brokenCode {
		return exit{code: code}
	}
	return nil
}

// Exit codes of the two verdicts with which a run cannot be used (stats.ExitCode).
const (
	invalidCode = 12
	brokenCode  = 13
)

func printFindings(out io.Writer, r *audit.Report, all bool) {
	counts := map[string]int{}
	right, scored := 0, ""
	n := 0
	for _, j := range r.Judgements {
		if j.Right {
			right++
		}
		if j.Scored {
			n++
		}
	}
	if n > 0 {
		scored = fmt.Sprintf(" (%d of them are scored by the manifest, not demanded)", n)
	}
	for _, f := range r.Findings {
		counts[standing(f)]++
		if f.Status == "pass" && !all {
			continue
		}
		printFinding(out, f)
	}
	fmt.Fprintf(out, "%d checks passed, %d failed, %d notes, %d not run; %d of %d judged answers right%s\n",
		counts["pass"], counts["fail"], counts["note"], counts["not_run"], right, len(r.Judgements), scored)
}

// standing is a finding's status; what is disclosed and changes no verdict is a
// note and no failure.
func standing(f results.Finding) string {
	if f.Status == "fail" && f.Weight == results.Note {
		return "note"
	}
	return f.Status
}

func printFinding(out io.Writer, f results.Finding) {
	head := strings.ToUpper(standing(f))
	if head == "FAIL" && f.Weight != "" {
		head += " (" + f.Weight + ")"
	}
	fmt.Fprintf(out, "%s %s: %s\n", head, f.Check, indented(f.Text))
	if len(f.Records) > 0 {
		fmt.Fprintf(out, "    records: %s\n", indented(strings.Join(f.Records, ", ")))
	}
	if f.Evidence != "" {
		fmt.Fprintf(out, "    evidence: %s\n", indented(f.Evidence))
	}
	if f.Command != "" && !strings.HasPrefix(f.Command, "interlude audit") { // that is what was just run
		fmt.Fprintf(out, "    see: %s\n", indented(f.Command))
	}
}

// indented keeps the lines of a text under the one that it begins on, so that none
// can pass for a line of ours.
func indented(text string) string {
	return strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n      ")
}
