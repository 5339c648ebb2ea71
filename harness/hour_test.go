package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"interlude/audit"
	"interlude/harness/client"
	"interlude/harness/liar"
	"interlude/harness/observe"
	"interlude/results"
	"interlude/results/report"
	"interlude/results/stats"
	"interlude/sched/chat"
	"interlude/sched/loop/looptest"
	"interlude/sched/serve"
	"interlude/workloads"
)

// inBubble runs the slots of a staged run against the real server, scheduler and
// stand-in, in memory and in virtual time, and returns the run directory.
func inBubble(t *testing.T, r *run, engineFlags ...string) (dir string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		for _, slot := range r.plan.Slots {
			err = errors.Join(err, soakInMemory(t, r, slot, engineFlags))
		}
		f, err := r.close(t.Context(), err)
		if dir = f.Dir; err != nil {
			t.Error("the run ended early:", err)
		}
	})
	return dir
}

// soakInMemory runs one slot on a server of its own.
func soakInMemory(t *testing.T, r *run, slot workloads.Slot, engineFlags []string) error {
	reqs, err := r.expand(slot)
	if err != nil {
		t.Fatal(err)
	}
	logs := filepath.Join(r.finished.Dir, slotFolder(slot.Slot))
	if _, err := r.writer.Path(slotFolder(slot.Slot), "server.log"); err != nil {
		t.Fatal(err)
	}
	cfg, err := serve.ParseConfig([]byte(fmt.Sprintf(`{"exe":"stand-in","solo_priority":%v,"solo_policy":"budget","solo_journal":%q}`, slot.Arm == results.On, filepath.Join(logs, "journal.jsonl"))), logs)
	if err != nil {
		t.Fatal(err)
	}
	m := liar.NewMemory()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	start := looptest.StandIn(append([]string{"--serve", "--conversation-cache-mib", cacheMiB, "--conversation-cache-slots", cacheSlots}, engineFlags...), nil)
	go func() { ended <- serve.Serve(ctx, cfg, m, start, slog.New(slog.DiscardHandler), "nonce") }()
	base := time.Now()
	srv := &server{target: r.o.Target, base: base, client: client.New(client.Options{BaseURL: "http://127.0.0.1:8095", Base: base, Dial: m.Dial}), observer: observe.New("http://127.0.0.1:8095", "", m.Dial)}
	err = errors.Join(srv.awaitReady(ctx), srv.prove(ctx, slot.Arm))
	info := results.SlotInfo{Slot: slot.Slot, Pair: slot.Pair, Arm: slot.Arm, Started: wallClock(base)}
	srv.describe(&info)
	if err == nil {
		err = r.drive(ctx, slot, srv, info, reqs)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error("the server:", err)
	}
	return err
}

// stagedSoak makes the run directory of a soak without starting anything.
func stagedSoak(t *testing.T, duration time.Duration, words map[string]string) *run {
	t.Helper()
	m, err := workloads.Load("soak", nil)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = m.For(duration); err != nil {
		t.Fatal(err)
	}
	target, err := LoadTarget("interlude")
	if err != nil {
		t.Fatal(err)
	}
	r, err := open(t.Context(), "soak", Options{Manifest: m, Target: target, Engine: "emulate", Policy: "budget", Seed: 1,
		Words: words, Counter: exact(), Runs: t.TempDir(), Self: os.Args[0], Idle: -1, Budgets: Budgets("soak", "emulate --resume-prefill --prefill-chunk 2048 --sequences 4", 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.writer.Close() })
	r.info.Calibrated = &results.Calibration{Streams: 1, Events: 100, P50: 1e-5, P99: 1e-4, Max: 1e-3}
	return r
}

// exact counts tokens as the server renders and tokenizes them.
func exact() workloads.Counter {
	tok := chat.Builtin()
	return workloads.Counter{
		Name: "builtin",
		Count: func(system string, turns []workloads.Turn, tools []workloads.ToolSpec, thinking bool) int {
			c := chat.Conversation{}
			if system != "" {
				c.Messages = append(c.Messages, chat.Message{Role: chat.System, Content: chat.Text(system)})
			}
			for _, t := range turns {
				c.Messages = append(c.Messages, chat.Message{Role: chat.Role(t.Role), Content: chat.Text(t.Text)})
			}
			for _, t := range tools {
				c.Tools = append(c.Tools, chat.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
			}
			return chat.Count(tok, c, chat.Options{Thinking: thinking})
		},
		Text: func(text string) int { return len(tok.Encode(nil, text)) },
	}
}

// judge judges a run of one arm as cmd does.
func judge(t *testing.T, dir string, c workloads.Counter) (results.Summary, *audit.Report) {
	t.Helper()
	fsys := os.DirFS(dir)
	data, err := results.Open(fsys)
	if err != nil {
		t.Fatal(err)
	}
	judged, err := audit.Judge(fsys, c)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := workloads.ReadPlan(data.Plan)
	if err != nil {
		t.Fatal(err)
	}
	facts := stats.Facts{Kind: plan.Kind, Primary: plan.Primary, Margin: plan.Margin, Guards: plan.Guards, Pairs: len(plan.Slots), Budgets: plan.Budgets}
	return stats.Summarise(data, judged.Judgements, judged.Findings, facts), judged
}

// full runs what takes half a minute each: go test ./harness -full.
var full = flag.Bool("full", false, "run the whole hour of the soak in virtual time, a slot of the injection, and the lifecycle")

// TestSoakHour: the whole hour (minutes of it without -full) against the real server, scheduler and stand-in, in
// virtual time: at least the reference's size, nothing wrong, nothing lost, and the
// short requests as fast as promised. What the machine does besides cannot blur it.
func TestSoakHour(t *testing.T) {
	length := 4 * time.Minute
	if *full {
		length = time.Hour
	}
	dir := inBubble(t, stagedSoak(t, length, nil), "--resume-prefill", "--prefill-chunk", "2048", "--sequences", "4")
	s, judged := judge(t, dir, exact())
	on := s.Arms["on"]
	if out := failures(judged); out != "" {
		t.Errorf("findings:\n  %s", out)
	}
	if s.Verdict == results.VerdictBroken || s.Verdict == results.VerdictInvalid {
		t.Errorf("%s: %v", s.Verdict, s.Reasons)
	}
	if on.Audits.Exact != on.Audits.Total || on.StrictJSON.Passed != on.Requests.Completed || on.Requests.Completed+on.Requests.Cancelled != on.Requests.Planned || *on.LostPrefix != 0 {
		t.Errorf("audits %+v, strict %+v, requests %+v, %d tokens lost", on.Audits, on.StrictJSON, on.Requests, *on.LostPrefix)
	}
	if length < time.Hour {
		return
	}
	for _, f := range judged.Findings {
		if f.Check == "park_places" {
			t.Log(f.Text)
			if f.Status != audit.Pass {
				t.Error("not every place was tried")
			}
		}
	}
	for what, v := range map[string][2]int{"completed": {on.Requests.Completed, 400}, "cancelled": {on.Requests.Cancelled, 14}, "audits": {on.Audits.Total, 25},
		"round trips": {*on.RoundTrips, 90}, "parks": {*on.Parks, 280}} {
		if v[0] < v[1] {
			t.Errorf("%d %s, want at least %d", v[0], what, v[1])
		}
	}
	if p95, most := *on.TTFTShort.P95, *on.TTFTShort.Max; p95 > 1.6 || most > 9 {
		t.Errorf("short TTFT p95 %.3f s, max %.3f s", p95, most)
	}
}

// TestControl: the beginning of a soak meets a server with the flag off, in a slot
// of its own. Its answers are judged too and its flag is proved, but the verdict, the
// budgets and the arm on are what they are without it.
func TestControl(t *testing.T) {
	flags := []string{"--resume-prefill", "--prefill-chunk", "2048", "--sequences", "4"}
	dir := inBubble(t, stagedSoak(t, 4*time.Minute, map[string]string{"control": "2m"}), flags...)
	s, judged := judge(t, dir, exact())
	if out := failures(judged); out != "" {
		t.Errorf("findings:\n  %s", out)
	}
	off, on := s.Arms["off"], s.Arms["on"]
	if off == nil || off.Slots != 1 || off.Requests.Completed+off.Requests.Cancelled != off.Requests.Planned || off.TTFTShort.N < 8 || *off.Parks != 0 {
		t.Fatalf("the control: %+v", off)
	}
	if off.Requests.Planned >= on.Requests.Planned || *off.TTFTShort.Median <= *on.TTFTShort.Median {
		t.Errorf("off: %+v, %+v; on: %+v, %+v", off.Requests, off.TTFTShort, on.Requests, on.TTFTShort)
	}
	if most := *off.TTFTShort.Max; most < 9 {
		t.Errorf("a probe of the control waited %.3f s at most: no budget is in danger", most)
	}
	if want := "ttft_short_p95_s: so few were measured that its 95 % interval has no upper end"; s.Verdict != results.VerdictInconclusive || len(s.Reasons) != 1 || !strings.HasPrefix(s.Reasons[0], want) {
		t.Errorf("%s: %v; so few probes leave the p95 open, and nothing else", s.Verdict, s.Reasons)
	}
	again, err := audit.Recheck(os.DirFS(dir), judged.Judgements, s)
	if err != nil || again[0].Status != audit.Pass {
		t.Errorf("recomputed: %v, %v", err, again)
	}
	for name, v := range map[string]any{results.SummaryFile: s, results.FindingsFile: judged.Findings, results.JudgementsFile: judged.Judgements} {
		if err := results.WriteJSON(dir, name, v); err != nil {
			t.Fatal(err)
		}
	}
	files, err := report.Render(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	row := fmt.Sprintf("| %.3f s / ", *off.TTFTShort.Median)
	if page := string(files["README.md"]); !strings.Contains(page, "What the same arrivals met with the flag off") || !strings.Contains(page, row) {
		t.Errorf("the page does not set %q beside the soak", row)
	}
	for i := range judged.Judgements {
		if strings.HasPrefix(judged.Judgements[i].Record, "2/") {
			judged.Judgements[i].Right = false
		}
	}
	data, err := results.Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	if wrong := stats.Summarise(data, judged.Judgements, judged.Findings, stats.Facts{Kind: "soak"}); wrong.Verdict != results.VerdictPass {
		t.Errorf("what is wrong in the control makes the run %s: %v", wrong.Verdict, wrong.Reasons)
	}
}
