package results

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
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

// Stat says of a packed file what Open would, from its last four bytes: the length
// that it unpacks to. Whether it can be unpacked is found by those who read it.
func (u unpacking) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(u.FS, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return info, err
	}
	packed, missing := u.FS.Open(name + Packed)
	if missing != nil {
		return nil, err // of the name that was asked for
	}
	defer packed.Close()
	var size [4]byte
	end, ok := packed.(io.Seeker)
	if !ok {
		return nil, &fs.PathError{Op: "stat", Path: name + Packed, Err: errors.ErrUnsupported}
	}
	if _, err = end.Seek(-int64(len(size)), io.SeekEnd); err == nil {
		_, err = io.ReadFull(packed, size[:])
	}
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name + Packed, Err: err}
	}
	return &memory{name: name, size: int64(binary.LittleEndian.Uint32(size[:]))}, nil
}

// unpackHere puts a file of a run directory that lies there packed alone back under
// its own name, so that it can be added to.
func unpackHere(dir, name string) error {
	if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	raw, err := fs.ReadFile(Dir(dir), name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there is neither
	}
	if err == nil {
		err = WriteFile(dir, name, raw)
	}
	if err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	return os.Remove(filepath.Join(dir, name+Packed))
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
func (m *memory) Name() string               { return path.Base(m.name) }
func (m *memory) Size() int64                { return m.size }
func (m *memory) Mode() fs.FileMode          { return 0o444 }
func (m *memory) ModTime() time.Time         { return time.Time{} }
func (m *memory) IsDir() bool                { return false }
func (m *memory) Sys() any                   { return nil }
