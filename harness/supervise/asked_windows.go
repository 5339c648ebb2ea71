package supervise

import (
	"context"
	"fmt"

	"golang.org/x/sys/windows"
)

// ask is how a process without a console is asked to end, since a console break is
// all that this system has of signals: two events, named after the one that is asked.
type ask struct {
	end   windows.Handle // set: it shall end
	heard windows.Handle // set: it listens
}

const (
	endEvent   = "end"
	heardEvent = "heard"
)

func eventName(pid uint32, what string) (*uint16, error) {
	return windows.UTF16PtrFromString(fmt.Sprintf(`Local\interlude-%s-%d`, what, pid))
}

// open makes the events of a child that has not begun to run.
func (a *ask) open(pid uint32) error {
	for what, event := range map[string]*windows.Handle{endEvent: &a.end, heardEvent: &a.heard} {
		name, err := eventName(pid, what)
		if err == nil {
			*event, err = windows.CreateEvent(nil, 1, 0, name)
		}
		if err != nil {
			return fmt.Errorf("create the event by which it is asked to end: %w", err)
		}
	}
	return nil
}

// send asks; false: the child does not listen.
func (a *ask) send() bool {
	if windows.SetEvent(a.end) != nil {
		return false
	}
	state, err := windows.WaitForSingleObject(a.heard, 0)
	return err == nil && state == windows.WAIT_OBJECT_0
}

func (a *ask) close() {
	_ = windows.CloseHandle(a.end)
	_ = windows.CloseHandle(a.heard)
}

// Asked returns a context that ends when the one who started this process with Start
// asks it to end; ctx where nobody has.
func Asked(ctx context.Context) context.Context {
	pid := windows.GetCurrentProcessId()
	heard, err := openEvent(pid, heardEvent, windows.EVENT_MODIFY_STATE)
	if err != nil {
		return ctx
	}
	defer windows.CloseHandle(heard)
	end, err := openEvent(pid, endEvent, windows.SYNCHRONIZE)
	if err != nil || windows.SetEvent(heard) != nil {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() { // as long as the process lives
		_, _ = windows.WaitForSingleObject(end, windows.INFINITE)
		cancel()
	}()
	return ctx
}

func openEvent(pid uint32, what string, access uint32) (windows.Handle, error) {
	name, err := eventName(pid, what)
	if err != nil {
		return 0, err
	}
	return windows.OpenEvent(access, false, name)
}
