package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"interlude/engine/emulate"
	"interlude/harness"
	"interlude/sched/serve"
	"interlude/workloads"
)

// setup is what an engine of --engine brings along.
type setup struct {
	tokenizer string // "builtin", or the path of its model's own vocabulary
	model     string // name of the model; "" is the server's default
	files     []harness.TargetFile
}

// setUp finds what llama.cpp needs before anything is started: the program, the
// libraries and the model. Of both reserved engines the flags are checked. Other
// engines bring nothing along.
func setUp(engine, self string, speed float64) (setup, error) {
	s := setup{tokenizer: "builtin"}
	e, err := harness.ParseEngine(engine, self, speed)
	if err != nil {
		return s, err
	}
	if e.Name == "emulate" {
		if err := emulate.Check(append([]string{"--serve"}, e.Args...)); err != nil {
			return s, fmt.Errorf("--engine %q: %w (see interlude engine emulate --help)", engine, err)
		}
	}
	if e.Name != "llama" {
		return s, nil
	}
	args := withFetched(e.Args)
	model, lib := argument(args, "--model"), argument(args, "--lib")
	switch {
	case lib == "":
		return s, errors.New("the engine llama has no llama.cpp libraries: run `interlude fetch llama`, or name their directory: --engine \"llama --lib DIR\"")
	case model == "":
		return s, errors.New("the engine llama has no model: run `interlude fetch smollm2`, or name a GGUF file: --engine \"llama --model FILE\"")
	}
	program, err := llamaBinary()
	if err != nil {
		return s, err
	}
	if err := probeLlama(program, append(slices.Clone(args), "--check")...); err != nil {
		return s, fmt.Errorf("--engine %q: %w", engine, err)
	}
	s.tokenizer, s.model = model, strings.TrimSuffix(filepath.Base(model), ".gguf")
	s.files = []harness.TargetFile{{Role: "engine", Path: program}, {Role: "model", Path: model}}
	for _, name := range []string{"libllama.so", "libllama.dylib", "llama.dll"} {
		if path := filepath.Join(lib, name); isFile(path) {
			s.files = append(s.files, harness.TargetFile{Role: "library", Path: path})
		}
	}
	return s, nil
}

// argument is the value of a flag, written with one dash or two, as `--flag v` or
// `--flag=v`; "" is absent.
func argument(args []string, flag string) string {
	for i, a := range args {
		name, value, glued := strings.Cut("--"+strings.TrimLeft(a, "-"), "=")
		switch {
		case name != flag || !strings.HasPrefix(a, "-"):
		case glued:
			return value
		case i+1 < len(args):
			return args[i+1]
		}
	}
	return ""
}

// counterOf counts with the vocabulary at path and remembers where it was, so that
// the run can be judged later from its directory alone.
func counterOf(path string) (workloads.Counter, error) {
	tok, err := serve.OpenTokenizer(path)
	if err != nil {
		return workloads.Counter{}, err
	}
	if path != "" && path != "builtin" {
		if dir, err := cacheDir("vocabularies"); err == nil {
			if full, err := filepath.Abs(path); err == nil {
				_ = os.WriteFile(filepath.Join(dir, tok.Name()), []byte(full), 0o644) // a convenience: without it, checks that count say NotRun
			}
		}
	}
	return counter(tok.Name(), tok), nil
}

// counterNamed returns the counter a plan was made with, as far as its vocabulary
// is at hand; with none the audit says NotRun where it needs to count.
func counterNamed(name string) workloads.Counter {
	if c := builtinCounter(); c.Name == name {
		return c
	}
	_, c := vocabularyNamed(name)
	return c
}

// vocabularyNamed finds the vocabulary of that name where it was last seen, or among
// what was fetched; "" is nowhere.
func vocabularyNamed(name string) (path string, c workloads.Counter) {
	dir, err := cacheDir()
	if err != nil || !fs.ValidPath(name) || strings.Contains(name, "/") {
		return "", workloads.Counter{}
	}
	var paths []string
	if b, err := os.ReadFile(filepath.Join(dir, "vocabularies", name)); err == nil {
		paths = append(paths, string(b))
	}
	fetched, _ := filepath.Glob(filepath.Join(dir, "smollm2", "*.gguf"))
	for _, path := range append(paths, fetched...) {
		if tok, err := serve.OpenTokenizer(path); err == nil && tok.Name() == name {
			return path, counter(name, tok)
		}
	}
	return "", workloads.Counter{}
}

// count settles the engine's needs and the tokenizer of a run. Of a plan's requests
// the lengths are promised in the tokens that it was counted with.
func (m *measureFlags) count(o *harness.Options, engine string, speed float64, plan *workloads.Plan) error {
	s, err := setUp(engine, o.Self, speed)
	if err != nil {
		return exit{exitUsage, err}
	}
	o.Tokenizer, o.Model, o.Files = s.tokenizer, s.model, s.files
	if m.tokenizer != "" {
		o.Tokenizer = m.tokenizer
		if m.tokenizer != "builtin" {
			if o.Tokenizer, err = filepath.Abs(m.tokenizer); err != nil {
				return fmt.Errorf("--tokenizer: %w", err)
			}
		}
	}
	if o.Counter, err = counterOf(o.Tokenizer); err != nil {
		return usage("--tokenizer: %w", err)
	}
	if plan == nil || plan.Counter == o.Counter.Name {
		return nil
	}
	path, c := vocabularyNamed(plan.Counter)
	if m.tokenizer != "" || path == "" {
		return usage("the plan was counted with the vocabulary %q, not with %q: name that vocabulary with --tokenizer", plan.Counter, o.Counter.Name)
	}
	o.Tokenizer, o.Counter = path, c
	return nil
}
