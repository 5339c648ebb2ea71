package relay

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"interlude/engine/emulate"
	"interlude/engine/enginetest"
	"interlude/sched/chat"
)

// The test binary is the relay, and the engine behind it: the stand-in, which
// leaves its pid in a file before it is one.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 {
		switch os.Args[1] {
		case "relay":
			os.Exit(Main(os.Args[3:], os.Args[2], os.Stdin, os.Stdout, os.Stderr))
		case "engine":
			if err := os.WriteFile(os.Args[2], []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
				panic(err)
			}
			outliving(os.Args[3] == "--outliving")
			args := slices.DeleteFunc(os.Args[3:], func(a string) bool { return a == "--outliving" })
			os.Exit(emulate.Main(args, os.Stdin, os.Stdout, os.Stderr))
		}
	}
	os.Exit(m.Run())
}

// patience bounds every wait for something that should come about at once.
const patience = 10 * time.Second

var standIn = []string{"--serve", "--load", "0s", "--speed", "200", "--conversation-cache-mib", "8192", "--resume-prefill", "--prefill-chunk", "256",
	"--sequences", "3", "--token-mask", "--logprobs"}

// behind is the command line of the stand-in behind the relay; note gets its pid.
func behind(t *testing.T, faults, note string, args ...string) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{exe, "relay", faults, exe, "engine", note}, args...)
}

// TestTheRelayConforms: whoever speaks to an engine through the relay sees an engine
// that keeps the whole protocol.
func TestTheRelayConforms(t *testing.T) {
	t.Parallel()
	argv := behind(t, faultsIn(t), filepath.Join(t.TempDir(), "pid"), standIn...)
	r := enginetest.Run(t.Context(), argv, enginetest.Options{Seed: 3, Fuzz: 60, Restarts: 2, Timeout: 30 * time.Second})
	if !r.Passed() || len(r.Checks) != len(enginetest.Names()) {
		t.Errorf("%d of %d checks ran, passed: %t", len(r.Checks), len(enginetest.Names()), r.Passed())
	}
	for _, c := range r.Checks {
		if c.Status != enginetest.Pass {
			t.Errorf("%s", c)
		}
	}
}

func faultsIn(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "faults")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// prompt is one of three chunks that is answered at great length.
func prompt() string {
	text := strings.Repeat("some filler that says nothing\n", 100) +
		"Words: amber birch cedar delta ember fjord grove haven inlet jetty knoll lotus maple north ocean pearl\nWrite 4000 lines by rule a."
	p, err := chat.Render(chat.Builtin(), chat.Conversation{Messages: []chat.Message{{Role: chat.User, Content: chat.Text(text)}}}, chat.Options{})
	if err != nil {
		panic(err)
	}
	ids := make([]string, len(p.IDs))
	for i, id := range p.IDs {
		ids[i] = strconv.Itoa(int(id))
	}
	return strings.Join(ids, ",")
}

// after is the prompt with its answer behind it: what the engine still has.
func after(answer []string) string {
	ids := prompt()
	for _, line := range answer {
		if id, ok := strings.CutPrefix(line, "T "); ok {
			ids += "," + id
		}
	}
	return ids
}

// play lets the relay meet every moment once, in the order of the usage, until it
// says no more: READY, idle, a GEN of three chunks, one that goes on
// where it ended and is stopped, QUIT. It returns what came.
func (p *peer) play(moment string) (got []string) {
	p.t.Helper()
	step := func(command, until string) bool {
		if command != "" {
			_, _ = io.WriteString(p.in, command+"\n")
		}
		lines, ok := p.until(until)
		got = append(got, lines...)
		return ok
	}
	if !step("", "READY") {
		return got
	}
	if moment == "idle" {
		step("", "\x00") // nobody asks for anything: only its end ends this
		return got
	}
	if !step("GEN 8 "+prompt(), "DONE") || !step("GEN 100000 "+after(got), "T ") || !step("STOP", "DONE") {
		return got
	}
	step("QUIT", "\x00")
	return got
}

// moments are those of the language, each with the beginning of the line in whose
// place its fault strikes; "": there is none.
var moments = []struct{ when, line string }{
	{"load", "INFO"}, {"idle", ""}, {"read:2", "PP"}, {"token:4", "T"}, {"done", "DONE"}, {"restored", "RESUME"}, {"stop", "DONE"}, {"quit", ""},
}

// TestEndsAtEveryMoment: each fault that ends the process, at each moment: what was
// said before stands, the line that the fault replaces does not come, the process
// ends as the fault wants, its line is gone from the file, and so is the engine.
func TestEndsAtEveryMoment(t *testing.T) {
	for _, how := range []struct{ how, end string }{
		{"exit:0", "exit status 0"}, {"exit:7", "exit status 7"}, {"half:4", "exit status 4"}, {"err:verify window timed out", "exit status 1"},
		{"signal:KILL", "signal: killed"}, {"signal:TERM", "signal: terminated"}, {"signal:ABRT", "exit status 2"}, // a Go program's own way to abort
	} {
		for _, m := range moments {
			t.Run(how.how+"@"+m.when, func(t *testing.T) {
				if strings.HasPrefix(how.how, "signal") && runtime.GOOS == "windows" {
					t.Skip("no signals here")
				}
				t.Parallel()
				p := start(t, how.how+"@"+m.when)
				got := p.play(m.when)
				if end := p.end(); end != how.end {
					t.Errorf("it ended with %q, want %q (log %s)", end, how.end, p.log.String())
				}
				last := ""
				if len(got) > 0 {
					last = got[len(got)-1]
				}
				switch {
				case strings.HasPrefix(how.how, "err"):
					if last != "ERR verify window timed out" {
						t.Errorf("its last words are %q", last)
					}
				case strings.HasPrefix(how.how, "half") && m.line != "":
					if !strings.HasPrefix(last, m.line[:1]) || !p.cut {
						t.Errorf("half a %s line is %q", m.line, last)
					}
				}
				p.passedBefore(m.when, got)
				if left, _ := os.ReadFile(p.faults); strings.TrimSpace(string(left)) != "" {
					t.Errorf("left in the file: %q", left)
				}
				p.gone()
				if !strings.Contains(p.log.String(), "[relay] ") {
					t.Errorf("nothing says who died: %q", p.log.String())
				}
			})
		}
	}
}

// passedBefore checks that everything before the moment was passed on and nothing of
// the engine after it.
func (p *peer) passedBefore(when string, got []string) {
	p.t.Helper()
	count := func(prefix string) (n int) {
		for _, line := range got {
			if strings.HasPrefix(line, prefix+" ") && !(strings.HasPrefix(prefix, "DONE") && len(strings.Fields(line)) < 10) {
				n++
			}
		}
		return n
	}
	want := map[string]map[string]int{
		"load": {"READY": 0, "RESUME": 0}, "idle": {"READY": 1, "RESUME": 0}, "read:2": {"RESUME": 1, "PP": 1, "T": 0}, "token:4": {"RESUME": 1, "T": 3, "DONE": 0},
		"done": {"RESUME": 1, "DONE": 0}, "restored": {"RESUME": 1, "DONE": 1}, "stop": {"RESUME": 2, "DONE": 1}, "quit": {"RESUME": 2, "DONE": 2},
	}[when]
	for prefix, n := range want {
		if c := count(prefix); c != n && !(c == n+1 && strings.HasPrefix(got[len(got)-1], prefix[:1])) { // half a line may be a whole one's beginning
			p.t.Errorf("%d %s lines came before %s, want %d", c, prefix, when, n)
		}
	}
}

// TestHangsAtEveryMoment: an engine that is silent, or has closed its output, is
// there and stands still; who kills the relay leaves nothing behind.
func TestHangsAtEveryMoment(t *testing.T) {
	for _, how := range []string{"silence", "close"} {
		for _, m := range moments {
			t.Run(how+"@"+m.when, func(t *testing.T) {
				t.Parallel()
				p := start(t, how+"@"+m.when)
				if how == "close" {
					p.passedBefore(m.when, p.play(m.when))
				} else {
					p.silently(m.when)
				}
				if runtime.GOOS == "linux" {
					p.eventually("the engine stopped", func() bool { return strings.Contains(p.status(), process.Stop) })
				}
				select {
				case <-p.ended:
					t.Errorf("it ended: %v (log %s)", p.err, p.log.String())
				default:
				}
				p.cmd.Process.Kill()
				p.end()
				p.gone()
			})
		}
	}
}

// silently brings a moment about and waits until its fault has been taken; then no
// line may come any more.
func (p *peer) silently(when string) {
	p.t.Helper()
	struck := func() bool {
		left, err := os.ReadFile(p.faults)
		return err == nil && strings.TrimSpace(string(left)) == ""
	}
	write := func(line string) { _, _ = io.WriteString(p.in, line+"\n") }
	switch when {
	case "load", "idle":
	case "restored", "stop", "quit":
		p.until("READY")
		write("GEN 8 " + prompt())
		got, _ := p.until("DONE")
		if when == "quit" {
			write("QUIT")
			break
		}
		write("GEN 100000 " + after(got))
		if when == "stop" {
			p.until("T ")
			write("STOP")
		}
	case "read:2", "token:4", "done":
		p.until("READY")
		write("GEN 8 " + prompt())
	}
	p.eventually("the fault of "+when+" taken", struck)
	p.eventually("the strike said", func() bool {
		return p.status() != "" && (runtime.GOOS != "linux" || strings.Contains(p.status(), process.Stop))
	})
	for len(p.lines) > 0 {
		if line := <-p.lines; when == "load" || strings.HasPrefix(line, "DONE") {
			p.t.Errorf("%q came", line)
		}
	}
}

// TestGoesOn: the faults of a single line leave the rest as it is.
func TestGoesOn(t *testing.T) {
	for _, c := range []struct {
		fault  string
		tokens int
		others int
	}{
		{"", 8, 0}, {"dup@token:4", 9, 0}, {"drop@token:4", 7, 0}, {"garbage@token:4", 8, 1}, {"slow:200ms@token:4", 8, 0}, {"deaf@stop", 8, 0},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			p := start(t, c.fault)
			began := time.Now()
			p.until("READY")
			io.WriteString(p.in, "GEN 8 "+prompt()+"\n")
			got, _ := p.until("DONE")
			tokens, others := 0, 0
			for _, line := range got {
				if strings.HasPrefix(line, "T ") && line != "T twelve" {
					tokens++
				}
				if strings.HasPrefix(line, "\x00") {
					others++
				}
			}
			if tokens != c.tokens || others != c.others {
				t.Errorf("%d tokens and %d lines of garbage, want %d and %d: %q", tokens, others, c.tokens, c.others, got)
			}
			if strings.HasPrefix(c.fault, "slow") && time.Since(began) < 200*time.Millisecond {
				t.Errorf("done after %v", time.Since(began))
			}
			length := "100000" // not over before the STOP comes, however busy the machine is
			if c.fault == "deaf@stop" {
				length = "5000"
			}
			io.WriteString(p.in, "GEN "+length+" "+prompt()+"\n")
			p.until("T ")
			io.WriteString(p.in, "STOP\n")
			end, _ := p.until("DONE")
			done := end[len(end)-1]
			if deaf := strings.Contains(done, " length "); deaf != (c.fault == "deaf@stop") {
				t.Errorf("after STOP came %q", done)
			}
			io.WriteString(p.in, "QUIT\n")
			if end := p.end(); end != "exit status 0" {
				t.Errorf("it ended with %q", end)
			}
		})
	}
}

// TestStall: the engine stands still in the middle of an answer, a STOP frees it, and
// the next GEN of the same conversation resumes where it was.
func TestStall(t *testing.T) {
	t.Parallel()
	p := start(t, "stall@token:4")
	p.until("READY")
	io.WriteString(p.in, "GEN 100000 "+prompt()+"\n")
	for range 3 {
		p.until("T ")
	}
	if runtime.GOOS == "linux" {
		p.eventually("the engine stopped", func() bool { return strings.Contains(p.status(), process.Stop) })
	}
	if len(p.lines) > 0 {
		t.Errorf("then came %q", <-p.lines)
	}
	io.WriteString(p.in, "STOP\n")
	got, _ := p.until("DONE")
	if !strings.Contains(got[len(got)-1], " cancel ") || !strings.HasPrefix(got[0], "T ") {
		t.Errorf("after the STOP came %.300q", got)
	}
	io.WriteString(p.in, "QUIT\n")
	if end := p.end(); end != "exit status 0" {
		t.Errorf("it ended with %q", end)
	}
}

// TestTheEnginesEnd: the relay ends as the engine does, also where no fault strikes.
func TestTheEnginesEnd(t *testing.T) {
	for want, args := range map[string][]string{"exit status 2": {"--nosuch"}, "exit status 0": nil} {
		p := start(t, "", args...)
		p.in.Close()
		if end := p.end(); end != want {
			t.Errorf("%v ended with %q, want %q", args, end, want)
		}
		if len(args) > 0 && !strings.Contains(p.log.String(), "nosuch") {
			t.Errorf("the engine's own words are missing: %q", p.log.String())
		}
	}
	if code := Main([]string{filepath.Join(t.TempDir(), "none")}, "", strings.NewReader(""), nopCloser{io.Discard}, io.Discard); code != 1 {
		t.Errorf("an engine that is not there ends with %d", code)
	}
	if code := Main([]string{"true"}, filepath.Join(t.TempDir(), "none"), strings.NewReader(""), nopCloser{io.Discard}, io.Discard); code != 2 {
		t.Errorf("a fault file that is not there ends with %d", code)
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// TestAClosedOutputStaysClosed: an engine that closes its own output and stays is one
// also through the relay.
func TestAClosedOutputStaysClosed(t *testing.T) {
	t.Parallel()
	p := start(t, "", "--fault-file", faultsIn(t, "close@token:4"))
	p.until("READY")
	io.WriteString(p.in, "GEN 5000 "+prompt()+"\n")
	if got, open := p.until("DONE"); open || !strings.HasPrefix(got[len(got)-1], "T ") {
		t.Errorf("its output is open: %t, the last line %q", open, got[len(got)-1])
	}
	select {
	case <-p.ended:
		t.Errorf("it ended: %v", p.err)
	default:
	}
}

// TestQuitIsOneMoment: QUIT and the end of the input behind it are one.
func TestQuitIsOneMoment(t *testing.T) {
	t.Parallel()
	p := start(t, "garbage@quit\nexit:9@quit")
	p.until("READY")
	io.WriteString(p.in, "QUIT\n")
	p.in.Close()
	if end := p.end(); end != "exit status 0" {
		t.Errorf("it ended with %q", end)
	}
	if left, err := os.ReadFile(p.faults); err != nil || string(left) != "exit:9@quit\n" {
		t.Errorf("left in the file: %q, %v", left, err)
	}
}

// TestNothingIsLeft: however the relay ends, the engine goes too, in the middle of an
// answer as well.
func TestNothingIsLeft(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(p *peer) error
		end  string
	}{
		{"killed", func(p *peer) error { return p.cmd.Process.Kill() }, "signal: killed"},
		{"terminated", func(p *peer) error { return terminate(p.cmd.Process) }, "signal: terminated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if runtime.GOOS == "windows" {
				t.Skip("no signals here")
			}
			t.Parallel()
			p := start(t, "")
			p.until("READY")
			io.WriteString(p.in, "GEN 100000 "+prompt()+"\n")
			p.until("T ")
			if p.status() == "" {
				t.Fatal("no engine is there")
			}
			if err := c.do(p); err != nil {
				t.Fatal(err)
			}
			if end := p.end(); end != c.end {
				t.Errorf("it ended with %q, want %q", end, c.end)
			}
			p.gone()
		})
	}
}
