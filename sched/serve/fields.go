package serve

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// fields reads the members of one JSON object. For every optional member null is
// the same as absent. Faults are collected with the path of the member, so that a
// request is refused for its first and a config shows all of them.
type fields struct {
	obj    map[string]json.RawMessage
	path   string // "" or "messages[3]."
	faults *[]*fault
}

// decodeObject reads one JSON object and nothing behind it.
func decodeObject(b []byte) (fields, *fault) {
	f := fields{faults: new([]*fault)}
	if fault := scan(b); fault != nil {
		return f, fault
	}
	notJSON := &fault{status: 400, kind: kindInvalid, code: "invalid_json"}
	if err := json.Unmarshal(b, &f.obj); err != nil {
		notJSON.message = "the body must be one JSON object"
		if e, ok := err.(*json.SyntaxError); ok {
			notJSON.message = "the body is not JSON: the fault is at byte " + strconv.FormatInt(e.Offset, 10)
		}
		return f, notJSON
	}
	if f.obj == nil {
		notJSON.message = "the body must be one JSON object, not null"
		return f, notJSON
	}
	return f, nil
}

// first is the fault to answer with, or nil.
func (f fields) first() *fault {
	if len(*f.faults) == 0 {
		return nil
	}
	return (*f.faults)[0]
}

func (f fields) refuse(name, format string, args ...any) {
	*f.faults = append(*f.faults, invalid(f.path+name, format, args...))
}

// raw is a member that is there and not null.
func (f fields) raw(name string) (json.RawMessage, bool) {
	v, ok := f.obj[name]
	if !ok || len(v) == 0 || v[0] == 'n' {
		return nil, false
	}
	return v, true
}

func (f fields) has(name string) bool { _, ok := f.raw(name); return ok }

// either is the one of two names that is there; the first if both are.
func (f fields) either(name, other string) string {
	if !f.has(name) && f.has(other) {
		return other
	}
	return name
}

func (f fields) str(name string) (string, bool) {
	v, ok := f.raw(name)
	if !ok {
		return "", false
	}
	var s string
	if v[0] != '"' || json.Unmarshal(v, &s) != nil {
		f.refuse(name, "must be a string")
		return "", false
	}
	return s, true
}

func (f fields) boolean(name string) (value, ok bool) {
	v, ok := f.raw(name)
	if !ok {
		return false, false
	}
	switch string(v) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	f.refuse(name, "must be true or false")
	return false, false
}

// integer takes digits alone: 1e3, 1.5, "10" and true are no integers.
func (f fields) integer(name string, least, most int64) (int64, bool) {
	v, ok := f.raw(name)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n < least || n > most {
		f.refuse(name, "must be an integer from %d to %d", least, most)
		return 0, false
	}
	return n, true
}

func (f fields) number(name string, least, most float64) (float64, bool) {
	v, ok := f.raw(name)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(v), 64)
	if err != nil || !(n >= least && n <= most) || !isDigit(v[0]) && v[0] != '-' {
		f.refuse(name, "must be a number from %v to %v", least, most)
		return 0, false
	}
	return n, true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func (f fields) list(name string) ([]json.RawMessage, bool) {
	v, ok := f.raw(name)
	if !ok {
		return nil, false
	}
	var all []json.RawMessage
	if v[0] != '[' || json.Unmarshal(v, &all) != nil {
		f.refuse(name, "must be an array")
		return nil, false
	}
	return all, true
}

func (f fields) strings(name string) ([]string, bool) {
	all, ok := f.list(name)
	if !ok {
		return nil, false
	}
	out := make([]string, 0, len(all))
	for i, v := range all {
		var s string
		if v[0] != '"' || json.Unmarshal(v, &s) != nil {
			f.refuse(name+index(i), "must be a string")
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

// object is a member that is an object; its faults carry its path.
func (f fields) object(name string) (fields, bool) {
	v, ok := f.raw(name)
	if !ok {
		return fields{faults: f.faults}, false
	}
	return f.sub(name, v)
}

// sub reads raw, found at name below this object, as an object.
func (f fields) sub(name string, raw json.RawMessage) (fields, bool) {
	s := fields{path: f.path + name + ".", faults: f.faults}
	if !isObject(raw) || json.Unmarshal(raw, &s.obj) != nil {
		f.refuse(name, "must be an object")
		return s, false
	}
	return s, true
}

func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '{'
}

func index(i int) string { return "[" + strconv.Itoa(i) + "]" }
