package emulate

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"interlude/engine"
)

func faultsIn(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "faults")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func left(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// Each fault over in-memory pipes: what the client sees, and that the line is gone.
func TestFaults(t *testing.T) {
	quote := gen(50, ids("Quote: hello world"))
	for _, c := range []struct {
		fault string
		write string
		want  string // the lines after READY begin so, numbers as they are
		code  int
	}{
		{"exit:7@token:1", quote, "REUSED 0", 7},
		{"exit:7@token:3", quote, "T ", 7},
		{"half:4@done", quote, "DONE", 4},
		{"half@read:2", quote, "P", 1},
		{"err:verify window timed out@token:2", quote, "ERR verify window timed out\n", 1},
		{"exit:3@quit", quote + "QUIT\n", "DONE ", 3},
		{"exit:3@idle:10s", quote, "DONE ", 3},
	} {
		t.Run(c.fault, func(t *testing.T) {
			path := faultsIn(t, "# a comment", c.fault, "exit:9@restored")
			synctest.Test(t, func(t *testing.T) {
				s := start(t, "--fault-file", path)
				s.until(engine.ReplyReady)
				s.write("%s", c.write)
				var last stamped
				for l := range s.lines {
					last = l
				}
				if !strings.HasPrefix(last.line, c.want) {
					t.Errorf("the last line is %q, want %q", last.line, c.want)
				}
				if code := s.end(); code != c.code {
					t.Errorf("ended with %d, want %d", code, c.code)
				}
			})
			if got := left(t, path); got != "# a comment\nexit:9@restored" {
				t.Errorf("left in the file: %q", got)
			}
		})
	}
}

func TestFaultsThatGoOn(t *testing.T) {
	quote := gen(50, ids("Quote: hello world"))
	for _, c := range []struct {
		fault string
		check func(got []stamped) bool
	}{
		{"dup@token:2", func(got []stamped) bool {
			return count(got, engine.ReplyToken) == got[len(got)-1].Done.Generated+1
		}},
		{"drop@token:2", func(got []stamped) bool {
			return count(got, engine.ReplyToken) == got[len(got)-1].Done.Generated-1
		}},
		{"garbage@token:2", func(got []stamped) bool { return count(got, engine.ReplyOther) == 2 }},
		{"slow:5s@token:2", func(got []stamped) bool { return got[len(got)-1].at > 8*time.Second }},
	} {
		t.Run(c.fault, func(t *testing.T) {
			path := faultsIn(t, c.fault)
			synctest.Test(t, func(t *testing.T) {
				s := start(t, "--fault-file", path)
				s.until(engine.ReplyReady)
				s.write("%s", quote)
				if got := s.until(engine.ReplyDone); !c.check(got) {
					t.Errorf("lines %v", got)
				}
				s.end()
			})
			if left(t, path) != "" {
				t.Errorf("left in the file: %q", left(t, path))
			}
		})
	}
}

func TestDeafAndStop(t *testing.T) {
	path := faultsIn(t, "deaf@stop", "exit:5@stop")
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "--fault-file", path)
		s.until(engine.ReplyReady)
		s.write("%s", gen(200, long(0)))
		s.until(engine.ReplyToken)
		s.write("STOP\n")
		got := s.until(engine.ReplyDone)
		if got[len(got)-1].Done.Finish != engine.FinishLength {
			t.Errorf("a deaf engine ended as %q", got[len(got)-1].line)
		}
		if left(t, path) != "exit:5@stop" {
			t.Errorf("left in the file: %q", left(t, path))
		}
		s.write("%s", gen(200, long(0)))
		s.until(engine.ReplyToken)
		s.write("STOP\n")
		for l := range s.lines { // drained tokens, but no DONE
			if l.Kind == engine.ReplyDone {
				t.Error("DONE came")
			}
		}
		if code := s.end(); code != 5 {
			t.Errorf("ended with %d", code)
		}
	})
}

// TestStall: an engine that stands still says nothing for as long as no STOP comes;
// with one it goes on where it was and ends.
func TestStall(t *testing.T) {
	path := faultsIn(t, "stall@token:9")
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "--fault-file", path)
		s.until(engine.ReplyReady)
		s.write("%s", gen(200, long(0)))
		var got []stamped
		for len(got) < 8 {
			got = append(got, s.until(engine.ReplyToken)[0])
		}
		time.Sleep(time.Hour)
		if len(s.lines) > 0 {
			t.Errorf("%d lines came while it stood still", len(s.lines))
		}
		s.write("STOP\n")
		end := s.until(engine.ReplyDone)
		if d := end[len(end)-1].Done; d.Finish != engine.FinishCancel || end[0].Kind != engine.ReplyToken {
			t.Errorf("then came %v", end)
		}
		s.end()
	})
	if left(t, path) != "" {
		t.Errorf("left in the file: %q", left(t, path))
	}
}

// A line added while the engine runs strikes too, and only once over a reload.
func TestFaultAddedLater(t *testing.T) {
	path := faultsIn(t)
	synctest.Test(t, func(t *testing.T) {
		s := start(t, "--fault-file", path)
		s.until(engine.ReplyReady)
		s.write("%s", gen(2000, long(0)))
		s.until(engine.ReplyToken)
		next := path + ".new"
		if err := errors.Join(os.WriteFile(next, []byte("exit:6@token:300\n"), 0o600), os.Rename(next, path)); err != nil {
			t.Fatal(err)
		}
		n := 1
		for l := range s.lines {
			if l.Kind == engine.ReplyToken {
				n++
			}
		}
		if code := s.end(); code != 6 || n != 299 {
			t.Errorf("ended with %d after %d tokens", code, n)
		}
		again := start(t, "--fault-file", path)
		again.until(engine.ReplyReady)
		again.write("%s", gen(400, long(0)))
		again.until(engine.ReplyDone)
		if code := again.end(); code != 0 {
			t.Errorf("after a reload it ended with %d", code)
		}
	})
}

// child starts the test binary as an engine of its own.
func child(t *testing.T, args ...string) (*exec.Cmd, io.WriteCloser, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"--serve", "--load", "0s", "--speed", "100"}, args...)...)
	cmd.Env = append(os.Environ(), "EMULATE_CHILD=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
	t.Cleanup(func() {
		guard.Stop()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, in, bufio.NewReader(out)
}

func TestChildDies(t *testing.T) {
	for fault, want := range map[string]string{"exit:3@load": "exit status 3", "exit:0@token:4": "", "signal:KILL@token:4": "signal: killed",
		"signal:TERM@token:4": "signal: terminated", "half@token:4": "exit status 1"} {
		t.Run(fault, func(t *testing.T) {
			if strings.HasPrefix(fault, "signal") && runtime.GOOS == "windows" {
				t.Skip("no signals here")
			}
			path := faultsIn(t, fault)
			cmd, in, out := child(t, "--fault-file", path)
			go io.WriteString(in, gen(50, long(0)))
			all, _ := io.ReadAll(out)
			err := cmd.Wait()
			if got := errorText(err); got != want {
				t.Errorf("ended with %q, want %q; wrote %.300q", got, want, all)
			}
			whole := string(all[:bytes.LastIndexByte(all, '\n')+1])
			if n := strings.Count(whole, "\nT "); strings.HasSuffix(fault, "token:4") && n != 3 {
				t.Errorf("%d whole T lines came, want 3", n)
			}
			if left(t, path) != "" {
				t.Errorf("left in the file: %q", left(t, path))
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// An engine that goes silent neither answers nor ends until somebody kills it.
func TestChildGoesSilent(t *testing.T) {
	for _, fault := range []string{"silence@token:4", "close@token:4"} {
		path := faultsIn(t, fault)
		cmd, in, out := child(t, "--fault-file", path)
		io.WriteString(in, gen(50, long(0)))
		tokens := 0
		for tokens < 3 {
			line, err := out.ReadString('\n')
			if err != nil {
				t.Fatalf("%s: %v after %d tokens", fault, err, tokens)
			}
			if strings.HasPrefix(line, "T ") {
				tokens++
			}
		}
		if fault == "close@token:4" {
			if rest, err := out.ReadString('\n'); err == nil {
				t.Errorf("then came %q", rest)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Errorf("%s: it had ended: %v", fault, err)
		}
		if err := cmd.Wait(); errorText(err) != "signal: killed" && runtime.GOOS != "windows" {
			t.Errorf("%s: ended by itself: %v", fault, err)
		}
	}
}
