package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"interlude/results"
	"interlude/workloads"
)

// cellsFile is what an injection leaves beside its records: one entry a cell.
const cellsFile = "cells.json"

// toldWithin is how long a client may be left in the dark about an engine that
// ended, in seconds whatever the speed: the reference's own worst.
const toldWithin = 1.228

// Inject ends the engine in every way, at every moment, under every API, a fresh
// server for each way, and records how long clients are left in the dark, who is
// hit, and how service returns. The error is what ended the run early; with a
// Finished beside it there is a run directory that can be judged.
func Inject(ctx context.Context, o Options) (*Finished, error) {
	if o.Target != nil && o.Target.URL != "" {
		return nil, errors.New("inject: the target is a URL; only the engine of a server that is started here may be ended")
	}
	r, err := open(ctx, "inject", o)
	if err != nil {
		return nil, fmt.Errorf("inject: %w", err)
	}
	err = r.pairs(ctx)
	if err = errors.Join(err, r.gatherCells()); err != nil {
		err = fmt.Errorf("inject: %w", err)
	}
	return r.close(ctx, err)
}

// prepareInjection gives the engine a fault file: the stand-in its own, another one
// that of the relay in front of it. The stand-in's server gets a limit for a silent
// load that can be waited for.
func (r *run) prepareInjection() error {
	relayed, standIn := r.plan.Options[relayOption] != "", r.engine.Name == "emulate"
	switch {
	case relayed && !r.o.Target.StartsEngine():
		return fmt.Errorf("the plan wants the relay before the engine, and target %s starts its engine by itself, not as {engine}", r.o.Target.Name)
	case relayed:
		r.values.lists["{engine}"] = r.engine.behind(r.o.Self, "{slot}/"+faultFile)
		r.values.relayed = true
	case standIn:
		r.engine.Args = append(r.engine.Args, "--fault-file", "{slot}/"+faultFile)
	default:
		return nil
	}
	r.values.files = []string{faultFile}
	if !standIn {
		return nil // who waits for a real engine decides how long
	}
	var config map[string]any
	if len(r.o.Target.Config) == 0 || json.Unmarshal(r.o.Target.Config, &config) != nil || config["engine_silence_s"] == nil {
		return nil // not our server
	}
	patched, err := encodeJSON(mergePatch(config, map[string]any{"engine_load_s": 60}))
	if err != nil {
		return err
	}
	target := *r.o.Target
	target.Config = patched
	r.o.Target = &target
	return nil
}

// faultFile is the stand-in's or the relay's, in the slot's folder.
const faultFile = "faults"

// relayOption is the plan's word for the relay between server and engine. A plan
// without it runs as plans did before there was one.
const relayOption = "relay"

// WithRelay writes into the words of a plan that the relay stands before its engine.
func WithRelay(words map[string]string) { words[relayOption] = "yes" }

// NeedsRelay tells whether the engine of --engine has no fault file of its own.
func NeedsRelay(engine string) bool {
	words, err := splitWords(engine)
	return err == nil && len(words) > 0 && words[0] != "emulate"
}

// howOf is the way in which a slot ends its engine: each slot has one, in turn.
func (r *run) howOf(s workloads.Slot) string {
	ways := waysOf(r.plan.Options)
	return ways[(s.Pair-1)%len(ways)]
}

// waysOf are the ways that a plan's options name, or all.
func waysOf(options map[string]string) []string {
	return named(options["hows"], workloads.InjectHows())
}

// momentsOf are the moments that a plan's options name, or all.
func momentsOf(options map[string]string) []string {
	return named(options["whens"], workloads.InjectWhens())
}

// named are the words of a list with commas between; none means all.
func named(some string, all []string) []string {
	if some == "" {
		return all
	}
	return strings.Split(some, ",")
}

// knownCells refuses ways and moments that there are not, and those named twice.
func knownCells(options map[string]string) error {
	check := func(what string, words, all []string) error {
		for i, word := range words {
			if !slices.Contains(all, word) {
				return fmt.Errorf("no %s is called %q; there are %s", what, word, strings.Join(all, ", "))
			}
			if slices.Contains(words[:i], word) {
				return fmt.Errorf("the %s %s is named twice: name it once; --repeat runs each cell more often", what, word)
			}
		}
		return nil
	}
	return errors.Join(check("way to end an engine", waysOf(options), workloads.InjectHows()), check("moment", momentsOf(options), workloads.InjectWhens()))
}

// injectArms are the slots of an injection: one for each way and repetition.
func injectArms(o Options) ([]string, error) {
	if err := knownCells(o.Words); err != nil {
		return nil, err
	}
	return slices.Repeat([]string{results.On}, max(1, o.Repeat)*len(waysOf(o.Words))), nil
}

// inject sets every scene of a slot, one after the other.
func (r *run) inject(ctx context.Context, s workloads.Slot, st stage) error {
	x := &injector{run: r, slot: s, how: r.howOf(s), canary: new(string), stage: st}
	if len(r.values.files) > 0 {
		x.faults = filepath.Join(st.srv.temp, faultFile)
	}
	x.readLimits()
	if x.stage.requests[workloads.Canary+"-1"] != nil {
		rec := x.sendCanary(ctx, "reference")
		if *x.canary = rec.Text; !rec.Done() {
			return fmt.Errorf("the canary ended as %s: %s", rec.Outcome, rec.Error)
		}
	}
	var cells []results.Cell
	moments := momentsOf(r.plan.Options)
	for _, when := range workloads.InjectWhens() {
		for _, api := range workloads.InjectAPIs() {
			if !slices.Contains(moments, when) {
				s := &scene{injector: x, stage: x.stage, when: when, api: api}
				s.skip("not asked for", workloads.RoleAfter)
				continue
			}
			c := x.cell(ctx, when, api)
			if err := context.Cause(ctx); err != nil {
				return err
			}
			cells = append(cells, c)
			r.eventAt(s.Slot, st.srv.client.Now(), "inject", describe(c))
		}
	}
	return r.writer.WriteJSON(filepath.ToSlash(filepath.Join(slotFolder(s.Slot), cellsFile)), cells)
}

// describe is a cell in one line.
func describe(c results.Cell) string {
	text := fmt.Sprintf("%s @ %s, %s: ", c.How, c.When, c.API)
	if c.NotRun != "" {
		return text + "not run: " + c.NotRun
	}
	if c.Told != nil {
		text += fmt.Sprintf("told after %.3f s, ", *c.Told)
	}
	if c.ServedAgain != nil {
		text += fmt.Sprintf("served again after %.3f s, ", *c.ServedAgain)
	}
	if c.Pass != nil && *c.Pass {
		return text + "pass"
	}
	return text + "failed: " + c.Why
}

// readLimits takes from the resolved config how long the server waits for a silent
// engine. A server that does not say gets the default of our own.
func (x *injector) readLimits() {
	limits := struct {
		Silence float64 `json:"engine_silence_s"`
		Load    float64 `json:"engine_load_s"`
	}{300, 900}
	if x.stage.srv.launch != nil {
		_ = json.Unmarshal(x.stage.srv.launch.config, &limits) // what is not there keeps its default
	}
	speed := x.run.plan.Speed
	x.silence, x.load = limits.Silence/speed, limits.Load/speed
	// The server's allowance for the first batch of a read: 20 ms a token.
	x.silentRead, x.shortRead = x.silence+0.02*32768/speed, x.silence+0.02*128/speed
}

// limit is how long a struck client may be left in the dark, in seconds.
func (x *injector) limit(when string) float64 {
	if x.how != workloads.HowSilence {
		return toldWithin
	}
	switch when {
	case workloads.WhenLoading, workloads.WhenReload:
		return x.load + toldWithin
	case workloads.WhenRead, workloads.WhenRestored:
		return x.silentRead + toldWithin
	case workloads.WhenIdle: // a short question, none of it read
		return x.shortRead + toldWithin
	case workloads.WhenParked: // whoever is parked starves: a STOP in the first half of a silence starts the limit anew
		return 1.5*x.silence + toldWithin
	}
	return x.silence + toldWithin
}

// gatherCells merges the cells of the slots: the worst of the repetitions, and the
// medians.
func (r *run) gatherCells() error {
	type key struct{ how, when, api string }
	var order []key
	all := map[key][]results.Cell{}
	for _, s := range r.plan.Slots {
		data, err := os.ReadFile(filepath.Join(r.finished.Dir, slotFolder(s.Slot), cellsFile))
		if errors.Is(err, os.ErrNotExist) {
			continue // the slot did not get that far
		}
		var cells []results.Cell
		if err == nil {
			err = json.Unmarshal(data, &cells)
		}
		if err != nil {
			return fmt.Errorf("read the cells of slot %d: %w", s.Slot, err)
		}
		for _, c := range cells {
			k := key{c.How, c.When, c.API}
			if all[k] == nil {
				order = append(order, k)
			}
			all[k] = append(all[k], c)
		}
	}
	merged := []results.Cell{}
	for _, k := range order {
		merged = append(merged, worst(all[k]))
	}
	return r.writer.WriteJSON(cellsFile, merged)
}

// worst is one cell for all its repetitions.
func worst(cells []results.Cell) results.Cell {
	out := cells[0]
	if len(cells) == 1 {
		return out
	}
	var told, again []float64
	var why []string
	passed, ran := true, 0
	out.Hung, out.Silent, out.Orphans, out.NotRun, out.Blast = 0, 0, 0, "", map[string]int{}
	for _, c := range cells {
		if c.NotRun != "" {
			out.NotRun = c.NotRun
			continue
		}
		ran++
		passed = passed && *c.Pass
		if c.Why != "" && !slices.Contains(why, c.Why) {
			why = append(why, c.Why)
		}
		out.Hung, out.Silent, out.Orphans = max(out.Hung, c.Hung), max(out.Silent, c.Silent), max(out.Orphans, c.Orphans)
		for what, n := range c.Blast {
			out.Blast[what] += n
		}
		if c.Told != nil {
			told = append(told, *c.Told)
		}
		if c.ServedAgain != nil {
			again = append(again, *c.ServedAgain)
		}
	}
	out.Repeats, out.Why = ran, strings.Join(why, "; ")
	out.Told, out.ToldMedian = worstAndMedian(told)
	out.ServedAgain, out.ServedAgainMedian = worstAndMedian(again)
	if out.Pass = nil; ran > 0 {
		out.Pass, out.NotRun = &passed, ""
	}
	return out
}

func worstAndMedian(v []float64) (most, median *float64) {
	if len(v) == 0 {
		return nil, nil
	}
	slices.Sort(v)
	return &v[len(v)-1], &v[(len(v)-1)/2]
}

// seconds is a duration as cells have it.
func seconds(d time.Duration) *float64 {
	s := d.Seconds()
	return &s
}
