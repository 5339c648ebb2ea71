package supervise

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// tailBytes is how much of a log its last lines are looked for in.
const tailBytes = 64 << 10

// logs remembers where a child's last words are: in its log file from where this
// child began, or, without a file, in memory.
type logs struct {
	path string
	from int64 // size of the file before this child

	mu   sync.Mutex
	tail []byte
}

func (l *logs) follow(path string, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("look at the log: %w", err)
	}
	l.path, l.from = path, info.Size()
	return nil
}

// Write keeps the tail of what a child without a log file writes.
func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = append(l.tail, b...)
	if len(l.tail) > 2*tailBytes {
		l.tail = append(l.tail[:0], l.tail[len(l.tail)-tailBytes:]...)
	}
	return len(b), nil
}

func (l *logs) last(n int) []string {
	text := l.text()
	lines := strings.Split(strings.TrimRight(string(text), "\r\n"), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], "\r")
	}
	return lines[max(0, len(lines)-n):]
}

func (l *logs) text() []byte {
	if l.path == "" {
		l.mu.Lock()
		defer l.mu.Unlock()
		return bytes.Clone(l.tail)
	}
	f, err := os.Open(l.path)
	if err != nil {
		return []byte(fmt.Sprintf("(its log cannot be read: %v)", err))
	}
	defer f.Close()
	from := l.from
	if info, err := f.Stat(); err == nil {
		from = max(from, info.Size()-tailBytes)
	}
	text, _ := io.ReadAll(io.NewSectionReader(f, from, tailBytes)) // half a log is better than none
	return text
}
