//go:build unix

package supervise

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A shell that is killed leaves a child that holds its pipes: that must neither
// hang the wait nor survive it.
func TestAnOrphanNeitherHangsNorSurvives(t *testing.T) {
	c := start(t, Spec{Argv: []string{"sh", "-c", "sleep 600 & echo $!; wait"}, Pipes: true})
	sleep, err := strconv.Atoi(line(t, c))
	if err != nil {
		t.Fatal(err)
	}
	c.record(sleep)
	if err := syscall.Kill(c.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Done():
	case <-within(t, 10*time.Second).Done():
		t.Fatal("the wait hangs")
	}
	if err := c.Gone(within(t, 10*time.Second)); err != nil {
		t.Error(err)
	}
}

// An orphan that left the group, too, is found when it was seen before.
func TestGoneNamesWhatStillRuns(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("setsid is a Linux program")
	}
	c := start(t, Spec{Argv: []string{"sh", "-c", "setsid sleep 600 & echo $!; wait"}, Pipes: true,
		LogPath: filepath.Join(t.TempDir(), "log")})
	pid, err := strconv.Atoi(line(t, c))
	if err != nil {
		t.Fatal(err)
	}
	if below, err := c.Descendants(); err != nil || len(below) != 1 || below[0].Pid != pid {
		t.Fatalf("descendants %v, %v", below, err)
	}
	for ctx := within(t, 10*time.Second); ; { // setsid takes a moment to leave the group
		if group, err := syscall.Getpgid(pid); err != nil || ctx.Err() != nil {
			t.Fatalf("group of the orphan: %v, %v", err, ctx.Err())
		} else if group != c.Pid() {
			break
		}
	}
	if err := syscall.Kill(c.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if err := c.Gone(within(t, 50*time.Millisecond)); err == nil || !strings.Contains(err.Error(), strconv.Itoa(pid)) {
		t.Errorf("Gone said %v, want the pid %d", err, pid)
	}
	if err := c.Kill(); err != nil {
		t.Error(err)
	}
}
