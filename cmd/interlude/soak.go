package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"interlude/harness"
)

// mostKills leaves the engine of an hour a few seconds between two deaths.
const mostKills = 1000

func newSoak() *cobra.Command {
	var m measureFlags
	var duration, control time.Duration
	var kills int
	cmd := &cobra.Command{
		Use:     "soak",
		GroupID: "measure",
		Short:   "Load one server for an hour, and look for what breaks or drifts",
		Long: `Drives three long conversations with tool round trips, audits, rollovers and planned
cancellations, and interactive requests at times of their own, against one server
with its scheduler on. Every answer is checked; memory, handles, queue and times
are tested for drift against the budgets that the plan fixed.

With --control its beginning is sent again, to a fresh server with the scheduler
off: the report sets what the same arrivals met there beside the soak. A control is
outside the verdict; --resume goes on with it when the soak itself is complete.

Exit code: 0 PASS, 10 WORSE (a budget exceeded), 11 INCONCLUSIVE, 12 INVALID, 13 BROKEN,
2 usage, 1 the run failed, 130 interrupted (what was measured is kept).`,
		Example: `  interlude soak                                           # an hour on the stand-in at its own pace
  interlude soak --duration 2m                             # a first look
  interlude soak --engine "emulate --resume-prefill --prefill-chunk 2048 --sequences 4"
  interlude soak --manifest L1 --duration 16m              # the load of the simulations, for real
  interlude soak --manifest smoke-small --duration 1h --engine "llama --threads 1"  # a round a minute on a small real model
  interlude soak --control 15m                             # the first 15 minutes again, flag off
  interlude soak --kills 4                                 # the engine dies four times, audits go on
  interlude soak --engine "strata --serve --pack …"        # your native engine`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := m.options(cmd)
			if err != nil {
				return err
			}
			if o.Manifest != nil && cmd.Flags().Changed("duration") {
				if o.Manifest, err = o.Manifest.For(duration); err != nil {
					return usage("--duration %v: %w", duration, err)
				}
			}
			if kills < 0 || kills > mostKills {
				return usage("--kills %d: give 0 to %d", kills, mostKills)
			}
			words := map[string]string{}
			if kills > 0 {
				words["kills"] = strconv.Itoa(kills)
			}
			if cmd.Flags().Changed("control") {
				words["control"] = control.String()
			}
			if len(words) > 0 {
				o.Words = words
			}
			o.Budgets = harness.Budgets(m.manifest, m.engine, m.speed)
			if m.planOnly {
				return showPlan(cmd, "soak", o)
			}
			run, err := harness.Soak(cmd.Context(), o)
			return settle(cmd.Context(), cmd.OutOrStdout(), run, err)
		},
	}
	m.register(cmd, "soak")
	cmd.Flags().DurationVar(&duration, "duration", time.Hour, "how long, or rounds for how long; the manifest's own where it is not given")
	cmd.Flags().DurationVar(&control, "control", 0, "then send so much of its beginning again, with the flag off, outside the verdict")
	cmd.Flags().IntVar(&kills, "kills", 0, "end the engine at so many random moments of the hour")
	return cmd
}
