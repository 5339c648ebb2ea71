package relay

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// peer is a relay that runs, and what it says.
type peer struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string // without LF; closed at the end of its output
	cut    bool        // once lines is closed: the last one had no LF
	log    strings.Builder
	ended  chan struct{}
	err    error // once ended is closed
	note   string
	faults string
}

func start(t *testing.T, fault string, args ...string) *peer {
	t.Helper()
	p := &peer{t: t, lines: make(chan string, 1<<14), ended: make(chan struct{}), note: filepath.Join(t.TempDir(), "pid"), faults: faultsIn(t, fault)}
	argv := behind(t, p.faults, p.note, append(args, standIn...)...)
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Stderr = &p.log
	p.cmd.WaitDelay = patience
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout = w
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	go func() {
		defer r.Close()
		defer close(p.lines)
		in := bufio.NewReader(r)
		for {
			line, err := in.ReadString('\n')
			if line != "" {
				p.cut = !strings.HasSuffix(line, "\n")
				p.lines <- strings.TrimSuffix(line, "\n")
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.ended
		p.gone()
	})
	return p
}

// until returns the lines up to the first that begins so, or to the end (ok false).
func (p *peer) until(prefix string) (got []string, ok bool) {
	p.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		select {
		case line, open := <-p.lines:
			if !open {
				return got, false
			}
			if got = append(got, line); strings.HasPrefix(line, prefix) {
				return got, true
			}
		case <-limit.C:
			p.t.Fatalf("no %q came within %v, only %.500q; log %s", prefix, patience, got, p.log.String())
		}
	}
}

// enginePid is the pid of the engine behind, 0 if it never came up.
func (p *peer) enginePid() int {
	raw, err := os.ReadFile(p.note)
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(string(raw))
	return pid
}

// status is the engine's state in the words of gopsutil; "" for none.
func (p *peer) status() string {
	live, err := process.NewProcess(int32(p.enginePid()))
	if err != nil {
		return ""
	}
	if runtime.GOOS == "windows" {
		return "there" // no more is told of it
	}
	status, err := live.Status()
	if err != nil || slices.Contains(status, process.Zombie) {
		return ""
	}
	return strings.Join(status, ",")
}

// eventually polls for a state that can be observed.
func (p *peer) eventually(what string, ok func() bool) {
	p.t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-poll.C {
		if time.Now().After(deadline) {
			p.t.Errorf("never seen: %s (log %s)", what, p.log.String())
			return
		}
	}
}

// gone waits until no engine is left.
func (p *peer) gone() {
	p.t.Helper()
	p.eventually("the engine gone", func() bool { return p.status() == "" })
}

// end waits for the relay's end and says how it ended.
func (p *peer) end() string {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("the relay still runs after %v; log %s", patience, p.log.String())
	}
	if p.err == nil {
		return "exit status 0"
	}
	return p.err.Error()
}
