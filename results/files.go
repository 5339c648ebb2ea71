package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// WriteJSON replaces a file of directory dir by v, indented, atomically. It
// refuses NaN and infinities.
func WriteJSON(dir, name string, v any) error {
	line, err := encode(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, line, "", "  "); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	b.WriteByte('\n')
	return WriteFile(dir, name, b.Bytes())
}

// WriteFile replaces a file of directory dir atomically: a reader sees the old
// content or the new one, whole.
func WriteFile(dir, name string, data []byte) error {
	tmp, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, named(err))
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Sync(), tmp.Close())
	if err == nil {
		err = replace(tmp.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, named(err)), os.Remove(tmp.Name()))
	}
	return nil
}

// replace renames a file over another. Windows refuses that while somebody has the
// other open, if only to read it or to look for viruses: it is tried again for a second.
func replace(from, to string) error {
	err := os.Rename(from, to)
	for pause := time.Millisecond; inUse(err) && pause < time.Second; pause *= 2 {
		time.Sleep(pause)
		err = os.Rename(from, to)
	}
	return err
}

func inUse(err error) bool {
	const windowsSharingViolation = syscall.Errno(32)
	return filepath.Separator == '\\' && (errors.Is(err, fs.ErrPermission) || errors.Is(err, windowsSharingViolation))
}

// encode is JSON without HTML escapes, without a line end.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// named puts ErrDiskFull into the chain of an error that means it.
func named(err error) error {
	const windowsDiskFull, windowsHandleDiskFull = syscall.Errno(112), syscall.Errno(39)
	var no syscall.Errno
	if errors.Is(err, syscall.ENOSPC) || errors.As(err, &no) && filepath.Separator == '\\' && (no == windowsDiskFull || no == windowsHandleDiskFull) {
		return fmt.Errorf("%w (%w): free some space; what was written before is kept", ErrDiskFull, err)
	}
	return err
}
