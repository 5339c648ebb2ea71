//go:build unix && !linux

package supervise

import (
	"os"
	"syscall"
)

// tree is a process group. There is no death signal: a child notices our end by
// the end of its standard input.
type tree struct{ group }

func (tree) attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitEnd cannot wait without taking the child's status.
func (tree) awaitEnd(*os.Process) bool { return false }
