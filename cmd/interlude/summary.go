package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"interlude/results"
)

// strictJSON decodes one JSON value and nothing after it; unknown fields are faults.
func strictJSON(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("there is more after the first JSON value")
	}
	return nil
}

// printSummary says on a terminal what the first screen of the report says.
func printSummary(out io.Writer, s results.Summary) {
	if !measured(s) {
		fmt.Fprintf(out, "\n%s: nothing was measured\n", s.Verdict)
		printReasons(out, s)
		return
	}
	what := "measured on a real engine"
	if s.Emulated != "" {
		what = fmt.Sprintf("on the stand-in engine, profile %s: its times are a profile's, not hardware's", s.Emulated)
	}
	if s.Speed != 0 && s.Speed != 1 {
		what += fmt.Sprintf(", speed ×%g", s.Speed)
	}
	fmt.Fprintf(out, "\n%s  (%s)\n", s.Verdict, what)
	printReasons(out, s)
	if s.Verdict == results.VerdictInvalid {
		fmt.Fprintln(out, "\nIts numbers are withheld; the report's appendix has them.")
		return
	}
	fmt.Fprintln(out)
	if s.Kind == "inject" || s.Kind == "lifecycle" {
		printCells(out, s)
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, value func(*results.Arm) string, delta string) {
		fmt.Fprintf(w, "%s\t", name)
		for _, arm := range armNames(s) {
			fmt.Fprintf(w, "%s\t", value(s.Arms[arm]))
		}
		fmt.Fprintf(w, "%s\t\n", delta)
	}
	paired, against := s.Kind == "ab", ""
	if paired {
		against = "on/off [95 %]"
	}
	heads := strings.Join(armNames(s), "\t")
	if s.Kind == "soak" {
		heads = strings.Replace(heads, results.Off+"\t", "off (control)\t", 1)
	}
	fmt.Fprintf(w, "\t%s\t%s\t\n", heads, against)
	row("short TTFT median, s", func(a *results.Arm) string { return median(a.TTFTShort) }, ratio(s, "ttft_short"))
	row("short TTFT max, s", func(a *results.Arm) string { return maximum(a.TTFTShort) }, "")
	row("output tok/s", func(a *results.Arm) string { return number(a.OutputTokS) }, ratio(s, "output_tok_s"))
	row("block, s", func(a *results.Arm) string { return number(a.Block) }, ratio(s, "block_s"))
	row("completed", func(a *results.Arm) string { return fmt.Sprintf("%d/%d", a.Requests.Completed, a.Requests.Planned) }, "")
	row("audits exact", func(a *results.Arm) string {
		if a.Audits == nil {
			return "-"
		}
		return fmt.Sprintf("%d/%d", a.Audits.Exact, a.Audits.Total)
	}, "")
	row("parks", func(a *results.Arm) string { return count(a.Parks) }, "")
	row("lost prefix tokens", func(a *results.Arm) string { return count(a.LostPrefix) }, "")
	_ = w.Flush()
	if paired {
		fmt.Fprintf(out, "n = %d pairs\n", s.Pairs)
	}
}

// printCells counts the rows of a run that compares nothing: most of its requests end
// early on purpose, and a table of arms would show how few completed.
func printCells(out io.Writer, s results.Summary) {
	passed, failed, notRun := results.Tally(s.Cells)
	what := map[string]string{"inject": "cells (a way, a moment, an API)", "lifecycle": "rows"}[s.Kind]
	fmt.Fprintf(out, "%d of %d %s passed, %d failed, %d not run; the report shows each\n", passed, len(s.Cells), what, failed, notRun)
}

// measured reports whether any request was sent that counts.
func measured(s results.Summary) bool {
	for _, a := range s.Arms {
		if a.Requests.Sent > 0 {
			return true
		}
	}
	return false
}

func printReasons(out io.Writer, s results.Summary) {
	const most = 12
	for i, r := range s.Reasons {
		if i == most {
			fmt.Fprintf(out, "  - and %d more: the report has them\n", len(s.Reasons)-i)
			return
		}
		fmt.Fprintln(out, "  -", indented(r))
	}
}

// armNames are off, on, and then the controls by name.
func armNames(s results.Summary) []string {
	names := []string{}
	for _, first := range []string{results.Off, results.On} {
		if s.Arms[first] != nil {
			names = append(names, first)
		}
	}
	return append(names, otherKeys(s.Arms, results.Off, results.On)...)
}

func median(d *results.Dist) string {
	if d == nil {
		return "-"
	}
	return number(d.Median)
}

func maximum(d *results.Dist) string {
	if d == nil {
		return "-"
	}
	return number(d.Max)
}

func number(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *v)
}

func count(v *int) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(*v)
}

func ratio(s results.Summary, metric string) string {
	d, ok := s.Deltas[metric]
	if s.Kind != "ab" {
		return ""
	}
	if !ok || d.Ratio == nil {
		return "-"
	}
	if d.Low == nil || d.High == nil {
		return fmt.Sprintf("%.3f", *d.Ratio)
	}
	return fmt.Sprintf("%.3f [%.3f, %.3f]", *d.Ratio, *d.Low, *d.High)
}
