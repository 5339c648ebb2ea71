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

// The fixed wording, printed and read by the same forms.
const (
	servePrefix = "strata serve: "
	cachePrefix = "conversation cache: "

	servedForm   = "prompt %d tokens = %d reused + %d"
	workForm     = " read in %.1f ms (%.1f tok/s), %d generated in %.1f ms (%.1f tok/s), drafts accepted %d of %d, %d checkpoints"
	movedForm    = " %d tokens in %.1f ms"
	restoredForm = "restored %d tokens ("
	tookForm     = ") in %.1f ms"
	droppedForm  = "dropped %d superseded"
	noParking    = "skip parking ("
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
		return fmt.Appendf(dst, servePrefix+servedForm+"%s"+workForm+"%s\n",
			l.Tokens, l.Reused, l.Read, of, l.Ms, l.Rate, l.Generated, l.DecodeMs, l.DecodeRate,
			l.Accepted, l.Offered, l.Checkpoints, cancelled)
	case LogParked, LogSkipped:
		verb := "parked"
		if l.Kind == LogSkipped {
			verb = "skipped"
		}
		return fmt.Appendf(dst, cachePrefix+"%s"+movedForm+"; parked=%d bytes=%d evictions=%d snapshot_bytes=%d reused_kv_bytes=%d\n",
			verb, l.Tokens, l.Ms, l.Parked, l.Bytes, l.Evictions, l.SnapshotBytes, l.ReusedKVBytes)
	case LogRestored:
		return fmt.Appendf(dst, cachePrefix+restoredForm+"%s"+tookForm+"; parked=%d bytes=%d\n",
			l.Tokens, l.Source, l.Ms, l.Parked, l.Bytes)
	case LogDropped:
		return fmt.Appendf(dst, cachePrefix+droppedForm+"%s\n", l.Tokens, l.Text)
	case LogNoParking:
		return fmt.Appendf(dst, cachePrefix+noParking+"%s)\n", l.Text)
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
	case s.try("parked"):
		l.Kind = LogParked
	case s.try("skipped"):
		l.Kind = LogSkipped
	case strings.HasPrefix(rest, "restored "):
		return parseRestored(s)
	case strings.HasPrefix(rest, "dropped "):
		l.Kind = LogDropped
		s.scan(droppedForm, &l.Tokens)
		l.Text = s.rest
		return l, !s.failed
	case s.try(noParking):
		l.Kind = LogNoParking
		l.Text, ok = strings.CutSuffix(s.rest, ")")
		return l, ok
	default:
		return LogLine{}, false
	}
	s.scan(movedForm, &l.Tokens, &l.Ms)
	l.pairs(s.rest)
	return l, !s.failed
}

func parseServed(rest string) (l LogLine, ok bool) {
	s := scanner{rest: rest}
	l.Kind = LogServed
	s.scan(servedForm, &l.Tokens, &l.Reused, &l.Read)
	if s.try(" of ") {
		l.ReadOf = s.integer()
	}
	s.scan(workForm, &l.Ms, &l.Rate, &l.Generated, &l.DecodeMs, &l.DecodeRate, &l.Accepted, &l.Offered, &l.Checkpoints)
	l.Cancelled = s.try(" (cancelled)")
	return l, !s.failed
}

func parseRestored(s scanner) (l LogLine, ok bool) {
	l.Kind = LogRestored
	s.scan(restoredForm, &l.Tokens)
	for _, source := range [...]string{"live", "checkpoint"} {
		if s.try(source) {
			l.Source = source
		}
	}
	s.scan(tookForm, &l.Ms)
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

// scan takes what a form of fmt prints: its words, and for each verb a number into
// an *int or a *float64.
func (s *scanner) scan(form string, into ...any) {
	for _, p := range into {
		words, verb, _ := strings.Cut(form, "%")
		s.want(words)
		form = verb[strings.IndexAny(verb, "df")+1:]
		switch p := p.(type) {
		case *int:
			*p = s.integer()
		case *float64:
			*p = s.float()
		}
	}
	s.want(form)
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
