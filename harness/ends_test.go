package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"interlude/harness/supervise"
	"interlude/results"
	"interlude/workloads"
)

// What is left when something ends at the wrong moment.

// A server that dies takes with it what its engine had started, also what has left
// its process group and has no parent any more.
func TestOrphansOfADeadServerAreEnded(t *testing.T) {
	if _, err := supervise.LookPath("setsid"); err != nil || runtime.GOOS == "windows" {
		t.Skip("needs setsid")
	}
	t.Parallel()
	o := mustTiny(t)
	note := filepath.Join(t.TempDir(), "pid")
	o.Target.Command = []string{"sh", "-c", "setsid sh -c 'echo $$ > " + note + "; exec sleep 600' & sleep 3; exit 3"}
	if _, err := AB(t.Context(), o); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatalf("error %v", err)
	}
	raw, err := os.ReadFile(note)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return
	}
	if status, err := p.Status(); err == nil && !slices.Contains(status, process.Zombie) {
		t.Errorf("process %d lives on: %v", pid, status)
		_ = p.Kill()
	}
}

// The death of a server is an event, and the run says so.
func TestDeathOfAServerIsAnEvent(t *testing.T) {
	t.Parallel()
	o := mustTiny(t)
	o.Target = &Target{Schema: 1, Name: "interlude", Command: []string{"{self}", "dying", "{port}"}, Model: "x", Metrics: "/metrics",
		Arms: map[string]Arm{results.Off: {}, results.On: {}}, Ready: Ready{Where: Where{"/health", "/loaded"}, Want: true}}
	o.Target.defaults()
	f, _ := AB(t.Context(), o)
	died := 0
	for _, e := range open2(t, f.Dir).Events {
		if e.Kind == "server_died" && e.Slot == 1 && strings.Contains(e.Text, "exit status 3") {
			died++
		}
	}
	if died != 1 {
		t.Errorf("%d such events", died)
	}
	if _, judged := verdict(t, f.Dir); judged.Findings[1].Check != "server_alive" || judged.Findings[1].Status != "fail" {
		t.Errorf("the audit begins with %+v", judged.Findings[:2])
	}
}

// Two harnesses never write one run directory; what a killed one has left behind
// stops nobody, and its slot's folder goes.
func TestOneWriterARun(t *testing.T) {
	first := staged(t, tiny, 3)
	dir := first.finished.Dir
	again := first.o
	again.Resume, again.Manifest = dir, nil
	_, err := open(t.Context(), "ab", again)
	var refused *Refused
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "is being written by process "+strconv.Itoa(os.Getpid())) {
		t.Errorf("a second writer: %v", err)
	}
	if err := Busy(dir); err == nil {
		t.Error("nobody is said to write")
	}
	if _, err := first.close(t.Context(), errors.New("the power went")); err == nil {
		t.Fatal("the reason was lost")
	}
	if err := Busy(dir); err != nil {
		t.Errorf("after its end: %v", err)
	}

	child, err := supervise.Start(supervise.Spec{Argv: []string{os.Args[0], "-test.run=^$"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	dead, err := json.Marshal(holder{child.Pid(), 1, "yesterday"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, lockFile), dead, 0o644); err != nil {
		t.Fatal(err)
	}
	left, err := os.MkdirTemp("", slotPrefix(child.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	second, err := open(t.Context(), "ab", again)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("the folder of the killed harness's slot is still there")
	}
	second.writer.Close()
	second.unlock()
}

// An engine that loads for ever says what it is at; its server does not.
func TestSilentStartShowsTheEnginesLog(t *testing.T) {
	t.Parallel()
	o := mustTiny(t)
	o.Engine, o.Speed = script(t, "echo loading shard 3 of 9 >&2; exec sleep 600"), 1
	o.Target.Ready.Within = workloads.Duration(3 * time.Second) // for a busy machine to start both
	_, err := AB(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "was not ready within 3s") || !strings.Contains(err.Error(), "engine.log ends:") || !strings.Contains(err.Error(), "\n    loading shard 3 of 9") {
		t.Errorf("error %v", err)
	}
}

// A resumed run counts what is to do, not what was done before.
func TestTimeLeftOfAResumedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newProgress(&out, false)
		p.begin(6, 4, time.Hour)
		for slot := 3; slot <= 6; slot++ {
			<-time.After(10 * time.Second)
			info := &results.SlotInfo{Slot: slot, Pair: (slot + 1) / 2, Arm: results.On}
			p.slotStarts(info, slot)
			info.Why = "the server ended; its last words:\n  a log\n  of many lines"
			p.slotEnds(info, 10*time.Second, 8, 8, "")
		}
		if strings.Contains(out.String(), "a log") {
			t.Error("a log stands among the slots")
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if !strings.Contains(lines[0], "slot 3/6") || !strings.Contains(lines[0], "about 30s left") || strings.Contains(lines[3], "left") {
			t.Errorf("%s", out.String())
		}
	})
}
