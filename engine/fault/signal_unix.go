//go:build unix

package fault

import (
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
)

// Signals are those a fault may raise.
func Signals() map[string]syscall.Signal {
	return map[string]syscall.Signal{"KILL": syscall.SIGKILL, "ABRT": syscall.SIGABRT, "SEGV": syscall.SIGSEGV,
		"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "STOP": syscall.SIGSTOP}
}

// Raise sends the process a signal.
func Raise(name string) error {
	debug.SetTraceback("none") // the log's last lines are the engine's, not a stack
	if err := syscall.Kill(os.Getpid(), Signals()[name]); err != nil {
		return fmt.Errorf("raise SIG%s: %w", name, err)
	}
	return nil
}
