// Command interlude-llama is llama.cpp as an engine: it loads a model through
// llama.cpp's shared libraries and speaks the line protocol on stdin and stdout.
// It is a program of its own because the binding panics before main where libffi
// is missing; `interlude engine llama` finds it and explains that case.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"interlude/engine/llama"
)

// Exit codes: 2 for the command line, 3 for what the machine lacks, 1 for a
// failure while running.
const (
	exitRun   = 1
	exitUsage = 2
	exitSetup = 3
)

// fault is an error with its exit code and its cure.
type fault struct {
	code int
	text string
	cure string
}

func (f fault) Error() string { return f.text + "; " + f.cure }

type options struct {
	lib, model      string
	context         int
	sequences       int
	chunk           int
	cacheMiB        int
	threads         int
	gpuLayers       int
	verbose, serves bool
	checks          bool
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "interlude-llama:", err)
		var f fault
		if errors.As(err, &f) {
			os.Exit(f.code)
		}
		os.Exit(exitRun)
	}
}

func run(args []string) error {
	// Nearly all of the heap are snapshots, which are large and have no pointers:
	// collecting often is cheap, and memory stays near --conversation-cache-mib.
	debug.SetGCPercent(20)
	o, err := parse(args, os.Stderr)
	if err != nil || o.checks {
		return err
	}
	lib, opt, err := open(o)
	if err != nil {
		return err
	}
	defer lib.Close()
	return llama.New(lib, opt).Serve(os.Stdin, os.Stdout, os.Stderr)
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("interlude-llama", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&o.serves, "serve", false, "speak the engine protocol on stdin and stdout")
	f.StringVar(&o.lib, "lib", "", "`DIR` with llama.cpp's shared libraries (`interlude fetch llama` gets them)")
	f.StringVar(&o.model, "model", "", "GGUF `FILE` (`interlude fetch smollm2` gets a small one)")
	f.IntVar(&o.context, "max-context", 4096, "`tokens` of one conversation")
	f.IntVar(&o.sequences, "sequences", 2, "conversations kept side by side; memory grows with it")
	f.IntVar(&o.chunk, "prefill-chunk", 128, "`tokens` of the read grid: a stopped read keeps whole chunks")
	f.IntVar(&o.cacheMiB, "conversation-cache-mib", 1024, "RAM for conversations beyond --sequences; 0 is off")
	f.IntVar(&o.threads, "threads", max(1, runtime.NumCPU()-1), "compute threads; more than the machine's cores stalls it")
	f.IntVar(&o.gpuLayers, "gpu-layers", -1, "layers on the GPU; -1 is all of them")
	f.BoolVar(&o.verbose, "verbose", false, "write llama.cpp's own log to stderr")
	f.BoolVar(&o.checks, "check", false, "look at the flags and the head of the model, load and serve nothing")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			os.Exit(0)
		}
		return o, fault{exitUsage, err.Error(), "see `interlude engine llama --help`"}
	}
	return o, o.validate(f.Args())
}

func (o options) validate(rest []string) error {
	bad := func(flag string, value any, cure string) error {
		return fault{exitUsage, fmt.Sprintf("--%s %v cannot be", flag, value), cure}
	}
	switch cores := runtime.NumCPU(); {
	case len(rest) > 0:
		return fault{exitUsage, fmt.Sprintf("unexpected argument %q", rest[0]), "all options are flags; see --help"}
	case !o.serves && !o.checks:
		return fault{exitUsage, "nothing to do", "give --serve: this program speaks the engine protocol and nothing else"}
	case o.lib == "":
		return bad("lib", `""`, "name the directory of llama.cpp's libraries; `interlude fetch llama` gets them")
	case o.model == "":
		return bad("model", `""`, "name a GGUF file; `interlude fetch smollm2` gets a small one")
	case o.threads < 1 || o.threads > cores:
		return bad("threads", o.threads, fmt.Sprintf("give 1 to %d: llama.cpp spins at barriers, and more threads than cores slow it hundredfold", cores))
	case o.sequences < 1 || o.sequences > 64:
		return bad("sequences", o.sequences, "give 1 to 64")
	case o.chunk < 1 || o.chunk > 8192:
		return bad("prefill-chunk", o.chunk, "give 1 to 8192, best a power of two from 64 to 512")
	case o.context < 64:
		return bad("max-context", o.context, "give at least 64 tokens")
	case o.cacheMiB < 0:
		return bad("conversation-cache-mib", o.cacheMiB, "give 0 or more")
	}
	return checkModelFile(o.model)
}

// checkModelFile finds in a moment what would otherwise fail inside the library.
func checkModelFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fault{exitSetup, fmt.Sprintf("cannot open the model: %v", err), "check --model"}
	}
	defer f.Close()
	var magic [4]byte
	if _, err := io.ReadFull(f, magic[:]); err != nil || string(magic[:]) != "GGUF" {
		return fault{exitSetup, fmt.Sprintf("%s is not a GGUF file", filepath.Base(path)), "give --model a file that begins with the bytes GGUF"}
	}
	return nil
}

// libraryFile is the name under which the binding looks for a library.
func libraryFile(dir, name string) string {
	switch runtime.GOOS {
	case "windows":
		return filepath.Join(dir, name+".dll")
	case "darwin":
		return filepath.Join(dir, "lib"+name+".dylib")
	}
	return filepath.Join(dir, "lib"+name+".so")
}

// modelName is what reports show: the file's name without its ending.
func modelName(path string) string { return strings.TrimSuffix(filepath.Base(path), ".gguf") }
