package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"interlude/harness/supervise"
)

const llamaProgram = "interlude-llama"

func newLlama() *cobra.Command {
	return &cobra.Command{
		Use:   "llama --serve [--lib DIR] [--model FILE] [flags]",
		Short: "llama.cpp as an engine, on any GGUF model",
		Long: `Runs interlude-llama, a program of its own: the one beside this binary, or one
built now where the source is at hand. Without --lib and --model it takes what
'interlude fetch llama' and 'interlude fetch smollm2' put into the cache.`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := llamaBinary()
			if err != nil {
				return exit{3, err}
			}
			if err := probeLlama(path); err != nil {
				return exit{3, err}
			}
			return become(path, withFetched(args))
		},
	}
}

// llamaBinary finds or makes the program.
func llamaBinary() (string, error) {
	name := llamaProgram
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find own binary: %w", err)
	}
	if sibling := filepath.Join(filepath.Dir(self), name); isFile(sibling) {
		return sibling, nil
	}
	root, err := sourceRoot()
	if err != nil {
		return "", fmt.Errorf("no %s beside %s and no source to build it from: build it with `go build ./cmd/%s` and put it there", name, filepath.Base(self), llamaProgram)
	}
	return buildLlama(root, name)
}

// sourceRoot is the nearest directory upwards that holds our go.mod.
func sourceRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(b, []byte("module interlude\n")) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("not inside the source tree")
		}
		dir = parent
	}
}

// buildLlama builds into the user's cache, under a name that tells checkouts
// apart. The toolchain's own cache makes a second build a matter of moments.
func buildLlama(root, name string) (string, error) {
	cache, err := cacheDir("bin")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(root))
	out := filepath.Join(cache, hex.EncodeToString(sum[:4])+"-"+name)
	var said bytes.Buffer
	env := append(os.Environ(), "CGO_ENABLED=0")
	child, err := supervise.Start(supervise.Spec{Argv: []string{"go", "build", "-o", out, "./cmd/" + llamaProgram}, Dir: root, Env: env, Stdout: &said, Stderr: &said})
	if err == nil {
		err = child.Wait()
	}
	if err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", llamaProgram, err, said.String())
	}
	return out, nil
}

// probeLlama runs the program once for its help: where libffi is missing it
// panics before its main, and only from outside can that be explained.
func probeLlama(path string) error {
	var said bytes.Buffer
	child, err := supervise.Start(supervise.Spec{Argv: []string{path, "--help"}, Stdout: &said, Stderr: &said})
	if err == nil {
		err = child.Wait()
	}
	if err == nil {
		return nil
	}
	if strings.Contains(said.String(), "libffi") {
		return fmt.Errorf("%s needs the system library libffi: install it (Debian: libffi8, Fedora: libffi, macOS and Windows bring it)", llamaProgram)
	}
	return fmt.Errorf("%s does not start: %w: %s", llamaProgram, err, firstLine(said.String()))
}

// withFetched adds --lib and --model from the cache where they are not given.
func withFetched(args []string) []string {
	for _, f := range []struct{ flag, glob string }{{"--lib", filepath.Join("llama", "lib")}, {"--model", filepath.Join("smollm2", "*.gguf")}} {
		given := slices.ContainsFunc(args, func(a string) bool {
			name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
			return "--"+name == f.flag
		})
		if given {
			continue
		}
		dir, err := cacheDir()
		if err != nil {
			continue
		}
		if found, _ := filepath.Glob(filepath.Join(dir, f.glob)); len(found) > 0 {
			args = append(args, f.flag, found[0])
		}
	}
	return args
}

// cacheDir is a directory of ours below the user's cache, made if need be.
func cacheDir(elem ...string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache directory: %w", err)
	}
	dir := filepath.Join(append([]string{base, "interlude"}, elem...)...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache directory: %w", err)
	}
	return dir, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
