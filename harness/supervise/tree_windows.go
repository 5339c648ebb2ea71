package supervise

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"github.com/shirou/gopsutil/v4/process"
	"golang.org/x/sys/windows"
)

// startTolerance, in ms: this system stores a start time once and tells it exactly.
const startTolerance = 0

// tree is a job object that ends with us: everything started inside it is in it,
// because the child is put there before its first instruction.
type tree struct {
	job windows.Handle
	ask ask
}

func (*tree) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP}
}

// adopt puts the suspended child into a job and lets it run.
func (t *tree) adopt(p *os.Process) error {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return fmt.Errorf("create a job object: %w", err)
	}
	t.job = job
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		return fmt.Errorf("set the job object to end with us: %w", err)
	}
	handle, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(p.Pid))
	if err != nil {
		return fmt.Errorf("open the child: %w", err)
	}
	defer windows.CloseHandle(handle)
	if err := windows.AssignProcessToJobObject(job, handle); err != nil {
		return fmt.Errorf("put the child into its job object: %w", err)
	}
	if err := t.ask.open(uint32(p.Pid)); err != nil {
		return err
	}
	return resume(uint32(p.Pid))
}

// resume lets the only thread of a suspended process run.
func resume(pid uint32) error {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return fmt.Errorf("list threads: %w", err)
	}
	defer windows.CloseHandle(snapshot)
	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(snapshot, &entry); err == nil; err = windows.Thread32Next(snapshot, &entry) {
		if entry.OwnerProcessID != pid {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return fmt.Errorf("open the child's thread: %w", err)
		}
		defer windows.CloseHandle(thread)
		if _, err := windows.ResumeThread(thread); err != nil {
			return fmt.Errorf("resume the child: %w", err)
		}
		return nil
	}
	return fmt.Errorf("find the child's thread: %w", err)
}

func (t *tree) release() {
	if t.job != 0 {
		_ = windows.CloseHandle(t.job)
	}
	t.ask.close()
}

// terminate asks a child that listens by its event alone, since whoever has been asked
// takes a break for the second signal, which ends it at once; any other with the console
// break that a Go program sees as an interrupt. Without a console nothing carries that.
func (t *tree) terminate(p *os.Process) error {
	if t.ask.send() {
		return nil
	}
	return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.Pid))
}

func (t *tree) kill(*os.Process) {
	if t.job != 0 {
		_ = windows.TerminateJobObject(t.job, 1)
	}
}

// send knows KILL alone here.
func (t *tree) send(p *os.Process, sig syscall.Signal, whole bool) error {
	if sig != syscall.SIGKILL {
		return errors.New("this system has no such signal")
	}
	if !whole {
		return p.Kill()
	}
	t.kill(p)
	return nil
}

// awaitEnd has nothing to wait for: a job is safe to end at any time.
func (*tree) awaitEnd(*os.Process) bool { return false }

// zombie: there are none, and the library knows no status here: what has a process
// entry runs.
func zombie(*process.Process) bool { return false }
