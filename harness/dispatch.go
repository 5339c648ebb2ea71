package harness

import (
	"container/heap"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"interlude/harness/client"
	"interlude/results"
	"interlude/workloads"
)

// sender is what a request needs to become a record.
type sender struct {
	client   *client.Client
	model    string
	omit     []string
	silence  time.Duration
	deadline time.Duration
	identity results.Record // slot, pair, arm, AA
}

// do sends the last of turns and returns its record, complete but for Due.
func (s *sender) do(ctx context.Context, id string, turns []turn, watch func(client.Moment)) *results.Record {
	r := turns[len(turns)-1].request
	payload, err := body(s.model, turns, s.omit)
	if err != nil {
		return s.unsent(id, turns, 0, err.Error())
	}
	sum := sha256.Sum256(payload)
	rec := s.client.Do(ctx, client.Call{
		API: r.API, Stream: r.Stream, Body: payload, Header: headers(id, r), Deadline: s.deadline, Silence: s.silence, Watch: watch,
	})
	s.sign(rec, id, turns)
	rec.PayloadHash = hex.EncodeToString(sum[:])
	return rec
}

// sign says who a record is.
func (s *sender) sign(rec *results.Record, id string, turns []turn) {
	r := turns[len(turns)-1].request
	rec.ID, rec.Request, rec.Class, rec.Conversation, rec.Turn = id, r.ID, r.Class, r.Conversation, r.Turn
	rec.Slot, rec.Pair, rec.Arm, rec.AA = s.identity.Slot, s.identity.Pair, s.identity.Arm, s.identity.AA
	rec.API, rec.Stream = r.API, r.Stream
	if r.Cancel != nil {
		rec.Planned = "cancel"
	}
	history := make([]workloads.Request, len(turns))
	for i, t := range turns {
		history[i] = *t.request
	}
	rec.TemplateHash = workloads.TemplateHash(history)
}

// unsent is the record of a request that was not sent.
func (s *sender) unsent(id string, turns []turn, due results.Stamp, why string) *results.Record {
	rec := &results.Record{Schema: results.Schema, Due: due, Outcome: results.NotSent, Error: why, End: s.client.Now()}
	s.sign(rec, id, turns)
	return rec
}

// dispatcher sends the requests of one slot when their time or trigger comes. One
// goroutine (run) owns its state. It never waits for an answer: answers and what
// is seen of them come back as moments.
type dispatcher struct {
	sender *sender
	prefix string // of record ids
	speed  float64
	record func(*results.Record)      // gets each record once; called from any goroutine
	notice func(client.Moment, *job)  // sees each moment; nil: nobody does
	failed int                        // consecutive failures that end the slot; 0: never
	struck func(*results.Record) bool // the run itself ended the engine under it; nil: never

	moments chan moment
	order   []*job
	due     queue
	history map[string][]turn
	fails   int
	open    int
	wg      sync.WaitGroup
}

type moment struct {
	job *job
	client.Moment
	rec *results.Record // with Event end
}

// job is one request from its trigger to its record.
type job struct {
	request *workloads.Request
	due     results.Stamp // 0 until its trigger has come
	started bool
	ended   bool
	sends   int            // more than once only after the run itself had ended the engine
	seen    map[string]int // how often each moment came
	cancel  context.CancelCauseFunc
	after   *job // the turn before
	last    bool // no turn comes behind it
}

// abortAfter is how many failures in a row end a run: a dead server is not asked
// for hours.
const abortAfter = 20

func newDispatcher(s *sender, reqs []workloads.Request, prefix string, speed float64, record func(*results.Record)) *dispatcher {
	d := &dispatcher{sender: s, prefix: prefix, speed: speed, record: record, failed: abortAfter,
		moments: make(chan moment, 1024), history: map[string][]turn{}}
	last := map[string]*job{}
	for i := range reqs {
		r := &reqs[i]
		j := &job{request: r, seen: map[string]int{}, after: last[r.Conversation], last: true}
		if j.after != nil {
			j.after.last = false
		}
		last[r.Conversation] = j
		d.order = append(d.order, j)
	}
	return d
}

// scaled is a duration of the plan under --speed.
func (d *dispatcher) scaled(t workloads.Duration) results.Stamp {
	return results.Stamp(float64(t) / d.speed)
}

// run returns when every request has its record: nil, or why the slot ended
// early. When ctx ends, what is in flight is cut off and the rest is not sent.
func (d *dispatcher) run(ctx context.Context) error {
	start := d.sender.client.Now()
	for _, j := range d.order {
		if t := j.request.After; t.Request == "" {
			d.schedule(j, start+d.scaled(t.Delay), start)
		}
	}
	d.pass(start)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var why error
	for why == nil && !d.done() {
		timer.Reset(d.wait())
		select {
		case m := <-d.moments:
			why = d.take(m)
		case <-timer.C:
		case <-ctx.Done():
			why = context.Cause(ctx)
		}
		if why == nil {
			d.pass(d.sender.client.Now())
		}
	}
	d.stop(why)
	d.wg.Wait()
	return why
}

func (d *dispatcher) done() bool {
	for _, j := range d.order {
		if !j.ended {
			return false
		}
	}
	return true
}

// wait is the time until the next thing is due.
func (d *dispatcher) wait() time.Duration {
	if len(d.due) == 0 {
		return time.Hour
	}
	return time.Duration(d.due[0].at - d.sender.client.Now())
}

func (d *dispatcher) schedule(j *job, at, now results.Stamp) {
	j.due = max(at, 1)
	heap.Push(&d.due, task{at: j.due, job: j})
}

// pass does everything that is due, in order.
func (d *dispatcher) pass(now results.Stamp) {
	for len(d.due) > 0 && d.due[0].at <= now {
		t := heap.Pop(&d.due).(task)
		if t.cancel {
			if t.job.cancel != nil {
				t.job.cancel(client.ErrPlanned)
			}
			continue
		}
		d.start(t.job)
	}
}

// start sends a request whose time has come, unless its conversation is not there yet
// (then the end of the turn before starts it) or will never be.
func (d *dispatcher) start(j *job) {
	if j.started || j.ended || j.after != nil && !j.after.ended {
		return
	}
	if j.request.Rollover {
		d.history[j.request.Conversation] = nil
	}
	past := d.history[j.request.Conversation]
	turns := append(past[:len(past):len(past)], turn{request: j.request})
	if len(past) > 0 {
		if why := answerable(past[len(past)-1].answer, j.request); why != "" {
			d.give(j, turns, why)
			return
		}
	}
	j.started = true
	d.open++
	ctx, cancel := context.WithCancelCause(context.Background())
	j.cancel = cancel
	id := d.prefix + j.request.ID
	if j.sends++; j.sends > 1 {
		id += fmt.Sprintf("#%d", j.sends)
	}
	d.wg.Go(func() {
		rec := d.sender.do(ctx, id, turns, func(m client.Moment) {
			if m.Event != workloads.AtEnd { // told below, with the record
				d.moments <- moment{job: j, Moment: m}
			}
		})
		rec.Due = j.due
		cancel(nil)
		if d.struck != nil && !rec.Done() && d.struck(rec) {
			rec.Planned = planKill
		}
		d.record(rec)
		d.moments <- moment{job: j, Moment: client.Moment{Event: workloads.AtEnd, At: rec.End}, rec: rec}
	})
}

// give records a request that will not be sent.
func (d *dispatcher) give(j *job, turns []turn, why string) {
	rec := d.sender.unsent(d.prefix+j.request.ID, turns, j.due, why)
	d.record(rec)
	d.end(j, turns, rec)
}

// take notes a moment and lets whoever waited for it become due.
func (d *dispatcher) take(m moment) error {
	if d.notice != nil {
		d.notice(m.Moment, m.job)
	}
	if m.rec == nil {
		d.happened(m.job, m.Moment)
		return nil
	}
	d.open--
	if m.rec.Planned == planKill && (m.job.after != nil || !m.job.last) {
		d.again(m.job, m.rec.End)
		return nil
	}
	turns := append(d.history[m.job.request.Conversation], turn{request: m.job.request})
	d.end(m.job, turns, m.rec)
	if m.rec.Done() || m.rec.Outcome == results.Cancelled {
		d.fails = 0
		return nil
	}
	if d.fails++; d.failed > 0 && d.fails >= d.failed {
		return fmt.Errorf("%d requests in a row failed, the last one (%s) as %s: %s", d.fails, m.rec.ID, m.rec.Outcome, m.rec.Error)
	}
	return nil
}

// planKill marks a request under which the run itself ended the engine.
const planKill = "kill"

// again lets a turn be asked once more, under an id of its own, as its user would:
// what comes after it needs its answer.
func (d *dispatcher) again(j *job, now results.Stamp) {
	j.started, j.cancel = false, nil
	clear(j.seen)
	d.schedule(j, now, now)
}

// end closes a job: its turn enters the history, its successor may go on, and who
// waited for a moment that can no longer come is not sent.
func (d *dispatcher) end(j *job, turns []turn, rec *results.Record) {
	j.ended = true
	turns[len(turns)-1].answer = kept(rec)
	d.history[j.request.Conversation] = turns
	if j.last {
		delete(d.history, j.request.Conversation) // nobody will ask for it any more
	}
	d.happened(j, client.Moment{Event: workloads.AtEnd, At: rec.End})
	j.seen, j.cancel = nil, nil
	for _, k := range d.order {
		if k.after == j && k.due != 0 {
			heap.Push(&d.due, task{at: k.due, job: k})
		}
		if t := k.request.After; t.Request == j.request.ID && k.due == 0 && !k.ended && !k.started {
			if t.OrEnd {
				d.schedule(k, rec.End+d.scaled(t.Delay), rec.End)
				continue
			}
			k.due = rec.End
			d.give(k, d.upTo(k), fmt.Sprintf("request %s ended as %s and was never seen %s", j.request.ID, rec.Outcome, t.Event))
		}
	}
}

// kept is what later turns need of an answer: stamps, timings and hashes need not
// be kept for an hour.
func kept(rec *results.Record) *results.Record {
	return &results.Record{ID: rec.ID, Request: rec.Request, Outcome: rec.Outcome, Planned: rec.Planned, FinishReason: rec.FinishReason,
		Text: rec.Text, Reasoning: rec.Reasoning, Tools: rec.Tools}
}

// upTo is a request behind the history of its conversation.
func (d *dispatcher) upTo(j *job) []turn {
	past := d.history[j.request.Conversation]
	if j.request.Rollover {
		past = nil
	}
	return append(past[:len(past):len(past)], turn{request: j.request})
}

// happened makes due what waits for this moment of j. An N of 0 or 1 means the
// first time; tokens carry their own count.
func (d *dispatcher) happened(j *job, m client.Moment) {
	j.seen[m.Event]++
	n := j.seen[m.Event]
	if m.Event == workloads.AtToken {
		n = m.N
	}
	hit := func(t *workloads.Trigger) bool {
		return t != nil && t.Request == j.request.ID && t.Event == m.Event && max(t.N, 1) == n
	}
	for _, k := range d.order {
		if hit(&k.request.After) && k.due == 0 && !k.ended {
			d.schedule(k, m.At+d.scaled(k.request.After.Delay), m.At)
		}
		if c := k.request.Cancel; hit(c) && !k.ended {
			heap.Push(&d.due, task{at: m.At + d.scaled(c.Delay), job: k, cancel: true})
		}
	}
}

// stop ends what is left: in flight is cut off, the rest is not sent.
func (d *dispatcher) stop(why error) {
	if why == nil {
		return
	}
	for _, j := range d.order {
		if j.cancel != nil && !j.ended {
			j.cancel(client.ErrCutOff)
		}
	}
	for d.open > 0 {
		m := <-d.moments
		if m.rec != nil {
			d.open--
			m.job.ended = true
		}
	}
	for _, j := range d.order {
		if !j.ended {
			j.ended = true
			d.record(d.sender.unsent(d.prefix+j.request.ID, d.upTo(j), j.due, "the slot ended first: "+why.Error()))
		}
	}
}

// task is something to be done at an instant.
type task struct {
	at     results.Stamp
	job    *job
	cancel bool
}

// queue is a heap of tasks by time.
type queue []task

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *queue) Push(x any) { *q = append(*q, x.(task)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	old := *q
	t := old[len(old)-1]
	*q = old[:len(old)-1]
	return t
}
