package harness

import (
	"context"
	"fmt"
	"slices"
	"time"

	"interlude/harness/client"
	"interlude/results"
	"interlude/workloads"
)

// ruling collects what is wrong with one cell.
type ruling struct{ cell *results.Cell }

func (v *ruling) fail(format string, args ...any) {
	if v.cell.Why != "" {
		v.cell.Why += "; "
	}
	v.cell.Why += fmt.Sprintf(format, args...)
}

// judge looks at what the clients saw of the strike.
func (s *scene) judge(v *ruling) {
	c := v.cell
	limit := s.limit(s.when)
	c.Limit = &limit
	c.Blast = map[string]int{}
	told := time.Duration(-1)
	for _, f := range s.flights {
		rec := f.rec
		if rec.Outcome == results.CutOff {
			c.Hung++
			v.fail("%s hung", rec.Request)
			continue
		}
		if !s.struck[f] && !(s.either[f] && !rec.Done()) {
			s.bystander(v, f)
			continue
		}
		if rec.Done() {
			c.Silent++
			v.fail("%s was struck and ended as %s", rec.Request, rec.FinishReason)
			continue
		}
		if !structured(rec) {
			v.fail("%s was told by %s (%s), not by a structured error", rec.Request, rec.Outcome, rec.Error)
		}
		if s.at > 0 {
			told = max(told, 0, time.Duration(rec.End-max(s.at, rec.Sent)))
			if last := rec.LastToken; last > s.at+lateBy {
				v.fail("%s got a token %.3f s after the engine had ended", rec.Request, results.Seconds(s.at, last))
			}
		}
	}
	if told >= 0 {
		c.Told = seconds(told)
		if *c.Told > limit {
			v.fail("told after %.3f s, the limit is %.3f s", *c.Told, limit)
		}
	}
}

// bystander is a request that the engine did not hold when it ended: it is served
// by the next one, or told in due form.
func (s *scene) bystander(v *ruling, f *flight) {
	rec := f.rec
	what := "beside"
	switch {
	case f.request.ID == workloads.InjectID(s.when, s.api, workloads.RoleBefore), f.request.ID == workloads.InjectID(s.when, s.api, workloads.RolePush):
		return // it ended before the strike, which set has seen
	case s.when != workloads.WhenQueued && s.when != workloads.WhenDrain:
		what = s.when
	case f.seen[workloads.AtQueued]:
		what = "queued"
	}
	v.cell.Blast[what+" "+string(rec.Outcome)]++
	switch {
	case rec.Done():
		if !right(rec, f.request) {
			v.cell.Silent++
			v.fail("%s completed with a wrong answer", rec.Request)
		}
	case !structured(rec):
		v.fail("%s was told by %s (%s), not by a structured error", rec.Request, rec.Outcome, rec.Error)
	default:
		v.fail("%s only waited, and ended as %s: %s", rec.Request, rec.Outcome, rec.Error)
	}
}

// structured tells whether the server itself said that the request failed.
func structured(rec *results.Record) bool {
	switch rec.Outcome {
	case results.StreamError:
		return rec.Error != "" && !slices.Contains(rec.Faults, "no_error_object")
	case results.RefusedOutcome:
		return rec.Status >= 500 && rec.Error != ""
	}
	return false
}

// right tells whether an answer follows its rule to the end.
func right(rec *results.Record, q *workloads.Request) bool {
	switch {
	case q.Expect.Scored:
		return true
	case q.Expect.Lines != nil:
		return len(workloads.CheckLines(q.Expect.Lines, rec.Text, rec.FinishReason)) == 0
	case q.Expect.Words != nil:
		return len(workloads.CheckWords(q.Expect.Words, rec.Text)) == 0
	case q.Expect.JSON != nil:
		return rec.Text == workloads.Answer(&q.Expect)
	}
	return true
}

// again sends a new request, which must bring the engine back, and the canary,
// which must be what it was.
func (s *scene) again(ctx context.Context, v *ruling) {
	f := s.begin(ctx, workloads.RoleAfter)
	if !s.awaitRecord(ctx, f) {
		v.cell.Hung++
		v.fail("%s, sent after the strike, hung", f.request.ID)
		return
	}
	s.record(f.rec)
	switch {
	case !f.rec.Done():
		v.fail("%s, sent after the strike, ended as %s: %s", f.request.ID, f.rec.Outcome, f.rec.Error)
		return
	case !right(f.rec, f.request):
		v.fail("%s, sent after the strike, has a wrong answer", f.request.ID)
	}
	if s.at > 0 {
		v.cell.ServedAgain = seconds(time.Duration(f.rec.End - s.at))
	}
	canary := s.requests[workloads.Canary+"-1"]
	if canary == nil {
		return
	}
	rec := s.sendCanary(ctx, s.when+"-"+s.api)
	if !rec.Done() || !right(rec, canary) || rec.Text != *s.canary {
		v.fail("the canary afterwards ended as %s and is not what it was: %.80q", rec.Outcome, rec.Text)
	}
}

// sendCanary runs the canary alone, and records it under the occasion.
func (x *injector) sendCanary(ctx context.Context, occasion string) *results.Record {
	st := &x.stage
	canary := st.requests[workloads.Canary+"-1"]
	due := st.srv.client.Now()
	rec := st.send.do(ctx, fmt.Sprintf("%s%s/%s", st.prefix, canary.ID, occasion), []turn{{request: canary}}, nil)
	rec.Due = due
	st.record(rec)
	return rec
}

// awaitRecord waits for a request that has to be served; one that hangs is cut off.
func (s *scene) awaitRecord(ctx context.Context, f *flight) bool {
	limit := time.NewTimer(s.patience)
	defer limit.Stop()
	select {
	case <-f.done:
		return true
	case <-limit.C:
	case <-ctx.Done():
	}
	f.cancel(client.ErrCutOff)
	<-f.done
	if f.rec.Outcome == results.CutOff {
		s.record(f.rec)
		return false
	}
	return true
}

// orphans counts the engines that were ended and are still there once another one
// serves. Killing one that stands still takes the server a moment.
func (s *scene) orphans(ctx context.Context, v *ruling) {
	left := 0
	err := s.until(ctx, "every ended engine gone", func() bool {
		left = 0
		for _, pid := range s.pids {
			if exists(pid) {
				left++
			}
		}
		return left == 0
	})
	if err != nil {
		v.cell.Orphans = left
		v.fail("%d engine processes are left", left)
	}
}
