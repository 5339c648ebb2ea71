package workloads

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
	"github.com/xeipuuv/gojsonschema"
)

// Mistake is one thing wrong with a manifest or a plan.
type Mistake struct {
	Path  string // JSON path, "conversations.0.steps.2.max_tokens"
	Value string // what stands there
	Fix   string // what may stand there
}

func (f Mistake) String() string {
	if f.Value == "" {
		return f.Path + ": " + f.Fix
	}
	return fmt.Sprintf("%s: %s: %s", f.Path, f.Value, f.Fix)
}

// Mistakes is every mistake of one document.
type Mistakes struct{ List []Mistake }

func (f *Mistakes) Error() string {
	lines := make([]string, len(f.List))
	for i, one := range f.List {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

func (f *Mistakes) add(path, value, fix string, args ...any) {
	f.List = append(f.List, Mistake{path, value, fmt.Sprintf(fix, args...)})
}

// orNil keeps an empty list from becoming a non-nil error.
func (f *Mistakes) orNil() error {
	if len(f.List) == 0 {
		return nil
	}
	return f
}

// StrictJSON refuses what encoding/json and the schema library let pass in a file
// that people write: a BOM, invalid UTF-8, a key given twice, bytes after the value,
// nesting without end. A fault in the grammar is named by its line.
func StrictJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return errors.New("the file starts with a byte order mark: save it as UTF-8 without BOM")
	}
	if !utf8.Valid(data) {
		return errors.New("the file is not valid UTF-8: save it as UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := strictValue(dec, "", 0); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the JSON ends too early: the file may be cut")
		}
		return located(err, data, dec.InputOffset())
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return located(errors.New("there is text after the JSON value: remove it"), data, dec.InputOffset())
	}
	return nil
}

// deepest bounds the nesting of a document: a path is made for every level.
const deepest = 100

func strictValue(dec *json.Decoder, path string, depth int) error {
	if depth > deepest {
		return fmt.Errorf("%.40s… is nested deeper than %d levels: flatten it", path, deepest)
	}
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for i := 0; dec.More(); i++ {
		at := join(path, fmt.Sprint(i))
		if delim == '{' {
			key, err := dec.Token()
			if err != nil {
				return err
			}
			name, _ := key.(string)
			at = join(path, name)
			if seen[name] && !strings.HasPrefix(name, "//") { // a comment, where there may be one
				return fmt.Errorf("%s is given twice: keep one", at)
			}
			seen[name] = true
		}
		if err := strictValue(dec, at, depth+1); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// located adds the line of an offset to an error.
func located(err error, data []byte, offset int64) error {
	offset = min(max(offset, 0), int64(len(data)))
	return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:offset], []byte("\n")), err)
}

// decodeStrict decodes into v and refuses fields that v does not have.
func decodeStrict(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

// checkSchema validates a manifest that StrictJSON has passed.
func checkSchema(data []byte) error {
	schema, err := gojsonschema.NewSchema(gojsonschema.NewBytesLoader(schemaText))
	if err != nil {
		return fmt.Errorf("compile the manifest schema: %w", err)
	}
	result, err := schema.Validate(gojsonschema.NewBytesLoader(data))
	if err != nil {
		return fmt.Errorf("check the manifest against its schema: %w", err)
	}
	var faults Mistakes
	for _, e := range result.Errors() {
		if slices.Contains([]string{"number_one_of", "condition_then", "condition_else"}, e.Type()) {
			continue // says only that another fault exists
		}
		path, fix := e.Field(), e.Description()
		if e.Type() == "additional_property_not_allowed" {
			name := fmt.Sprint(e.Details()["property"])
			path = strings.TrimPrefix(join(strings.TrimPrefix(path, "(root)"), name), ".")
			fix = "unknown field" + nearest(name)
			faults.add(path, "", "%s", fix)
			continue
		}
		if path == "(root)" {
			path = "the document"
		}
		faults.add(path, short(e.Value()), "%s", fix)
	}
	slices.SortStableFunc(faults.List, func(a, b Mistake) int { return strings.Compare(a.Path, b.Path) })
	return faults.orNil()
}

// short prints a value for a message.
func short(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	if len(b) > 60 {
		return string(b[:57]) + "…"
	}
	return string(b)
}

// nearest suggests the manifest field that a mistyped name is closest to.
func nearest(name string) string {
	best, distance := "", 4
	for _, known := range fieldNames() {
		if d := levenshtein.ComputeDistance(name, known); d < distance {
			best, distance = known, d
		}
	}
	if best == "" {
		return ": remove it"
	}
	return fmt.Sprintf(": did you mean %q?", best)
}

// fieldNames lists every property that the schema knows.
func fieldNames() []string {
	var names []string
	var walk func(v any)
	walk = func(v any) {
		node, _ := v.(map[string]any)
		for key, child := range node {
			if props, ok := child.(map[string]any); ok && key == "properties" {
				for name := range props {
					names = append(names, name)
				}
			}
			walk(child)
		}
	}
	var doc any
	if err := json.Unmarshal(schemaText, &doc); err != nil {
		return nil
	}
	walk(doc)
	slices.Sort(names)
	return slices.Compact(names)
}
