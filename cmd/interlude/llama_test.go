package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"interlude/engine/micromodel"
)

// ownCache gives the test a cache directory of its own.
func ownCache(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir)
	t.Setenv("HOME", dir)
	t.Setenv("LocalAppData", dir)
	cache, err := cacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return cache
}

func put(t *testing.T, path string, content []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFetchedLibrariesAndModelAreTheDefault(t *testing.T) {
	cache := ownCache(t)
	if got := withFetched([]string{"--serve"}); !slices.Equal(got, []string{"--serve"}) {
		t.Errorf("with nothing fetched: %q", got)
	}
	put(t, filepath.Join(cache, "llama", "lib", "libllama.so"), nil)
	model := put(t, filepath.Join(cache, "smollm2", "small.gguf"), nil)
	got := withFetched([]string{"--serve"})
	if argument(got, "--lib") != filepath.Join(cache, "llama", "lib") || argument(got, "--model") != model {
		t.Errorf("got %q", got)
	}
	for _, given := range [][]string{{"--model", "x.gguf"}, {"--model=x.gguf"}, {"-model", "x.gguf"}} {
		got := withFetched(given)
		if argument(got, "--model") != "x.gguf" || len(got) != len(given)+2 {
			t.Errorf("given %q: %q", given, got)
		}
	}
}

func TestWhatLlamaLacksIsSaidBeforeAnythingStarts(t *testing.T) {
	cache := ownCache(t)
	if _, err := setUp("llama", "self", 1); err == nil || !strings.Contains(err.Error(), "interlude fetch llama") {
		t.Errorf("without libraries: %v", err)
	}
	put(t, filepath.Join(cache, "llama", "lib", "libllama.so"), nil)
	if _, err := setUp("llama", "self", 1); err == nil || !strings.Contains(err.Error(), "interlude fetch smollm2") {
		t.Errorf("without a model: %v", err)
	}
}

// Where libffi is missing the program panics before its main: the line that says
// so is turned into the cure.
func TestMissingLibffiIsExplained(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a shell script stands in for the program")
	}
	program := put(t, filepath.Join(t.TempDir(), "interlude-llama"), []byte("#!/bin/sh\necho 'panic: libffi.so.8: cannot open shared object file' >&2\nexit 2\n"))
	if err := probeLlama(program, "--help"); err == nil || !strings.Contains(err.Error(), "libffi8") {
		t.Errorf("got %v", err)
	}
	other := put(t, filepath.Join(t.TempDir(), "interlude-llama"), []byte("#!/bin/sh\necho 'what went wrong' >&2\nexit 7\n"))
	if err := probeLlama(other, "--help"); err == nil || !strings.Contains(err.Error(), "what went wrong") {
		t.Errorf("got %v", err)
	}
}

// An engine runs in the folder of its slot, from where no source can be seen: what
// was built for the command that started it is found there, and started as it is.
func TestLlamaIsFoundFromTheFolderOfASlot(t *testing.T) {
	if testing.Short() {
		t.Skip("builds interlude-llama")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("GOCACHE") == "" {
		t.Setenv("GOCACHE", filepath.Join(cache, "go-build")) // the toolchain's stays warm
	}
	ownCache(t)
	made, err := llamaBinary()
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(time.Minute)
	if err := os.Chtimes(made, old, old); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	found, err := llamaBinary()
	if err != nil || found != made {
		t.Fatalf("found %q, want %q: %v", found, made, err)
	}
	if info, err := os.Stat(found); err != nil || !info.ModTime().Equal(old) {
		t.Errorf("was built again: %v, %v", info.ModTime(), err)
	}
	model := put(t, filepath.Join(t.TempDir(), "m.gguf"), []byte("GGUF"))
	for flags, want := range map[string]string{
		"--thread 1": "flag provided but not defined: -thread", "--threads 4096": "--threads 4096 cannot be; give 1 to",
		"--sequences 0": "give 1 to 64", "stray": `unexpected argument "stray"`, "--threads 1": "",
	} {
		args := append(strings.Fields(flags), "--lib", t.TempDir(), "--model", model, "--check")
		if err := probeLlama(found, args...); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", flags, err, want)
		}
	}
}

// A plan that was counted with a model's vocabulary is counted with it again, from
// wherever the vocabulary was last seen; without it there is no counter.
func TestCounterIsFoundAgain(t *testing.T) {
	ownCache(t)
	var b bytes.Buffer
	if err := micromodel.Write(&b, micromodel.Micro(), 1); err != nil {
		t.Fatal(err)
	}
	path := put(t, filepath.Join(t.TempDir(), "micro.gguf"), b.Bytes())
	c, err := counterOf(path)
	if err != nil {
		t.Fatal(err)
	}
	if again := counterNamed(c.Name); again.Count == nil || again.Text("the answer is 12") != c.Text("the answer is 12") {
		t.Errorf("%q was not found again", c.Name)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if counterNamed(c.Name).Count != nil {
		t.Error("a vocabulary that is gone still counts")
	}
	if counterNamed("builtin").Count == nil || counterNamed("../../etc/passwd").Count != nil {
		t.Error("the built-in one is always there, a path is no name")
	}
}
