package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds nesting, so that a hostile answer cannot exhaust the stack.
const maxDepth = 200

// object is a JSON object whose order and duplicates are still visible.
type object struct {
	names   []string
	members map[string]any
}

// strictJSON reads text as exactly one JSON value and returns every way in which
// it is not one, by name: invalid_utf8, bom, fence, prose, syntax, nan,
// duplicate_key:<name>, lone_surrogate, too_deep, trailing_data, empty. White
// space around the value is JSON's own and no fault. Numbers stay text.
//
// The value is nil unless it could be read to its end, duplicates aside.
func strictJSON(text string) (any, []string) {
	if !utf8.ValidString(text) {
		return nil, []string{"invalid_utf8"}
	}
	body := strings.Trim(text, " \t\r\n")
	switch {
	case body == "":
		return nil, []string{"empty"}
	case strings.HasPrefix(body, "\uFEFF"):
		return nil, []string{"bom"}
	case strings.HasPrefix(body, "```"):
		return nil, []string{"fence"}
	case !strings.ContainsRune(`{["-0123456789tfnNI+`, rune(body[0])):
		return nil, []string{"prose"}
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	r := reader{dec: d}
	v, err := r.value(0)
	if err != nil {
		return nil, append(r.faults, syntaxFault(text, err))
	}
	rest := strings.Trim(text[d.InputOffset():], " \t\r\n")
	if rest != "" {
		r.faults = append(r.faults, "trailing_data")
	}
	if loneSurrogate(text) {
		r.faults = append(r.faults, "lone_surrogate")
	}
	return v, r.faults
}

var errTooDeep = errors.New("too deep")

type reader struct {
	dec    *json.Decoder
	faults []string
}

func (r *reader) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	t, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		return r.object(depth)
	case json.Delim('['):
		list := []any{}
		for r.dec.More() {
			v, err := r.value(depth + 1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := r.dec.Token()
		return list, err
	}
	return t, nil
}

func (r *reader) object(depth int) (any, error) {
	o := &object{members: map[string]any{}}
	for r.dec.More() {
		t, err := r.dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string)
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if _, twice := o.members[name]; twice {
			r.faults = append(r.faults, "duplicate_key:"+name)
		} else {
			o.names = append(o.names, name)
		}
		o.members[name] = v
	}
	_, err := r.dec.Token()
	return o, err
}

// syntaxFault names what stopped the decoder. The place comes from a second,
// whole reading: token by token the decoder's own offset is off by separators.
func syntaxFault(text string, err error) string {
	if errors.Is(err, errTooDeep) || strings.Contains(err.Error(), "exceeded max depth") {
		return "too_deep"
	}
	var se *json.SyntaxError
	if errors.As(json.Unmarshal([]byte(text), new(json.RawMessage)), &se) && se.Offset > 0 && int(se.Offset) <= len(text) && se.Error() != "unexpected end of JSON input" {
		at := strings.TrimLeft(text[se.Offset-1:], "-+")
		if strings.HasPrefix(at, "NaN") || strings.HasPrefix(at, "Inf") || strings.HasPrefix(at, "nan") || strings.HasPrefix(at, "inf") {
			return "nan"
		}
		return fmt.Sprintf("syntax@%d", se.Offset-1)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "cut_short"
	}
	return "syntax"
}

var escapes = regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}|.)`)

// loneSurrogate reports half a surrogate pair, which encoding/json turns into
// U+FFFD without a word.
func loneSurrogate(text string) bool {
	high := -1 // end of a high half that waits for its low half
	for _, m := range escapes.FindAllStringIndex(text, -1) {
		if text[m[0]+1] != 'u' {
			continue
		}
		v, _ := strconv.ParseUint(text[m[0]+2:m[1]], 16, 32)
		switch {
		case v >= 0xD800 && v < 0xDC00:
			if high >= 0 {
				return true
			}
			high = m[1]
		case v >= 0xDC00 && v < 0xE000:
			if high != m[0] {
				return true
			}
			high = -1
		default:
			if high >= 0 {
				return true
			}
		}
	}
	return high >= 0
}

// dig looks for a JSON value inside a wrong wrapping: a byte order mark, a code
// fence, prose around it. It answers "was the content right", never "was the
// contract kept".
func dig(text string) (any, bool) {
	text = strings.TrimPrefix(strings.Trim(text, " \t\r\n"), "\uFEFF")
	if i := strings.Index(text, "```"); i >= 0 {
		if inside := text[i+3:]; strings.Contains(inside, "```") {
			text = inside[:strings.Index(inside, "```")]
		}
	}
	start := strings.IndexAny(text, "{[")
	if start < 0 {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text[start:])))
	d.UseNumber()
	r := reader{dec: d}
	v, err := r.value(0)
	return v, err == nil
}
