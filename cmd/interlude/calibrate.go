package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"interlude/harness/calibrate"
)

func newCalibrate() *cobra.Command {
	var l calibrate.Load
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "calibrate",
		GroupID: "plan",
		Short:   "How much later than it was sent does the harness stamp an event?",
		Long: `Serves a stream with true send stamps to the harness's own client, over the loopback,
and compares. No number that a run reports can be finer than this delay; each run
measures it at its start.`,
		Example: `  interlude calibrate                                    # 100 streams, 100 events each, one per 10 ms
  interlude calibrate --streams 500 --json`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if l.Streams < 1 || l.Streams > 5000 || l.Events < 1 || l.Gap <= 0 || l.First < 0 {
				return usage("--streams %d, --events %d, --gap %s, --first %s: give 1 to 5000 streams, at least one event and a positive gap", l.Streams, l.Events, l.Gap, l.First)
			}
			c, err := calibrate.Run(cmd.Context(), l)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), c)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d events over %d streams: delay p50 %.3f ms, p99 %.3f ms, max %.3f ms\n",
				c.Events, c.Streams, c.P50*1000, c.P99*1000, c.Max*1000)
			return err
		},
	}
	f := cmd.Flags()
	f.IntVar(&l.Streams, "streams", 100, "streams at once")
	f.IntVar(&l.Events, "events", 100, "events of each stream")
	f.DurationVar(&l.First, "first", 50*time.Millisecond, "until the first event")
	f.DurationVar(&l.Gap, "gap", 10*time.Millisecond, "between two events")
	f.BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}
