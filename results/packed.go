package results

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Packed is the ending of a file of a published run that travels compressed.
const Packed = ".gz"

// maxUnpacked bounds one file as unpacked, so that a small file cannot fill the memory.
const maxUnpacked = 1 << 29

// Dir is a run directory to read from. A file that is there packed alone is read
// under its own name.
func Dir(dir string) fs.FS { return unpacking{os.DirFS(dir)} }

type unpacking struct{ fs.FS }

func (u unpacking) Open(name string) (fs.File, error) {
	f, err := u.FS.Open(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	packed, missing := u.FS.Open(name + Packed)
	if missing != nil {
		return nil, err // of the name that was asked for
	}
	defer packed.Close()
	raw, err := Unpack(packed)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name + Packed, Err: err}
	}
	return &memory{Reader: bytes.NewReader(raw), name: name, size: int64(len(raw))}, nil
}

// Pack compresses raw; the same bytes give the same bytes.
func Pack(raw []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(raw)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return out.Bytes(), nil
}

// Unpack reads what Pack wrote, up to 512 MiB.
func Unpack(r io.Reader) ([]byte, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(z, maxUnpacked+1))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	if len(raw) > maxUnpacked {
		return nil, fmt.Errorf("unpack: more than %d bytes", maxUnpacked)
	}
	return raw, nil
}

// memory is a file that lies unpacked in memory.
type memory struct {
	*bytes.Reader
	name string
	size int64
}

func (m *memory) Stat() (fs.FileInfo, error) { return m, nil }
func (m *memory) Close() error               { return nil }
func (m *memory) Name() string               { return m.name }
func (m *memory) Size() int64                { return m.size }
func (m *memory) Mode() fs.FileMode          { return 0o444 }
func (m *memory) ModTime() time.Time         { return time.Time{} }
func (m *memory) IsDir() bool                { return false }
func (m *memory) Sys() any                   { return nil }
