package engine

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// ReplyKind names a line that an engine prints.
type ReplyKind uint8

// Replies. ReplyOther is a line a client ignores; ReplyUnsupported one of the
// native engine's verbs that this project does not drive.
const (
	ReplyOther       ReplyKind = iota
	ReplyInfo                  // INFO: Info
	ReplyReady                 // READY: Context, Stop
	ReplyResume                // RESUME: Reused
	ReplyPP                    // PP: Pos, Total, Ms, Rate
	ReplyReused                // REUSED: Reused
	ReplyToken                 // T: ID
	ReplyLogprob               // LP: ID and LP; a token like T
	ReplyMask                  // MQ: wants one MF or MK line
	ReplyDone                  // DONE: Done
	ReplyErr                   // ERR, FATAL: Text, Fatal
	ReplyUnsupported           // BT, BDONE, BADM, YIELDED, SESSION, SAVED, …: Text is the verb
	ReplyBroken                // a line of a known kind that breaks its form: Text says how
)

// Reply is one parsed line, flat so that a reader can reuse it. Fields of other
// kinds keep what an earlier line left in them.
type Reply struct {
	Kind    ReplyKind
	ID      int32   // T, LP
	Reused  int     // RESUME, REUSED: tokens taken from a cache
	Pos     int     // PP: position including reused tokens
	Total   int     // PP: prompt length
	Ms      float64 // PP: since the GEN began, parking and restoring included
	Rate    float64 // PP: fresh tokens / s
	Context int     // READY: tokens
	Stop    bool    // READY: the engine honours STOP
	Fatal   bool    // ERR: the process is beyond asking; broken: the line was the start or the end of a GEN
	Text    string  // ERR: what follows the word
	Info    Info
	LP      Logprob
	Done    Done
}

// Logprob is the score of one token and of its rivals, natural logarithms before
// any temperature. A score of minus infinity reads as -9999.
type Logprob struct {
	Index   int // within one GEN
	ID      int32
	Logprob float64
	Top     []TopLogprob
}

// TopLogprob is one alternative.
type TopLogprob struct {
	ID      int32
	Logprob float64
}

// ParseReply reads one line of an engine into r. T and PP lines allocate
// nothing. The error is a *SyntaxError; Kind then is ReplyBroken and Text its message.
func ParseReply(line []byte, r *Reply) error {
	err := r.parse(trimEOL(line))
	if err != nil {
		verb, _ := word(line)
		r.Kind, r.Text, r.Fatal = ReplyBroken, err.Error(), string(verb) == "RESUME" || string(verb) == "DONE"
	}
	return err
}

func (r *Reply) parse(line []byte) error {
	verb, rest := word(line)
	r.Kind = ReplyOther
	switch string(verb) {
	case "T":
		w, _ := word(rest)
		n, ok := count(w)
		if !ok {
			return syntax("T", "id", w, "a token id")
		}
		r.ID, r.Kind = int32(n), ReplyToken
	case "PP":
		return r.parsePP(rest)
	case "LP":
		return r.parseLP(rest)
	case "MQ":
		r.Kind = ReplyMask
	case "RESUME", "REUSED":
		w, _ := word(rest)
		n, ok := count(w)
		if !ok {
			return syntax(string(verb), "reused", w, "a number of tokens")
		}
		r.Reused, r.Kind = n, ReplyReused
		if string(verb) == "RESUME" {
			r.Kind = ReplyResume
		}
	case "DONE":
		if err := parseDone(rest, &r.Done); err != nil {
			return err
		}
		r.Kind = ReplyDone
	case "ERR", "FATAL":
		r.Text = strings.ToValidUTF8(string(bytes.TrimSpace(rest)), "\uFFFD")
		r.Fatal = string(verb) == "FATAL" || FatalERR(r.Text)
		r.Kind = ReplyErr
	case "INFO":
		r.Info, _ = ParseInfo(string(line))
		r.Kind = ReplyInfo
	case "READY":
		return r.parseReady(rest)
	case "BT", "BDONE", "BADM", "YIELDED", "SUSPENDED", "SESSION", "SWAIT", "SAVED", "RESTORED", "SERR", "VRAM", "KV":
		r.Text, r.Kind = string(verb), ReplyUnsupported
	}
	return nil
}

func (r *Reply) parsePP(rest []byte) error {
	w, rest := word(rest)
	pos, ok := count(w)
	if !ok {
		return syntax("PP", "pos", w, "a position in tokens")
	}
	w, rest = word(rest)
	total, ok := count(w)
	if !ok {
		return syntax("PP", "total", w, "the prompt length in tokens")
	}
	r.Pos, r.Total, r.Ms, r.Rate = pos, total, 0, 0
	if w, rest = word(rest); len(w) > 0 {
		if r.Ms, ok = decimal(w); !ok {
			return syntax("PP", "ms", w, "milliseconds")
		}
	}
	if w, _ = word(rest); len(w) > 0 {
		if r.Rate, ok = decimal(w); !ok {
			return syntax("PP", "tok_s", w, "tokens per second")
		}
	}
	r.Kind = ReplyPP
	return nil
}

func (r *Reply) parseReady(rest []byte) error {
	w, rest := word(rest)
	n, ok := count(w)
	if !ok || n == 0 {
		return syntax("READY", "context", w, "the context size in tokens")
	}
	w, _ = word(rest)
	r.Context, r.Stop, r.Kind = n, string(w) == "stop", ReplyReady
	return nil
}

// parseLP reads "<i> raw <id> <logprob> <k> <id>:<lp> …"; words beyond the k
// alternatives are ignored.
func (r *Reply) parseLP(rest []byte) error {
	var w []byte
	lp := Logprob{Top: r.LP.Top[:0]}
	w, rest = word(rest)
	i, ok := count(w)
	if !ok {
		return syntax("LP", "index", w, "a number")
	}
	if w, rest = word(rest); string(w) != "raw" {
		return syntax("LP", "scale", w, "raw")
	}
	w, rest = word(rest)
	id, ok := count(w)
	if !ok {
		return syntax("LP", "id", w, "a token id")
	}
	w, rest = word(rest)
	if lp.Logprob, ok = logprob(w); !ok {
		return syntax("LP", "logprob", w, "a natural logarithm")
	}
	w, rest = word(rest)
	k, ok := count(w)
	if !ok {
		return syntax("LP", "k", w, "the number of alternatives")
	}
	for range k {
		w, rest = word(rest)
		left, right, _ := bytes.Cut(w, []byte{':'})
		n, ok1 := count(left)
		v, ok2 := logprob(right)
		if !ok1 || !ok2 {
			return syntax("LP", "alternative", w, "id:logprob")
		}
		lp.Top = append(lp.Top, TopLogprob{int32(n), v})
	}
	lp.Index, lp.ID = i, int32(id)
	r.LP, r.ID, r.Kind = lp, lp.ID, ReplyLogprob
	return nil
}

// logprob reads a score; minus infinity becomes the floor that the OpenAI API writes.
func logprob(b []byte) (float64, bool) {
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil || math.IsNaN(v) || v > 0 {
		// A rounding error above 0 is still a probability of 1.
		if err == nil && v > 0 && v < 1e-3 {
			return 0, true
		}
		return 0, false
	}
	return max(v, -9999), true
}

// FatalERR tells whether the text of an ERR line (without the word) means that
// the process is beyond asking, although it may still print a DONE.
func FatalERR(text string) bool {
	return strings.HasPrefix(text, "verify ") && strings.Contains(text, "timed out")
}

// Append writes the reply as one line, LF included; ReplyOther and ReplyBroken are an empty line.
func (r *Reply) Append(dst []byte) []byte {
	integer := func(word string, n int) {
		dst = strconv.AppendInt(append(dst, word...), int64(n), 10)
	}
	switch r.Kind {
	case ReplyInfo:
		dst = append(append(dst, "INFO "...), r.Info.String()...)
	case ReplyReady:
		integer("READY ", r.Context)
		if r.Stop {
			dst = append(dst, " stop"...)
		}
	case ReplyResume:
		integer("RESUME ", r.Reused)
	case ReplyReused:
		integer("REUSED ", r.Reused)
	case ReplyPP:
		integer("PP ", r.Pos)
		integer(" ", r.Total)
		dst = appendNumber(append(dst, ' '), r.Ms)
		dst = appendNumber(append(dst, ' '), r.Rate)
	case ReplyToken:
		integer("T ", int(r.ID))
	case ReplyLogprob:
		integer("LP ", r.LP.Index)
		integer(" raw ", int(r.LP.ID))
		dst = appendNumber(append(dst, ' '), r.LP.Logprob)
		integer(" ", len(r.LP.Top))
		for _, t := range r.LP.Top {
			integer(" ", int(t.ID))
			dst = appendNumber(append(dst, ':'), t.Logprob)
		}
	case ReplyMask:
		dst = append(dst, "MQ"...)
	case ReplyDone:
		dst = r.Done.append(dst)
	case ReplyErr:
		word := "ERR "
		if r.Fatal && !FatalERR(r.Text) {
			word = "FATAL "
		}
		dst = append(append(dst, word...), r.Text...)
	case ReplyUnsupported:
		dst = append(dst, r.Text...)
	}
	return append(dst, '\n')
}

// appendNumber writes a measured value: plain decimals, no exponent.
func appendNumber(dst []byte, v float64) []byte {
	return strconv.AppendFloat(dst, v, 'f', -1, 64)
}
