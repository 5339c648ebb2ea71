//go:build unix

package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestASignalEndsAnEngine: an engine that is run by hand, and the relay in front of
// it, end by the signal that they get, as any program does that knows none.
func TestASignalEndsAnEngine(t *testing.T) {
	t.Parallel()
	emulate := []string{"engine", "emulate", "--serve", "--load", "0s"}
	for name, args := range map[string][]string{
		"emulate": emulate,
		"relay":   append([]string{"engine", "relay", "--", "interlude"}, emulate...),
	} {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Args[0] = "interlude" // the word by which the test binary is the program
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		guard := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
		ready := false
		for lines := bufio.NewScanner(out); !ready && lines.Scan(); {
			ready = strings.HasPrefix(lines.Text(), "READY")
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil || !ready {
			t.Errorf("%s: ready %t, %v", name, ready, err)
		}
		if err := cmd.Wait(); err == nil || err.Error() != "signal: terminated" {
			t.Errorf("%s ended with %v", name, err)
		}
		guard.Stop()
		in.Close()
	}
}
