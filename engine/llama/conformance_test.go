package llama_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gopsutil "github.com/shirou/gopsutil/v4/process"

	"interlude/engine"
	"interlude/engine/enginetest"
	"interlude/engine/micromodel"
	"interlude/engine/process"
	"interlude/harness/supervise"
)

// required turns a missing library into a failure: continuous integration sets it,
// so that the engine cannot go untested unnoticed.
const required = "INTERLUDE_REQUIRE_LLAMA"

// libraries is the directory of llama.cpp's libraries: INTERLUDE_LLAMA_LIB, or what
// `interlude fetch llama` left in the cache.
func libraries(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("INTERLUDE_LLAMA_LIB")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(cache, "interlude", "llama", "lib")
	}
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv(required) != "" {
			t.Fatalf("%s is set and llama.cpp is not there: %v; run `interlude fetch llama`", required, err)
		}
		t.Skipf("NOT RUN: no llama.cpp libraries in %s; `interlude fetch llama` gets them", dir)
	}
	return dir
}

// program builds interlude-llama.
func program(t testing.TB) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "interlude-llama")
	if runtime.GOOS == "windows" {
		out += ".exe"
	}
	build(t, out, "interlude/cmd/interlude-llama")
	return out
}

func build(t testing.TB, out, pkg string) {
	t.Helper()
	var said bytes.Buffer
	child, err := supervise.Start(supervise.Spec{Argv: []string{"go", "build", "-o", out, pkg},
		Env: append(os.Environ(), "CGO_ENABLED=0"), Stdout: &said, Stderr: &said})
	if err == nil {
		err = child.Wait()
	}
	if err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, said.String())
	}
}

// micro writes the generated model.
func micro(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "micro.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := micromodel.Write(f, micromodel.Micro(), 1); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestConformance runs the whole suite against the real library on the generated
// model: its weights are random, its batches, stops, snapshots and resumptions are
// those of any model.
func TestConformance(t *testing.T) {
	argv := []string{program(t), "--serve", "--lib", libraries(t), "--model", micro(t), "--threads", "1", "--max-context", "2048"}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	report := enginetest.Run(ctx, argv, enginetest.Options{LogPath: filepath.Join(t.TempDir(), "engine.log")})
	for _, c := range report.Checks {
		t.Log(c.String())
		if c.Status == enginetest.Fail {
			t.Errorf("%s failed: %s", c.Name, c.Text)
		}
	}
	if !report.Passed() {
		t.Error("the suite did not pass")
	}
}

// Each fault of the command line or the machine is one line with the cure, and its
// exit code says which of the two it is.
func TestFaultsAreOneLineWithTheCure(t *testing.T) {
	exe, lib, model := program(t), libraries(t), micro(t)
	notGGUF := filepath.Join(t.TempDir(), "x.gguf")
	if err := os.WriteFile(notGGUF, []byte("hello, world"), 0o644); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken.gguf")
	head, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(broken, head[:len(head)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no library", []string{"--lib", t.TempDir(), "--model", model}, 3, "interlude fetch llama"},
		{"no model", []string{"--lib", lib, "--model", filepath.Join(t.TempDir(), "none.gguf")}, 3, "--model"},
		{"not a model", []string{"--lib", lib, "--model", notGGUF}, 3, "GGUF"},
		{"half a model", []string{"--lib", lib, "--model", broken}, 3, "cannot load the model"},
		{"too many threads", []string{"--lib", lib, "--model", model, "--threads", "1000"}, 2, "--threads 1000"},
		{"context too small", []string{"--lib", lib, "--model", model, "--max-context", "10"}, 2, "--max-context 10"},
		{"context too large", []string{"--lib", lib, "--model", model, "--max-context", "100000"}, 2, "8192"},
		{"unknown flag", []string{"--lib", lib, "--model", model, "--no-such-flag"}, 2, "no-such-flag"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var said bytes.Buffer
			child, err := supervise.Start(supervise.Spec{Argv: append([]string{exe, "--serve"}, c.args...), Stdout: &said, Stderr: &said})
			if err != nil {
				t.Fatal(err)
			}
			err = child.Wait()
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("exit status %d", c.code)) {
				t.Errorf("ended with %v, want exit code %d", err, c.code)
			}
			lines := strings.Split(strings.TrimSpace(said.String()), "\n")
			last := lines[len(lines)-1]
			if !strings.HasPrefix(last, "interlude-llama: ") || !strings.Contains(last, c.want) {
				t.Errorf("the last line is %q, want one of ours with %q", last, c.want)
			}
		})
	}
}

// TestStartAndKill starts and kills the engine in every state and looks for what
// is left: processes, files, shared memory, descriptors, goroutines.
// INTERLUDE_CYCLES=1000 is the long form.
func TestStartAndKill(t *testing.T) {
	cycles := count(t, "INTERLUDE_CYCLES", 5)
	dir := t.TempDir()
	argv := []string{program(t), "--serve", "--lib", libraries(t), "--model", micro(t), "--threads", "1", "--max-context", "1024"}
	t.Setenv("TMPDIR", dir) // what the engine leaves anywhere, it leaves here
	draw := rand.New(rand.NewPCG(1, 1))
	began, before := time.Now(), leftovers(t, argv[0])
	states := map[string]int{}
	for i := range cycles {
		p, err := process.Start(t.Context(), process.Options{Argv: argv, Dir: dir})
		if err != nil {
			t.Fatalf("start %d: %v", i, err)
		}
		state := []string{"idle", "read", "decode"}[i%3]
		states[state]++
		if state != "idle" {
			if err := p.Write([]byte("GEN 400 " + strings.Repeat("301,", 200+draw.IntN(300)) + "300\n")); err != nil {
				t.Fatal(err)
			}
			for seen := false; !seen; {
				batch, open := <-p.Batches()
				if !open {
					t.Fatalf("cycle %d: the engine ended by itself", i)
				}
				seen = slices.ContainsFunc(batch.Replies, func(r engine.Reply) bool { return state == "read" || r.Kind == engine.ReplyToken })
				batch.Release()
			}
		}
		if err := p.Kill(); err != nil {
			t.Fatalf("kill %d: %v", i, err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%d cycles left %v, %v", cycles, left, err)
	}
	after := leftovers(t, argv[0])
	t.Logf("%d cycles in %v, killed %v; before and after: %+v, %+v", cycles, time.Since(began).Round(time.Second), states, before, after)
	if after.Processes > 0 || after.Shared > before.Shared || after.Descriptors > before.Descriptors+3 || after.Goroutines > before.Goroutines+3 {
		t.Errorf("%d cycles: %+v before, %+v after", cycles, before, after)
	}
}

// remains is what a killed engine could leave behind. Descriptors and goroutines
// are those of this process; the runtime opens a few of its own.
type remains struct{ Processes, Shared, Descriptors, Goroutines int }

func leftovers(t *testing.T, exe string) (r remains) {
	t.Helper()
	all, err := gopsutil.Processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		path, _ := p.Exe() // a zombie has none, but a parent
		parent, _ := p.Ppid()
		if strings.HasPrefix(path, exe) || int(parent) == os.Getpid() {
			r.Processes++
		}
	}
	r.Shared = unmapped(t)
	self, err := gopsutil.NewProcess(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := self.NumFDs(); err == nil { // not every system tells
		r.Descriptors = int(n)
	}
	r.Goroutines = runtime.NumGoroutine()
	return r
}

// unmapped counts the shared memory that no process uses: that of a program beside
// us is none of ours as long as it lives. Systems without /dev/shm have none.
func unmapped(t *testing.T) (n int) {
	t.Helper()
	shared, _ := filepath.Glob("/dev/shm/*")
	maps, err := filepath.Glob("/proc/[0-9]*/maps")
	if err != nil {
		t.Fatal(err)
	}
	var used strings.Builder
	for _, m := range maps {
		text, _ := os.ReadFile(m) // it may have ended, or be somebody else's
		used.Write(text)
	}
	for _, path := range shared {
		if !strings.Contains(used.String(), path+"\n") {
			n++
		}
	}
	return n
}

// count is the number in an environment variable that makes a test longer.
func count(t testing.TB, variable string, short int) int {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" {
		return short
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: give a number of 1 or more", variable, s)
	}
	return n
}
