package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"interlude/harness/client"
	"interlude/harness/liar"
	"interlude/results"
	"interlude/workloads"
)

const ms = results.Stamp(time.Millisecond)

// req is a request of a plan in a few words: "id after event[:n] delay".
func req(id, conversation string, after workloads.Trigger) workloads.Request {
	return workloads.Request{ID: id, Class: workloads.Probe, Conversation: conversation, API: "chat", Stream: true, User: "do " + id, MaxTokens: 10, After: after}
}

func at(d time.Duration) workloads.Trigger { return workloads.Trigger{Delay: workloads.Duration(d)} }

func when(request, event string, n int, d time.Duration) workloads.Trigger {
	return workloads.Trigger{Request: request, Event: event, N: n, Delay: workloads.Duration(d)}
}

// dispatched runs requests against a lying server in virtual time.
type dispatched struct {
	records map[string]*results.Record
	order   []string // ids as they were recorded
	sent    []*liar.Request
	err     error
}

// outcome is the ledger of a slot in one word a request.
func (d *dispatched) outcome(ids ...string) string {
	var out []string
	for _, id := range ids {
		o := "nothing"
		if r := d.records[id]; r != nil {
			o = string(r.Outcome)
		}
		out = append(out, id+" "+o)
	}
	return strings.Join(out, ", ")
}

func dispatch(t *testing.T, reqs []workloads.Request, script func(id string, r *liar.Request) []liar.Step, tune ...func(*dispatcher, context.CancelCauseFunc)) *dispatched {
	t.Helper()
	out := &dispatched{records: map[string]*results.Record{}}
	synctest.Test(t, func(t *testing.T) {
		m := liar.NewMemory()
		s := liar.Serve(m, func(_ int, r *liar.Request) []liar.Step {
			return script(strings.TrimPrefix(r.Header.Get("X-Request-Id"), "1/"), r)
		})
		defer s.Close()
		c := client.New(client.Options{BaseURL: s.URL, Dial: m.Dial, Base: time.Now().Add(-time.Second)})
		defer c.Close()
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		send := &sender{client: c, model: "m", silence: time.Minute, deadline: time.Hour, identity: results.Record{Slot: 1}}
		saved := make(chan *results.Record, len(reqs))
		d := newDispatcher(send, reqs, "1/", 1, func(rec *results.Record) { saved <- rec })
		for _, f := range tune {
			f(d, cancel)
		}
		out.err = d.run(ctx)
		close(saved)
		for rec := range saved {
			if out.records[rec.Request] != nil {
				t.Errorf("%s was recorded twice", rec.ID)
			}
			out.records[rec.Request] = rec
			out.order = append(out.order, rec.Request)
		}
		out.sent = s.Requests()
	})
	for _, r := range reqs {
		if out.records[r.ID] == nil {
			t.Errorf("%s has no record: planned is not sent + not sent", r.ID)
		}
	}
	return out
}

// words is an honest answer of n tokens, one every 10 ms.
func words(n int) []liar.Step {
	return []liar.Step{liar.Head(), liar.Times(n, func(int) liar.Step { return liar.All(liar.Pause(10*time.Millisecond), liar.Content("x ")) }), liar.Rest(n)}
}

func TestTriggersAreObservedStates(t *testing.T) {
	script := func(id string, _ *liar.Request) []liar.Step {
		if id == "A" {
			return []liar.Step{liar.Head(), liar.Comment("queued 1"), liar.Pause(100 * time.Millisecond), liar.Comment("reading 0/9"), liar.Pause(100 * time.Millisecond),
				liar.Comment("decoding"), liar.Times(50, func(int) liar.Step { return liar.All(liar.Pause(10*time.Millisecond), liar.Content("x")) }),
				liar.Comment("parked"), liar.Pause(time.Second), liar.Comment("resumed"), liar.Comment("parked"), liar.Pause(time.Second), liar.Rest(50)}
		}
		return words(1)
	}
	d := dispatch(t, []workloads.Request{
		req("A", "A", at(0)),
		req("q", "q", when("A", "queued", 0, 0)), req("r", "r", when("A", "reading", 0, 5*time.Millisecond)), req("d", "d", when("A", "decoding", 0, 0)),
		req("t", "t", when("A", "token", 40, 3*time.Millisecond)), req("p", "p", when("A", "parked", 0, 0)), req("p2", "p2", when("A", "parked", 2, 0)),
		req("s", "s", when("A", "sent", 0, 7*time.Second)), req("e", "e", when("A", "end", 0, time.Second)),
	}, script)
	base := d.records["A"].Sent
	for id, want := range map[string]results.Stamp{"q": 0, "r": 105 * ms, "d": 200 * ms, "t": 603 * ms, "p": 700 * ms, "p2": 1700 * ms, "s": 7000 * ms, "e": 3700 * ms} {
		rec := d.records[id]
		if rec.Due-base != want || rec.Sent != rec.Due {
			t.Errorf("%s was due %v and sent %v after A, want %v", id, time.Duration(rec.Due-base), time.Duration(rec.Sent-base), time.Duration(want))
		}
	}
}

func TestSpeedScalesTheClock(t *testing.T) {
	d := dispatch(t, []workloads.Request{req("A", "A", at(0)), req("P", "P", when("A", "sent", 0, 8*time.Second)), req("Q", "Q", at(4*time.Second))},
		func(string, *liar.Request) []liar.Step { return words(1) },
		func(d *dispatcher, _ context.CancelCauseFunc) { d.speed = 8 })
	base := d.records["A"].Sent
	if p, q := d.records["P"].Due-base, d.records["Q"].Due-base; p != 1000*ms || q != 500*ms {
		t.Errorf("due after %v and %v, want 1 s and 0.5 s", time.Duration(p), time.Duration(q))
	}
}

func TestCancelTriggers(t *testing.T) {
	early, late := req("A", "A", at(0)), req("B", "B", at(0))
	early.Cancel = &workloads.Trigger{Request: "A", Event: workloads.AtToken, N: 10}
	late.Cancel = &workloads.Trigger{Request: "B", Event: workloads.AtParked} // never happens
	waiting := req("C", "C", at(0))
	waiting.Cancel = &workloads.Trigger{Request: "A", Event: workloads.AtEnd, Delay: workloads.Duration(50 * time.Millisecond)}
	after := req("A2", "A", when("A", "end", 0, 0))
	d := dispatch(t, []workloads.Request{early, late, waiting, after}, func(id string, _ *liar.Request) []liar.Step {
		if id == "C" {
			return []liar.Step{liar.Hold()}
		}
		return words(20)
	})
	if got := d.outcome("A", "B", "C", "A2"); got != "A cancelled, B completed, C cancelled, A2 completed" {
		t.Error(got)
	}
	if a, c := d.records["A"], d.records["C"]; a.Planned != "cancel" || len(a.Chunks) != 10 || c.End-a.End != 50*ms {
		t.Errorf("A has %d chunks, planned %q; C ended %v after A", len(a.Chunks), a.Planned, time.Duration(c.End-a.End))
	}
}

// H54: a turn that failed accounts for its successors at once; nobody waits hours
// for them, and other conversations go on.
func TestH54FailedTurnAccountsForItsSuccessors(t *testing.T) {
	d := dispatch(t, []workloads.Request{
		req("A1", "A", at(0)), req("A2", "A", when("A1", "end", 0, 0)), req("A3", "A", when("A2", "end", 0, 0)),
		req("B1", "B", when("A3", "end", 0, 0)), req("C1", "C", when("A1", "parked", 0, 0)),
	}, func(id string, _ *liar.Request) []liar.Step {
		if id == "A1" {
			return []liar.Step{liar.Head(), liar.Content("a"), liar.Content("b"), liar.Hold()}
		}
		return words(3)
	})
	if got := d.outcome("A1", "A2", "A3", "B1", "C1"); got != "A1 timeout, A2 not_sent, A3 not_sent, B1 completed, C1 not_sent" {
		t.Error(got)
	}
	for id, why := range map[string]string{"A2": "ended as timeout", "A3": "ended as not_sent", "C1": "never seen parked"} {
		if !strings.Contains(d.records[id].Error, why) {
			t.Errorf("%s: %q does not say %q", id, d.records[id].Error, why)
		}
	}
	if got := time.Duration(d.records["B1"].Sent - d.records["A1"].Sent); got != time.Minute {
		t.Errorf("B1 was sent after %v, want the silence limit of a minute", got)
	}
}

func TestRolloverForgetsAFailure(t *testing.T) {
	over := req("A2", "A", when("A1", "end", 0, 0))
	over.Rollover, over.System = true, "fresh"
	d := dispatch(t, []workloads.Request{req("A1", "A", at(0)), over}, func(id string, _ *liar.Request) []liar.Step {
		if id == "A1" {
			return []liar.Step{liar.Answer(503, `{}`)}
		}
		return words(1)
	})
	if got := d.outcome("A1", "A2"); got != "A1 refused, A2 completed" {
		t.Error(got)
	}
	if body := string(d.sent[1].Body); strings.Contains(body, "do A1") || !strings.Contains(body, "fresh") {
		t.Errorf("the turn after a rollover sends %s", body)
	}
}

// H25: multi-byte text split over reads in turn 1 stands byte for byte in the
// history of turn 2.
func TestH25HistoryKeepsBytes(t *testing.T) {
	const text = "größe 你好 🌍 👩‍👩‍👧‍👦 <&>"
	chunk := "data: " + liar.Chunk(`"content":`+liar.Quote(text), "null") + "\n\n"
	d := dispatch(t, []workloads.Request{req("A1", "A", at(0)), req("A2", "A", when("A1", "end", 0, 0))}, func(id string, _ *liar.Request) []liar.Step {
		if id == "A1" {
			return []liar.Step{liar.Head(), liar.Bytewise(chunk), liar.Rest(9)}
		}
		return words(1)
	})
	var sent struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.Unmarshal(d.sent[1].Body, &sent); err != nil {
		t.Fatal(err)
	}
	if got := sent.Messages[1]; got.Role != "assistant" || got.Content != text {
		t.Errorf("the history says %q, want %q", got.Content, text)
	}
}

// H57: a call whose answer was cut is not answered with a receipt.
func TestH57CutCallIsNotAnswered(t *testing.T) {
	next := req("A2", "A", when("A1", "end", 0, 0))
	next.User, next.Results = "", []workloads.ToolResult{{Name: "f", Content: "receipt"}}
	call := liar.Delta(`"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"a\":1}"}}]`)
	for name, row := range map[string]struct {
		end  []liar.Step
		want string
	}{
		"cut":      {[]liar.Step{liar.End()}, "A1 truncated, A2 not_sent"},
		"length":   {[]liar.Step{liar.Finish("length"), liar.Done(), liar.End()}, "A1 completed, A2 not_sent"},
		"finished": {[]liar.Step{liar.Finish("tool_calls"), liar.Done(), liar.End()}, "A1 completed, A2 completed"},
	} {
		d := dispatch(t, []workloads.Request{req("A1", "A", at(0)), next}, func(id string, _ *liar.Request) []liar.Step {
			if id == "A1" {
				return append([]liar.Step{liar.Head(), call}, row.end...)
			}
			return words(1)
		})
		if got := d.outcome("A1", "A2"); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}

// H72: clients that time out leave; the load that was planned is still offered.
func TestH72OfferedLoadIsPreserved(t *testing.T) {
	var reqs []workloads.Request
	for i := range 8 {
		for k := range 3 {
			reqs = append(reqs, req(fmt.Sprintf("c%d-%d", i, k), fmt.Sprintf("c%d-%d", i, k), at(time.Duration(30*k)*time.Second)))
		}
	}
	d := dispatch(t, reqs, func(id string, _ *liar.Request) []liar.Step {
		if slices.Contains([]string{"c0-0", "c1-0", "c2-0"}, id) {
			return []liar.Step{liar.Hold()}
		}
		return words(2)
	})
	if len(d.sent) != 24 {
		t.Errorf("%d requests were sent, want all 24", len(d.sent))
	}
	for i := range 3 {
		if got := d.records[fmt.Sprintf("c%d-0", i)].Outcome; got != results.Timeout {
			t.Errorf("c%d-0 ended as %s", i, got)
		}
	}
}

// openLoop is n requests, one every gap.
func openLoop(n int, gap time.Duration) []workloads.Request {
	var reqs []workloads.Request
	for i := range n {
		id := fmt.Sprintf("p%03d", i)
		reqs = append(reqs, req(id, id, at(time.Duration(i)*gap)))
	}
	return reqs
}

// H86: against a server that takes one request at a time, at twice its capacity:
// TTFT counts from the schedule, so the queue shows.
func TestH86TTFTCountsFromTheSchedule(t *testing.T) {
	var mu sync.Mutex
	var free time.Time
	d := dispatch(t, openLoop(20, 50*time.Millisecond), func(string, *liar.Request) []liar.Step {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); free.Before(now) {
			free = now
		}
		free = free.Add(100 * time.Millisecond)
		return []liar.Step{liar.Pause(time.Until(free)), liar.Head(), liar.Content("x"), liar.Rest(1)}
	})
	first, _ := d.records["p000"].TTFT()
	last, _ := d.records["p019"].TTFT()
	if first != 0.1 || last != 1.05 {
		t.Errorf("TTFT %.3f s first and %.3f s last, want 0.100 and 1.050: the wait of a queue that grows", first, last)
	}
	for id, r := range d.records {
		if r.Sent != r.Due {
			t.Errorf("%s was sent %v late: the client waited for the server", id, time.Duration(r.Sent-r.Due))
		}
	}
}

// H88: what waits at the end of a run is not sent afterwards; it is counted.
func TestH88NothingIsSentAfterTheEnd(t *testing.T) {
	why := errors.New("the stage is over")
	d := dispatch(t, openLoop(100, 100*time.Millisecond), func(string, *liar.Request) []liar.Step { return []liar.Step{liar.Head(), liar.Hold()} },
		func(_ *dispatcher, cancel context.CancelCauseFunc) {
			time.AfterFunc(3050*time.Millisecond, func() { cancel(why) })
		})
	n := map[results.Outcome]int{}
	for _, r := range d.records {
		n[r.Outcome]++
	}
	if !errors.Is(d.err, why) || n[results.CutOff] != 31 || n[results.NotSent] != 69 || len(d.sent) != 31 {
		t.Errorf("ended with %v; %v, %d at the server; want 31 cut off and 69 not sent", d.err, n, len(d.sent))
	}
}

// H93: at any rate, a server that takes 1 ms is measured with 1 ms.
func TestH93TheCurveOfAConstantServerIsFlat(t *testing.T) {
	for _, perSecond := range []int{1, 4, 16, 64, 256} {
		d := dispatch(t, openLoop(20, time.Second/time.Duration(perSecond)), func(string, *liar.Request) []liar.Step {
			return []liar.Step{liar.Pause(time.Millisecond), liar.Head(), liar.Content("x"), liar.Rest(1)}
		})
		for id, r := range d.records {
			if s, ok := r.TTFT(); !ok || s != 0.001 {
				t.Errorf("%d a second: %s took %.6f s from its schedule", perSecond, id, s)
			}
		}
	}
}

// H94: what waits in the server shows beside what waited in the client.
func TestH94LatenessAndServiceAreTwoNumbers(t *testing.T) {
	d := dispatch(t, openLoop(5, 2*time.Millisecond), func(string, *liar.Request) []liar.Step {
		return []liar.Step{liar.Head(), liar.Comment("queued 3"), liar.Pause(300 * time.Millisecond), liar.Content("x"), liar.Rest(1)}
	})
	for id, r := range d.records {
		if r.Sent-r.Due != 0 || r.FirstToken-r.Sent != 300*ms || len(r.States) != 1 {
			t.Errorf("%s: lateness %v, service %v, states %v", id, time.Duration(r.Sent-r.Due), time.Duration(r.FirstToken-r.Sent), r.States)
		}
	}
}

// H96: a server that freezes for 6 of 10 s shows at the median.
func TestH96FreezeShowsAtTheMedian(t *testing.T) {
	var mu sync.Mutex
	start := time.Time{}
	d := dispatch(t, openLoop(100, 100*time.Millisecond), func(string, *liar.Request) []liar.Step {
		mu.Lock()
		defer mu.Unlock()
		if start.IsZero() {
			start = time.Now()
		}
		thaw := time.Duration(0)
		if since := time.Since(start); since >= 2*time.Second && since < 8*time.Second {
			thaw = 8*time.Second - since
		}
		return []liar.Step{liar.Pause(thaw), liar.Head(), liar.Content("x"), liar.Rest(1)}
	})
	var all []float64
	for _, r := range d.records {
		s, _ := r.TTFT()
		all = append(all, s)
	}
	slices.Sort(all)
	if all[49] < 0.9 {
		t.Errorf("median %.3f s, want about a second: 60 %% of the run stood still", all[49])
	}
}

// H125: a dead endpoint is not asked for hours.
func TestH125DeadServerEndsTheRun(t *testing.T) {
	d := dispatch(t, openLoop(1000, time.Second), func(string, *liar.Request) []liar.Step { return []liar.Step{liar.Cut()} })
	if d.err == nil || !strings.Contains(d.err.Error(), "20 requests in a row failed") || len(d.sent) != 20 {
		t.Errorf("after %d requests: %v", len(d.sent), d.err)
	}
}

// A single success in between starts the count again.
func TestFailuresInARow(t *testing.T) {
	var n atomic.Int32
	d := dispatch(t, openLoop(60, time.Second), func(string, *liar.Request) []liar.Step {
		if n.Add(1)%15 == 0 {
			return words(1)
		}
		return []liar.Step{liar.Answer(503, `{}`)}
	})
	if d.err != nil || len(d.sent) != 60 {
		t.Errorf("after %d requests: %v", len(d.sent), d.err)
	}
}

// dispatchTo is dispatch without keeping the records.
func dispatchTo(t *testing.T, reqs []workloads.Request, script func(id string, r *liar.Request) []liar.Step, sink func(*results.Record)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := liar.NewMemory()
		s := liar.Serve(m, func(_ int, r *liar.Request) []liar.Step { return script("", r) })
		defer s.Close()
		c := client.New(client.Options{BaseURL: s.URL, Dial: m.Dial})
		defer c.Close()
		send := &sender{client: c, model: "m", silence: time.Minute, deadline: time.Hour}
		var mu sync.Mutex
		d := newDispatcher(send, reqs, "1/", 1, func(rec *results.Record) {
			mu.Lock()
			defer mu.Unlock()
			sink(rec)
		})
		if err := d.run(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// inRealTime runs requests against a real server, in real time.
func inRealTime(t *testing.T, url string, reqs []workloads.Request) map[string]*results.Record {
	t.Helper()
	c := client.New(client.Options{BaseURL: url})
	defer c.Close()
	records := make(chan *results.Record, len(reqs))
	d := newDispatcher(&sender{client: c, model: "m", silence: time.Minute, deadline: time.Hour}, reqs, "1/", 1, func(rec *results.Record) { records <- rec })
	if err := d.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(records)
	out := map[string]*results.Record{}
	for rec := range records {
		out[rec.Request] = rec
	}
	return out
}

func newTestClient(base time.Time) *client.Client {
	return client.New(client.Options{BaseURL: "http://127.0.0.1:1", Base: base})
}
