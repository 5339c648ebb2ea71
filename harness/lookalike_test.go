package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"interlude/audit"
	"interlude/harness/client"
	"interlude/harness/liar"
	"interlude/harness/observe"
	"interlude/results"
	"interlude/results/stats"
	"interlude/sched/chat"
	"interlude/workloads"
)

// tiny is a manifest that takes a second of virtual time: a long answer, a probe
// inside it, an audit, and a tool round trip with an audit.
const tiny = `{"schema":1,"name":"tiny","about":"for tests","primary":"ttft_short","sampling":"greedy","warmups":1,"canaries":1,
"tools":[{"name":"stock_level","description":"Pieces in a store.","parameters":{"type":"object","properties":{"item":{"type":"string"}},"required":["item"]}}],
"conversations":[
 {"id":"A","steps":[{"id":"A1","class":"long","plant":20,"write":40,"max_tokens":4000},{"id":"A2","class":"audit","audit":20,"max_tokens":600}]},
 {"id":"P","steps":[{"id":"P1","class":"probe","after":{"request":"A1","event":"token","n":10},"say":20,"max_tokens":64}]},
 {"id":"B","tools":["stock_level"],"steps":[{"id":"B1","class":"tool","after":{"request":"A2","event":"end"},"plant":4,"calls":[{"tool":"stock_level","plant":3}],"max_tokens":200},
  {"id":"B2","class":"tool","receipts":true,"max_tokens":200},{"id":"B3","class":"audit","audit":6,"max_tokens":400}]}]}`

func builtin() workloads.Counter {
	tok := chat.Builtin()
	return workloads.Counter{
		Name: "builtin",
		Count: func(system string, turns []workloads.Turn, tools []workloads.ToolSpec, thinking bool) int {
			n := len(tok.Encode(nil, system)) + 8*len(tools)
			for _, t := range turns {
				n += 8 + len(tok.Encode(nil, t.Text))
			}
			return n
		},
		Text: func(text string) int { return len(tok.Encode(nil, text)) },
	}
}

// lookalike answers as our server on a well-behaved engine would: right, one
// request at a time, the probe inside the long answer when its flag is on. All of
// it in virtual time. lie changes what is said.
type lookalike struct {
	on     bool
	nonce  string
	step   time.Duration // between two chunks
	lie    func(r *workloads.Request, steps []liar.Step) []liar.Step
	info   string // what its engine announces, as JSON
	status string // replaces the honest status where not empty

	requests map[string]*workloads.Request
	engine   chan struct{} // holds the token of who may run
	mu       sync.Mutex
	probes   int // running or waiting
	parks    int
	ended    int
}

func newLookalike(on bool, reqs []workloads.Request) *lookalike {
	l := &lookalike{on: on, info: `{"emulated":"lookalike"}`, step: 5 * time.Millisecond, requests: map[string]*workloads.Request{}, engine: make(chan struct{}, 1)}
	l.engine <- struct{}{}
	for i := range reqs {
		l.requests[reqs[i].ID] = &reqs[i]
	}
	return l
}

func (l *lookalike) script(_ int, r *liar.Request) []liar.Step {
	switch r.Path {
	case "/v1/status":
		if l.status != "" {
			return []liar.Step{liar.Answer(200, l.status)}
		}
		return []liar.Step{liar.Answer(200, fmt.Sprintf(`{"instance":%q,"solo":{"enabled":%t},"engine":{"info":%s}}`, l.nonce, l.on, l.info))}
	case "/health":
		return []liar.Step{liar.Answer(200, `{"loaded":true,"max_context":100000}`)}
	case "/v1/models":
		return []liar.Step{liar.Answer(200, `{"data":[{"id":"lookalike"}]}`)}
	case "/metrics":
		l.mu.Lock()
		defer l.mu.Unlock()
		return []liar.Step{liar.Answer(200, fmt.Sprintf("strata:solo_preemptions_total %d\nstrata:solo_resumes_total %d\nstrata:requests_total{outcome=\"completed\"} %d\n", l.parks, l.parks, l.ended))}
	}
	_, id, _ := strings.Cut(r.Header.Get("X-Request-Id"), "/")
	q := l.requests[id]
	if q == nil {
		return []liar.Step{liar.Answer(404, `{"error":{"message":"nobody planned this"}}`)}
	}
	steps := l.answer(q)
	if l.lie != nil {
		steps = l.lie(q, steps)
	}
	return append([]liar.Step{l.begin(q)}, append(steps, l.finish(q))...)
}

// begin waits for the engine. A probe with the flag on makes the holder let go.
func (l *lookalike) begin(q *workloads.Request) liar.Step {
	return liar.All(liar.Head(), func(*liar.Exchange) error {
		if q.Class == workloads.Probe {
			l.mu.Lock()
			l.probes++
			l.mu.Unlock()
		}
		<-l.engine
		return nil
	}, liar.Role(), liar.Pause(20*time.Millisecond))
}

func (l *lookalike) finish(q *workloads.Request) liar.Step {
	return func(*liar.Exchange) error {
		l.mu.Lock()
		l.ended++
		if q.Class == workloads.Probe {
			l.probes--
		}
		l.mu.Unlock()
		l.engine <- struct{}{}
		return nil
	}
}

// between is a token's time; a parked request waits here.
func (l *lookalike) between(q *workloads.Request) liar.Step {
	return func(e *liar.Exchange) error {
		<-time.After(l.step)
		l.mu.Lock()
		park := l.on && l.probes > 0 && q.Class != workloads.Probe
		if park {
			l.parks++
		}
		l.mu.Unlock()
		if !park {
			return nil
		}
		if err := liar.Comment("parked")(e); err != nil {
			return err
		}
		l.engine <- struct{}{}
		<-time.After(time.Millisecond) // whoever waits longer is first
		<-l.engine
		return liar.Comment("resumed")(e)
	}
}

// answer is the right answer, one step a piece, an honest end behind it.
func (l *lookalike) answer(q *workloads.Request) []liar.Step {
	var steps []liar.Step
	finish := "stop"
	for k, c := range q.Expect.Calls {
		finish = "tool_calls"
		steps = append(steps, l.between(q), liar.Delta(fmt.Sprintf(`"tool_calls":[{"index":%d,"id":"call_%s_%d","type":"function","function":{"name":%q,"arguments":%s}}]`,
			k, q.ID, k, c.Name, liar.Quote(string(c.Args)))))
	}
	for _, piece := range pieces(workloads.Answer(&q.Expect)) {
		steps = append(steps, l.between(q), liar.Content(piece))
	}
	n := builtin().Text(workloads.Answer(&q.Expect)) + 1
	prompt := max(q.PromptTokens, 100)
	timing := fmt.Sprintf(`{"choices":[],"timings":{"prompt_ms":20,"predicted_ms":%d},"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`,
		len(steps)/2*int(l.step/time.Millisecond), prompt, n, prompt+n)
	return append(steps, liar.Finish(finish), liar.Data(timing), liar.Done(), liar.End())
}

// pieces cuts a text behind its line ends and blanks, three words a piece.
func pieces(text string) []string {
	words := strings.SplitAfter(text, " ")
	var out []string
	for len(words) > 0 {
		n := min(3, len(words))
		out = append(out, strings.Join(words[:n], ""))
		words = words[n:]
	}
	return out
}

// staged makes a run directory for a manifest without starting anything.
func staged(t *testing.T, manifest string, pairs int) *run {
	t.Helper()
	m, err := workloads.Parse([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	target, err := LoadTarget("interlude")
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(t.TempDir(), "self") // never started here, only hashed
	if err := os.WriteFile(self, []byte("a binary"), 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := open(t.Context(), "ab", Options{Manifest: m, Target: target, Engine: "emulate", Policy: "quantum", Pairs: pairs, Seed: 7,
		Counter: builtin(), Runs: t.TempDir(), Self: self, Idle: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.writer.Close() })
	r.info.Calibrated = &results.Calibration{Streams: 1, Events: 100, P50: 1e-5, P99: 1e-4, Max: 1e-3}
	return r
}

// inMemory drives every slot of a staged run against lookalikes, in virtual time,
// and returns the run directory. change may replace what a slot's server does.
func inMemory(t *testing.T, r *run, change func(s workloads.Slot, l *lookalike)) (dir string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		for _, s := range r.plan.Slots {
			if err = oneSlot(t.Context(), r, s, change); err != nil {
				break
			}
		}
		f, err := r.close(t.Context(), err)
		if dir = f.Dir; err != nil {
			t.Log("the run ended early:", err)
		}
	})
	return dir
}

func oneSlot(ctx context.Context, r *run, s workloads.Slot, change func(s workloads.Slot, l *lookalike)) error {
	reqs, err := r.expand(s)
	if err != nil {
		return err
	}
	l := newLookalike(s.Arm == results.On, reqs)
	if change != nil {
		change(s, l)
	}
	m := liar.NewMemory()
	web := liar.Serve(m, l.script)
	defer web.Close()
	base := time.Now()
	srv := &server{target: r.o.Target, base: base, client: client.New(client.Options{BaseURL: web.URL, Base: base, Dial: m.Dial}), observer: observe.New(web.URL, "", m.Dial)}
	info := results.SlotInfo{Slot: s.Slot, Pair: s.Pair, Arm: s.Arm, AA: s.AA, Started: wallClock(base)}
	if err := srv.prove(ctx, s.Arm); err != nil {
		info.Why = err.Error()
		r.setSlot(info)
		srv.client.Close()
		srv.observer.Close()
		return err
	}
	srv.describe(&info)
	return r.drive(ctx, s, srv, info, reqs)
}

// verdict judges a run directory as cmd does.
func verdict(t *testing.T, dir string) (results.Summary, *audit.Report) {
	t.Helper()
	fsys := os.DirFS(dir)
	data, err := results.Open(fsys)
	if err != nil {
		t.Fatal(err)
	}
	judged, err := audit.Judge(fsys, builtin())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := workloads.ReadPlan(data.Plan)
	if err != nil {
		t.Fatal(err)
	}
	facts := stats.Facts{Kind: "ab", Primary: plan.Primary, Margin: plan.Margin, Guards: plan.Guards, Pairs: len(plan.Slots) / 2}
	s := stats.Summarise(data, judged.Judgements, judged.Findings, facts)
	again, err := audit.Recheck(fsys, judged.Judgements, s)
	if err != nil {
		t.Fatal(err)
	}
	judged.Findings = append(judged.Findings, again...)
	return stats.Summarise(data, judged.Judgements, judged.Findings, facts), judged
}

func failures(r *audit.Report) string {
	var out []string
	for _, f := range r.Findings {
		if f.Status == "fail" && f.Weight != results.Note {
			out = append(out, fmt.Sprintf("%s (%s): %s", f.Check, f.Weight, f.Text))
		}
	}
	return strings.Join(out, "\n  ")
}

func TestHonestLookalike(t *testing.T) {
	dir := inMemory(t, staged(t, tiny, 4), nil)
	s, judged := verdict(t, dir)
	if s.Verdict != "BETTER" {
		out, _ := json.MarshalIndent(s, "", " ")
		t.Errorf("verdict %s %v\n  %s\n%s", s.Verdict, s.Reasons, failures(judged), out)
	}
}

// A resumed run keeps complete pairs byte for byte and runs half a pair again
// whole; another binary or another plan is refused.
func TestH128ResumeKeepsWholePairs(t *testing.T) {
	first := staged(t, tiny, 3)
	synctest.Test(t, func(t *testing.T) {
		for _, s := range first.plan.Slots[:3] {
			if err := oneSlot(t.Context(), first, s, nil); err != nil {
				t.Fatal(err)
			}
		}
	})
	dir := first.finished.Dir
	if _, err := first.close(t.Context(), errors.New("the power went")); err == nil {
		t.Fatal("the reason was lost")
	}
	before, err := os.ReadFile(filepath.Join(dir, results.RecordsFile))
	if err != nil {
		t.Fatal(err)
	}
	again := first.o
	again.Resume, again.Manifest = dir, nil
	second, err := open(t.Context(), "ab", again)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { second.writer.Close() })
	if d := second.info; len(d.Slots) != 2 || d.Status != "started" {
		t.Errorf("%d slots are kept, status %s; want the first pair", len(d.Slots), d.Status)
	}
	second.plan.Slots = slices.DeleteFunc(slices.Clone(second.plan.Slots), second.slotComplete)
	inMemory(t, second, nil)
	after, err := os.ReadFile(filepath.Join(dir, results.RecordsFile))
	if err != nil {
		t.Fatal(err)
	}
	pair := bytes.Index(before, []byte(`"id":"3/`))
	pair = bytes.LastIndexByte(before[:pair], '\n') + 1
	if !bytes.HasPrefix(after, before[:pair]) {
		t.Error("the records of the complete pair changed")
	}
	aside, err := filepath.Glob(filepath.Join(dir, "discarded-*-records.jsonl"))
	if err != nil || len(aside) != 1 {
		t.Fatalf("discarded records: %v, %v", aside, err)
	}
	if moved, err := os.ReadFile(aside[0]); err != nil || !bytes.Equal(moved, before[pair:]) {
		t.Error("the half pair's records are not kept as they were")
	}
	if s, judged := verdict(t, dir); s.Verdict != "BETTER" || s.Pairs != 3 {
		t.Errorf("verdict %s with %d pairs\n  %s", s.Verdict, s.Pairs, failures(judged))
	}

	if err := os.WriteFile(again.Self, []byte("another binary"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := results.WriteJSON(dir, results.RunFile, first.info); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t.Context(), "ab", again); err == nil || !strings.Contains(err.Error(), "the binary (self) is not the one") {
		t.Errorf("another binary goes on with the run: %v", err)
	}
}

// A control arm runs in slots of its own, outside the paired statistic.
func TestControlArm(t *testing.T) {
	base := staged(t, tiny, 3)
	o := base.o
	o.Target.Arms["upstream"] = Arm{Patch: []byte(`{"solo_priority":false}`)}
	o.Runs = t.TempDir()
	r, err := open(t.Context(), "ab", o)
	if err != nil {
		t.Fatal(err)
	}
	r.info.Calibrated = base.info.Calibrated
	if last := r.plan.Slots[len(r.plan.Slots)-1]; last.Arm != "upstream" || last.Pair != 0 {
		t.Fatalf("the last slot is %+v", last)
	}
	s, judged := verdict(t, inMemory(t, r, nil))
	if s.Verdict != "BETTER" || s.Pairs != 3 || s.Arms["upstream"] == nil || s.Arms["upstream"].Requests.Completed != 6 {
		t.Errorf("verdict %s with %d pairs, upstream %+v\n  %s", s.Verdict, s.Pairs, s.Arms["upstream"], failures(judged))
	}
}
