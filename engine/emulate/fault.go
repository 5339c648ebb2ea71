package emulate

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const faultUsage = `  how    exit:N          the process ends with that code
         signal:NAME     it sends itself KILL, ABRT, SEGV, TERM, INT or STOP
         silence         it says nothing more and does nothing more
         close           it closes stdout, then silence
         half[:N]        it writes half of the line, then ends with code N (1)
         garbage         a line that is no reply comes first
         dup             the line comes twice
         drop            the line does not come
         err:TEXT        "ERR TEXT" comes instead, then the process ends with 1
         slow:DURATION   the line comes that much later
         deaf            STOP is ignored for the rest of the GEN (only with stop)
  when   load            half way through loading, before INFO
         idle[:DURATION] nothing has run for that long (0s)
         read:K          the K-th PP line of a GEN
         restored        a RESUME line with reused tokens
         token:K         the K-th T line of a GEN, from 1
         stop            the DONE line of a GEN to which a STOP came
         done            any DONE line
         quit            QUIT or the end of stdin
`

// fault is one line of the fault file.
type fault struct {
	how  string
	n    int           // exit, half: exit code
	arg  string        // signal: name; err: text
	late time.Duration // slow

	when string
	k    int           // read, token: which
	idle time.Duration // idle: after how long
}

// parseFault reads "how@when".
func parseFault(line string) (f fault, err error) {
	// The text of err may hold an @, the moment never does.
	at := strings.LastIndexByte(line, '@')
	if at < 0 {
		return f, fmt.Errorf("fault %q: want how@when", line)
	}
	wrong := func(part, fix string) (fault, error) {
		return fault{}, fmt.Errorf("fault %q: %s: want %s", line, part, fix)
	}
	how, arg, hasArg := strings.Cut(line[:at], ":")
	f.how, f.arg = how, arg
	switch how {
	case "exit", "half":
		f.n = 1
		if hasArg || how == "exit" {
			if f.n, err = strconv.Atoi(arg); err != nil || f.n < 0 || f.n > 255 {
				return wrong(how, "a code of 0 to 255")
			}
		}
	case "signal":
		if !knownSignal(arg) {
			return wrong(how, strings.Join(signalNames(), ", "))
		}
	case "err":
		if arg == "" {
			return wrong(how, "a text")
		}
	case "slow":
		if f.late, err = time.ParseDuration(arg); err != nil || f.late < 0 {
			return wrong(how, "a duration")
		}
	case "silence", "close", "garbage", "dup", "drop", "deaf":
		if hasArg {
			return wrong(how, "no argument")
		}
	default:
		return wrong("how", "exit:N, signal:NAME, silence, close, half, garbage, dup, drop, err:TEXT, slow:DURATION or deaf")
	}
	when, arg, hasArg := strings.Cut(line[at+1:], ":")
	f.when = when
	switch when {
	case "read", "token":
		if f.k, err = strconv.Atoi(arg); err != nil || f.k < 1 {
			return wrong(when, "a number from 1")
		}
	case "idle":
		if hasArg {
			if f.idle, err = time.ParseDuration(arg); err != nil || f.idle < 0 {
				return wrong(when, "a duration")
			}
		}
	case "load", "restored", "stop", "done", "quit":
		if hasArg {
			return wrong(when, "no argument")
		}
	default:
		return wrong("when", "load, idle, read:K, restored, token:K, stop, done or quit")
	}
	if f.how == "deaf" && f.when != "stop" {
		return wrong("deaf", "deaf@stop")
	}
	return f, nil
}

// faultFile is the file of faults still to come. Somebody may add lines while
// the engine runs; blank lines and those that begin with # are kept.
type faultFile struct {
	path   string
	seen   os.FileInfo
	lines  []string
	faults []fault // beside lines; how is "" for a line that is none
}

// openFaults reads the file; a line that is no fault is an error.
func openFaults(path string) (*faultFile, error) {
	f := &faultFile{path: path}
	return f, f.refresh()
}

// refresh reads the file again if it has changed.
func (f *faultFile) refresh() error {
	info, err := os.Stat(f.path)
	if err != nil {
		f.lines, f.faults = nil, nil
		return fmt.Errorf("read fault file: %w", err)
	}
	if f.seen != nil && os.SameFile(info, f.seen) && info.Size() == f.seen.Size() && info.ModTime().Equal(f.seen.ModTime()) {
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
		var one fault
		if line != "" && line[0] != '#' {
			if one, err = parseFault(line); err != nil {
				wrong = append(wrong, err)
			}
		}
		f.lines, f.faults = append(f.lines, line), append(f.faults, one)
	}
	return errors.Join(wrong...)
}

// take finds the first fault that match accepts and removes its line from the
// file, so that a reload does not strike again. A fault whose line cannot be
// removed does not strike.
func (f *faultFile) take(match func(*fault) bool) (fault, bool) {
	if f == nil {
		return fault{}, false
	}
	_ = f.refresh() // a file that is gone, or a line that is no fault, strikes nothing
	for i := range f.faults {
		if one := f.faults[i]; one.how != "" && match(&one) {
			return one, f.remove(i) == nil
		}
	}
	return fault{}, false
}

func (f *faultFile) remove(i int) error {
	var b strings.Builder
	for j, line := range f.lines {
		if j != i {
			b.WriteString(line + "\n")
		}
	}
	temp, err := os.CreateTemp(filepath.Dir(f.path), ".fault-*")
	if err != nil {
		return fmt.Errorf("rewrite fault file: %w", err)
	}
	_, err = temp.WriteString(b.String())
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), f.path)
	}
	if err != nil {
		os.Remove(temp.Name())
		return fmt.Errorf("rewrite fault file: %w", err)
	}
	return nil
}

func knownSignal(name string) bool {
	_, ok := signals()[name]
	return ok
}

// signalNames lists what signal: takes.
func signalNames() []string { return slices.Sorted(maps.Keys(signals())) }
