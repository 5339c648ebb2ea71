package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"interlude/harness/calibrate"
	"interlude/workloads"
)

// AB runs a paired comparison: the same requests against the server with its
// flag off and on, in balanced order, a fresh server for each slot. The error is
// what ended the run early; with a Finished beside it there is a run directory
// that can be judged, complete or not. When ctx ends, the run ends as interrupted.
func AB(ctx context.Context, o Options) (*Finished, error) {
	if o.Target != nil && o.Target.URL != "" {
		return nil, errors.New("ab: the target is a URL, whose server has one state; a comparison needs a target that is started here")
	}
	r, err := open(ctx, "ab", o)
	if err != nil {
		return nil, fmt.Errorf("ab: %w", err)
	}
	if err = r.pairs(ctx); err != nil {
		err = fmt.Errorf("ab: %w", err)
	}
	return r.close(ctx, err)
}

// ownTime is what the harness itself takes for a slot on an idle machine: the
// idle gate, the proofs, the last look at the counters.
const ownTime = time.Second

// pairs runs every slot that is not complete yet.
func (r *run) pairs(ctx context.Context) error {
	left := 0
	for _, s := range r.plan.Slots {
		if !r.pairComplete(s) {
			left++
		}
	}
	expected := time.Duration(float64(r.plan.Expected)*float64(left)/float64(len(r.plan.Slots))) + time.Duration(left)*ownTime
	r.progress.say("%s on %s, engine %s: %d slots, about %v; plan %.12s", r.plan.Name, r.plan.Target, r.plan.Engine, left, expected.Round(time.Second), r.plan.Hash())
	r.progress.say("run directory %s", r.finished.Dir)
	if foreign := foreignEngines(ctx); foreign != "" {
		r.event(0, "deviation", "something else computes on the GPU and was left alone: "+foreign)
	}
	if r.info.Calibrated == nil {
		c, err := calibrate.Short(ctx)
		if err != nil {
			return fmt.Errorf("calibrate the client: %w", err)
		}
		r.info.Calibrated = c
		if err := r.writer.SetRun(r.info); err != nil {
			return err
		}
		r.progress.say("calibrated: the client's own delay is %.2f ms at the median, %.2f ms at p99 (%d streams, %d events)", 1e3*c.P50, 1e3*c.P99, c.Streams, c.Events)
	}
	r.progress.begin(len(r.plan.Slots), left, expected)
	for _, s := range r.plan.Slots {
		if r.slotComplete(s) {
			continue
		}
		reqs, err := r.expand(s)
		if err != nil {
			return err
		}
		if err := r.slot(ctx, s, reqs); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) slotComplete(s workloads.Slot) bool {
	for _, i := range r.info.Slots {
		if i.Slot == s.Slot {
			return i.Complete
		}
	}
	return false
}

func (r *run) expand(s workloads.Slot) ([]workloads.Request, error) {
	reqs, err := r.plan.ExpandSlot(r.manifest, s, r.o.Counter)
	if err != nil {
		return nil, fmt.Errorf("expand slot %d, pair %d: %w", s.Slot, s.Pair, err)
	}
	return reqs, nil
}
