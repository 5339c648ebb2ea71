package supervise

import (
	"os"
	"syscall"
	"unsafe"
)

// tree is a process group, and a death signal for when we are killed.
type tree struct{ group }

func (tree) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd returns when the process has ended, and leaves it to be waited for;
// false: it could not.
func (tree) awaitEnd(p *os.Process) bool {
	const (
		idPid   = 1 // P_PID
		exited  = 4 // WEXITED
		dontGet = 0x01000000
	)
	var info [128]byte
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, idPid, uintptr(p.Pid), uintptr(unsafe.Pointer(&info)), exited|dontGet, 0, 0)
		if errno != syscall.EINTR {
			return errno == 0
		}
	}
}
