package engine

import (
	"fmt"
	"strconv"
	"strings"
)

// LogKind names a line that an engine writes to its log.
type LogKind uint8

// The lines of the log that tell about reading, reuse and parking. None of this is
// on stdout.
const (
	LogServed    LogKind = iota + 1 // one GEN is over
	LogParked                       // a conversation went to the cache
	LogSkipped                      // it did not, although it was tried
	LogRestored                     // a conversation came back
	LogDropped                      // older copies that a newer one contains
	LogNoParking                    // Text says why nothing was parked
)

// LogLine is one such line. Counts are tokens unless they say bytes.
type LogLine struct {
	Kind          LogKind
	Tokens        int // prompt tokens of a GEN, or of a conversation; LogDropped: how many copies
	Reused        int
	Read          int
	ReadOf        int // LogServed, cancelled in its read: what was to be read; else 0
	Ms            float64
	Rate          float64 // of the read, tokens / s
	Generated     int
	DecodeMs      float64
	DecodeRate    float64
	Accepted      int
	Offered       int
	Checkpoints   int
	Cancelled     bool
	Source        string // LogRestored: live or checkpoint
	Parked        int    // conversations in the cache afterwards
	Bytes         int64  // of the cache afterwards
	Evictions     int
	SnapshotBytes int64
	ReusedKVBytes int64
	Text          string // LogDropped: the rest of the line; LogNoParking: the reason
}

const (
	servePrefix = "strata serve: "
	cachePrefix = "conversation cache: "
)

// Append writes the line, LF included.
func (l *LogLine) Append(dst []byte) []byte {
	switch l.Kind {
	case LogServed:
		of, cancelled := "", ""
		if l.ReadOf > 0 {
			of = fmt.Sprintf(" of %d", l.ReadOf)
		}
		if l.Cancelled {
			cancelled = " (cancelled)"
		}
		return fmt.Appendf(dst, servePrefix+"prompt %d tokens = %d reused + %d%s read in %.1f ms (%.1f tok/s), "+
			"%d generated in %.1f ms (%.1f tok/s), drafts accepted %d of %d, %d checkpoints%s\n",
			l.Tokens, l.Reused, l.Read, of, l.Ms, l.Rate, l.Generated, l.DecodeMs, l.DecodeRate,
			l.Accepted, l.Offered, l.Checkpoints, cancelled)
	case LogParked, LogSkipped:
		verb := "parked"
		if l.Kind == LogSkipped {
			verb = "skipped"
		}
		return fmt.Appendf(dst, cachePrefix+"%s %d tokens in %.1f ms; parked=%d bytes=%d evictions=%d snapshot_bytes=%d reused_kv_bytes=%d\n",
			verb, l.Tokens, l.Ms, l.Parked, l.Bytes, l.Evictions, l.SnapshotBytes, l.ReusedKVBytes)
	case LogRestored:
		return fmt.Appendf(dst, cachePrefix+"restored %d tokens (%s) in %.1f ms; parked=%d bytes=%d\n",
			l.Tokens, l.Source, l.Ms, l.Parked, l.Bytes)
	case LogDropped:
		return fmt.Appendf(dst, cachePrefix+"dropped %d superseded%s\n", l.Tokens, l.Text)
	case LogNoParking:
		return fmt.Appendf(dst, cachePrefix+"skip parking (%s)\n", l.Text)
	}
	return dst
}

// ParseLog reads one line of an engine's log; ok is false for every line that is
// none of the above.
func ParseLog(line string) (l LogLine, ok bool) {
	line = strings.TrimRight(line, "\r\n")
	if rest, found := strings.CutPrefix(line, servePrefix); found {
		return parseServed(rest)
	}
	rest, _ := strings.CutPrefix(line, cachePrefix)
	s := scanner{rest: rest}
	switch {
	case s.try("parked "):
		l.Kind = LogParked
	case s.try("skipped "):
		l.Kind = LogSkipped
	case s.try("restored "):
		return parseRestored(s)
	case s.try("dropped "):
		l.Kind, l.Tokens = LogDropped, s.integer()
		s.want(" superseded")
		l.Text = s.rest
		return l, !s.failed
	case s.try("skip parking ("):
		l.Kind = LogNoParking
		l.Text, ok = strings.CutSuffix(s.rest, ")")
		return l, ok
	default:
		return LogLine{}, false
	}
	l.Tokens = s.integer()
	s.want(" tokens in ")
	l.Ms = s.float()
	s.want(" ms")
	l.pairs(s.rest)
	return l, !s.failed
}

func parseServed(rest string) (l LogLine, ok bool) {
	s := scanner{rest: rest}
	l.Kind = LogServed
	s.want("prompt ")
	l.Tokens = s.integer()
	s.want(" tokens = ")
	l.Reused = s.integer()
	s.want(" reused + ")
	l.Read = s.integer()
	if s.try(" of ") {
		l.ReadOf = s.integer()
	}
	s.want(" read in ")
	l.Ms = s.float()
	s.want(" ms (")
	l.Rate = s.float()
	s.want(" tok/s), ")
	l.Generated = s.integer()
	s.want(" generated in ")
	l.DecodeMs = s.float()
	s.want(" ms (")
	l.DecodeRate = s.float()
	s.want(" tok/s), drafts accepted ")
	l.Accepted = s.integer()
	s.want(" of ")
	l.Offered = s.integer()
	s.want(", ")
	l.Checkpoints = s.integer()
	s.want(" checkpoints")
	l.Cancelled = s.try(" (cancelled)")
	return l, !s.failed
}

func parseRestored(s scanner) (l LogLine, ok bool) {
	l.Kind = LogRestored
	l.Tokens = s.integer()
	s.want(" tokens (")
	for _, source := range [...]string{"live", "checkpoint"} {
		if s.try(source) {
			l.Source = source
		}
	}
	s.want(") in ")
	l.Ms = s.float()
	s.want(" ms")
	l.pairs(s.rest)
	return l, !s.failed && l.Source != ""
}

// pairs takes the k=v words after the first ";".
func (l *LogLine) pairs(rest string) {
	for _, w := range strings.Fields(strings.TrimPrefix(rest, ";")) {
		k, v, _ := strings.Cut(w, "=")
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			continue
		}
		switch k {
		case "parked":
			l.Parked = int(n)
		case "bytes":
			l.Bytes = n
		case "evictions":
			l.Evictions = int(n)
		case "snapshot_bytes":
			l.SnapshotBytes = n
		case "reused_kv_bytes":
			l.ReusedKVBytes = n
		}
	}
}

// scanner walks a line of fixed wording; the first mismatch sticks.
type scanner struct {
	rest   string
	failed bool
}

func (s *scanner) try(literal string) bool {
	rest, ok := strings.CutPrefix(s.rest, literal)
	if ok {
		s.rest = rest
	}
	return ok
}

func (s *scanner) want(literal string) {
	if !s.try(literal) {
		s.failed = true
	}
}

func (s *scanner) token(of string) string {
	end := 0
	for end < len(s.rest) && strings.IndexByte(of, s.rest[end]) >= 0 {
		end++
	}
	t := s.rest[:end]
	s.rest = s.rest[end:]
	return t
}

func (s *scanner) integer() int {
	n, ok := count([]byte(s.token("0123456789")))
	s.failed = s.failed || !ok
	return n
}

func (s *scanner) float() float64 {
	v, ok := decimal([]byte(s.token("0123456789.-+einfa")))
	s.failed = s.failed || !ok
	return v
}
