package main

import (
	"io"

	"github.com/spf13/cobra"

	"interlude/engine/fault"
	"interlude/engine/relay"
)

func newRelay() *cobra.Command {
	var faults string
	cmd := &cobra.Command{
		Use:   "relay [--fault-file FILE] -- CMD…",
		Short: "Stand in front of any engine, and fail for it at a chosen moment",
		Long: `Starts the command line as given (with --serve where the engine wants it), passes
its lines on in both directions, and plays the faults of a file where a real engine
has no way to fail on purpose. What ends the process kills the engine, which was
healthy, and then ends the relay as told; a signal goes to the engine itself, and the
relay ends as the engine does; silence and stall freeze the engine. Each strike
leaves a line in stderr that names who died.

Each line of the file is how@when, and is removed before it strikes. Others may add
lines at any time, by renaming a new file over it. Before another engine, load is the
moment of its INFO, and slow goes by the clock.

` + fault.Usage,
		Example: `  interlude engine relay --fault-file faults -- strata --serve --pack …
  echo half@token:40 > faults       # half of the 40th T line, then exit code 1
  echo signal:KILL@stop > faults    # SIGKILL between STOP and DONE
  echo stall@token:40 > faults      # it stands still until a STOP frees it`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s: name the engine after --, as in `%s -- strata --serve …`", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			out, ok := cmd.OutOrStdout().(io.WriteCloser)
			if !ok {
				out = open{cmd.OutOrStdout()}
			}
			if code := relay.Main(args, faults, cmd.InOrStdin(), out, cmd.ErrOrStderr()); code != 0 {
				return exit{code: code}
			}
			return nil
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVar(&faults, "fault-file", "", "the `FILE` of faults still to come (none: lines are only passed on)")
	return cmd
}

// open is an output that cannot be closed.
type open struct{ io.Writer }

func (open) Close() error { return nil }
