package engine

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// SyntaxError says which field of a line breaks the protocol and what would be right.
type SyntaxError struct {
	Line  string // first word of the line
	Field string // name of the field
	Value string // what stood there, cut at 80 bytes
	Fix   string // what should stand there
}

// Error names the line, the field, its value and the fix.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s line: field %s is %q, want %s", e.Line, e.Field, e.Value, e.Fix)
}

func syntax(line, field string, value []byte, fix string) error {
	if len(value) > 80 {
		value = value[:80]
	}
	return &SyntaxError{Line: line, Field: field, Value: string(value), Fix: fix}
}

// trimEOL drops one line end, LF or CR LF.
func trimEOL(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	return bytes.TrimSuffix(line, []byte{'\r'})
}

// word cuts the next word from a line; runs of blanks count as one.
func word(line []byte) (first, rest []byte) {
	for len(line) > 0 && line[0] == ' ' {
		line = line[1:]
	}
	if i := bytes.IndexByte(line, ' '); i >= 0 {
		return line[:i], line[i+1:]
	}
	return line, nil
}

// number reads a decimal integer that fits in 32 bits, so that a count, a
// position and an id share one reader and no sum of them can overflow.
func number(b []byte) (int, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 10 {
		return 0, false
	}
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	if n > math.MaxInt32 {
		return 0, false
	}
	if negative {
		n = -n
	}
	return n, true
}

// count reads a number that cannot be negative.
func count(b []byte) (int, bool) {
	n, ok := number(b)
	return n, ok && n >= 0
}

// decimal reads a float. An engine prints a rate over zero time as inf or nan:
// that is 0 here, because no JSON can carry it.
func decimal(b []byte) (float64, bool) {
	v, err := strconv.ParseFloat(string(b), 64)
	if math.IsInf(v, 0) || math.IsNaN(v) || string(b) == "-nan" {
		return 0, true
	}
	return v, err == nil
}

// appendFloat writes a float as Python prints it: the shortest digits that read
// back equal, a fraction always, an exponent below 1e-4 and from 1e16 on.
func appendFloat(dst []byte, v float64) []byte {
	if a := math.Abs(v); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(dst, v, 'e', -1, 64)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, v, 'f', -1, 64)
	if bytes.IndexByte(dst[start:], '.') < 0 {
		dst = append(dst, '.', '0')
	}
	return dst
}

func appendIDs(dst []byte, ids []int32) []byte {
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(id), 10)
	}
	return dst
}

// parseIDs appends the ids of a comma separated list; bad is the first item
// that is none.
func parseIDs(dst []int32, list []byte) (ids []int32, bad []byte, ok bool) {
	for {
		item, rest, more := bytes.Cut(list, []byte{','})
		n, fine := count(item)
		if !fine {
			return dst, item, false
		}
		dst = append(dst, int32(n))
		if !more {
			return dst, nil, true
		}
		list = rest
	}
}
