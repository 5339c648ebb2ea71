package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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
			judged.Findings = append(judged.Findings, audit.Stored(results.Dir(args[0]), s)...)
			judged.Findings = append(judged.Findings, storedText(args[0])...)
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

// storedText compares a directory's page with the one that is made from its files
// now. They may differ since another version wrote it; whoever reads the page is told
// where.
func storedText(dir string) []results.Finding {
	page, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		return nil // Stored has said so
	}
	fresh, err := render(dir, "md")
	f := results.Finding{Check: "stored_text", Status: "pass", Text: "README.md is word for word what the files give"}
	switch {
	case err != nil:
		f.Status, f.Text = "not_run", fmt.Sprintf("no page can be made to compare README.md with: %v", err)
	case !bytes.Equal(page, fresh):
		old, now := bytes.Split(page, []byte("\n")), bytes.Split(fresh, []byte("\n"))
		n := 0
		for n < len(old) && n < len(now) && bytes.Equal(old[n], now[n]) {
			n++
		}
		arg := results.CommandLine([]string{dir})
		f.Status = "not_run"
		f.Text = fmt.Sprintf("README.md is not word for word what this version makes of the files, from line %d on: another version wrote it, or it was edited", n+1)
		f.Command = fmt.Sprintf("interlude report %s --stdout | diff - %s", arg, results.CommandLine([]string{filepath.Join(dir, "README.md")}))
	}
	return []results.Finding{f}
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
	for _, f := range r.Findings {
		counts[standing(f)]++
		if f.Status == "pass" && !all {
			continue
		}
		printFinding(out, f)
	}
	fmt.Fprintf(out, "%d checks passed, %d failed, %d notes, %d not run; %s\n", counts["pass"], counts["fail"], counts["note"], counts["not_run"], judgedText(r.Judgements))
}

// judgedText counts the judged answers, and those of which nothing was due: requests
// that did not complete, which other checks name where it was not planned, and
// answers that the manifest only scores.
func judgedText(list []results.Judgement) string {
	right, ended, scored := 0, 0, 0
	for _, j := range list {
		switch {
		case j.Right:
			right++
		case slices.ContainsFunc(j.Faults, func(f string) bool { return strings.HasPrefix(f, "outcome:") }):
			ended++
		}
		if j.Scored {
			scored++
		}
	}
	text := fmt.Sprintf("%d of %d judged answers right", right, len(list))
	if ended > 0 {
		text += fmt.Sprintf(", %d not completed", ended)
	}
	if scored > 0 {
		text += fmt.Sprintf("; the manifest scores %d of them and does not demand them", scored)
	}
	return text
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
