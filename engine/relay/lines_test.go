package relay

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// TestMore: only a whole line is worth waiting for; with half of one behind it a line
// is passed on at once.
func TestMore(t *testing.T) {
	for text, want := range map[string]bool{"T 1\nT 2\n": true, "T 1\nT": false, "T 1\n": false} {
		in := newLines(strings.NewReader(text))
		if line, _, err := in.next(); err != nil || string(line) != "T 1\n" || in.more() != want {
			t.Errorf("%q: %q, %v, more %t", text, line, err, in.more())
		}
	}
}

// FuzzLines: what goes in comes out, however it is cut, and no line is looked at
// twice.
func FuzzLines(f *testing.F) {
	f.Add([]byte("T 5\nDONE 1\n"), 3)
	f.Add([]byte(strings.Repeat("x", pieceSize+5)+"\nT 1"), 7)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		in := newLines(&cutReader{data: slices.Clone(data), n: max(1, cut%4096)})
		var all []byte
		starts := 0
		for {
			piece, begins, err := in.next()
			all = append(all, piece...)
			if begins {
				starts++
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				break
			}
		}
		want := strings.Count(string(data), "\n")
		if len(data) > 0 && data[len(data)-1] != '\n' {
			want++
		}
		if string(all) != string(data) || starts != want {
			t.Errorf("%d bytes became %d, %d lines %d", len(data), len(all), want, starts)
		}
	})
}

// cutReader returns a few bytes at a time.
type cutReader struct {
	data []byte
	n    int
}

func (c *cutReader) Read(b []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b, c.data[:min(c.n, len(c.data))])
	c.data = c.data[n:]
	return n, nil
}
