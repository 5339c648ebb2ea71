package workloads

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kinds of faults in a text that follows a rule.
const (
	LostToken    = "lost_token"
	DoubledToken = "doubled_token"
	ForeignToken = "foreign_token" // a word that does not belong here
	LostLine     = "lost_line"
	DoubledLine  = "doubled_line"
	ForeignText  = "foreign_text" // anything else
	TooShort     = "too_short"    // it ended, not by the budget, before all was said
)

// Fault is one place where a text leaves its rule.
type Fault struct {
	Kind   string
	Offset int    // bytes from the start of the text
	Line   int    // from 1; 0 in a word rule
	Word   int    // from 1; 0 when the whole line is meant
	Want   string // what the rule says
	Got    string // what stands there
}

func (f Fault) String() string {
	place := fmt.Sprintf("byte %d", f.Offset)
	if f.Line > 0 {
		place = fmt.Sprintf("line %d, byte %d", f.Line, f.Offset)
	}
	return fmt.Sprintf("%s at %s: want %q, got %q", f.Kind, place, excerpt(f.Want), excerpt(f.Got))
}

func excerpt(s string) string {
	if len(s) <= 80 {
		return s
	}
	return strings.ToValidUTF8(s[:80], "") + "…"
}

// maxFaults bounds a list: after this many the text is simply another text.
const maxFaults = 20

// CheckLines compares text with a line rule and returns what is wrong with it,
// at most 20 places. A text whose finish is "length", or "" (ended by its client),
// may be cut anywhere; a text that ended by itself must hold all lines.
func CheckLines(r *LineRule, text, finish string) []Fault {
	c := lineChecker{rule: r, k: 1}
	lines := strings.Split(text, "\n")
	cut := finish == "length" || finish == ""
	for i, line := range lines {
		if len(c.faults) >= maxFaults {
			return c.faults
		}
		last := i == len(lines)-1
		if last && c.k <= r.Count && !c.right(line, c.k) && c.isCut(line) || last && cut && c.isCut(line) {
			break
		}
		if c.k > r.Count {
			c.fault(Fault{Kind: ForeignText, Line: c.k, Got: strings.Join(lines[i:], "\n")})
			return c.faults
		}
		c.line(line)
		c.offset += len(line) + 1
	}
	if c.k <= r.Count && !cut {
		c.offset = len(text)
		c.fault(Fault{Kind: TooShort, Line: c.k, Want: LineText(r, c.k)})
	}
	return c.faults
}

type lineChecker struct {
	rule   *LineRule
	k      int // line expected next
	offset int // of the line at hand
	faults []Fault
}

func (c *lineChecker) fault(f Fault) {
	f.Offset += c.offset
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, f)
	}
}

// right reports whether line is line k, with or without its aside.
func (c *lineChecker) right(line string, k int) bool {
	rest, ok := strings.CutPrefix(line, LineText(c.rule, k))
	return ok && (rest == "" || c.rule.Aside && c.isAside(rest))
}

func (c *lineChecker) isAside(s string) bool {
	word, ok := strings.CutPrefix(s, " (")
	word, closed := strings.CutSuffix(word, ")")
	return ok && closed && slices.Contains(c.rule.Words, word)
}

// isCut reports whether line is what a budget leaves of line k.
func (c *lineChecker) isCut(line string) bool {
	if c.k > c.rule.Count {
		return line == "" && c.rule.Count == 0
	}
	whole := LineText(c.rule, c.k)
	if strings.HasPrefix(whole, line) {
		return true
	}
	rest, ok := strings.CutPrefix(line, whole)
	if !ok || !c.rule.Aside {
		return false
	}
	return slices.ContainsFunc(c.rule.Words, func(w string) bool { return strings.HasPrefix(" ("+w+")", rest) })
}

// line judges one whole line and moves k on.
func (c *lineChecker) line(line string) {
	if c.right(line, c.k) {
		c.k++
		return
	}
	if line == "" {
		c.fault(Fault{Kind: DoubledToken, Line: c.k, Got: "\n"})
		return
	}
	if number, _, ok := strings.Cut(line, ":"); ok {
		if j, err := strconv.Atoi(number); err == nil && j >= 1 && j <= c.rule.Count && j != c.k && c.right(line, j) {
			if j < c.k {
				c.fault(Fault{Kind: DoubledLine, Line: j, Want: LineText(c.rule, c.k), Got: line})
				return
			}
			c.fault(Fault{Kind: LostLine, Line: c.k, Want: LineText(c.rule, c.k), Got: line})
			c.k = j + 1
			return
		}
	}
	if rest, ok := strings.CutPrefix(line, LineText(c.rule, c.k)); ok && c.k < c.rule.Count && c.right(rest, c.k+1) {
		c.fault(Fault{Kind: LostToken, Offset: len(line) - len(rest), Line: c.k, Want: "\n", Got: rest})
		c.k += 2
		return
	}
	c.words(line)
	c.k++
}

// words finds the first word of a line that is not the rule's.
func (c *lineChecker) words(line string) {
	f := diff(strings.Split(LineText(c.rule, c.k), " "), strings.Split(line, " "))
	f.Line = c.k
	c.fault(f)
}

// diff compares words at their first difference: a word lost, a word twice, a
// word that does not belong, or another text. Offset is within the line.
func diff(want, got []string) Fault {
	i, offset := 0, 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		offset += len(got[i]) + 1
		i++
	}
	f := Fault{Kind: ForeignText, Offset: offset, Word: i + 1, Want: strings.Join(want[i:], " "), Got: strings.Join(got[i:], " ")}
	switch {
	case i < len(want) && slices.Equal(want[i+1:], got[i:]):
		f.Kind, f.Want = LostToken, want[i]
	case i < len(got) && slices.Equal(want[i:], got[i+1:]):
		f.Kind, f.Got = ForeignToken, got[i]
		if i > 0 && got[i] == got[i-1] {
			f.Kind = DoubledToken
		}
	case i < len(want) && i < len(got) && slices.Equal(want[i+1:], got[i+1:]):
		f.Kind, f.Want, f.Got = ForeignToken, want[i], got[i]
	}
	return f
}

// CheckWords compares a short answer with its rule; nil means right.
func CheckWords(r *WordRule, text string) []Fault {
	want := WordsText(r)
	if text == want {
		return nil
	}
	f := diff(strings.Split(want, " "), strings.Split(text, " "))
	if f.Kind == ForeignText && f.Got == "" {
		f.Kind = TooShort
	}
	return []Fault{f}
}
