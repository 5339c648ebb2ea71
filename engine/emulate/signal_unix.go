//go:build unix

package emulate

import (
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
)

// signals are those a fault may raise.
func signals() map[string]syscall.Signal {
	return map[string]syscall.Signal{"KILL": syscall.SIGKILL, "ABRT": syscall.SIGABRT, "SEGV": syscall.SIGSEGV,
		"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "STOP": syscall.SIGSTOP}
}

// raise sends the process a signal.
func raise(name string) error {
	debug.SetTraceback("none") // the log's last lines are the engine's, not a stack
	if err := syscall.Kill(os.Getpid(), signals()[name]); err != nil {
		return fmt.Errorf("raise SIG%s: %w", name, err)
	}
	return nil
}
