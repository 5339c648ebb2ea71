package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"interlude/harness"
	"interlude/results"
	"interlude/results/stats"
	"interlude/sched"
	"interlude/workloads"
)

// measureFlags are the flags that every measuring verb has.
type measureFlags struct {
	manifest, target, engine, tokenizer, policy, plan, out, resume string
	speed                                                          float64
	seed                                                           uint64
	planOnly                                                       bool
	idle                                                           time.Duration
}

func (m *measureFlags) register(cmd *cobra.Command, manifest string) {
	f := cmd.Flags()
	f.StringVar(&m.manifest, "manifest", manifest, "what is sent: a built-in manifest `NAME` (interlude plan --list) or a file")
	f.StringVar(&m.target, "target", "interlude", "the server under test: a built-in target `NAME` ("+strings.Join(harness.Targets(), ", ")+") or a target file")
	f.StringVar(&m.engine, "engine", "emulate", "the engine: emulate, llama (flags of theirs after the word) or a `COMMAND` line that speaks the protocol; --serve is put behind its first word unless it stands in it")
	f.StringVar(&m.tokenizer, "tokenizer", "", "the model's vocabulary: builtin, a GGUF `FILE` or a folder with a tokenizer.json (default: the engine's own)")
	f.StringVar(&m.policy, "policy", "budget", "the scheduler's policy when it is on: budget, quantum")
	f.StringVar(&m.plan, "plan", "", "run the plan `FILE` of an earlier run again, under the same hash")
	f.StringVar(&m.out, "out", "", "the run `DIR` (default results/runs/<time>-<manifest>)")
	f.StringVar(&m.resume, "resume", "", "go on with the interrupted run in `DIR`, under its own plan")
	f.Float64Var(&m.speed, "speed", 1, "divide every time, on the stand-in only; numbers are recorded as measured")
	f.Uint64Var(&m.seed, "seed", 1, "seed of every draw")
	f.DurationVar(&m.idle, "idle", 10*time.Second, "longest wait for an idle machine before a slot; then it starts and says so; 0 does not wait")
	f.BoolVar(&m.planOnly, "plan-only", false, "show what would be run, and start nothing")
}

// options turns the flags into what the harness takes.
func (m *measureFlags) options(cmd *cobra.Command) (harness.Options, error) {
	var o harness.Options
	if m.resume != "" && (m.plan != "" || m.out != "") {
		return o, usage("--resume goes on under the run's own plan and directory: leave --plan and --out away")
	}
	if err := m.fixedByPlan(cmd); err != nil {
		return o, err
	}
	if !(m.speed > 0) || math.IsInf(m.speed, 0) {
		return o, usage("--speed %g: give a factor above 0, such as 1, 8 or 20", m.speed)
	}
	if policies := []string{sched.Budget, sched.Quantum}; m.target == "interlude" && !slices.Contains(policies, m.policy) {
		return o, usage("--policy %q: the scheduler, when it is on, runs one of %s", m.policy, strings.Join(policies, ", "))
	}
	if m.idle < 0 {
		return o, usage("--idle %v: give 0, which does not wait, or more", m.idle)
	}
	self, err := os.Executable()
	if err != nil {
		return o, fmt.Errorf("find own binary: %w", err)
	}
	b, err := thisBuild()
	if err != nil {
		return o, err
	}
	errOut := cmd.ErrOrStderr()
	o = harness.Options{
		Engine: m.engine, Policy: m.policy, Speed: m.speed, Seed: m.seed,
		Out: m.out, Resume: m.resume, Self: self, Command: append([]string{"interlude"}, os.Args[1:]...),
		Revision: b.Revision, Dirty: b.Dirty, Progress: errOut, Terminal: isTerminal(errOut),
	}
	if o.Idle = m.idle; m.idle == 0 {
		o.Idle = -1 // the harness's word for not waiting
	}
	if o.Target, err = harness.LoadTarget(m.target); err != nil {
		return o, exit{exitUsage, err}
	}
	plan, err := m.planOf()
	if err != nil {
		return o, err
	}
	engine, speed := m.engine, m.speed
	switch {
	case plan == nil:
		if o.Manifest, err = loadManifest(m.manifest); err != nil {
			return o, exit{exitUsage, err}
		}
	case m.plan != "":
		o.Plan = plan
		fallthrough
	default:
		engine, speed = plan.Engine, plan.Speed
	}
	if err := m.count(&o, engine, speed, plan); err != nil {
		return o, err
	}
	return o, nil
}

// fixedByPlan refuses flags that a plan has already answered: it runs under its own
// hash or not at all.
func (m *measureFlags) fixedByPlan(cmd *cobra.Command) error {
	source := ""
	switch {
	case m.resume != "":
		source = "--resume"
	case m.plan != "":
		source = "--plan"
	default:
		return nil
	}
	var clash []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"resume", "plan", "out", "plan-only", "idle", "tokenizer"}, f.Name) {
			clash = append(clash, "--"+f.Name)
		}
	})
	if len(clash) > 0 {
		return usage("%s fixes %s: leave it away, or make a new run with other values", source, strings.Join(clash, ", "))
	}
	return nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// showPlan is --plan-only.
func showPlan(cmd *cobra.Command, kind string, o harness.Options) error {
	p, err := harness.MakePlan(kind, o)
	if err != nil {
		return exit{exitUsage, err}
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "plan %s\ntarget %s, engine %s, policy %s, speed ×%g\n", p.Hash(), p.Target, p.Engine, p.Policy, p.Speed)
	each := "in each slot"
	for _, s := range p.Slots {
		if p.Control() > 0 && s.Pair == 0 {
			each = "in slot 1"
			fmt.Fprintf(out, "slot %d: control, %s, the requests of the first %s\n", s.Slot, s.Arm, seconds(p.Control()))
			continue
		}
		fmt.Fprintf(out, "slot %d: pair %d, %s\n", s.Slot, s.Pair, s.Arm)
	}
	fmt.Fprintf(out, "%d requests %s, about %s in all; nothing was started\n", len(p.Requests), each, seconds(time.Duration(p.Expected)))
	return nil
}

// settle judges what a verb left behind, closes its line in the ledger of
// attempts, and ends with the verdict's exit code. An interrupted run is judged
// too: it is valid as far as it goes.
func settle(ctx context.Context, out io.Writer, run *harness.Finished, ran error) error {
	var refused *harness.Refused
	switch {
	case run == nil && errors.As(ran, &refused):
		return exit{exitUsage, ran}
	case run == nil:
		return ran
	}
	s, err := finish(run.Dir)
	why := briefly(s)
	if ran != nil {
		why = ran.Error()
	}
	if err != nil {
		return errors.Join(ran, err, run.End("", err.Error()))
	}
	if err := run.End(s.Verdict, why); err != nil {
		fmt.Fprintln(os.Stderr, "interlude: attempts ledger:", err)
	}
	concluded := conclude(out, run.Dir, s)
	switch {
	case ctx.Err() != nil:
		return exit{exitInterrupted, fmt.Errorf("interrupted; what was measured is kept. Go on with --resume %s", results.CommandLine([]string{run.Dir}))}
	case ran != nil:
		return ran
	}
	return concluded
}

func newAB() *cobra.Command {
	var m measureFlags
	var pairs, aa int
	var quick bool
	cmd := &cobra.Command{
		Use:     "ab",
		GroupID: "measure",
		Short:   "Compare the server with its scheduler off and on, in pairs of fresh servers",
		Long: `Starts the real server with solo_priority off and on in balanced order, a fresh one
for each slot, sends both the same conversations and interactive probes, checks
every answer, and reports paired differences.

Exit code: 0 BETTER or NO DIFFERENCE, 10 WORSE, 11 INCONCLUSIVE, 12 INVALID, 13 BROKEN,
2 usage, 1 the run failed, 130 interrupted (what was measured is kept).`,
		Example: `  interlude ab --quick                                    # 3 pairs, stand-in at speed ×8: two minutes
  interlude ab                                            # 8 pairs at the profile's own pace
  interlude ab --engine "llama --model my.gguf --threads 1" --manifest paired-small
  interlude ab --engine "strata --serve --pack …"         # your native engine
  interlude ab --target my-server.json                    # your own server
  interlude ab --plan results/published/<run>/plan.json   # somebody's plan, on your machine`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if quick {
				if !cmd.Flags().Changed("pairs") {
					pairs = 3
				}
				if !cmd.Flags().Changed("speed") && strings.HasPrefix(strings.TrimSpace(m.engine), "emulate") {
					m.speed = 8
				}
			}
			if m.plan == "" && m.resume == "" && pairs != 3 && (pairs < 4 || pairs%2 != 0 || pairs > workloads.MostSlots) {
				return usage("--pairs %d: give 3, or an even number from 4 to %d, so that both orders of the arms are equally frequent", pairs, workloads.MostSlots)
			}
			o, err := m.options(cmd)
			if err != nil {
				return err
			}
			o.Pairs, o.AA = pairs, aa
			if m.planOnly {
				return showPlan(cmd, "ab", o)
			}
			run, err := harness.AB(cmd.Context(), o)
			return settle(cmd.Context(), cmd.OutOrStdout(), run, err)
		},
	}
	m.register(cmd, defaultManifest)
	f := cmd.Flags()
	f.IntVar(&pairs, "pairs", 8, "pairs of slots: 3, or an even number from 4")
	f.IntVar(&aa, "aa", 0, "extra off/off pairs, for the noise of the machine itself")
	f.BoolVar(&quick, "quick", false, "3 pairs, and --speed 8 on the stand-in: a first look, not a result")
	return cmd
}

// briefly is why a verdict is no success, for the ledger of attempts: whoever lists
// this run later has nothing but the ledger.
func briefly(s results.Summary) string {
	if stats.ExitCode(s.Verdict) == 0 || len(s.Reasons) == 0 {
		return ""
	}
	text := s.Reasons[0]
	if n := len(s.Reasons) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}
