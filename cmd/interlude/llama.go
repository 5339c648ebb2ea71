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
	"time"

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
			if err := probeLlama(path, "--help"); err != nil {
				return exit{3, err}
			}
			return become(path, withFetched(args))
		},
	}
}

// llamaBinary finds or makes the program: the one beside this binary, or one built
// from the source that this binary was built from. An engine runs in the folder of
// its slot or its config; there the one made for its caller is taken as it is, unless
// this binary is newer.
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
	root := ownSource()
	if root == "" {
		return "", fmt.Errorf("no %s beside %s and no source to build it from: build it with `go build ./cmd/%s` and put it there", name, filepath.Base(self), llamaProgram)
	}
	cache, err := cacheDir("bin")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(root)) // tells checkouts apart
	built := filepath.Join(cache, hex.EncodeToString(sum[:4])+"-"+name)
	here, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	if rel, err := filepath.Rel(root, here); (err != nil || !filepath.IsLocal(rel)) && newer(built, self) {
		return built, nil
	}
	return built, buildLlama(root, built)
}

// ownSource is the directory with our go.mod that this binary was built from; "" where
// it is gone, or was left out of the binary (-trimpath).
func ownSource() string {
	_, file, _, _ := runtime.Caller(0)
	for dir := filepath.Dir(file); filepath.IsAbs(dir); dir = filepath.Dir(dir) {
		b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(b, []byte("module interlude\n")) {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return ""
}

// newer tells whether a file is there and not older than another.
func newer(path, than string) bool {
	a, err := os.Stat(path)
	b, other := os.Stat(than)
	return err == nil && other == nil && !a.ModTime().Before(b.ModTime())
}

// buildLlama builds the program from the source at root. The toolchain's own cache
// makes a second build a matter of moments, after which the program counts as new.
func buildLlama(root, out string) error {
	if !isFile(out) {
		fmt.Fprintf(os.Stderr, "building %s, once for this source\n", llamaProgram)
	}
	var said bytes.Buffer
	env := append(os.Environ(), "CGO_ENABLED=0")
	child, err := supervise.Start(supervise.Spec{Argv: []string{"go", "build", "-o", out, "./cmd/" + llamaProgram}, Dir: root, Env: env, Stdout: &said, Stderr: &said})
	if err == nil {
		err = child.Wait()
	}
	if err != nil {
		return fmt.Errorf("build %s: %w\n%s", llamaProgram, err, said.String())
	}
	now := time.Now()
	return os.Chtimes(out, now, now)
}

// probeLlama runs the program once, for its help or to have its flags looked at:
// where libffi is missing it panics before its main, and only from outside can that
// be explained.
func probeLlama(path string, args ...string) error {
	var said bytes.Buffer
	child, err := supervise.Start(supervise.Spec{Argv: append([]string{path}, args...), Stdout: &said, Stderr: &said})
	if err == nil {
		err = child.Wait()
	}
	if err == nil {
		return nil
	}
	if strings.Contains(said.String(), "libffi") {
		return fmt.Errorf("%s needs the system library libffi: install it (Debian: libffi8, Fedora: libffi, macOS and Windows bring it)", llamaProgram)
	}
	if _, own, ok := strings.Cut("\n"+said.String(), "\n"+llamaProgram+": "); ok {
		return errors.New(firstLine(own))
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
