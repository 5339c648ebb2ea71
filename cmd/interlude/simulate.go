package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"interlude/results"
	"interlude/sched"
	"interlude/sched/simulate"
	"interlude/workloads"
)

type simulateOptions struct {
	manifest, run, policy, format string
	slot, chunk, sequences, slice int
	resume                        bool
	duration                      time.Duration
	seeds                         int
	seed                          uint64
}

func newSimulate() *cobra.Command {
	var o simulateOptions
	cmd := &cobra.Command{
		Use:     "simulate",
		GroupID: "plan",
		Short:   "The production scheduler against the stand-in's cost model, in virtual time",
		Long: `Runs the same machine that serves, against the cost model of the stand-in (profile
rtx3090-iq3s), an hour in a few hundredths of a second. Prints TTFT by what each
probe found, throughput cost and longest pause for every policy and engine
capability, pooled over seeds, with the range of single hours, and the floor.

These are predictions of a model, not measurements. --run plays a recorded run's
arrivals again and compares.`,
		Example: `  interlude simulate                                     # load L1, 50 hours a cell
  interlude simulate --policy budget --sequences 4       # the matching cells and their FIFO baselines
  interlude simulate --manifest flood --seeds 10
  interlude simulate --manifest smoke                    # a manifest's own requests
  interlude simulate --run results/runs/<run> --slot 2   # predicted against measured
  interlude simulate --format json | jq .floor_s`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			if o.run != "" {
				return o.predict(cmd.OutOrStdout())
			}
			return o.table(cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.manifest, "manifest", "L1", "a load ("+strings.Join(workloads.Loads(), ", ")+"), a built-in manifest or a `FILE`")
	f.StringVar(&o.run, "run", "", "play a recorded run's `DIR` again instead and compare")
	f.IntVar(&o.slot, "slot", 0, "slot of --run; 0 is the first with the scheduler on")
	f.StringVar(&o.policy, "policy", "", "only this policy: fifo, quantum, budget")
	f.BoolVar(&o.resume, "resume-prefill", false, "only engines that keep a stopped read (or, =false, that lose it)")
	f.IntVar(&o.chunk, "prefill-chunk", 0, "only engines with this read grid, `tokens`")
	f.IntVar(&o.sequences, "sequences", 0, "only engines with this many resident conversations")
	f.IntVar(&o.slice, "read-slice", 0, "only this slice of long reads, `tokens`; 0 is none")
	f.DurationVar(&o.duration, "duration", time.Hour, "virtual length of one run of a load")
	f.IntVar(&o.seeds, "seeds", 50, "runs pooled in each cell")
	f.Uint64Var(&o.seed, "seed", 1, "first seed")
	f.StringVar(&o.format, "format", "text", "text or json")
	return cmd
}

// check refuses what no cell can be, and what --run has already answered.
func (o simulateOptions) check(cmd *cobra.Command) error {
	policies := []string{sched.FIFO, sched.Quantum, sched.Budget}
	switch {
	case o.format != "text" && o.format != "json":
		return usage("--format %q: there are text and json", o.format)
	case o.policy != "" && !slices.Contains(policies, o.policy):
		return usage("--policy %q: there are %s", o.policy, strings.Join(policies, ", "))
	case o.seeds < 1 || o.seeds > 1000:
		return usage("--seeds %d: give 1 to 1000", o.seeds)
	case o.duration < time.Minute || o.duration > longest:
		return usage("--duration %s: give 1m to %.0fh; --seeds makes more of it", o.duration, longest.Hours())
	}
	given := cmd.Flags().Changed
	for _, f := range []struct {
		name            string
		value, from, to int
	}{{"prefill-chunk", o.chunk, 64, 1 << 20}, {"sequences", o.sequences, 0, 64}, {"read-slice", o.slice, 64, 1 << 20}} {
		none := f.name == "read-slice" && f.value == 0
		if given(f.name) && !none && (f.value < f.from || f.value > f.to) {
			return usage("--%s %d: give %d to %d", f.name, f.value, f.from, f.to)
		}
	}
	if o.run == "" && given("slot") {
		return usage("--slot %d is a slot of --run; name the run too", o.slot)
	}
	if o.run == "" {
		return nil
	}
	var clash []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"run", "slot", "format"}, f.Name) {
			clash = append(clash, "--"+f.Name)
		}
	})
	if len(clash) > 0 {
		return usage("--run plays what was recorded, on the engine and under the policy of that run: leave %s away", strings.Join(clash, ", "))
	}
	return nil
}

// longest is a bound of one virtual run: its requests are made beforehand, and an
// hour of them takes a few megabytes.
const longest = 24 * time.Hour

func (o simulateOptions) filter(cmd *cobra.Command) simulate.Filter {
	f := simulate.Filter{Policy: o.policy}
	given := cmd.Flags().Changed
	if given("resume-prefill") {
		f.ResumePrefill = &o.resume
	}
	if given("prefill-chunk") {
		f.Chunk = &o.chunk
	}
	if given("sequences") {
		f.Sequences = &o.sequences
	}
	if given("read-slice") {
		f.ReadSlice = &o.slice
	}
	return f
}

func (o simulateOptions) table(cmd *cobra.Command) error {
	cells := simulate.Cells(o.filter(cmd))
	if len(cells) == 0 {
		return usage("no cell of the table fits these flags; `interlude simulate` without them shows which there are")
	}
	load, traffic, err := o.traffic()
	if err != nil {
		return err
	}
	out := simulate.Table(cells, simulate.DefaultBase(), traffic, o.seeds, load)
	if o.format == "json" {
		return printJSON(cmd.OutOrStdout(), out)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "Simulated: load %s, %d runs of %s a cell, profile rtx3090-iq3s. A model's prediction, not a measurement.\n\n%s",
		o.manifest, o.seeds, o.duration, out.Text())
	return err
}

// traffic is a named load, or the requests of a manifest.
func (o simulateOptions) traffic() (workloads.LoadShape, func(seed uint64) simulate.Traffic, error) {
	if l, ok := workloads.NamedLoad(o.manifest); ok {
		return l, func(seed uint64) simulate.Traffic { return simulate.FromLoad(l, o.seed+seed, o.duration) }, nil
	}
	m, err := workloads.Load(o.manifest, os.ReadFile)
	if err != nil {
		return workloads.LoadShape{}, nil, exit{exitUsage, err}
	}
	c := builtinCounter()
	reqs, err := workloads.Expand(m, o.seed, 1, c)
	if err != nil {
		return workloads.LoadShape{}, nil, exit{exitUsage, err}
	}
	one := simulate.FromRequests(workloads.Measured(reqs), c)
	l, _ := workloads.NamedLoad("L1") // for the floor: the same probe everywhere
	return l, func(uint64) simulate.Traffic { return one }, nil
}

func (o simulateOptions) predict(out io.Writer) error {
	data, err := results.Open(results.Dir(o.run))
	if err != nil {
		return fmt.Errorf("open run %s: %w", o.run, err)
	}
	slot := o.slot
	for _, s := range data.Run.Slots {
		if slot == 0 && s.Arm == results.On {
			slot = s.Slot
		}
	}
	rec, err := simulate.FromRun(data, slot)
	if err != nil {
		return fmt.Errorf("take the arrivals of slot %d of %s: %w", slot, o.run, err)
	}
	p := rec.Predict()
	if len(p.Probes) == 0 {
		return fmt.Errorf("slot %d of %s has no completed probe that could be compared; --slot names another", slot, o.run)
	}
	if o.format == "json" {
		return printJSON(out, p)
	}
	fmt.Fprintf(out, "slot %d of %s, %d probes, engine seconds\n\n| probe | found | measured | predicted |\n|---|---|---:|---:|\n", slot, o.run, len(p.Probes))
	for _, f := range p.Probes {
		fmt.Fprintf(out, "| %s | %s | %.3f | %.3f |\n", f.Record, f.Found, f.Measured, f.Predicted)
	}
	fmt.Fprintf(out, "\nmedian error of a probe %s; p50 measured %s, predicted %s; p95 measured %s, predicted %s\n", number(p.MedianError),
		number(p.Measured.Median), number(p.Predicted.Median), number(p.Measured.P95), number(p.Predicted.P95))
	return nil
}

func printJSON(out io.Writer, v any) error {
	b, err := indentJSON(v)
	if err == nil {
		_, err = out.Write(b)
	}
	return err
}
