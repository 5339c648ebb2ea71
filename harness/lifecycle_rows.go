package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"interlude/harness/client"
	"interlude/results"
	"interlude/workloads"
)

// opening is who runs when the row begins: the request is sent and has tokens.
func (l *life) opening(ctx context.Context, id string) (*flight, error) {
	f := l.start(ctx, id)
	return f, l.see(ctx, "tokens of "+id, func() bool { return f.has(10) })
}

// parked sends a short request into the running one, and waits until that is parked.
func (l *life) parked(ctx context.Context, row string) (victim, other *flight, err error) {
	if victim, err = l.opening(ctx, row+"-victim"); err != nil {
		return nil, nil, err
	}
	other = l.start(ctx, row+"-other")
	return victim, other, l.see(ctx, victim.request.ID+" parked", func() bool { return victim.is(workloads.AtParked) })
}

func (l *life) leaveQueued(ctx context.Context) (string, error) {
	other, err := l.opening(ctx, workloads.LifeQueued+"-other")
	if err != nil {
		return "", err
	}
	victim := l.start(ctx, workloads.LifeQueued+"-victim")
	if err := l.see(ctx, "the victim queued", func() bool { return victim.is(workloads.AtQueued) }); err != nil {
		return "", err
	}
	return l.left(ctx, victim, func(st solo) bool { return st.Queued == 0 }, other)
}

func (l *life) leaveActive(ctx context.Context) (string, error) {
	victim, err := l.opening(ctx, workloads.LifeActive+"-victim")
	if err != nil {
		return "", err
	}
	other := l.start(ctx, workloads.LifeActive+"-other")
	if err := l.see(ctx, "the other queued", func() bool { return other.is(workloads.AtQueued) }); err != nil {
		return "", err
	}
	return l.left(ctx, victim, func(st solo) bool { return st.Queued == 0 }, other)
}

func (l *life) leaveParked(ctx context.Context) (string, error) {
	victim, other, err := l.parked(ctx, workloads.LifeParked)
	if err != nil {
		return "", err
	}
	return l.left(ctx, victim, func(st solo) bool { return st.Parked == 0 }, other)
}

// left is leave, then unharmed.
func (l *life) left(ctx context.Context, victim *flight, gone func(solo) bool, other *flight) (string, error) {
	first, err := l.leave(ctx, victim, gone)
	if err != nil {
		return "", err
	}
	second, err := l.unharmed(ctx, other)
	return first + "; " + second, err
}

// longCall calls with every item once, is parked twice inside its arguments, and
// recalls items of it two turns later.
func (l *life) longCall(ctx context.Context) (string, error) {
	call := l.start(ctx, workloads.LifeCall+"-1")
	for n, nudge := range []string{"-nudge-1", "-nudge-2"} {
		tokens := 500 * (n + 1) // far from either end of the arguments
		if err := l.see(ctx, "items", func() bool { return call.has(tokens) }); err != nil {
			return "", err
		}
		if _, err := l.finish(ctx, l.start(ctx, workloads.LifeCall+nudge)); err != nil {
			return "", err
		}
	}
	made, err := l.finish(ctx, call)
	if err != nil {
		return "", err
	}
	want := call.request.Expect.Calls[0]
	if n := len(call.rec.Tools); n != 1 || call.rec.Tools[0].Name != want.Name || !sameJSON(call.rec.Tools[0].Arguments, string(want.Args)) {
		return "", fmt.Errorf("%d calls, not the one with items 1 to %d", n, workloads.LifeItems)
	}
	parks := 0
	for _, s := range call.rec.States {
		if s.Text == workloads.AtParked && s.At > call.rec.FirstTool && s.At < call.rec.LastToken {
			parks++
		}
	}
	taken, err := l.finish(ctx, l.start(ctx, workloads.LifeCall+"-2", made))
	if err != nil {
		return "", err
	}
	recall := l.start(ctx, workloads.LifeCall+"-3", made, taken)
	if _, err := l.finish(ctx, recall); err != nil {
		return "", err
	}
	switch {
	case parks < 2:
		return "", fmt.Errorf("parked %d times inside its arguments, want at least 2", parks)
	case !right(recall.rec, recall.request):
		return "", fmt.Errorf("the recall is %.100q, want %s", recall.rec.Text, workloads.Answer(&recall.request.Expect))
	}
	return fmt.Sprintf("items 1 to %d once each in %d bytes of arguments, parked %d times inside them; recalled %s", workloads.LifeItems, len(call.rec.Tools[0].Arguments), parks, recall.rec.Text), nil
}

// neverStopped sends a sooner request into one that must not be stopped.
func (l *life) neverStopped(row string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if row == workloads.LifeImage && l.srv.info["vision"] != "1" {
			return "", &notRun{"the engine announces no vision"}
		}
		before := l.preemptions(ctx)
		victim, err := l.opening(ctx, row+"-victim")
		if err != nil {
			return "", err
		}
		other := l.start(ctx, row+"-other")
		said, err := l.unharmed(ctx, victim, other)
		if err != nil {
			return "", err
		}
		if n := l.preemptions(ctx) - before; n != 0 || before < 0 {
			return "", fmt.Errorf("%g preemptions, want 0", n)
		}
		if other.rec.FirstToken < victim.rec.LastToken {
			return "", errors.New("the sooner request ran inside it")
		}
		return fmt.Sprintf("0 STOPs; the sooner request waited %.3f s for its end; %s", waited(other.rec).Seconds(), said), nil
	}
}

// prefill lets a sooner request into one that only reads.
func (l *life) prefill(ctx context.Context) (string, error) {
	victim := l.start(ctx, workloads.LifePrefill+"-victim")
	if err := l.see(ctx, "the victim being read", func() bool { return victim.is(workloads.AtReading) }); err != nil {
		return "", err
	}
	other := l.start(ctx, workloads.LifePrefill+"-other")
	said, err := l.unharmed(ctx, other, victim)
	switch {
	case err != nil:
		return "", err
	case other.rec.FirstToken > victim.rec.End:
		return "", errors.New("the sooner request waited for the whole read")
	case len(victim.rec.Text) > 0:
		return "", fmt.Errorf("it answered %.40q", victim.rec.Text)
	}
	return fmt.Sprintf("the sooner request had its first token after %.3f s, the read ended %.3f s later; %s", waited(other.rec).Seconds(), results.Seconds(other.rec.FirstToken, victim.rec.End), said), nil
}

func (l *life) unload(ctx context.Context) (string, error) {
	victim, other, err := l.parked(ctx, workloads.LifeUnload)
	if err != nil {
		return "", err
	}
	status, body, err := l.srv.observer.Post(ctx, "/unload", nil)
	if err != nil {
		return "", err
	}
	said, err := l.unharmed(ctx, other, victim)
	if err == nil && status != 409 {
		err = fmt.Errorf("unload while one was parked: HTTP %d, want 409: %.200s", status, body)
	}
	return fmt.Sprintf("HTTP %d: %s; %s", status, oneLine(body), said), err
}

// restart makes the server start its engine anew.
func (l *life) restart(ctx context.Context) (string, error) {
	old := l.srv.enginePid()
	status, body, err := l.srv.observer.Post(ctx, "/restart", nil)
	if err != nil || status/100 != 2 {
		return "", &notRun{fmt.Sprintf("the server does not restart its engine: HTTP %d, %v, %s", status, err, oneLine(body))}
	}
	if err := l.ready(ctx); err != nil {
		return "", err
	}
	f := l.start(ctx, workloads.LifeRestart+"-victim")
	said, err := l.unharmed(ctx, f)
	switch now := l.srv.enginePid(); {
	case err != nil:
		return "", err
	case now == old || exists(old):
		return "", errors.New("the old engine is still there")
	}
	return "another engine process serves, the old one is gone; " + said, nil
}

// keys comes without a key, with a wrong one, and with the right one.
func (l *life) keys(ctx context.Context) (string, error) {
	if l.srv.target.APIKey() == "" {
		return "", &notRun{"the target has no API key"}
	}
	with := l.send.client
	defer func() { l.send.client = with }()
	for id, key := range map[string]string{"-none": "", "-wrong": "not-" + l.srv.target.APIKey()} {
		l.send.client = client.New(client.Options{BaseURL: l.srv.url, APIKey: key, Base: l.srv.base, NoDone: l.srv.target.NoDone})
		f := l.start(ctx, workloads.LifeKey+id)
		<-f.done
		f.rec.Planned = "refused"
		l.send.client.Close()
		if f.rec.Outcome != results.RefusedOutcome || f.rec.Status != 401 {
			return "", fmt.Errorf("%s ended as %s, HTTP %d, want 401", f.request.ID, f.rec.Outcome, f.rec.Status)
		}
	}
	l.send.client = with
	said, err := l.unharmed(ctx, l.start(ctx, workloads.LifeKey+"-right"))
	return "HTTP 401 without a key and with a wrong one; with the right one " + said, err
}

// rollback shows what the flag does under one and the same config.
func (l *life) rollback(ctx context.Context) (string, error) {
	before := l.preemptions(ctx)
	victim, err := l.opening(ctx, workloads.LifeRollback+"-victim")
	if err != nil {
		return "", err
	}
	other := l.start(ctx, workloads.LifeRollback+"-other")
	said, err := l.unharmed(ctx, victim, other)
	if err != nil {
		return "", err
	}
	parks, on := l.preemptions(ctx)-before, l.slot.Arm == results.On
	inside := other.rec.FirstToken < victim.rec.LastToken
	if on != (parks > 0) || on != inside {
		return "", fmt.Errorf("flag %t: %g parks, the short request inside the long one: %t", on, parks, inside)
	}
	return fmt.Sprintf("flag read back as %t, %g parks, the short request's first token after %.3f s; %s", on, parks, waited(other.rec).Seconds(), said), nil
}

func oneLine(body []byte) string {
	return strings.Join(strings.Fields(string(body)), " ")
}

// sameJSON tells whether two texts are the same JSON value.
func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}
