package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

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
	if err := probeLlama(program); err == nil || !strings.Contains(err.Error(), "libffi8") {
		t.Errorf("got %v", err)
	}
	other := put(t, filepath.Join(t.TempDir(), "interlude-llama"), []byte("#!/bin/sh\necho 'what went wrong' >&2\nexit 7\n"))
	if err := probeLlama(other); err == nil || !strings.Contains(err.Error(), "what went wrong") {
		t.Errorf("got %v", err)
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
