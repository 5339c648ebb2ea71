//go:build unix

package supervise

import (
	"os"
	"slices"
	"syscall"

	"github.com/shirou/gopsutil/v4/process"
)

// startTolerance, in ms, covers how coarsely a system tells a start time: as ticks
// since a boot whose own time is rounded.
const startTolerance = 2000

// group is a process group that bears its leader's pid.
type group struct{}

func (group) adopt(*os.Process) error { return nil }

func (group) release() {}

// terminate asks the leader alone: what it started is its own to end.
func (group) terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// kill kills the whole group; nobody may have waited for the leader yet.
func (group) kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

// send signals the leader, or the whole group; nobody may have waited for the
// leader yet.
func (group) send(p *os.Process, sig syscall.Signal, whole bool) error {
	if whole {
		return syscall.Kill(-p.Pid, sig)
	}
	return syscall.Kill(p.Pid, sig)
}

// zombie tells whether a process has ended and only waits for its parent, or is
// gone meanwhile.
func zombie(p *process.Process) bool {
	status, err := p.Status()
	return err != nil || slices.Contains(status, process.Zombie)
}
