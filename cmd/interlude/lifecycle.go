package main

import (
	"github.com/spf13/cobra"

	"interlude/harness"
)

func newLifecycle() *cobra.Command {
	var m measureFlags
	cmd := &cobra.Command{
		Use:     "lifecycle",
		GroupID: "measure",
		Short:   "Leave, unload, restart, roll back: each a row with its evidence",
		Long: `Clients leave while queued, running and parked; a call of 450 items is parked inside
its arguments and recalled; requests that must not be stopped meet a sooner one; the
engine is unloaded and restarted, the flag is taken back and set again, keys are
refused. Each is a row with its evidence.

Exit code: 0 PASS, 13 BROKEN (a row failed), 12 INVALID, 2 usage, 1 the run failed,
130 interrupted (what was measured is kept).`,
		Example: `  interlude lifecycle                    # minutes, on the stand-in
  interlude lifecycle --speed 8
  interlude lifecycle --engine "strata --serve --pack …"`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := m.options(cmd)
			if err != nil {
				return err
			}
			if m.planOnly {
				return showPlan(cmd, "lifecycle", o)
			}
			run, err := harness.Lifecycle(cmd.Context(), o)
			return settle(cmd.Context(), cmd.OutOrStdout(), run, err)
		},
	}
	m.register(cmd, "lifecycle")
	return cmd
}
