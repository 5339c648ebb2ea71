package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"interlude/results"
)

// Stored compares what a directory already says of itself, its summary.json and
// the chain's end on its README.md, with a summary made afresh from its records.
// It is for directories that travelled: before a run is judged the first time, or
// after it was resumed, they are absent or old.
func Stored(fsys fs.FS, fresh results.Summary) []results.Finding {
	e := &evidence{}
	e.storedSummary(fsys, fresh)
	e.storedPage(fsys)
	return e.Findings
}

func (e *evidence) storedSummary(fsys fs.FS, fresh results.Summary) {
	const check = "stored_summary"
	raw, err := fs.ReadFile(fsys, results.SummaryFile)
	if errors.Is(err, fs.ErrNotExist) {
		e.notRun(check, "the directory holds no summary.json")
		return
	}
	var have, want any
	again, errAgain := json.Marshal(fresh)
	if err = errors.Join(err, errAgain); err == nil {
		err = errors.Join(json.Unmarshal(raw, &have), json.Unmarshal(again, &want))
	}
	if err != nil {
		e.fail(check, results.Invalid, nil, "", "summary.json cannot be read: %v", err)
		return
	}
	_, err = fs.Stat(fsys, results.SamplesFile)
	sampled := !errors.Is(err, fs.ErrNotExist)
	if !sampled {
		for _, v := range []any{have, want} {
			if m, ok := v.(map[string]any); ok {
				delete(m, "slopes")
				if fresh.Kind != "ab" { // of pairs no verdict rests on a slope
					delete(m, "verdict")
				}
			}
		}
	}
	if diff := differences("", have, want); len(diff) > 0 {
		e.fail(check, results.Invalid, nil, "", "summary.json does not say what the records give (or was written by another version): %s", some(diff))
		return
	}
	if !sampled {
		e.notRun(check, "without samples.jsonl no slope can be computed again, nor a verdict that rests on one; the rest of summary.json says what the records give")
		return
	}
	e.pass(check, "summary.json says what the records give")
}

// differences lists the paths at which two JSON values differ; reasons are prose
// and may be worded anew.
func differences(path string, a, b any) []string {
	x, okA := a.(map[string]any)
	y, okB := b.(map[string]any)
	if okA && okB {
		var out []string
		keys := maps.Clone(x)
		maps.Copy(keys, y)
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			if path == "" && k == "reasons" {
				continue
			}
			out = append(out, differences(path+"."+k, x[k], y[k])...)
		}
		return out
	}
	p, _ := json.Marshal(a)
	q, _ := json.Marshal(b)
	if bytes.Equal(p, q) {
		return nil
	}
	return []string{fmt.Sprintf("%s is %s, recomputed %s", path[min(1, len(path)):], p, q)}
}

// storedPage looks for the end of the chain on the page: a reader who kept the
// page, or the block in a pull request, can tell that the records were changed.
func (e *evidence) storedPage(fsys fs.FS) {
	const check = "stored_page"
	page, err := fs.ReadFile(fsys, "README.md")
	if err != nil {
		e.notRun(check, "the directory holds no README.md")
		return
	}
	data, err := results.Open(fsys)
	if err != nil {
		e.notRun(check, "%v", err)
		return
	}
	switch {
	case data.Run.Chain == "":
		e.notRun(check, "run.json holds no end of the chain")
	case !bytes.Contains(page, []byte(data.Chain)):
		e.fail(check, results.Invalid, nil, data.Chain, "README.md was made from other records: it does not name the hash of the last record, %s", data.Chain)
	default:
		e.pass(check, "README.md names the hash of the last record")
	}
}
