package fault

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// File is the file of faults still to come. Somebody may add lines while the
// engine runs; blank lines and those that begin with # are kept. Its methods are
// not for several goroutines at once.
type File struct {
	path   string
	seen   os.FileInfo
	lines  []string
	faults []Fault // beside lines; How is "" for a line that is none
}

// Open reads the file; a line that is no fault is an error.
func Open(path string) (*File, error) {
	f := &File{path: path}
	return f, f.refresh()
}

// refresh reads the file again if it has changed.
func (f *File) refresh() error {
	info, err := os.Stat(f.path)
	if err != nil {
		f.seen, f.lines, f.faults = nil, nil, nil // it is read again when it is there again
		return fmt.Errorf("read fault file: %w", err)
	}
	if f.seen != nil && info.Size() == f.seen.Size() && info.ModTime().Equal(f.seen.ModTime()) && same(info, f.seen) {
		return nil
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("read fault file: %w", err)
	}
	f.seen, f.lines, f.faults = info, nil, nil
	var wrong []error
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		var one Fault
		if line != "" && line[0] != '#' {
			if one, err = Parse(line); err != nil {
				wrong = append(wrong, err)
			}
		}
		f.lines, f.faults = append(f.lines, line), append(f.faults, one)
	}
	return errors.Join(wrong...)
}

// same tells whether it is the file that was read. Windows would open it to tell, and
// let nobody add a fault meanwhile, which at every token is always; its times are fine
// enough without.
func same(a, b os.FileInfo) bool { return runtime.GOOS == "windows" || os.SameFile(a, b) }

// Take finds the first fault that match accepts and removes its line from the
// file, so that a reload does not strike again. A fault whose line cannot be
// removed does not strike. A nil File holds none.
func (f *File) Take(match func(*Fault) bool) (Fault, bool) {
	if f == nil {
		return Fault{}, false
	}
	_ = f.refresh() // a file that is gone, or a line that is no fault, strikes nothing
	for i := range f.faults {
		if one := f.faults[i]; one.How != "" && match(&one) {
			return one, f.remove(i) == nil
		}
	}
	return Fault{}, false
}

func (f *File) remove(i int) error {
	var b strings.Builder
	for j, line := range f.lines {
		if j != i {
			b.WriteString(line + "\n")
		}
	}
	// In place: Windows lets nobody put another file here while it is being read.
	if err := os.WriteFile(f.path, []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("rewrite fault file: %w", err)
	}
	return nil
}
