//go:build unix

package loop

import (
	"slices"
	"syscall"
	"testing"
	"time"
)

// TestS57FrozenAndThawed: a real engine that stands still past half of its limit and
// then goes on finds the STOP; its request is parked, goes on, and says what it
// would have said undisturbed.
func TestS57FrozenAndThawed(t *testing.T) {
	t.Parallel()
	fast, _ := child(t)
	start, m := child(t, "--speed", "2") // what it makes up for after the thaw is not all there is
	m.Silence = 100 * time.Second        // at 40 times: asked to stop after 1.25 s, killed after 2.5
	long := Spec{Prompt: turn(filler(200, "a") + task("Say %d words", 300, "n1")), MaxNew: 2000}
	want, _ := undisturbed(t, fast, long)
	l := running(t, Config{Machine: m, Start: start})
	r := submit(t, l, long)
	u := until(t, r, tokens)
	pid := l.Health().Pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(patience); ; <-poll.C {
		s, err := l.Status(t.Context())
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("no stall was seen: %+v %v", s.Counters, err)
		}
		if s.Counters.Stalls == 1 {
			break
		}
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	a := collect(r)
	if got := append(u.IDs, a.ids...); a.end.Err != nil || !slices.Equal(got, want) {
		t.Errorf("%d tokens (%v), undisturbed %d", len(got), a.end.Err, len(want))
	}
	if h := l.Health(); a.end.Stats.Parks != 1 || h.Epoch != 1 {
		t.Errorf("%+v after %+v", h, a.end)
	}
}
