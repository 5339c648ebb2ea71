package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"interlude/results"
)

// publishLimit is how many bytes a published run may have; a log, a journal or
// samples of more than packLimit travel packed (results.Packed).
const (
	publishLimit = 5 << 20
	packLimit    = 1 << 20
)

// Publish chooses what a reader of a run needs: always the plan, the records and
// what follows from them, then logs and samples while they fit into 5 MiB. hide
// lists texts that must not travel (a host name, a home directory); they are
// replaced in every file but the plan and the records, whose bytes are hashed; a
// hidden text in one of those is an error. Absolute paths lose their folders.
// at (RFC 3339) dates the entry that events.jsonl gets about what was left out.
func Publish(fsys fs.FS, hide []string, at string) (Files, error) {
	files := Files{}
	size := 0
	var missing []string
	for _, name := range []string{results.PlanFile, results.RecordsFile, results.RunFile, results.SummaryFile, results.FindingsFile, results.JudgementsFile, results.EventsFile, results.AttemptsFile, "README.md"} {
		raw, err := fs.ReadFile(fsys, name)
		if errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, name)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("publish: %w", err)
		}
		files[name] = raw
		size += len(raw)
	}
	if files[results.PlanFile] == nil || files[results.RunFile] == nil || files["README.md"] == nil {
		return nil, fmt.Errorf("publish: %s missing: run interlude audit and interlude report on the directory first", strings.Join(missing, ", "))
	}
	if size > publishLimit {
		return nil, fmt.Errorf("publish: the records and what follows from them are %d bytes, the limit is %d: a run of this size is published as a whole, by hand", size, publishLimit)
	}
	left, err := fill(fsys, files, publishLimit-size)
	if err != nil {
		return nil, err
	}
	if err := shorten(files); err != nil {
		return nil, err
	}
	if err := conceal(files, hide); err != nil {
		return nil, err
	}
	if len(left) > 0 {
		line, err := json.Marshal(results.Event{Time: at, Kind: "published", Text: "left out of the published copy: " + strings.Join(left, ", ")})
		if err != nil {
			return nil, fmt.Errorf("publish: %w", err)
		}
		files[results.EventsFile] = append(append(files[results.EventsFile], line...), '\n')
	}
	return files, packLarge(files)
}

// packLarge packs what is large and nobody reads on a page.
func packLarge(files Files) error {
	for _, name := range slices.Sorted(maps.Keys(files)) { // of now: what is packed joins them
		raw := files[name]
		if !packs(name, len(raw)) {
			continue
		}
		small, err := results.Pack(raw)
		if err != nil {
			return fmt.Errorf("publish: %s: %w", name, err)
		}
		delete(files, name)
		files[name+results.Packed] = small
	}
	return nil
}

func packs(name string, size int) bool {
	rank := telling(name)
	return size > packLimit && rank >= 1 && rank <= 3
}

// fill adds the other files, the most telling first, while they fit.
func fill(fsys fs.FS, files Files, room int) (left []string, err error) {
	type candidate struct {
		name string
		rank int
	}
	var list []candidate
	seen := map[string]bool{}
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || files[name] != nil || strings.HasPrefix(path.Base(name), ".") {
			return err
		}
		name = strings.TrimSuffix(name, results.Packed) // of a copy that is published again
		if !seen[name] {
			list, seen[name] = append(list, candidate{name, telling(name)}), true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		if a.rank != b.rank {
			return a.rank - b.rank
		}
		return strings.Compare(a.name, b.name)
	})
	for _, c := range list {
		if c.rank == never {
			left = append(left, c.name)
			continue
		}
		raw, err := fs.ReadFile(fsys, c.name)
		if err != nil {
			return nil, fmt.Errorf("publish: %w", err)
		}
		size := len(raw)
		if packs(c.name, size) {
			small, err := results.Pack(raw)
			if err != nil {
				return nil, fmt.Errorf("publish: %s: %w", c.name, err)
			}
			size = len(small)
		}
		// The entry about what is left out needs some room itself, and so does what
		// packs a little worse without its paths.
		if size > room-4096 {
			left = append(left, c.name)
			continue
		}
		files[c.name] = raw
		room -= size
	}
	return left, nil
}

// never ranks what a copy does not need.
const never = 9

func telling(name string) int {
	switch base := path.Base(name); {
	case strings.HasPrefix(name, "plots/"), base == "cells.json":
		return 0
	case base == "engine.log":
		return 1
	case strings.HasPrefix(base, "journal"):
		return 2
	case base == results.SamplesFile:
		return 3
	case base == "server.log", strings.HasSuffix(base, ".json"):
		return 4
	case strings.HasSuffix(base, "-"+results.RecordsFile): // a half pair that was run again
		return 2
	}
	return never
}

// absolute matches the folders of a path that begins at the root of a file system;
// paths of URLs begin with other names.
var absolute = regexp.MustCompile("(?:/(?:home|root|tmp|var|usr|opt|mnt|media|data|srv|work|private|Users|Volumes|Applications)(?:/+" + named + "+)*/+" +
	`|\b[A-Za-z]:(?:\\+` + named + `+)*\\+)(` + named + ")")

// named is what a name of a path is made of: nothing that ends a word, a JSON text or
// begins an escape in one.
const named = `[^\s"'<>|:;,)\\/]`

// shorten leaves of every path what it names and not where it lies, and of other
// attempts how they ended and not their logs. The bytes of plan and records are
// hashed and stay as they are.
func shorten(files Files) error {
	for name, raw := range files {
		if name != results.PlanFile && !strings.HasSuffix(name, results.RecordsFile) && !strings.HasSuffix(name, ".svg") {
			files[name] = absolute.ReplaceAll(raw, []byte("$1"))
		}
	}
	var out bytes.Buffer
	for line := range bytes.Lines(files[results.AttemptsFile]) {
		var a results.Attempt
		if err := json.Unmarshal(line, &a); err != nil {
			continue // half a line counts for nothing
		}
		a.Why = gist(a.Why)
		b, err := json.Marshal(a)
		if err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		out.Write(append(b, '\n'))
	}
	if files[results.AttemptsFile] != nil {
		files[results.AttemptsFile] = out.Bytes()
	}
	return nil
}

// conceal replaces hidden texts, longest first, so that a path inside another
// leaves nothing behind.
func conceal(files Files, hide []string) error {
	hide = slices.DeleteFunc(slices.Clone(hide), func(h string) bool { return len(h) < 3 })
	slices.SortFunc(hide, func(a, b string) int { return len(b) - len(a) })
	for _, h := range hide {
		for name, raw := range files {
			if !bytes.Contains(raw, []byte(h)) {
				continue
			}
			if name == results.PlanFile || name == results.RecordsFile {
				return fmt.Errorf("publish: %s holds %q, and its bytes are hashed: it cannot be taken out", name, h)
			}
			files[name] = bytes.ReplaceAll(raw, []byte(h), []byte("HIDDEN"))
		}
	}
	return nil
}
