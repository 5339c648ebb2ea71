package loop

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"interlude/engine"
	"interlude/engine/emulate"
	"interlude/engine/process"
	"interlude/sched"
)

// TestMain lets the test binary be the engine of the tests with a real child, and
// looks for goroutines that a test has left.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[2] == "--spout" {
		spout(os.Stdin, os.Stdout)
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "--serve" {
		os.Exit(emulate.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// patience bounds what a test with a real child waits for; it asserts no time.
const patience = 10 * time.Second

// child starts the stand-in as a process, 40 times as fast as its profile.
func child(t *testing.T, flags ...string) (Starter, sched.Config) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := append([]string{exe, "--serve", "--conversation-cache-mib", "65536", "--load", "0s", "--speed", "40"}, flags...)
	m := policy(sched.Quantum)
	m.TimeScale = 40
	return StartProcess(process.Options{Argv: argv, LogPath: filepath.Join(t.TempDir(), "engine.log")}), m
}

// until waits for a state of a request, or its end.
func until(t *testing.T, r *Request, seen func(Update) bool) Update {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		u, err := r.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if u.Kind == KindEnd || seen(u) {
			return u
		}
	}
}

func tokens(u Update) bool { return u.Kind == KindTokens }

func state(s sched.State) func(Update) bool {
	return func(u Update) bool { return u.Kind == KindState && u.State == s }
}

// TestChildRestoredPrefix is the regression over real pipes.
func TestChildRestoredPrefix(t *testing.T) {
	start, m := child(t)
	l := running(t, Config{Machine: m, Start: start})
	var wait *Request
	c, cached := restored(t, l, func(*Request) {
		wait = submit(t, l, Spec{Prompt: say(3, "s"), MaxNew: 20, Priority: 9, Explicit: true})
	})
	if c.LostPrefix != 0 || cached < 60_000 {
		t.Errorf("lost %d tokens, then %d cached", c.LostPrefix, cached)
	}
	if a := collect(wait); a.end.Err != nil {
		t.Error(a.end.Err)
	}
}

// TestChildDiesInEveryState: kill -9 of a real engine; the affected requests are
// told, the waiting one brings the engine back.
func TestChildDiesInEveryState(t *testing.T) {
	for _, test := range []struct {
		name string
		seen func(Update) bool
	}{
		{"reading", func(u Update) bool { return state(sched.StateReading)(u) && u.N > 0 }},
		{"decoding", tokens},
		{"parked", state(sched.StateParked)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			start, m := child(t)
			l := running(t, Config{Machine: m, Start: start})
			if err := l.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			long := submit(t, l, Spec{Prompt: turn(filler(30_000, "a") + task("Write %d lines", 500, "n1")), MaxNew: 8000})
			var other *Request
			if test.name == "parked" {
				until(t, long, tokens)
				other = submit(t, l, Spec{Prompt: turn(filler(10_000, "b") + task("Write %d lines", 500, "n2")), MaxNew: 8000, Priority: 5, Explicit: true})
			}
			if u := until(t, long, test.seen); u.Kind == KindEnd {
				t.Fatalf("ended before it was %s: %+v", test.name, u.End)
			}
			waiting := submit(t, l, Spec{Prompt: say(3, "w"), MaxNew: 20, Priority: -5, Explicit: true})
			engine, err := os.FindProcess(l.Health().Pid)
			if err == nil {
				err = engine.Kill()
			}
			if err != nil {
				t.Fatal(err)
			}
			killed := time.Now()
			for _, r := range []*Request{long, other} {
				if r == nil {
					continue
				}
				if a := collect(r); a.end.Reason != sched.ReasonEngineDied || a.end.Err == nil {
					t.Errorf("ended %v: %v", a.end.Reason, a.end.Err)
				}
			}
			t.Logf("told after %v", time.Since(killed))
			if a := collect(waiting); a.end.Err != nil {
				t.Error(a.end.Err)
			}
			if h := l.Health(); h.Epoch != 2 {
				t.Errorf("%+v", h)
			}
		})
	}
}

// TestChildCancelsInEveryState: whoever leaves a real engine, and when, the other
// client's answer is that of its solo run.
func TestChildCancelsInEveryState(t *testing.T) {
	other := Spec{Prompt: turn(filler(2000, "o") + task("Say %d words", 40, "n3")), MaxNew: 200}
	start, m := child(t)
	want, _ := undisturbed(t, start, other)
	for _, test := range []struct {
		name string
		seen func(Update) bool
	}{
		{"queued", state(sched.StateWaiting)},
		{"reading", func(u Update) bool { return state(sched.StateReading)(u) && u.N > 0 }},
		{"decoding", tokens},
		{"parked", state(sched.StateParked)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := running(t, Config{Machine: m, Start: start})
			long := Spec{Prompt: turn(filler(30_000, "a") + task("Write %d lines", 500, "n1")), MaxNew: 8000}
			var first *Request
			if test.name == "queued" {
				first = submit(t, l, long)
			}
			victim := submit(t, l, long)
			if test.name == "parked" {
				until(t, victim, tokens)
				first = submit(t, l, Spec{Prompt: turn(filler(10_000, "b") + task("Say %d words", 100, "n2")), MaxNew: 400, Priority: 5, Explicit: true})
			}
			if u := until(t, victim, test.seen); u.Kind == KindEnd {
				t.Fatalf("ended before it was %s: %+v", test.name, u.End)
			}
			victim.Cancel()
			r := submit(t, l, other)
			if a := collect(victim); a.end.Reason != sched.ReasonCancelled {
				t.Errorf("the one that left: %+v", a.end)
			}
			if first != nil {
				if test.name == "queued" {
					until(t, first, tokens)
					first.Cancel()
				} else if a := collect(first); a.end.Err != nil {
					t.Error(a.end.Err)
				}
			}
			if ids, _ := everything(t, r); !slices.Equal(ids, want) {
				t.Error("the other client's answer differs from its solo run")
			}
		})
	}
}

// TestChildFaults: what the stand-in's fault file can do to a running request.
func TestChildFaults(t *testing.T) {
	for _, test := range []struct {
		fault string
		err   string
	}{
		{"exit:3@token:5", "exit status 3"},
		{"half@token:5", ""},
		{"garbage@token:5", ""},
		{"dup@token:5", "DONE counts"},
		{"drop@token:5", "DONE counts"},
		{"exit:1@read:1", "exit status 1"},
		{"err:out of memory@read:1", "out of memory"},
	} {
		t.Run(test.fault, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "faults")
			if err := os.WriteFile(file, []byte(test.fault+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			start, m := child(t, "--fault-file", file)
			l := running(t, Config{Machine: m, Start: start})
			s := Spec{Prompt: turn(filler(9000, "a") + task("Say %d words", 30, "n1")), MaxNew: 100}
			a := collect(submit(t, l, s))
			if a.end.Err == nil || !strings.Contains(a.end.Err.Error(), test.err) {
				t.Errorf("ended %v: %v", a.end.Reason, a.end.Err)
			}
			first, _ := everything(t, submit(t, l, s))
			again, _ := everything(t, submit(t, l, s))
			if !slices.Equal(first, again) {
				t.Error("the next requests differ")
			}
		})
	}
}

// descriptors counts the open files of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil || runtime.GOOS == "windows" { // Wine shows a descriptor of the system below for many a handle
		t.Skip("no /proc/self/fd here:", err)
	}
	return len(entries)
}

// TestThousandCancelsLeaveNothing: no goroutine, no descriptor, no request.
func TestThousandCancelsLeaveNothing(t *testing.T) {
	start, m := child(t, "--speed", "2000")
	m.Queue = 0
	l := running(t, Config{Machine: m, Start: start})
	if err := l.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	collect(submit(t, l, Spec{Prompt: say(3, "warm"), MaxNew: 20}))
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	params := engine.Params{Temperature: 1}
	for batch := range 50 {
		var all []*Request
		for i := range 20 {
			all = append(all, submit(t, l, Spec{Prompt: turn(filler(100*i, "a") + task("Write %d lines", 20, "n")), MaxNew: 400, Params: params, Priority: i % 3, Explicit: true}))
		}
		if batch%2 == 0 {
			until(t, all[2], func(Update) bool { return true })
		}
		for _, r := range all {
			r.Cancel()
		}
		for _, r := range all {
			collect(r)
		}
	}
	s, err := l.Status(t.Context())
	if err != nil || len(s.Requests) != 0 || s.Counters.Ended != 1001 || s.Waiting+s.Running+s.Parked != 0 {
		t.Errorf("%+v %v", s, err)
	}
	// Goroutines of timers and masks end on their own.
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > goroutines && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines before, %d after", goroutines, n)
	}
	if n := descriptors(t); n > files {
		t.Errorf("%d descriptors before, %d after", files, n)
	}
}
