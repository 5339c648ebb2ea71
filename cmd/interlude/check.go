package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"interlude/engine/enginetest"
	"interlude/engine/process"
	"interlude/results"
)

func newCheck() *cobra.Command {
	var o enginetest.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check -- CMD…",
		Short: "Hold an engine to the line protocol: order of lines, STOP in every state, exact resumption, death",
		Long: `Starts the command line as given (with --serve where the engine wants it) and tells,
check by check, what it keeps of the protocol. What an engine does not announce is
not_run, never pass. Exit code 0 when no check failed, else 1.`,
		Example: `  interlude engine check -- ./interlude engine emulate --serve --load 0s --speed 50
  interlude engine check --rounds 20 -- ./interlude engine llama --serve --threads 1
  interlude engine check --only stop_decode,order_of_lines -- strata --serve --pack …`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s: name the engine after --, as in `%s -- strata --serve …`", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			for flag, n := range map[string]int{"rounds": o.Rounds, "fuzz": o.Fuzz, "restarts": o.Restarts} {
				if n < 1 {
					return usage("--%s %d: give 1 or more; --only leaves checks out", flag, n)
				}
			}
			for _, name := range o.Only {
				if !slices.Contains(enginetest.Names(), name) {
					return usage("--only %q: the checks are %s", name, strings.Join(enginetest.Names(), ", "))
				}
			}
			out := cmd.OutOrStdout()
			if !asJSON {
				o.Told = func(c enginetest.Check) { fmt.Fprintln(out, c) }
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "starting %s; its READY is waited for, %v at most\n", results.CommandLine(args), process.DefaultReadyTimeout)
			report := enginetest.Run(cmd.Context(), args, o)
			if asJSON {
				if err := printJSON(out, report); err != nil {
					return err
				}
			}
			if !report.Passed() {
				return exit{code: exitFailed}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // behind the engine's name all flags are the engine's
	f.Uint64Var(&o.Seed, "seed", 1, "seed of prompts, stops and fuzzed lines")
	f.IntVar(&o.Rounds, "rounds", 100, "answers of the exact-resume check, greedy and seeded each")
	f.IntVar(&o.Fuzz, "fuzz", 200, "fuzzed command lines")
	f.IntVar(&o.Restarts, "restarts", 3, "times the engine is killed and started again")
	f.StringSliceVar(&o.Only, "only", nil, "only these checks")
	f.StringVar(&o.LogPath, "log", "", "append the engine's log to this `FILE`")
	f.BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}
