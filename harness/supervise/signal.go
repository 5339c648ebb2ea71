package supervise

import (
	"fmt"
	"slices"

	"github.com/shirou/gopsutil/v4/process"
)

// Signals that Signal can send.
const (
	Kill  = "KILL" // it ends at once
	Stop  = "STOP" // it stands still
	Abort = "ABRT" // it ends itself as after a failed assertion
)

// Signal sends a signal to one live descendant of the child. A pid that is none is
// refused: whatever else runs on the machine is never touched.
func (c *Child) Signal(pid int, name string) error {
	below, err := c.Descendants()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(below, func(p Proc) bool { return p.Pid == pid })
	if i < 0 {
		return fmt.Errorf("signal %s: process %d is no descendant of ours (%v)", name, pid, below)
	}
	p := below[i].find()
	if p == nil {
		return fmt.Errorf("signal %s: %v has ended", name, below[i])
	}
	if err := send(p, name); err != nil {
		return fmt.Errorf("signal %s to %v: %w", name, below[i], err)
	}
	return nil
}

// send is what each system has for a signal.
func send(p *process.Process, name string) error {
	switch name {
	case Kill:
		return p.Kill()
	case Stop:
		return p.Suspend()
	case Abort:
		return abort(p)
	}
	return fmt.Errorf("no signal is called %q", name)
}
