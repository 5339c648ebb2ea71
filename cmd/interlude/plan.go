package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"interlude/workloads"
)

// planFlags are the flags of plan.
type planFlags struct {
	seed     uint64
	pairs    int
	pair     int
	json     bool
	show     string
	list     bool
	makeFrom string
}

func newPlan() *cobra.Command {
	var o planFlags
	cmd := &cobra.Command{
		Use:     "plan [MANIFEST]",
		GroupID: "plan",
		Short:   "Show, check and make manifests: what a run would send, when, and what must come back",
		Example: `  interlude plan                          # the default manifest, paired-short
  interlude plan smoke --pairs 4 --json   # plan.json as a run would write it
  interlude plan --list                   # the built-in manifests
  interlude plan --print smoke > my.json  # a manifest to start from
  interlude plan my.json                  # check it: every fault with its path
  interlude plan my.json --show A1        # one request, with its text and what is expected`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("plan takes one manifest; got %d arguments (see interlude plan --help)", len(args))
			}
			if o.pair < 1 || o.pair > o.pairs {
				return usage("--pair %d: a run of %d pairs has pairs 1 to %d", o.pair, o.pairs, o.pairs)
			}
			out := cmd.OutOrStdout()
			switch {
			case o.list:
				return listManifests(out)
			case o.makeFrom != "":
				return printManifest(out, o.makeFrom)
			case len(args) == 1:
				return o.expand(out, args[0])
			}
			return o.expand(out, defaultManifest)
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&o.seed, "seed", 1, "seed of every draw")
	f.IntVar(&o.pairs, "pairs", 8, "pairs of an ab run")
	f.IntVar(&o.pair, "pair", 1, "the pair whose requests are shown (nonces differ between pairs)")
	f.BoolVar(&o.json, "json", false, "print plan.json")
	f.StringVar(&o.show, "show", "", "print one request `ID` in full")
	f.BoolVar(&o.list, "list", false, "list the built-in manifests")
	f.StringVar(&o.makeFrom, "print", "", "print the source of the built-in manifest `NAME`")
	return cmd
}

func listManifests(out io.Writer) error {
	for _, name := range workloads.Builtin() {
		m, err := workloads.Load(name, os.ReadFile)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-14s %s\n", name, m.About)
	}
	return nil
}

func printManifest(out io.Writer, name string) error {
	src, ok := workloads.Source(name)
	if !ok {
		return usage("--print %q: no built-in manifest of that name; there are %v", name, workloads.Builtin())
	}
	_, err := out.Write(src)
	return err
}

// expand prints what a run of a manifest would send.
func (o planFlags) expand(out io.Writer, name string) error {
	m, err := loadManifest(name)
	if err != nil {
		return exit{exitUsage, err}
	}
	c := builtinCounter()
	p, err := workloads.NewPlan(m, workloads.PlanOptions{Kind: "ab", Seed: o.seed, Pairs: o.pairs, Target: "interlude", Engine: "emulate", Policy: "budget"}, c)
	if err != nil {
		return exit{exitUsage, err}
	}
	if o.json {
		_, err := out.Write(p.Encode())
		return err
	}
	reqs, err := workloads.Expand(m, o.seed, o.pair, c)
	if err != nil {
		return exit{exitUsage, err}
	}
	if o.show != "" {
		return showRequest(out, reqs, o.show)
	}
	return printPlan(out, m, p, reqs, c)
}

func printPlan(out io.Writer, m *workloads.Manifest, p *workloads.Plan, reqs []workloads.Request, c workloads.Counter) error {
	fmt.Fprintf(out, "%s: %s\nplan %s, seed %d, tokens counted by %q, context needed %d tokens\n%d slots, about %s\n\n",
		m.Name, m.About, p.Hash(), p.Seed, p.Counter, workloads.ContextNeeded(reqs, c), len(p.Slots), time.Duration(p.Expected).Round(time.Second))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "request\tclass\tconversation\tdue\tprompt\tmax out\texpects")
	for _, r := range reqs {
		prompt := "-"
		if r.PromptTokens > 0 {
			prompt = fmt.Sprint(r.PromptTokens)
		}
		fmt.Fprintf(w, "%s\t%s\t%s/%d\t%s\t%s\t%d\t%s\n", r.ID, r.Class, r.Conversation, r.Turn, due(r.After), prompt, r.MaxTokens, expects(r.Expect))
	}
	return w.Flush()
}

func due(t workloads.Trigger) string {
	d := time.Duration(t.Delay)
	if t.Request == "" {
		return d.String()
	}
	event := t.Event
	if t.N > 0 {
		event = fmt.Sprintf("%s %d", event, t.N)
	}
	return fmt.Sprintf("%s + %s %s", d, t.Request, event)
}

func expects(e workloads.Expect) string {
	switch {
	case e.Lines != nil:
		return fmt.Sprintf("%d lines by rule", e.Lines.Count)
	case e.Words != nil:
		return fmt.Sprintf("%d words by rule", e.Words.Count)
	case e.JSON != nil:
		return fmt.Sprintf("strict JSON, %d fields", len(e.JSON.Fields))
	case len(e.Calls) > 0:
		return fmt.Sprintf("%d tool calls", len(e.Calls))
	case e.Exact != "":
		return "an exact text"
	}
	return "-"
}

func showRequest(out io.Writer, reqs []workloads.Request, id string) error {
	for _, r := range reqs {
		if r.ID == id {
			b, err := indentJSON(r)
			if err != nil {
				return err
			}
			_, err = out.Write(b)
			return err
		}
	}
	return usage("--show %q: no such request; `interlude plan` lists them", id)
}

// loadManifest reads a manifest by name or from a file, and knows a plan when it is
// given one.
func loadManifest(name string) (*workloads.Manifest, error) {
	m, err := workloads.Load(name, os.ReadFile)
	if err == nil {
		return m, nil
	}
	if raw, unread := os.ReadFile(name); unread == nil {
		if _, wrong := workloads.ReadPlan(raw); wrong == nil {
			return nil, fmt.Errorf("manifest %s: this is a plan; run it with --plan %s", name, name)
		}
	}
	return nil, err
}

// planOf is the plan that --plan or --resume names; nil without either.
func (m *measureFlags) planOf() (*workloads.Plan, error) {
	path, flag := m.plan, "--plan"
	if m.resume != "" {
		path, flag = filepath.Join(m.resume, "plan.json"), "--resume"
	}
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil && m.resume != "" {
		return nil, usage("--resume %s: %w: is this a run directory?", m.resume, err)
	}
	if err != nil {
		return nil, usage("--plan: %w", err)
	}
	p, err := workloads.ReadPlan(raw)
	if err == nil {
		return p, nil
	}
	if _, wrong := workloads.Parse(raw); wrong == nil {
		return nil, usage("%s %s: this is a manifest; run it with --manifest %s", flag, path, path)
	}
	return nil, usage("%s %s: %w", flag, path, err)
}
