//go:build !windows

package supervise

import (
	"syscall"

	"github.com/shirou/gopsutil/v4/process"
)

func abort(p *process.Process) error { return p.SendSignal(syscall.SIGABRT) }
