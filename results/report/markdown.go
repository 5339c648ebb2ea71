package report

import (
	"fmt"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"interlude/results"
)

// page builds a Markdown text.
type page struct{ strings.Builder }

// para writes a paragraph.
func (p *page) para(format string, args ...any) {
	fmt.Fprintf(p, format, args...)
	p.WriteString("\n\n")
}

func (p *page) heading(level int, title string) {
	if s := p.String(); s != "" && !strings.HasSuffix(s, "\n\n") {
		p.WriteString("\n")
	}
	p.WriteString(strings.Repeat("#", level) + " " + title + "\n\n")
}

// item writes one line of a list.
func (p *page) item(format string, args ...any) {
	p.WriteString("- ")
	fmt.Fprintf(p, format, args...)
	p.WriteString("\n")
}

// end closes a list.
func (p *page) end() {
	if !strings.HasSuffix(p.String(), "\n\n") {
		p.WriteString("\n")
	}
}

// fence writes raw text in a code fence that is longer than any inside it, so
// that nothing an answer holds can end it.
func (p *page) fence(lang, text string) {
	mark, text := "```", results.Printable(text)
	for strings.Contains(text, mark) {
		mark += "`"
	}
	p.WriteString(mark + lang + "\n" + strings.TrimRight(text, "\n") + "\n" + mark + "\n\n")
}

// table writes a GFM table; the first column is text, the others are numbers
// unless left is set. Every cell is escaped here: the library escapes nothing,
// and a pipe or a line break would make another row of it.
func (p *page) table(left bool, head []string, rows [][]string) {
	align := make(tw.Alignment, len(head))
	for i := range align {
		align[i] = tw.AlignRight
		if left || i == 0 {
			align[i] = tw.AlignLeft
		}
	}
	t := tablewriter.NewTable(&p.Builder,
		tablewriter.WithRenderer(renderer.NewMarkdown()),
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithTrimSpace(tw.Off),
		tablewriter.WithAlignment(align))
	t.Header(cells(head))
	for _, row := range rows {
		if err := t.Append(cells(row)); err != nil {
			panic(err) // the renderer writes to memory
		}
	}
	if err := t.Render(); err != nil {
		panic(err)
	}
	p.WriteString("\n")
}

func cells(row []string) []string {
	out := make([]string, len(row))
	for i, c := range row {
		out[i] = cell(c)
	}
	return out
}

// cell makes any text safe inside one table cell. Markup that the report itself
// writes (code spans, bold, links) uses mark, which cell leaves alone.
func cell(s string) string {
	if marked, ok := strings.CutPrefix(s, marker); ok {
		return strings.ReplaceAll(oneLine(marked), "|", `\|`)
	}
	return escape(s)
}

// marker starts a cell whose Markdown is the report's own. It is a noncharacter,
// which no answer's valid text holds after escape has seen it.
const marker = "\uFFFE"

func mark(s string) string { return marker + s }

// escape makes s plain text in any Markdown context, on one line.
func escape(s string) string {
	s = oneLine(strings.ReplaceAll(s, marker, ""))
	var b strings.Builder
	for _, r := range s {
		switch r {
		case '\\', '`', '*', '_', '[', ']', '|', '~':
			b.WriteByte('\\')
			b.WriteRune(r)
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		case '&':
			b.WriteString("&amp;")
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// code makes an inline code span that holds s whatever it holds.
func code(s string) string {
	s = oneLine(s)
	ticks := "`"
	for strings.Contains(s, ticks) {
		ticks += "`"
	}
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return ticks + s + ticks
}

// oneLine replaces what a reader or a table would take for a line break, and what
// is not printable, by visible signs.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		switch r {
		case '\n', '\r', '\u2028', '\u2029', '\v', '\f', '\u0085':
			return '⏎'
		case '\t':
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return results.Printable(s)
}
