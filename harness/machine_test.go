package harness

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"interlude/harness/liar"
	"interlude/harness/supervise"
	"interlude/results"
)

// The rows of sections G and H: children, pace, clocks, memory and progress.

// H110: a grandchild that holds the pipe neither hangs us nor survives.
func TestH110GrandchildHoldsThePipe(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell")
	}
	t.Parallel()
	var out bytes.Buffer
	child, err := supervise.Start(supervise.Spec{Argv: []string{"sh", "-c", "sleep 600 & echo started; exit 0"}, Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	limit := time.NewTimer(8 * time.Second)
	defer limit.Stop()
	select {
	case <-child.Done():
	case <-limit.C:
		t.Fatal("waiting for the child hangs")
	}
	if err := child.Gone(t.Context()); err != nil || !strings.Contains(out.String(), "started") {
		t.Errorf("gone: %v, output %q", err, out.String())
	}
}

// H112, H113: a child that forks in its first millisecond, into a session of its
// own, is still found and ended.
func TestH112DetachedGrandchild(t *testing.T) {
	if _, err := supervise.LookPath("setsid"); err != nil {
		t.Skip("needs setsid")
	}
	t.Parallel()
	ready := make(chan string, 10)
	child, err := supervise.Start(supervise.Spec{Argv: []string{"sh", "-c", "setsid sh -c 'echo up; sleep 600' & wait"}, Stdout: onLine(func(s string) { ready <- s })})
	if err != nil {
		t.Fatal(err)
	}
	<-ready
	list, err := child.Descendants()
	if err != nil || len(list) == 0 {
		t.Fatalf("descendants %v, %v", list, err)
	}
	if err := child.Terminate(t.Context(), time.Second); err != nil {
		t.Error(err)
	}
}

func TestH113ChildThatForksAtOnce(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell")
	}
	t.Parallel()
	for range 5 {
		child, err := supervise.Start(supervise.Spec{Argv: []string{"sh", "-c", "sleep 600 & sleep 600 & exec sleep 600"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Kill(); err != nil {
			t.Error(err)
		}
	}
}

// H114: the runner does not survive its parent, however the parent ends.
func TestH114ChildrenEndWithTheirParent(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell")
	}
	t.Parallel()
	up := make(chan string, 10)
	child, err := supervise.Start(supervise.Spec{Argv: []string{"sh", "-c", "sleep 600 & echo up; wait"}, Stdout: onLine(func(s string) { up <- s })})
	if err != nil {
		t.Fatal(err)
	}
	<-up
	if _, err := child.Descendants(); err != nil {
		t.Fatal(err)
	}
	parent, err := os.FindProcess(child.Pid())
	if err == nil {
		err = parent.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := child.Gone(ctx); err != nil {
		t.Error(err)
	}
}

// H116: deadlines are absolute: coarse sleeps make requests late, which is
// recorded, but never shift those behind them.
func TestH116PacingDoesNotDrift(t *testing.T) {
	t.Parallel()
	reqs := openLoop(100, 2*time.Millisecond)
	s, err := liar.Listen(liar.Always(liar.Head(), liar.Content("x"), liar.Rest(1)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	records := inRealTime(t, s.URL, reqs)
	base := records["p000"].Due
	for i, q := range reqs {
		rec := records[q.ID]
		if rec.Due != base+results.Stamp(i)*2*ms {
			t.Errorf("%s was due %v after the first", q.ID, time.Duration(rec.Due-base))
		}
		if rec.Sent < rec.Due {
			t.Errorf("%s was sent before it was due", q.ID)
		}
	}
}

// H117: after months of uptime stamps are still exact and positive.
func TestH117StampsAfterMonths(t *testing.T) {
	now := time.Now()
	s := &sender{client: newTestClient(now.Add(-60 * 24 * time.Hour))}
	if got := s.client.Stamp(now); got != results.Stamp(60*24*time.Hour) {
		t.Errorf("stamp %d after 60 days", got)
	}
	if got := s.client.Stamp(now.Add(-100 * 24 * time.Hour)); got < 1 {
		t.Errorf("stamp %d before the base: 0 and below mean that it did not happen", got)
	}
}

// H120: progress that cannot be written fails nothing.
func TestH120ProgressNeverFailsARun(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		p := newProgress(brokenWriter{}, terminal)
		p.say("grüße 🌍")
		p.begin(2, 2, time.Second)
		info := &results.SlotInfo{Slot: 1, Pair: 1, Arm: results.On}
		p.slotStarts(info, 1)
		p.sawToken("probe", 0.5)
		p.draw()
		p.slotEnds(info, time.Second, 8, 8, "")
		p.end()
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("code page 1252") }

// H121: what has ended is on the disk, not in memory.
func TestH121MemoryStaysBounded(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	text := strings.Repeat("a long answer ", 200) // 2.8 KB each, 4 MB in all
	reqs := openLoop(1500, 10*time.Millisecond)
	var before, after uint64
	n := 0
	dispatchTo(t, reqs, func(string, *liar.Request) []liar.Step {
		return []liar.Step{liar.Head(), liar.Content(text), liar.Rest(1)}
	}, func(*results.Record) {
		switch n++; n {
		case 300:
			before = heap()
		case 1499:
			after = heap()
		}
	})
	if grown := int64(after) - int64(before); grown > 2<<20 {
		t.Errorf("the heap grew by %d KB over 1200 answers", grown>>10)
	}
}

// H122: the harness reports what it takes itself.
func TestH122OwnMemoryIsSampled(t *testing.T) {
	d := open2(t, inMemory(t, staged(t, tiny, 4), nil))
	if len(d.Samples) == 0 {
		t.Fatal("no samples")
	}
	for _, s := range d.Samples {
		if s.Procs["harness"].RSS == 0 || s.Procs["harness"].Goroutines == 0 {
			t.Fatalf("a sample without the harness: %+v", s)
		}
	}
}

// H129: the bar belongs to a terminal.
func TestH129EscapeCodesOnATerminalOnly(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		var out bytes.Buffer
		p := newProgress(&out, terminal)
		p.begin(1, 1, time.Minute)
		info := &results.SlotInfo{Slot: 1, Pair: 1, Arm: results.On}
		p.slotStarts(info, 1)
		p.sawToken("probe", 0.61)
		p.draw()
		bar := out.String()
		p.slotEnds(info, time.Second, 8, 8, ", short TTFT 0.610 s")
		p.end()
		if strings.ContainsAny(bar, "\r\x1b") != terminal {
			t.Errorf("terminal %t: the bar is %q", terminal, bar)
		}
		if terminal && (!strings.Contains(bar, "pair 1 on") || !strings.Contains(bar, "0.61 s") || !strings.Contains(bar, "left")) {
			t.Errorf("the bar does not say pair, TTFT and time left: %q", bar)
		}
		if !terminal && strings.Count(out.String(), "\n") != 1 {
			t.Errorf("not one line a slot: %q", out.String())
		}
	}
}

// H130: a step of the wall clock is recorded and moves no duration.
func TestH130ClockSteps(t *testing.T) {
	wall := time.Date(2030, 3, 31, 1, 59, 59, 0, time.UTC)
	before := look{wall, 5 * 1e9}
	for _, row := range []struct {
		wall        time.Duration
		mono        results.Stamp
		jump, stall bool
	}{{time.Second, 6 * 1e9, false, false}, {-time.Hour + time.Second, 6 * 1e9, true, false}, {4 * time.Second, 6 * 1e9, true, false}, {6 * time.Second, 11 * 1e9, false, true}} {
		jump, stall := look{wall.Add(row.wall), row.mono}.since(before)
		if (jump != "") != row.jump || (stall != "") != row.stall {
			t.Errorf("%+v: jump %q, stall %q", row, jump, stall)
		}
	}
	now := time.Now()
	if got := newTestClient(now).Stamp(now.Add(time.Second)); got != results.Stamp(time.Second) {
		t.Errorf("stamp %d after a second", got)
	}
}

// Every class of part 1 of the field reports has a test of its name.
func TestEveryFieldReportHasItsTest(t *testing.T) {
	rows := strings.Fields(`1 2 4 5 6 8 9 10 12 13 14 16 17 18 20 21 22 24 25 26 28 29 30 32 33 34 36 37 38 40 41 42 44 45 46 48 49 50 52 53 54 56 57 58 60 61
		62 64 65 66 68 69 70 72 73 74 76 77 78 80 81 82 84 85 86 88 89 90 92 93 94 96 97 98 100 101 102 104 105 106 108 109 110 112 113 114 116 117 118 120
		121 122 124 125 126 128 129 130 132 133 134 136 137 138 140 141 142`)
	var names []string
	for _, dir := range []string{".", "client", "calibrate", "supervise", filepath.Join("..", "results")} {
		files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`func (?:Test|Benchmark)H(\d+)[A-Z]`).FindAllStringSubmatch(string(raw), -1) {
				names = append(names, m[1])
			}
		}
	}
	for _, row := range rows {
		if !slices.Contains(names, row) {
			t.Errorf("H%s has no test of its name", row)
		}
	}
}
