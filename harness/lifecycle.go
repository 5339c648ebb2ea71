package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"interlude/harness/client"
	"interlude/results"
	"interlude/workloads"
)

// Lifecycle does to a server what its users do beside asking: they leave while
// queued, running and parked, forbid it to stop them, unload, restart and roll
// back, and come without a key. Each is a row with its evidence. The error is what
// ended the run early; with a Finished beside it there is a run directory that can
// be judged.
func Lifecycle(ctx context.Context, o Options) (*Finished, error) {
	if o.Target != nil && o.Target.URL != "" {
		return nil, errors.New("lifecycle: the target is a URL; only a server that is started here may be restarted and rolled back")
	}
	r, err := open(ctx, "lifecycle", o)
	if err != nil {
		return nil, fmt.Errorf("lifecycle: %w", err)
	}
	err = r.pairs(ctx)
	if err = errors.Join(err, r.gatherCells()); err != nil {
		err = fmt.Errorf("lifecycle: %w", err)
	}
	return r.close(ctx, err)
}

// prepareLifecycle gives our own server an API key, and, on the stand-in, eyes.
func (r *run) prepareLifecycle() error {
	var config map[string]any
	if json.Unmarshal(r.o.Target.Config, &config) != nil || config["engine_silence_s"] == nil {
		return nil // not our server: rows that need more are not run
	}
	target := *r.o.Target
	target.key = nonce()
	patch := map[string]any{"api_key": target.key}
	if r.engine.Name == "emulate" {
		r.engine.Args = append(r.engine.Args, "--vision")
		patch["vision"] = map[string]any{"exe": "{self}", "args": []any{"engine", "emulate", "--encode"}}
	}
	patched, err := encodeJSON(mergePatch(config, patch))
	if err != nil {
		return err
	}
	target.Config = patched
	r.o.Target = &target
	return nil
}

// life runs the rows of one server.
type life struct {
	stage
	run  *run
	slot workloads.Slot
	rows []results.Cell
}

// lifecycle runs every row on the first server; the others only show that the
// flag can be taken back and set again.
func (r *run) lifecycle(ctx context.Context, s workloads.Slot, st stage) error {
	l := &life{stage: st, run: r, slot: s}
	if s.Slot == 1 {
		l.row(ctx, "disconnect", "queued", l.leaveQueued)
		l.row(ctx, "disconnect", "active", l.leaveActive)
		l.row(ctx, "disconnect", "parked", l.leaveParked)
		l.row(ctx, "450 items", "parked in their arguments", l.longCall)
		l.row(ctx, "sooner waiter", "image", l.neverStopped(workloads.LifeImage))
		l.row(ctx, "sooner waiter", "checkpoint opt-out", l.neverStopped(workloads.LifeOptOut))
		l.row(ctx, "sooner waiter", "prefill_only", l.prefill)
		l.row(ctx, "unload", "parked", l.unload)
		l.row(ctx, "restart", "idle", l.restart)
		l.row(ctx, "key", "refused", l.keys)
	}
	when := []string{"on", "off", "on again"}[s.Slot-1]
	l.row(ctx, "rollback", when, l.rollback)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	l.leaveOut()
	return r.writer.WriteJSON(slotFolder(s.Slot)+"/"+cellsFile, l.rows)
}

// row runs one check. What it found stands as evidence beside it.
func (l *life) row(ctx context.Context, how, when string, check func(context.Context) (string, error)) {
	if ctx.Err() != nil {
		return
	}
	l.flights = nil
	c := results.Cell{How: how, When: when, API: "chat"}
	if how == "450 items" {
		c.API = "responses"
	}
	evidence, err := check(ctx)
	for _, f := range l.flights {
		f.cancel(client.ErrCutOff) // who has not ended by now hangs
		<-f.done
		if f.rec.Outcome == results.CutOff {
			c.Hung++
			err = errors.Join(err, fmt.Errorf("%s hung", f.request.ID))
		}
		l.record(f.rec)
	}
	var not *notRun
	switch {
	case errors.As(err, &not):
		c.NotRun = not.why
	default:
		pass := err == nil
		c.Pass, c.Evidence = &pass, evidence
		if err != nil {
			c.Why = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
	}
	l.rows = append(l.rows, c)
	text := fmt.Sprintf("%s, %s: ", how, when)
	switch {
	case c.NotRun != "":
		text += "not run: " + c.NotRun
	case *c.Pass:
		text += "pass: " + evidence
	default:
		text += "failed: " + c.Why
	}
	l.run.eventAt(l.slot.Slot, l.srv.client.Now(), "lifecycle", text)
}

// leaveOut leaves a record for each request that this server is not sent.
func (l *life) leaveOut() {
	for _, q := range l.requests {
		if q.Class == workloads.Warmup || q.Class == workloads.Canary || l.sent[q.ID] {
			continue
		}
		rec := l.send.unsent(l.prefix+q.ID, []turn{{request: q}}, l.srv.client.Now(), "not part of what this server is asked, or its row was not run")
		rec.Planned = "lifecycle"
		l.record(rec)
	}
}

// leave makes a client go, and says how long the server kept what was its.
func (l *life) leave(ctx context.Context, f *flight, gone func(st solo) bool) (string, error) {
	from := l.srv.client.Now()
	f.cancel(client.ErrPlanned)
	<-f.done
	f.rec.Planned = "cancel"
	if f.rec.Outcome != results.Cancelled {
		return "", fmt.Errorf("%s ended as %s before its client could leave", f.request.ID, f.rec.Outcome)
	}
	if err := l.until(ctx, "the place of who left free again", func() bool { return gone(l.solo(ctx)) }); err != nil {
		return "", err
	}
	return fmt.Sprintf("its place was free %.3f s after it left", results.Seconds(from, l.srv.client.Now())), nil
}

// unharmed waits for the other client, whose answer must be what its rule says to
// the byte, and for empty queues.
func (l *life) unharmed(ctx context.Context, others ...*flight) (string, error) {
	bytes := 0
	for _, f := range others {
		if _, err := l.finish(ctx, f); err != nil {
			return "", err
		}
		if !right(f.rec, f.request) {
			return "", fmt.Errorf("the answer of %s is not what its rule says", f.request.ID)
		}
		bytes += len(f.rec.Text)
	}
	if err := l.until(ctx, "empty queues", func() bool { return l.solo(ctx) == solo{} }); err != nil {
		return "", err
	}
	return fmt.Sprintf("all %d bytes of the others' answers are right; nothing is queued, running or parked", bytes), nil
}

// solo is what the server holds.
type solo struct {
	Queued  int `json:"queued"`
	Running int `json:"running"`
	Parked  int `json:"parked"`
}

func (l *life) solo(ctx context.Context) solo {
	nobody := solo{-1, -1, -1}
	if l.srv.target.Info == nil {
		return nobody
	}
	_, body, err := l.srv.observer.Get(ctx, l.srv.target.Info.Path)
	status := struct {
		Solo solo `json:"solo"`
	}{nobody}
	if err != nil || json.Unmarshal(body, &status) != nil {
		return nobody
	}
	return status.Solo
}

// preemptions is the server's own count, -1 if it shows none.
func (l *life) preemptions(ctx context.Context) float64 {
	all, err := l.srv.observer.Metrics(ctx, l.srv.target.Metrics)
	if err != nil {
		return -1
	}
	for name, v := range l.srv.target.witness(all) {
		if strings.Contains(name, "preemptions") {
			return v
		}
	}
	return -1
}

// waited is how long a request waited for its first token.
func waited(rec *results.Record) time.Duration { return time.Duration(rec.FirstToken - rec.Sent) }
