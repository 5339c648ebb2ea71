//go:build !unix

package fault

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Signals are those a fault may raise; here all of them end the process.
func Signals() map[string]syscall.Signal {
	return map[string]syscall.Signal{"KILL": syscall.SIGKILL, "ABRT": syscall.SIGABRT, "SEGV": syscall.SIGSEGV,
		"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "STOP": 0}
}

// Raise ends the process the only way this system knows.
func Raise(name string) error {
	if name == "STOP" {
		return errors.New("raise SIGSTOP: this system cannot stop a process; use silence")
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		return fmt.Errorf("raise SIG%s: %w", name, err)
	}
	return nil
}
