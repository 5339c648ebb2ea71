//go:build windows

package supervise

import (
	"github.com/shirou/gopsutil/v4/process"
	"golang.org/x/sys/windows"
)

// abortCode is the exit code that abort() of the C runtime leaves.
const abortCode = 3

// abort ends the process as abort() would: there is no signal to send.
func abort(p *process.Process) error {
	h, err := windows.OpenProcess(windows.PROCESS_TERMINATE, false, uint32(p.Pid))
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	return windows.TerminateProcess(h, abortCode)
}
