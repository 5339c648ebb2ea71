package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"interlude/harness/supervise"
)

// lockFile says in a run directory which process writes it. It is there only as
// long as that process lives, or until somebody finds that it was killed.
const lockFile = "writing.json"

// holder is the process that writes a run directory.
type holder struct {
	Pid   int    `json:"pid"`
	Start int64  `json:"start_unix_ms"` // of the process: a pid alone may be somebody else's by now
	Since string `json:"since"`
}

func (h holder) String() string { return fmt.Sprintf("process %d since %s", h.Pid, h.Since) }

// Busy says who writes a run directory now; nil when nobody does.
func Busy(dir string) error {
	h, err := readLock(dir)
	switch {
	case err == nil && h.running():
		return fmt.Errorf("%s is being written by %v: wait for its end", dir, h)
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("find out who writes %s: %w: remove its %s if nobody does", dir, err, lockFile)
}

func (h holder) running() bool { return supervise.Proc{Pid: h.Pid, Start: h.Start}.Running() }

func readLock(dir string) (h holder, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, lockFile))
	if err == nil {
		err = json.Unmarshal(raw, &h)
	}
	return h, err
}

// takeLock makes us the only writer of a run directory until release is called.
// What a killed writer has left is taken away: its lock, and its slot's folder.
func takeLock(dir string) (release func(), err error) {
	if err := Busy(dir); err != nil {
		return nil, &Refused{err}
	}
	path := filepath.Join(dir, lockFile)
	if dead, err := readLock(dir); err == nil {
		sweep(dead.Pid)
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("take away the lock of a killed harness: %w", err)
		}
	}
	self := supervise.Self()
	text, err := json.Marshal(holder{self.Pid, self.Start, wallClock(time.Now())})
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) // of two who come at once, one
	if err != nil {
		return nil, fmt.Errorf("lock the run directory: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("lock the run directory: %w", err)
	}
	return func() { _ = os.Remove(path) }, nil
}

// slotPrefix begins the name of a slot's folder. It holds our pid, so that what a
// killed harness leaves is known as its own.
func slotPrefix(pid int) string { return fmt.Sprintf("interlude-slot-%d-", pid) }

// sweep removes the folders of slots of a harness that was killed.
func sweep(pid int) {
	if pid == os.Getpid() {
		return
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), slotPrefix(pid)+"*"))
	if err != nil {
		return
	}
	for _, dir := range left {
		_ = os.RemoveAll(dir)
	}
}
