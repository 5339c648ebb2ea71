//go:build !unix

package relay

import "syscall"

// Signals that this system does not have: sending them is refused.
const (
	stopSignal = syscall.Signal(0x13)
	contSignal = syscall.Signal(0x12)
)

func endedBy(any) syscall.Signal { return 0 }

func dieBy(syscall.Signal) int { return 1 }
