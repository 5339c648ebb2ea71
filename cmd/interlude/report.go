package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"interlude/harness"
	"interlude/results"
	"interlude/results/report"
)

func newReport() *cobra.Command {
	var format string
	var stdout bool
	cmd := &cobra.Command{
		Use:     "report DIR…",
		GroupID: "judge",
		Short:   "Judge a run directory again and write its report, or one page over several runs",
		Long: `Judges the run from its records, writes summary.json, findings.json, README.md and
the plots into the directory, and prints the first screen. With --format it only
prints, and writes nothing.

Several directories make one page, a dossier: each part names its revision, nothing
is pooled over different builds, engines or hosts, and nothing is written into them.`,
		Example: `  interlude report results/runs/<run>                       # README.md and plots
  interlude report <run> --stdout | less                    # the page, to a pipe
  interlude report <run> --format pr | xclip                # the block for a pull request
  interlude report <run> --format gobench > on-off.txt      # then: benchstat -col /arm on-off.txt
  interlude report <run> --format trace > trace.json        # open in Perfetto
  interlude report <ab> <soak> <inject> > dossier.md        # one page over several runs
  interlude report <ab> <soak> <inject> --format pr`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s takes one or more run directories (see --help)", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := args[0]
			if len(args) > 1 {
				b, err := dossier(args, format)
				if err != nil {
					return err
				}
				_, err = cmd.OutOrStdout().Write(b)
				return err
			}
			if format == "" && !stdout {
				if err := harness.Busy(dir); err != nil {
					return err
				}
				s, err := finish(dir)
				if err != nil {
					return err
				}
				return conclude(cmd.OutOrStdout(), dir, s)
			}
			b, err := render(dir, format)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(b)
			return err
		},
	}
	cmd.Flags().StringVar(&format, "format", "", "print instead: md, pr, json, gobench, trace")
	cmd.Flags().BoolVar(&stdout, "stdout", false, "print README.md instead of writing it")
	return cmd
}

// dossier makes one page over several judged runs. Links are relative to here.
func dossier(dirs []string, format string) ([]byte, error) {
	var parts []report.Part
	known := map[string]bool{}
	for _, dir := range dirs {
		link := fromHere(dir)
		if known[link] {
			return nil, usage("%s is named twice: one run is one part of the page", dir)
		}
		known[link] = true
		if !isFile(filepath.Join(dir, "summary.json")) {
			return nil, notJudged(dir)
		}
		parts = append(parts, report.Part{Link: filepath.ToSlash(link), FS: results.Dir(dir)})
	}
	switch format {
	case "", "md":
		return report.Dossier(parts)
	case "pr":
		return report.DossierPR(parts)
	}
	return nil, usage("--format %q: over several runs there are md and pr", format)
}

// fromHere is the relative path of a directory, as a page of this folder links to it.
func fromHere(dir string) string {
	here, err := os.Getwd()
	if err != nil {
		return filepath.Clean(dir)
	}
	full, err := filepath.Abs(dir)
	if err != nil {
		return filepath.Clean(dir)
	}
	rel, err := filepath.Rel(here, full)
	if err != nil {
		return filepath.Clean(dir)
	}
	return rel
}

func notJudged(dir string) error {
	if !isFile(filepath.Join(dir, results.PlanFile)) {
		return fmt.Errorf("%s is no run directory: it holds no %s", dir, results.PlanFile)
	}
	return fmt.Errorf("%s is not judged yet: run `%s` first", dir, results.CommandLine([]string{"interlude", "report", dir}))
}

// render makes one format of a judged run without writing anything.
func render(dir, format string) ([]byte, error) {
	fsys := results.Dir(dir)
	formats := map[string]func(fs.FS) ([]byte, error){
		"": markdown, "md": markdown, "pr": report.PR, "json": report.JSON, "gobench": report.GoBench, "trace": report.Trace,
	}
	f, ok := formats[format]
	if !ok {
		return nil, usage("--format %q: there are md, pr, json, gobench and trace", format)
	}
	if !isFile(filepath.Join(dir, "summary.json")) {
		return nil, notJudged(dir)
	}
	return f(fsys)
}

func markdown(fsys fs.FS) ([]byte, error) {
	files, err := report.Render(fsys)
	return files["README.md"], err
}

func newShow() *cobra.Command {
	return &cobra.Command{
		Use:     "show DIR REQUEST",
		GroupID: "judge",
		Short:   "Tell one request of a run from its due time to its end",
		Example: `  interlude show results/runs/<run> P1      # the probe, in every slot
  interlude show results/runs/<run> 3/P1    # in slot 3`,
		Args: exactly(2, "a run directory and a request"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := report.Show(results.Dir(args[0]), args[1])
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(b)
			return err
		},
	}
}

func newNote() *cobra.Command {
	return &cobra.Command{
		Use:     "note DIR TEXT",
		GroupID: "judge",
		Short:   "Add a dated disclosure to a finished run; its report shows it",
		Example: `  interlude note results/runs/<run> "The machine was compiling during slot 3."`,
		Args:    exactly(2, "a run directory and a text in quotes"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(args[1]) == "" {
				return usage("note: the text is empty; a disclosure stays in the run for ever, so it must say something")
			}
			if err := harness.Busy(args[0]); err != nil {
				return err
			}
			if err := results.AppendNote(args[0], args[1], time.Now().UTC()); err != nil {
				return err
			}
			if _, err := finish(args[0]); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "noted; the report shows it:", filepath.Join(args[0], "README.md"))
			return nil
		},
	}
}

func newPublish() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:     "publish DIR",
		GroupID: "judge",
		Short:   "Copy what a reader of a run needs: relative paths, no host name, 5 MB at most",
		Example: `  interlude publish results/runs/<run>
  interlude publish results/runs/<run> --to results/published/20260101-paired-short-emulated`,
		Args: exactly(1, "a run directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := args[0]
			if to == "" {
				to = filepath.Join("results", "published", filepath.Base(dir))
			}
			if _, err := os.Stat(to); err == nil {
				return usage("--to %s exists: a published run is never overwritten; name another directory", to)
			}
			if inside(dir, to) {
				return usage("--to %s lies inside the run itself: name a directory beside it", to)
			}
			if err := harness.Busy(dir); err != nil {
				return err
			}
			s, err := finish(dir)
			if err != nil {
				return err
			}
			files, err := report.Publish(results.Dir(dir), private(), time.Now().UTC().Format(time.RFC3339))
			if err != nil {
				return err
			}
			if err := writeFiles(to, files); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d files in %s\n", s.Verdict, len(files), to)
			return nil
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "new `DIR` for the copy (default results/published/<run>)")
	return cmd
}

// inside reports whether path lies in dir.
func inside(dir, path string) bool {
	a, errA := filepath.Abs(dir)
	b, errB := filepath.Abs(path)
	rel, err := filepath.Rel(a, b)
	return errA == nil && errB == nil && err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// private lists the texts of this machine that must not travel with a run.
func private() []string {
	var out []string
	if host, err := os.Hostname(); err == nil {
		out = append(out, host)
	}
	if home, err := os.UserHomeDir(); err == nil {
		out = append(out, home)
	}
	if u, err := user.Current(); err == nil && u.Username != "root" {
		out = append(out, u.Username)
	}
	if dir, err := os.Getwd(); err == nil {
		out = append(out, dir)
	}
	return out
}
