//go:build unix

package relay

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

const (
	stopSignal = syscall.SIGSTOP
	contSignal = syscall.SIGCONT
)

// endedBy is the signal that ended a process, 0 for none.
func endedBy(sys any) syscall.Signal {
	status, ok := sys.(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return 0
	}
	return status.Signal()
}

// dieBy ends this process by a signal, or returns the exit code that says so: a Go
// program answers to the others with a stack and a code of its own.
func dieBy(sig syscall.Signal) int {
	if slices.Contains([]syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}, sig) {
		signal.Reset(sig)
		if syscall.Kill(os.Getpid(), sig) == nil {
			select {} // until it arrives
		}
	}
	return 128 + int(sig)
}
