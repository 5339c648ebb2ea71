package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"interlude/harness/client"
	"interlude/harness/observe"
	"interlude/harness/supervise"
	"interlude/results"
	"interlude/workloads"
)

// injector ends the engine of one server again and again, in one way.
type injector struct {
	run    *run
	slot   workloads.Slot
	how    string
	canary *string // what the first canary said
	faults string  // path of the fault file of the stand-in or the relay; "": there is none
	stage  stage   // every scene starts from a copy

	silence, silentRead, shortRead, load float64 // how long the server waits for a silent engine, in seconds
}

// signals are the ways that are a signal.
var signals = map[string]string{workloads.HowKill: supervise.Kill, workloads.HowSilence: supervise.Stop, workloads.HowAbort: supervise.Abort}

// faultWords are the ways in the words of the stand-in's fault file.
var faultWords = map[string]string{
	workloads.HowExit0: "exit:0", workloads.HowExit1: "exit:1", workloads.HowKill: "signal:KILL", workloads.HowSilence: "silence",
	workloads.HowAbort: "signal:ABRT", workloads.HowClose: "close", workloads.HowHalf: "half",
}

// lateBy is how long after the strike a token that was on its way may still come.
const lateBy = results.Stamp(250 * time.Millisecond)

// scene is one cell being run.
type scene struct {
	*injector
	stage
	when, api string
	armed     bool             // the engine, or the relay before it, will strike by itself
	at        results.Stamp    // of the strike, 0 before
	pids      []int            // engines that were ended, and their relays
	struck    map[*flight]bool // the engine held them
	either    map[*flight]bool // the engine may have held them, or not
}

// cell runs one scene, strikes, and judges what came of it.
func (x *injector) cell(ctx context.Context, when, api string) results.Cell {
	c := results.Cell{How: x.how, When: when, API: api}
	s := &scene{injector: x, stage: x.stage, when: when, api: api, struck: map[*flight]bool{}, either: map[*flight]bool{}}
	if s.srv.relay != "" {
		c.By = map[bool]string{true: results.BySignal, false: results.ByRelay}[s.bySignal()]
	}
	err := s.impossible()
	if err == nil {
		if err = s.ready(ctx); err == nil {
			err = s.set(ctx)
		}
	}
	var not *notRun
	if errors.As(err, &not) {
		c.NotRun = not.why
		s.skip("not run: "+not.why, workloads.RoleAfter)
		return c
	}
	s.collect(ctx)
	j := ruling{cell: &c}
	if err != nil {
		j.fail("the scene did not come about: %v", err)
		s.skip("the scene did not come about")
	}
	s.judge(&j)
	s.again(ctx, &j)
	s.orphans(ctx, &j)
	pass := c.Why == ""
	c.Pass = &pass
	return c
}

// notRun says why a scene cannot be set on this engine or server.
type notRun struct{ why string }

func (e *notRun) Error() string { return e.why }

// bySignal tells whether this scene is struck from outside. No signal can be timed
// into the few milliseconds between STOP and DONE; the relay holds DONE back for it.
func (s *scene) bySignal() bool { return signals[s.how] != "" && s.when != workloads.WhenDrain }

func (s *scene) impossible() error {
	if s.bySignal() || s.faults != "" {
		return nil
	}
	if signals[s.how] != "" {
		return &notRun{"no signal can be timed into a drain, and this engine has no fault file"}
	}
	return &notRun{fmt.Sprintf("no signal does %s, and this engine has no fault file", s.how)}
}

// skip leaves a record for each request of a scene that was not begun, and for
// those of the further roles.
func (s *scene) skip(why string, further ...string) {
	began := map[string]bool{}
	for _, f := range s.flights {
		began[f.request.ID] = true
	}
	for _, role := range append([]string{workloads.RoleBefore, workloads.RoleVictim, workloads.RolePush, workloads.RoleOther}, further...) {
		q := s.requests[workloads.InjectID(s.when, s.api, role)]
		if q == nil || began[q.ID] {
			continue
		}
		rec := s.send.unsent(s.prefix+q.ID, []turn{{request: q}}, s.srv.client.Now(), why)
		rec.Planned = "inject"
		s.record(rec)
	}
}

// begin sends the request that has a role in the scene.
func (s *scene) begin(ctx context.Context, role string, past ...turn) *flight {
	return s.start(ctx, workloads.InjectID(s.when, s.api, role), past...)
}

// arm puts the strike into the fault file, where the engine strikes itself; a
// strike by signal is left to strike.
func (s *scene) arm(moment string) error {
	if s.bySignal() {
		return nil
	}
	s.armed = true
	s.remember() // once it has struck, the next engine may be there
	return results.WriteFile(filepath.Dir(s.faults), filepath.Base(s.faults), []byte(faultWords[s.how]+"@"+moment+"\n"))
}

// strike ends the engine, or sees that it has ended itself, and stamps it. struck
// are the requests that the engine held.
func (s *scene) strike(ctx context.Context, struck ...*flight) error {
	for _, f := range struck {
		s.struck[f] = true
	}
	if s.armed {
		return s.until(ctx, "the engine strikes", s.hasStruck)
	}
	s.remember()
	pid := s.srv.enginePid()
	err := s.srv.child.Signal(pid, signals[s.how])
	if err != nil && s.engineAfter(ctx, pid) == nil { // a helper that has ended, and not the engine
		pid = s.srv.enginePid()
		s.remember()
		err = s.srv.child.Signal(pid, signals[s.how])
	}
	s.at = s.srv.client.Now()
	if err != nil || s.how == workloads.HowSilence {
		return err
	}
	// An abort takes its time, and who came meanwhile would meet the old engine.
	return s.until(ctx, "the engine ended by the signal", func() bool { return !exists(pid) })
}

// hasStruck looks for the end of a strike that was armed, and stamps it.
func (s *scene) hasStruck() bool {
	over := func() bool {
		left, err := os.ReadFile(s.faults)
		if err != nil || strings.TrimSpace(string(left)) != "" {
			return false
		}
		s.at = s.srv.client.Now()
		return true
	}
	if over() {
		return true
	}
	if s.when != workloads.WhenLoading && s.when != workloads.WhenReload {
		return false
	}
	known := len(s.pids)
	s.remember() // what comes up was not there when it was armed
	if over() {
		s.pids = s.pids[:known] // this may be the next one already
		return true
	}
	return false
}

// remember notes the engine, and the relay before it: both have to go.
func (s *scene) remember() {
	for _, pid := range append(s.srv.relayPids(), s.srv.enginePid()) {
		if pid != 0 && !slices.Contains(s.pids, pid) {
			s.pids = append(s.pids, pid)
		}
	}
}

// engineAfter waits for an engine other than old that has become its program: a
// process that stands still between fork and exec holds its parent, which is no way
// for an engine to hang.
func (s *scene) engineAfter(ctx context.Context, old int) error {
	server, err := observe.Command(s.srv.child.Pid())
	if err != nil {
		return err
	}
	return s.until(ctx, "another engine process", func() bool {
		pid := s.srv.enginePid()
		if pid == 0 || pid == old {
			return false
		}
		command, err := observe.Command(pid)
		return err == nil && command != "" && command != server
	})
}

// set brings the scene about and strikes.
func (s *scene) set(ctx context.Context) error {
	switch s.when {
	case workloads.WhenIdle:
		if err := errors.Join(s.arm("idle"), s.strike(ctx)); err != nil {
			return err
		}
		s.either[s.begin(ctx, workloads.RoleVictim)] = true // it meets a dead engine, or the next one
		return nil
	case workloads.WhenLoading, workloads.WhenReload:
		return s.setLoading(ctx)
	case workloads.WhenQueued:
		return s.setQueued(ctx)
	case workloads.WhenRead:
		return s.setRead(ctx, "read:2")
	case workloads.WhenRestored:
		return s.setRestored(ctx)
	case workloads.WhenDecode:
		if err := s.arm(fmt.Sprintf("token:%d", workloads.InjectTokens+1)); err != nil {
			return err
		}
		v := s.begin(ctx, workloads.RoleVictim)
		if !s.armed {
			if err := s.see(ctx, "tokens of the victim", func() bool { return v.has(workloads.InjectTokens) }); err != nil {
				return err
			}
		}
		return s.strike(ctx, v)
	}
	return s.setParked(ctx)
}

// setLoading ends the engine while it comes up, for a request that asked for it:
// after an unload, or after it was ended.
func (s *scene) setLoading(ctx context.Context) error {
	old := s.srv.enginePid()
	if s.when == workloads.WhenReload {
		if err := s.srv.child.Signal(old, supervise.Kill); err != nil {
			return err
		}
		s.pids = append(s.pids, old)
	} else if status, _, err := s.srv.observer.Post(ctx, "/unload", nil); err != nil || status/100 != 2 {
		return &notRun{fmt.Sprintf("the server does not unload (%d, %v)", status, err)}
	}
	if err := s.until(ctx, "the engine is gone", func() bool { return s.srv.enginePid() != old && !s.isReady(ctx) }); err != nil {
		return err
	}
	if err := s.arm("load"); err != nil {
		return err
	}
	v := s.begin(ctx, workloads.RoleVictim)
	if !s.armed {
		s.either[v] = true // a signal may come when the engine is just up
		if err := s.engineAfter(ctx, old); err != nil {
			return err
		}
	}
	return s.strike(ctx)
}

func (s *scene) setQueued(ctx context.Context) error {
	runner := s.begin(ctx, workloads.RoleOther)
	if err := s.see(ctx, "tokens of the runner", func() bool { return runner.has(10) }); err != nil {
		return err
	}
	victim := s.begin(ctx, workloads.RoleVictim)
	if err := s.see(ctx, "the victim queued", func() bool { return victim.is(workloads.AtQueued) }); err != nil {
		return err
	}
	return errors.Join(s.arm(tokensAhead(runner, 1000)), s.strike(ctx, runner))
}

func (s *scene) setRead(ctx context.Context, moment string, past ...turn) error {
	if err := s.arm(moment); err != nil {
		return err
	}
	v := s.begin(ctx, workloads.RoleVictim, past...)
	if !s.armed {
		if err := s.see(ctx, "the victim being read", func() bool { return v.is(workloads.AtReading) }); err != nil {
			return err
		}
	}
	return s.strike(ctx, v)
}

// setRestored reads a prompt whose beginning was parked by another request.
func (s *scene) setRestored(ctx context.Context) error {
	before, err := s.finish(ctx, s.begin(ctx, workloads.RoleBefore))
	if err != nil {
		return err
	}
	if _, err := s.finish(ctx, s.begin(ctx, workloads.RolePush)); err != nil {
		return err
	}
	return s.setRead(ctx, "restored", before)
}

// tokensAhead is a moment of a running answer that is still to come: so many tokens
// on, which even an engine at many times its pace does not write while the fault is
// written, or an eighth of what is left of a short one.
func tokensAhead(f *flight, most int) string {
	out := f.out()
	if rest := f.request.MaxTokens - out; rest < 4*most {
		most = max(1, rest/8)
	}
	return fmt.Sprintf("token:%d", out+most)
}

// setParked lets a short request stop the victim: the strike falls into the drain,
// or on the short one while the victim is parked.
func (s *scene) setParked(ctx context.Context) error {
	victim := s.begin(ctx, workloads.RoleVictim)
	if err := s.see(ctx, "tokens of the victim", func() bool { return victim.has(10) }); err != nil {
		return err
	}
	if s.when == workloads.WhenDrain {
		if err := s.arm("stop"); err != nil {
			return err
		}
		s.begin(ctx, workloads.RoleOther)
		return s.strike(ctx, victim)
	}
	other := s.begin(ctx, workloads.RoleOther)
	if err := s.see(ctx, "the victim parked", func() bool { return victim.is(workloads.AtParked) }); err != nil {
		return err
	}
	if err := s.arm(tokensAhead(other, 300)); err != nil {
		return err
	}
	if !s.armed {
		if err := s.see(ctx, "tokens of the other", func() bool { return other.has(5) }); err != nil {
			return err
		}
	}
	return s.strike(ctx, victim, other)
}

// collect waits for everyone, records them, and cuts off who hangs.
func (s *scene) collect(ctx context.Context) {
	most := time.Duration(s.limit(s.when)*float64(time.Second)) + s.patience
	limit := time.NewTimer(most)
	defer limit.Stop()
	for _, f := range s.flights {
		select {
		case <-f.done:
		case <-limit.C:
			f.cancel(client.ErrCutOff)
		case <-ctx.Done():
			f.cancel(client.ErrCutOff)
		}
		<-f.done
		if s.struck[f] || s.either[f] && !f.rec.Done() {
			f.rec.Planned = "inject"
		}
		s.record(f.rec)
	}
	if s.armed {
		_ = results.WriteFile(filepath.Dir(s.faults), filepath.Base(s.faults), nil) // a strike that never came must not fall on the next scene
	}
}

// exists tells whether a process is still there. One that has ended and was not
// waited for has no command line any more.
func exists(pid int) bool {
	if pid == 0 {
		return false
	}
	command, err := observe.Command(pid)
	return err == nil && command != ""
}
