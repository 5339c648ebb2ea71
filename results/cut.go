package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// CutSlots moves the records and samples of some slots out of the run into files
// named after tag, so that those slots can be run again from their start. Records
// may only be cut from the end, since each line carries the hash of the one before.
func (w *Writer) CutSlots(slots map[int]bool, tag string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept, err := w.cut(RecordsFile, slots, tag, true)
	if err != nil {
		return err
	}
	if _, err := w.cut(SamplesFile, slots, tag, false); err != nil {
		return err
	}
	w.records = 0
	if w.last, err = w.planHash(); err != nil {
		return err
	}
	for line := range bytes.Lines(kept) {
		w.last = HashLine(bytes.TrimSuffix(line, []byte("\n")))
		w.records++
	}
	return nil
}

// cut rewrites one file without the lines of slots and returns what stays.
func (w *Writer) cut(name string, slots map[int]bool, tag string, tailOnly bool) ([]byte, error) {
	raw, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cut %s: %w", name, err)
	}
	var stay, gone []byte
	for line := range bytes.Lines(raw) {
		var of struct {
			Slot int `json:"slot"`
		}
		if err := json.Unmarshal(line, &of); err != nil {
			return nil, fmt.Errorf("cut %s: %w", name, err)
		}
		switch {
		case slots[of.Slot]:
			gone = append(gone, line...)
		case tailOnly && len(gone) > 0:
			return nil, fmt.Errorf("cut %s: slot %d stands behind the slots that are run again; start a new run", name, of.Slot)
		default:
			stay = append(stay, line...)
		}
	}
	if len(gone) == 0 {
		return stay, nil
	}
	if err := w.WriteFile(tag+"-"+name, gone); err != nil {
		return nil, err
	}
	if f := w.files[name]; f != nil {
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("cut %s: %w", name, err)
		}
	}
	if err := w.WriteFile(name, stay); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(w.dir, name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, named(err))
	}
	w.files[name] = f
	return stay, nil
}
