package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"interlude/harness"
)

func newSoak() *cobra.Command {
	var m measureFlags
	var duration time.Duration
	var kills int
	cmd := &cobra.Command{
		Use:     "soak",
		GroupID: "measure",
		Short:   "Load one server for an hour, and look for what breaks or drifts",
		Long: `Drives three long conversations with tool round trips, audits, rollovers and planned
cancellations, and interactive requests at times of their own, against one server
with its scheduler on. Every answer is checked; memory, handles, queue and times
are tested for drift against the budgets that the plan fixed.

Exit code: 0 PASS, 10 WORSE (a budget exceeded), 11 INCONCLUSIVE, 12 INVALID, 13 BROKEN,
2 usage, 1 the run failed, 130 interrupted (what was measured is kept).`,
		Example: `  interlude soak                                           # an hour on the stand-in at its own pace
  interlude soak --duration 2m                             # a first look
  interlude soak --engine "emulate --resume-prefill --prefill-chunk 2048 --sequences 4"
  interlude soak --manifest L1 --duration 16m              # the load of the simulations, for real
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
			if kills < 0 {
				return usage("--kills %d: give 0 or more", kills)
			}
			if kills > 0 {
				o.Words = map[string]string{"kills": strconv.Itoa(kills)}
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
	cmd.Flags().DurationVar(&duration, "duration", time.Hour, "how long; the manifest's own where it is not given")
	cmd.Flags().IntVar(&kills, "kills", 0, "end the engine at so many random moments of the hour")
	return cmd
}
