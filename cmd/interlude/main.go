// Command interlude finds out whether a scheduler really lets a short request
// run inside a long one on a single LLM engine, at what price, and without
// breaking anything. One file a verb; this one holds the tree and the only
// place with exit codes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"interlude/harness/supervise"
	"interlude/results"
)

// Exit codes of the built binary (`go run` turns every failure into 1).
const (
	exitOK          = 0
	exitFailed      = 1 // the run could not be made
	exitUsage       = 2
	exitInterrupted = 130
)

// exit is an error that carries its own exit code: a verdict's, or one that an
// engine program must end with. err may be nil: everything was said already.
type exit struct {
	code int
	err  error
}

func (e exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exit) Unwrap() error { return e.err }

// usage marks a fault of the command line.
func usage(format string, args ...any) error { return exit{exitUsage, fmt.Errorf(format, args...)} }

func main() {
	os.Exit(run(untilSignal(), os.Args[1:]))
}

// untilSignal returns a context that ends with the first signal to end. A second one
// is not ours to take: it ends the process at once, and its children with it.
func untilSignal() context.Context {
	ctx, stop := signal.NotifyContext(supervise.Asked(context.Background()), endings()...)
	context.AfterFunc(ctx, stop)
	return ctx
}

// endings are the signals that end what runs here in good order: a closed terminal
// too, unless somebody (nohup) has had it ignored.
func endings() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

func run(ctx context.Context, args []string) int {
	root := newRoot()
	root.SetArgs(args)
	out := &checked{Writer: os.Stdout}
	root.SetOut(out)
	err := root.ExecuteContext(ctx)
	if out.err != nil && ctx.Err() == nil {
		complain(fmt.Sprintf("write to stdout: %v", out.err)) // half an answer is none
		return exitFailed
	}
	if err == nil {
		return exitOK
	}
	var e exit
	switch {
	case errors.As(err, &e):
		if e.err != nil {
			complain(e.err.Error())
		}
		return e.code
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		complain("interrupted: " + err.Error())
		return exitInterrupted
	}
	complain(err.Error())
	return exitFailed
}

// complain prints an error. It may quote what an engine or a run directory says.
func complain(text string) { fmt.Fprintln(os.Stderr, "interlude:", results.Printable(text)) }

// checked remembers the first error of writing.
type checked struct {
	io.Writer
	err error
}

func (c *checked) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// Close closes what is written to: an engine that is to close its output does.
func (c *checked) Close() error {
	if to, ok := c.Writer.(io.Closer); ok {
		return to.Close()
	}
	return nil
}

// printable is where the verbs write that show what others wrote.
type printable struct{ io.Writer }

func (p printable) Write(b []byte) (int, error) {
	if _, err := io.WriteString(p.Writer, results.Printable(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "interlude",
		Short: "Does a scheduler let a short request run inside a long one, what does it cost, and does it break anything?",
		Long: `interlude starts a real LLM server with its scheduler off and on, drives the same
deterministic conversations and interactive probes against both, checks every
answer, and writes a report in which each number can be recomputed.

Without a GPU it runs its own server on a stand-in engine; point --engine or
--target at your own engine or server to measure that instead.`,
		Example: `  interlude ab --quick                     # two minutes: off against on, on the stand-in engine
  interlude ab --pairs 8                   # the full comparison
  interlude report results/runs/<run>      # the report of a finished run again
  interlude audit results/runs/<run>       # check a run that somebody sent you`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknown(cmd, args[0])
		},
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			if cmd.GroupID == "judge" || cmd.GroupID == "measure" {
				cmd.SetOut(printable{cmd.OutOrStdout()})
			}
			if cmd.GroupID == "measure" {
				// Whoever read our progress may go away; the measurement stays. The signal is
				// taken and dropped, not ignored: children would inherit that.
				signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
			}
		},
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(flagFault)
	root.AddGroup(
		&cobra.Group{ID: "measure", Title: "Measure:"},
		&cobra.Group{ID: "judge", Title: "Judge a finished run:"},
		&cobra.Group{ID: "plan", Title: "Plan and predict:"},
		&cobra.Group{ID: "serve", Title: "Run the parts by hand:"},
	)
	root.AddCommand(verbs()...)
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Args = func(_ *cobra.Command, args []string) error {
		if topic, rest, _ := root.Find(args); len(rest) > 0 {
			return unknown(topic, rest[0])
		}
		return nil
	}
	return root
}

// unknown refuses a word that cmd has no command for, and names the nearest.
func unknown(cmd *cobra.Command, name string) error {
	hint := ""
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		hint = "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usage("unknown command %q%s (see %s --help)", name, hint, cmd.CommandPath())
}

// exactly is cobra.ExactArgs with a usage exit code and a hint.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("%s takes %s; got %d arguments (see %s --help)", cmd.CommandPath(), what, len(args), cmd.CommandPath())
		}
		return nil
	}
}
