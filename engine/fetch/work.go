package fetch

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"interlude/harness/supervise"
)

// unfinished is the folder of the cache with what broke off.
const unfinished = ".unfinished"

// work is the directory in which one thing is made, by one process at a time:
//
//	for      the pin that it is made from; with another one nothing of it is used
//	lock     who works here
//	pack/    downloads whose SHA-256 is right, sources, a build: kept when it breaks off
//	whole/   what gets the final name; made anew by each start
type work string

func (w work) in(names ...string) string {
	return filepath.Join(append([]string{string(w)}, names...)...)
}

// take makes us the only one to work here, with what earlier starts kept of this pin.
func (w work) take(p pin) (release func(), err error) {
	if err := os.MkdirAll(string(w), 0o755); err != nil {
		return nil, fmt.Errorf("make the cache: %w", err)
	}
	if release, err = w.lock(); err != nil {
		return nil, err
	}
	if err := w.clear(p); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// clear leaves what an earlier start kept of this pin, and nothing else.
func (w work) clear(p pin) error {
	want := fmt.Sprintf("%s %s %s\n", p.name, p.version, p.sha256)
	if got, err := os.ReadFile(w.in("for")); err != nil || string(got) != want {
		if err := errors.Join(os.RemoveAll(w.in("for")), os.RemoveAll(w.in("pack")), os.WriteFile(w.in("for"), []byte(want), 0o644)); err != nil {
			return fmt.Errorf("clear what is left of another package: %w", err)
		}
	}
	if err := errors.Join(os.RemoveAll(w.in("whole")), os.MkdirAll(w.in("whole"), 0o755), os.MkdirAll(w.in("pack"), 0o755)); err != nil {
		return fmt.Errorf("make the cache: %w", err)
	}
	return nil
}

// lock names this process in a file; one that has ended does not count.
func (w work) lock() (release func(), err error) {
	path := w.in("lock")
	if raw, err := os.ReadFile(path); err == nil {
		var holder supervise.Proc
		if json.Unmarshal(raw, &holder) == nil && holder.Running() {
			return nil, fmt.Errorf("%v is at work in %s: wait for its end", holder, w)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("take away the lock of a start that was killed: %w", err)
		}
	}
	text, err := json.Marshal(supervise.Self())
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) // of two who come at once, one
	if err != nil {
		return nil, fmt.Errorf("lock the work in the cache: %w", err)
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("lock the work in the cache: %w", err)
	}
	return func() { _ = os.Remove(path) }, nil
}

// leave ends work that broke off. Where something is worth keeping, the error says
// so; otherwise nothing stays.
func (w work) leave(broke error) error {
	if kept, err := os.ReadDir(w.in("pack")); err == nil && len(kept) > 0 {
		return fmt.Errorf("%w\nwhat is done so far stays in %s, and the next start goes on from there; remove it to begin anew", broke, w)
	}
	return errors.Join(broke, w.remove())
}

// remove takes the directory away, and the folder around it with the last one.
func (w work) remove() error {
	if err := os.RemoveAll(string(w)); err != nil {
		return fmt.Errorf("clean up the cache: %w", err)
	}
	_ = os.Remove(filepath.Dir(string(w))) // others may be unfinished
	return nil
}
