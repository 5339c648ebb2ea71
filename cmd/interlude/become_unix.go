//go:build unix

package main

import (
	"fmt"
	"os"
	"syscall"
)

// become replaces this process by the program, so that the one who started us
// has the engine itself as its child: its pid, its signals, its exit code.
func become(path string, args []string) error {
	return fmt.Errorf("run %s: %w", path, syscall.Exec(path, append([]string{path}, args...), os.Environ()))
}
