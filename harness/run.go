package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"interlude/results"
	"interlude/workloads"
)

// Options are what a verb was asked for.
type Options struct {
	Manifest *workloads.Manifest // nil with Plan or Resume
	Plan     *workloads.Plan     // to be run again as it is; nil: made from the rest
	Target   *Target
	Engine   string // words of --engine
	Policy   string
	Pairs    int
	AA       int
	Speed    float64 // 0 means 1
	Seed     uint64
	Counter  workloads.Counter
	Budgets  map[string]float64 // of a run of one arm
	Words    map[string]string  // of the plan: what only one verb knows (kills, control, repeat)
	Repeat   int                // of an injection; 0 means 1

	Runs   string // folder of run directories; empty: results/runs
	Out    string // the run directory; empty: made from the time and the manifest's name
	Resume string // a run directory to be continued

	Tokenizer string       // "builtin", or the path of the model's vocabulary; targets name it {tokenizer}
	Model     string       // what the server is to call its model, {model}; "": its own default
	Files     []TargetFile // of the engine, to be hashed into run.json

	Self     string   // path of our own binary, which serves and emulates
	Command  []string // as it was typed, for run.json
	Revision string
	Dirty    bool

	Progress io.Writer     // nil: silent
	Terminal bool          // Progress is a terminal
	Idle     time.Duration // longest wait for an idle machine before a slot; 0: 10 s, negative: none
}

// defaultIdle is how long a slot waits for an idle machine.
const defaultIdle = 10 * time.Second

// Finished is a run that has ended, whatever way.
type Finished struct {
	Dir string
	Run *results.Run

	ledger  *results.Ledger
	attempt results.Attempt
}

// End writes the end of the run into the attempts ledger: the verdict, or why
// there is none. A start without an end reads as a crash.
func (f *Finished) End(verdict, why string) error {
	a := f.attempt
	a.Time, a.Verdict, a.Why = wallClock(time.Now()), verdict, why
	return f.ledger.End(a)
}

// Refused is a fault of what was asked for, found before anything was written or
// started.
type Refused struct{ Err error }

// Error is the fault.
func (r *Refused) Error() string { return r.Err.Error() }

// Unwrap is the fault.
func (r *Refused) Unwrap() error { return r.Err }

// wallClock writes an instant as run files do.
func wallClock(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// MakePlan resolves what the options ask for, without starting or writing anything.
func MakePlan(kind string, o Options) (*workloads.Plan, error) {
	p, err := planFor(kind, o)
	if err == nil {
		err = fits(kind, p)
	}
	return p, err
}

// fits refuses a plan whose requests a run of this kind has no use for.
func fits(kind string, p *workloads.Plan) error {
	if p.Kind != kind {
		return fmt.Errorf("the plan is one for %s: run it with `interlude %s`", p.Kind, p.Kind)
	}
	m, err := workloads.Parse(p.Manifest)
	if err != nil {
		return fmt.Errorf("the plan's manifest: %w", err)
	}
	staged := kind == "inject" || kind == "lifecycle"
	switch only := m.Kind(); {
	case only != "" && only != kind:
		return fmt.Errorf("manifest %s: its requests are scenes that only `interlude %s` can set: run that, or give another --manifest", m.Name, only)
	case only == "" && staged:
		return fmt.Errorf("manifest %s: has none of the scenes that %s sets: leave --manifest away, or give one with generate.load %s", m.Name, kind, kind)
	case kind == "lifecycle" && len(p.Slots) != len(lifecycleArms):
		return fmt.Errorf("the plan has %d slots: lifecycle has %d, on, off and on again", len(p.Slots), len(lifecycleArms))
	case staged && slices.ContainsFunc(p.Slots, func(s workloads.Slot) bool { return s.Pair < 1 }):
		return fmt.Errorf("the plan has a slot without a pair: %s counts them from 1", kind)
	}
	if kind == "inject" {
		return knownCells(p.Options)
	}
	return nil
}

// lifecycleArms: the flag is set, taken back, and set again.
var lifecycleArms = [...]string{results.On, results.Off, results.On}

func planFor(kind string, o Options) (*workloads.Plan, error) {
	if o.Target == nil {
		return nil, errors.New("no target was given")
	}
	if o.Resume != "" {
		data, err := os.ReadFile(filepath.Join(o.Resume, results.PlanFile))
		if err != nil {
			return nil, fmt.Errorf("resume: %w", err)
		}
		return workloads.ReadPlan(data)
	}
	if o.Plan != nil {
		return o.Plan, nil
	}
	var arms, controls []string
	switch kind {
	case "ab":
		controls = o.Target.Controls()
	case "inject":
		var err error
		if arms, err = injectArms(o); err != nil {
			return nil, err
		}
	case "lifecycle":
		arms = lifecycleArms[:]
	}
	return workloads.NewPlan(o.Manifest, workloads.PlanOptions{
		Kind: kind, Seed: o.Seed, Pairs: o.Pairs, AA: o.AA, Controls: controls, Target: o.Target.Name, Policy: o.Policy, Engine: o.Engine, Speed: o.Speed,
		Budgets: o.Budgets, Options: o.Words, Arms: arms,
	}, o.Counter)
}

// run is a run directory being filled.
type run struct {
	o        Options
	plan     *workloads.Plan
	manifest *workloads.Manifest
	engine   Engine
	values   values
	files    []results.File
	progress *progress
	finished *Finished
	told     func() bool // takes back what is said at an interruption
	release  func()      // of the lock of the run directory; nil: not taken

	mu     sync.Mutex
	writer *results.Writer
	info   *results.Run
	failed error // of writing: the first one ends the run
}

// open checks everything that can be checked before the first start, takes a line
// of the ledger and makes the run directory (or opens the one to be continued).
func open(ctx context.Context, kind string, o Options) (*run, error) {
	if o.Runs == "" {
		o.Runs = filepath.Join("results", "runs")
	}
	if o.Idle == 0 {
		o.Idle = defaultIdle
	}
	plan, err := MakePlan(kind, o)
	if err != nil {
		return nil, &Refused{err}
	}
	r := &run{o: o, plan: plan, progress: newProgress(o.Progress, o.Terminal)}
	if err := r.check(); err != nil {
		return nil, &Refused{err}
	}
	if err := r.directory(ctx); err != nil {
		return nil, err
	}
	r.told = context.AfterFunc(ctx, func() {
		r.progress.say("interrupted: the server is asked to end, within %v; what was measured is kept, a second signal ends all at once", time.Duration(r.o.Target.Stop))
	})
	return r, nil
}

// check refuses what cannot work, all before anything is written.
func (r *run) check() (err error) {
	t := r.o.Target
	if t.Name != r.plan.Target {
		return fmt.Errorf("the plan was made for the target %q, given is %q", r.plan.Target, t.Name)
	}
	if r.manifest, err = workloads.Parse(r.plan.Manifest); err != nil {
		return fmt.Errorf("the plan's manifest: %w", err)
	}
	if r.engine, err = ParseEngine(r.plan.Engine, r.o.Self, r.plan.Speed); err != nil {
		return err
	}
	r.values = values{
		words: map[string]string{"self": r.o.Self, "policy": r.plan.Policy, "tokenizer": cmp.Or(r.o.Tokenizer, "builtin"), "model": r.o.Model},
		lists: map[string]any{"{engine}": r.engine.Program, "{engine_args}": append([]string{}, r.engine.Args...), "{speed}": r.plan.Speed},
		given: r.engine.given,
	}
	if r.o.Plan != nil || r.o.Resume != "" {
		if err := r.plannedHere(); err != nil {
			return err
		}
	}
	prepare := map[string]func() error{"inject": r.prepareInjection, "lifecycle": r.prepareLifecycle}[r.plan.Kind]
	if prepare != nil {
		if err := prepare(); err != nil {
			return err
		}
		t = r.o.Target
		r.values.lists["{engine_args}"] = append([]string{}, r.engine.Args...)
	}
	for _, s := range r.plan.Slots {
		if t.URL != "" {
			break
		}
		if _, err := t.resolve(s.Arm, r.values); err != nil {
			return err
		}
	}
	r.files, err = identify(r.o.Self, r.engine, append(slices.Clone(r.o.Files), t.Files...), r.values)
	return err
}

// plannedHere refuses a plan whose requests cannot be made again: the run would end
// INVALID.
func (r *run) plannedHere() error {
	if len(r.plan.Slots) == 0 {
		return errors.New("the plan has no slots")
	}
	reqs, err := r.expand(r.plan.Slots[0])
	if err != nil {
		return err
	}
	byID := map[string]*workloads.Request{}
	for i := range reqs {
		byID[reqs[i].ID] = &reqs[i]
	}
	if id, what := r.plan.Unlike(byID); what != "" {
		return fmt.Errorf("the plan's manifest and seed do not give its requests here (%s %s): another version made it, or it was edited; make a new plan of the same manifest and seed", id, what)
	}
	return nil
}

// place is the run directory: the one to be continued, or one that is not there yet.
func (r *run) place(now time.Time) (string, error) {
	if r.o.Resume != "" {
		return filepath.Abs(r.o.Resume)
	}
	dir := cmp.Or(r.o.Out, filepath.Join(r.o.Runs, results.RunName(now, r.plan.Name)))
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		if file := fileAbove(dir); file != "" { // one system says so, another that there is no such path
			return "", &Refused{fmt.Errorf("--out: %s is not a directory", file)}
		}
		return filepath.Abs(dir)
	case err != nil:
		return "", &Refused{fmt.Errorf("--out: %w", err)}
	case !info.IsDir():
		return "", &Refused{fmt.Errorf("--out %s: is a file; name a directory that does not exist yet", dir)}
	}
	return "", &Refused{fmt.Errorf("create %s: %w: choose another --out, or continue it with --resume", dir, results.ErrExists)}
}

// fileAbove is the nearest thing above a path that is there, if it is no directory.
func fileAbove(path string) string {
	for dir := filepath.Dir(path); dir != path; path, dir = dir, filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil {
			if info.IsDir() {
				return ""
			}
			return dir
		}
	}
	return ""
}

// directory creates the run directory, or opens the one to be continued. Nobody
// else writes it until the run is closed.
func (r *run) directory(ctx context.Context) error {
	now := time.Now()
	dir, err := r.place(now)
	if err != nil {
		return err
	}
	if r.o.Resume != "" {
		if r.release, err = takeLock(dir); err != nil {
			return err
		}
	}
	ledger := results.OpenLedger(r.o.Runs)
	attempt := results.Attempt{Time: wallClock(now), Run: filepath.Base(dir), Kind: r.plan.Kind, Manifest: r.plan.Name, Target: r.plan.Target, PlanHash: r.plan.Hash()}
	if attempt.N, err = ledger.Start(attempt); err != nil {
		r.unlock()
		return err
	}
	r.finished = &Finished{Dir: dir, ledger: ledger, attempt: attempt}
	if r.o.Resume != "" {
		err = r.reopen(dir)
	} else {
		err = r.create(ctx, dir, now)
	}
	if err == nil {
		err = ledger.CopyTo(dir, r.plan.Name, r.plan.Target)
	}
	if err == nil {
		err = r.writer.SetRun(r.info)
	}
	if err != nil {
		r.unlock()
		return errors.Join(err, r.finished.End("", err.Error()))
	}
	r.finished.Run = r.info
	return nil
}

// unlock lets others write the run directory.
func (r *run) unlock() {
	if r.release != nil {
		r.release()
	}
}

func (r *run) create(ctx context.Context, dir string, now time.Time) (err error) {
	if r.writer, err = results.Create(dir, r.plan.Encode()); err != nil {
		return err
	}
	if r.release, err = takeLock(dir); err != nil {
		return err
	}
	r.info = &results.Run{
		ID: filepath.Base(dir), Kind: r.plan.Kind, Name: r.plan.Name, Command: r.o.Command, Started: wallClock(now), Status: "started",
		PlanHash: r.plan.Hash(), Target: r.plan.Target, Engine: r.plan.Engine, Speed: r.plan.Speed,
		Revision: r.o.Revision, Dirty: r.o.Dirty, Toolchain: runtime.Version(), Files: r.files, Host: host(ctx),
	}
	if r.info.Versions, err = versions(ctx, r.o.Target, r.values); err != nil || r.o.Target.URL != "" {
		return err
	}
	l, err := r.o.Target.resolve(r.plan.Slots[0].Arm, r.values)
	if err != nil {
		return err
	}
	return results.WriteJSON(dir, environmentFile, l.variables)
}

// environmentFile tells a resume which variables are others than they were. It stays
// in the run directory: what the variables of a machine are called is nobody's business.
const environmentFile = ".environment.json"

// otherVariables names the variables that differ from those of the beginning.
func otherVariables(dir string, now map[string]string) string {
	var was map[string]string
	raw, err := os.ReadFile(filepath.Join(dir, environmentFile))
	if err != nil || json.Unmarshal(raw, &was) != nil {
		return ""
	}
	var names []string
	for name, value := range now {
		if was[name] != value {
			names = append(names, name)
		}
		delete(was, name)
	}
	names = slices.AppendSeq(names, maps.Keys(was))
	slices.Sort(names)
	return "; set as they were: " + strings.Join(names, ", ")
}

// reopen continues a run. Pairs that are not complete are run again whole: what
// they have recorded so far is moved aside, and a disclosure says so.
func (r *run) reopen(dir string) (err error) {
	w, data, err := results.Resume(dir, r.plan.Encode())
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	r.writer, r.info = w, &data.Run
	if r.info.Status == "complete" {
		return fmt.Errorf("resume %s: the run is complete; there is nothing to continue", dir)
	}
	for i, f := range r.info.Files {
		if i >= len(r.files) || f.SHA256 != r.files[i].SHA256 {
			return fmt.Errorf("resume %s: the %s (%s) is not the one that the run was begun with; start a new run", dir, f.Role, f.Name)
		}
	}
	if err := r.asBefore(dir); err != nil {
		return err
	}
	again := map[int]bool{}
	for _, s := range r.plan.Slots {
		if !r.pairComplete(s) {
			again[s.Slot] = true
		}
	}
	var begun []string
	for _, s := range r.info.Slots {
		if again[s.Slot] {
			begun = append(begun, strconv.Itoa(s.Slot))
		}
	}
	r.info.Slots = slices.DeleteFunc(r.info.Slots, func(s results.SlotInfo) bool { return again[s.Slot] })
	r.info.Status, r.info.Why, r.info.Ended = "started", "", ""
	tag := fmt.Sprintf("discarded-%d", r.finished.attempt.N)
	if err := w.CutSlots(again, tag); err != nil {
		return err
	}
	for slot := range again {
		old := filepath.Join(dir, slotFolder(slot))
		if err := os.Rename(old, old+"-"+tag); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("move the logs of slot %d aside: %w", slot, err)
		}
	}
	text := "resumed; no slot had been begun whose pair is not complete"
	if len(begun) > 0 {
		text = fmt.Sprintf("resumed; slots %s are run again, since their pair was not complete; what they had recorded stands in %s-*.jsonl", strings.Join(begun, ", "), tag)
	}
	r.event(0, "disclosure", text)
	return r.failure()
}

// asBefore refuses to go on under other circumstances than those of the slots that
// are complete: the run would end INVALID, and they would be lost.
func (r *run) asBefore(dir string) error {
	for _, s := range r.info.Slots {
		if r.o.Target.URL != "" || !r.pairComplete(workloads.Slot{Slot: s.Slot, Pair: s.Pair}) {
			continue
		}
		l, err := r.o.Target.resolve(s.Arm, r.values)
		if err != nil {
			return err
		}
		for _, c := range []struct{ was, is, what, which string }{
			{s.ArgvHash, l.hashes.argv, "command line of the server is not the one", ""},
			{s.EnvHash, l.hashes.env, "environment variables are not those", otherVariables(dir, l.variables)},
			{s.ConfigHash, l.hashes.config, "config of the server is not the one", ""},
		} {
			if c.was != "" && c.was != c.is { // an older run may have kept none
				return fmt.Errorf("resume %s: the %s that slot %d was measured with (hash %.12s, now %.12s): go on from where it was begun, or start a new run%s", dir, c.what, s.Slot, c.was, c.is, c.which)
			}
		}
	}
	return nil
}

// pairComplete says whether every slot of the pair of s is complete.
func (r *run) pairComplete(s workloads.Slot) bool {
	for _, p := range r.plan.Slots {
		if p.Slot != s.Slot && (s.Pair == 0 || p.Pair != s.Pair) {
			continue
		}
		i := slices.IndexFunc(r.info.Slots, func(i results.SlotInfo) bool { return i.Slot == p.Slot })
		if i < 0 || !r.info.Slots[i].Complete {
			return false
		}
	}
	return true
}

func slotFolder(slot int) string { return filepath.Join("slots", fmt.Sprintf("%02d", slot)) }

// record appends a finished request. It may be called from any goroutine.
func (r *run) record(rec *results.Record) { r.note(r.writer.Record(rec)) }

// event appends something that happened to the run.
func (r *run) event(slot int, kind, text string) { r.eventAt(slot, 0, kind, text) }

func (r *run) eventAt(slot int, at results.Stamp, kind, text string) {
	r.note(r.writer.Event(results.Event{At: at, Time: wallClock(time.Now()), Slot: slot, Kind: kind, Text: text}))
}

// note keeps the first failure of writing; the slot looks at it.
func (r *run) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = err
	}
}

func (r *run) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// setSlot replaces what run.json says of one slot.
func (r *run) setSlot(s results.SlotInfo) {
	i := slices.IndexFunc(r.info.Slots, func(o results.SlotInfo) bool { return o.Slot == s.Slot })
	if i < 0 {
		r.info.Slots = append(r.info.Slots, s)
	} else {
		r.info.Slots[i] = s
	}
	r.note(r.writer.SetRun(r.info))
}

// close writes how the run ended. It returns err joined with what went wrong
// here; when ctx ended the run, the error is a context.Canceled.
func (r *run) close(ctx context.Context, err error) (*Finished, error) {
	r.info.Status, r.info.Ended = "complete", wallClock(time.Now())
	if err != nil {
		r.info.Status, r.info.Why = "aborted", err.Error()
		if ctx.Err() != nil {
			r.info.Why = results.Interrupted
			err = fmt.Errorf("%s: interrupted: %w", r.plan.Kind, context.Canceled)
		}
		r.event(0, "aborted", r.info.Why)
	}
	r.told()
	r.progress.end()
	if wrong := errors.Join(r.writer.SetRun(r.info), r.writer.Close()); wrong != nil {
		err = errors.Join(err, fmt.Errorf("end the run: %w", wrong))
	}
	r.unlock()
	return r.finished, err
}
