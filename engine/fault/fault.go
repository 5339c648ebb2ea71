package fault

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Usage are the words of the language.
const Usage = `  how    exit:N          the process ends with that code
         signal:NAME     it sends itself KILL, ABRT, SEGV, TERM, INT or STOP
         silence         it says nothing more and does nothing more
         close           it closes stdout, then silence
         half[:N]        it writes half of the line, then ends with code N (1)
         garbage         a line that is no reply comes first
         dup             the line comes twice
         drop            the line does not come
         err:TEXT        "ERR TEXT" comes instead, then the process ends with 1
         slow:DURATION   the line comes that much later
         stall           it stands still until a STOP comes, then goes on
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

// Fault is one line of the fault file.
type Fault struct {
	How  string
	Code int           // exit, half: exit code
	Arg  string        // signal: name; err: text
	Late time.Duration // slow

	When string
	K    int           // read, token: which
	Idle time.Duration // idle: after how long
}

// String is the fault without its arguments but those of the moment.
func (f *Fault) String() string {
	if f.K > 0 {
		return fmt.Sprintf("%s@%s:%d", f.How, f.When, f.K)
	}
	return f.How + "@" + f.When
}

// Parse reads "how@when". The error names the part that is wrong and what it wants.
func Parse(line string) (f Fault, err error) {
	// The text of err may hold an @, the moment never does.
	at := strings.LastIndexByte(line, '@')
	if at < 0 {
		return f, fmt.Errorf("fault %q: want how@when", line)
	}
	wrong := func(part, fix string) (Fault, error) {
		return Fault{}, fmt.Errorf("fault %q: %s: want %s", line, part, fix)
	}
	how, arg, hasArg := strings.Cut(line[:at], ":")
	f.How, f.Arg = how, arg
	switch how {
	case "exit", "half":
		f.Code = 1
		if hasArg || how == "exit" {
			if f.Code, err = strconv.Atoi(arg); err != nil || f.Code < 0 || f.Code > 255 {
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
		if f.Late, err = time.ParseDuration(arg); err != nil || f.Late < 0 {
			return wrong(how, "a duration")
		}
	case "silence", "close", "garbage", "dup", "drop", "stall", "deaf":
		if hasArg {
			return wrong(how, "no argument")
		}
	default:
		return wrong("how", "exit:N, signal:NAME, silence, close, half, garbage, dup, drop, err:TEXT, slow:DURATION, stall or deaf")
	}
	when, arg, hasArg := strings.Cut(line[at+1:], ":")
	f.When = when
	switch when {
	case "read", "token":
		if f.K, err = strconv.Atoi(arg); err != nil || f.K < 1 {
			return wrong(when, "a number from 1")
		}
	case "idle":
		if hasArg {
			if f.Idle, err = time.ParseDuration(arg); err != nil || f.Idle < 0 {
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
	if f.How == "deaf" && f.When != "stop" {
		return wrong("deaf", "deaf@stop")
	}
	return f, nil
}

func knownSignal(name string) bool {
	_, ok := Signals()[name]
	return ok
}

// signalNames lists what signal: takes.
func signalNames() []string { return slices.Sorted(maps.Keys(Signals())) }
