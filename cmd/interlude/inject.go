package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"interlude/harness"
	"interlude/workloads"
)

func newInject() *cobra.Command {
	var m measureFlags
	var repeat int
	var relay bool
	var hows, whens string
	cmd := &cobra.Command{
		Use:     "inject",
		GroupID: "measure",
		Short:   "End the engine in every way and at every moment, and see what clients see",
		Long: `Ends the native engine (exit 0, exit 1, SIGKILL, SIGSTOP, abort, closed output, half
a line) while it loads, idles, reads, decodes, drains, or has work queued or parked,
under Chat and Responses, streamed and not. A fresh server for each way. Measured:
how long clients are left in the dark, who else is hit, hangs, silent successes,
orphans, and when a new request is served again.

Signals go to the engine found below the server that this program started, and to
nothing else. What no signal can do, or cannot do between STOP and DONE, the stand-in
does itself, by its --fault-file; before any other engine stands the relay
(interlude engine relay), which plays it and takes the real engine along. The report
says which cell was struck by what. Without the relay (--relay=false, or a target that
starts an engine of its own) such cells are not run and say so.

Exit code: 0 PASS, 13 BROKEN (a cell failed), 12 INVALID, 2 usage, 1 the run failed,
130 interrupted (what was measured is kept).`,
		Example: `  interlude inject --speed 20                     # the whole matrix on the stand-in: minutes
  interlude inject --speed 20 --repeat 3          # worst and median of three
  interlude inject --manifest inject-small --target impatient --engine "llama --threads 1"   # all of it on a real model
  interlude inject --manifest inject-small --target impatient --engine "llama --threads 1" --relay=false --how kill,abort,silence
  interlude inject --speed 20 --how silence --when drain,parked
  interlude inject --engine "strata --serve --pack …"`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if most := workloads.MostSlots / len(workloads.InjectHows()); repeat < 1 || repeat > most {
				return usage("--repeat %d: give 1 to %d", repeat, most)
			}
			o, err := m.options(cmd)
			if err != nil {
				return err
			}
			o.Repeat, o.Words = repeat, map[string]string{"repeat": strconv.Itoa(repeat)}
			if hows != "" {
				o.Words["hows"] = hows
			}
			if whens != "" {
				o.Words["whens"] = whens
			}
			if !cmd.Flags().Changed("relay") {
				relay = harness.NeedsRelay(m.engine) && o.Target.StartsEngine()
			}
			if relay && !o.Target.StartsEngine() {
				return usage("--relay: target %s starts an engine of its own, not the {engine} that the relay could stand before: leave it away", o.Target.Name)
			}
			if relay {
				harness.WithRelay(o.Words)
			}
			if m.planOnly {
				return showPlan(cmd, "inject", o)
			}
			run, err := harness.Inject(cmd.Context(), o)
			return settle(cmd.Context(), cmd.OutOrStdout(), run, err)
		},
	}
	m.register(cmd, "inject")
	cmd.Flags().IntVar(&repeat, "repeat", 1, "how often each cell is run")
	cmd.Flags().BoolVar(&relay, "relay", false, "put interlude engine relay before the engine, to play what no signal can (default: before any engine but the stand-in)")
	cmd.Flags().StringVar(&whens, "when", "", "only at these `MOMENTS`, with commas between: "+strings.Join(workloads.InjectWhens(), ", "))
	cmd.Flags().StringVar(&hows, "how", "", "only these `WAYS`, with commas between: "+strings.Join(workloads.InjectHows(), ", "))
	return cmd
}
