package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"interlude/harness/client"
	"interlude/harness/observe"
	"interlude/results"
	"interlude/workloads"
)

// sampleEvery is the time between two samples of the server's metrics and of the
// processes.
const sampleEvery = 2 * time.Second

// longStart is when people want to know what a slot waits for.
const longStart = 10 * time.Second

// slot runs one server start of the plan from idle gate to empty machine.
func (r *run) slot(ctx context.Context, s workloads.Slot, reqs []workloads.Request) error {
	began := time.Now()
	info := results.SlotInfo{Slot: s.Slot, Pair: s.Pair, Arm: s.Arm, AA: s.AA, Started: wallClock(began)}
	r.progress.slotStarts(&info, s.Slot)
	if r.o.Idle > 0 {
		said, busy := idleGate(ctx, r.o.Idle)
		if info.IdleGate = said; busy {
			r.event(s.Slot, "deviation", "the machine was "+said+" when the slot started")
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	log, err := r.writer.Path(slotFolder(s.Slot), "server.log")
	if err != nil {
		return err
	}
	r.event(s.Slot, "server_start", "arm "+s.Arm)
	waits := time.AfterFunc(longStart, func() {
		r.progress.say("slot %d waits for its server to get ready, %v at most; what it says: %s", s.Slot, time.Duration(r.o.Target.of(s.Arm).Ready.Within), log)
	})
	srv, err := startServer(ctx, r.o.Target, s.Arm, r.values, filepath.Dir(log))
	waits.Stop()
	srv.describe(&info)
	if err != nil {
		if err = fmt.Errorf("slot %d (%s): %w", s.Slot, s.Arm, err); ctx.Err() == nil {
			if r.o.Target.StartsEngine() {
				err = fmt.Errorf("%w%s", err, r.engine.advice())
			}
			info.Why = err.Error()
		} else {
			info.Why = results.Interrupted
		}
		r.setSlot(info)
		return err
	}
	return r.drive(ctx, s, srv, info, reqs)
}

// drive measures a slot on its ready server, then stops that server and verifies
// that nothing of it is left.
func (r *run) drive(ctx context.Context, s workloads.Slot, srv *server, info results.SlotInfo, reqs []workloads.Request) error {
	r.info.Emulated = srv.info["emulated"]
	r.setSlot(info)
	r.eventAt(s.Slot, srv.client.Now(), "server_ready", fmt.Sprintf("after %.3f s", srv.readyIn.Seconds()))
	tally := &tally{}
	err := r.measure(ctx, s, srv, reqs, tally)
	if err == nil {
		if info.Witness, err = srv.settled(ctx); err != nil && srv.hasEnded() {
			err = srv.obituary()
		}
	}
	if info.Complete = err == nil; err != nil {
		if info.Why = err.Error(); ctx.Err() != nil {
			info.Why = results.Interrupted
		}
	}
	exit := "stopped by the harness; nothing of it is left"
	if errors.Is(err, errDied) {
		r.eventAt(s.Slot, srv.client.Now(), "server_died", err.Error())
		exit = "ended by itself; nothing of it is left"
	}
	if wrong := srv.stop(context.WithoutCancel(ctx)); wrong != nil {
		r.event(s.Slot, "deviation", wrong.Error())
		err = errors.Join(err, fmt.Errorf("slot %d (%s): %w", s.Slot, s.Arm, wrong))
		exit = strings.Replace(exit, "nothing of it is left", "something of it may be left", 1)
	}
	r.event(s.Slot, "server_exit", exit)
	r.setSlot(info)
	r.progress.slotEnds(&info, time.Since(srv.base), tally.requests, tally.completed, tally.rest())
	return errors.Join(err, r.failure())
}

// describe fills in what is known of a started server.
func (s *server) describe(info *results.SlotInfo) {
	info.ReadyS, info.Info, info.Flag = s.readyIn.Seconds(), s.info, s.flag
	if s.launch != nil {
		info.ArgvHash, info.EnvHash, info.ConfigHash = s.launch.hashes.argv, s.launch.hashes.env, s.launch.hashes.config
		info.Argv, info.Config = s.launch.typed, s.launch.shown
	}
}

// measure drives the requests of a slot against its server.
func (r *run) measure(ctx context.Context, s workloads.Slot, srv *server, reqs []workloads.Request, tally *tally) error {
	if need := workloads.ContextNeeded(reqs, r.o.Counter); srv.context > 0 && need > srv.context {
		return fmt.Errorf("manifest %s needs a context of %d tokens, the engine has %d; choose a larger --max-context or a smaller manifest", r.plan.Name, need, srv.context)
	}
	if most := r.limit(s); most > 0 {
		limited, done := context.WithTimeoutCause(ctx, most, fmt.Errorf("its requests were not over after %v", most))
		defer done()
		ctx = limited
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var around sync.WaitGroup
	defer func() {
		cancel(nil)
		around.Wait()
	}()
	around.Go(func() {
		select {
		case <-srv.exited():
			cancel(srv.obituary())
		case <-ctx.Done():
		}
	})
	around.Go(func() { r.sample(ctx, s.Slot, srv) })
	around.Go(func() { r.watchClock(ctx, s.Slot, srv) })

	send := &sender{
		client: srv.client, model: srv.model, omit: r.o.Target.Omit,
		silence: time.Duration(r.o.Target.Silence), deadline: time.Duration(r.o.Target.Deadline),
		identity: results.Record{Slot: s.Slot, Pair: s.Pair, Arm: s.Arm, AA: s.AA},
	}
	record := func(rec *results.Record) {
		tally.add(rec)
		r.record(rec)
		if err := r.failure(); err != nil {
			cancel(err)
		}
	}
	prefix := fmt.Sprintf("%d/", s.Slot)
	if err := alone(ctx, send, prefix, reqs, record); err != nil {
		return err
	}
	switch r.plan.Kind {
	case "inject":
		return r.inject(ctx, s, newStage(srv, send, prefix, reqs, r.plan.Speed, record))
	case "lifecycle":
		return r.lifecycle(ctx, s, newStage(srv, send, prefix, reqs, r.plan.Speed, record))
	}
	d := newDispatcher(send, workloads.Measured(reqs), prefix, r.plan.Speed, record)
	d.notice = func(m client.Moment, j *job) {
		if m.Event == workloads.AtToken && m.N == 1 {
			r.progress.sawToken(j.request.Class, results.Seconds(j.due, m.At))
		}
	}
	if n := r.kills(); n > 0 && s.Pair > 0 {
		k := &kills{run: r, srv: srv}
		d.struck = k.struck
		around.Go(func() { k.strike(ctx, s.Slot, n) })
	}
	return d.run(ctx)
}

// alone sends warm-ups and canaries one after the other. One that does not
// complete ends the slot: nothing measured on that server would mean anything.
func alone(ctx context.Context, send *sender, prefix string, reqs []workloads.Request, record func(*results.Record)) error {
	for i := range reqs {
		q := &reqs[i]
		if q.Class != workloads.Warmup && q.Class != workloads.Canary {
			continue
		}
		requestCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, func() { cancel(client.ErrCutOff) })
		due := send.client.Now()
		rec := send.do(requestCtx, prefix+q.ID, []turn{{request: q}}, nil)
		stop()
		cancel(nil)
		rec.Due = due
		record(rec)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if !rec.Done() {
			return fmt.Errorf("%s %s ended as %s: %s", q.Class, rec.ID, rec.Outcome, rec.Error)
		}
	}
	return nil
}

// sample records the server's metrics and the processes until ctx ends.
func (r *run) sample(ctx context.Context, slot int, srv *server) {
	engine, asked := 0, 0
	sampler := observe.Sampler{
		Observer: srv.observer, Path: r.o.Target.Metrics, Keep: r.o.Target.keeps, Self: os.Getpid(), Every: sampleEvery, Now: srv.client.Now,
		Pids: func() map[string]int {
			if srv.child == nil {
				return nil
			}
			// Walking all processes costs milliseconds: only now and then.
			if asked%15 == 0 {
				engine = srv.enginePid()
			}
			asked++
			pids := map[string]int{"server": srv.child.Pid()}
			if engine != 0 {
				pids["engine"] = engine
			}
			return pids
		},
		Sink: func(s results.Sample) {
			s.Slot = slot
			r.note(r.writer.Sample(s))
		},
	}
	sampler.Run(ctx)
}

// Limits of what the clocks may do between two looks, one second apart.
const (
	clockTolerance = 200 * time.Millisecond // wall clock against the monotonic one
	stallTolerance = 2 * time.Second        // the harness itself stood still
)

// look is one reading of both clocks.
type look struct {
	wall time.Time // without its monotonic part
	mono results.Stamp
}

// since says what is wrong between two looks, "" where nothing is: a step of the
// wall clock moves no stamp but dates files wrongly; a stall of the harness means
// that the offered load was not the planned one.
func (l look) since(before look) (jump, stall string) {
	passed := time.Duration(l.mono - before.mono)
	if step := l.wall.Sub(before.wall) - passed; step.Abs() > clockTolerance {
		jump = fmt.Sprintf("the wall clock moved by %v against the monotonic clock", step)
	}
	if passed > stallTolerance {
		stall = fmt.Sprintf("the harness stood still for %v", passed.Round(time.Millisecond))
	}
	return jump, stall
}

// watchClock records steps of the wall clock and stalls of the harness.
func (r *run) watchClock(ctx context.Context, slot int, srv *server) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	now := func() look { t := time.Now(); return look{t.Round(0), srv.client.Stamp(t)} }
	last := now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		this := now()
		jump, stall := this.since(last)
		if jump != "" {
			r.eventAt(slot, this.mono, "clock_jump", jump)
		}
		if stall != "" {
			r.eventAt(slot, this.mono, "deviation", stall)
		}
		last = this
	}
}

// tally counts for the line that a slot leaves on the screen.
type tally struct {
	mu                  sync.Mutex
	requests, completed int
	planned             int // of those that did not complete: they ended as the plan has it
	ttft                []float64
}

func (t *tally) add(rec *results.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case rec.Planned != "" && rec.Outcome == results.NotSent:
		return // the slot has no use for it
	case rec.Done():
		t.completed++
	case rec.Planned != "":
		t.planned++
	}
	t.requests++
	if s, ok := rec.TTFT(); ok && rec.Class == workloads.Probe {
		t.ttft = append(t.ttft, s)
	}
}

// rest is what is said on the screen beside how many completed: how many ended
// otherwise as planned, and the worst TTFT of the probes.
func (t *tally) rest() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	worst, planned := 0.0, ""
	if t.planned > 0 {
		planned = fmt.Sprintf(", %d ended as planned", t.planned)
	}
	for _, s := range t.ttft {
		worst = max(worst, s)
	}
	switch len(t.ttft) {
	case 0:
		return planned
	case 1:
		return planned + fmt.Sprintf(", short TTFT %.3f s", worst)
	}
	return planned + fmt.Sprintf(", short TTFT at most %.3f s", worst)
}
