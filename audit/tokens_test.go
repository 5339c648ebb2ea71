package audit_test

import (
	"strings"
	"testing"

	"interlude/audit"
)

func TestSlipNeedsBytesThatFitAgain(t *testing.T) {
	text := "1: amber birch cedar delta ember fjord grove haven\n2: inlet jetty knoll lotus maple north ocean pearl\n3: quartz river"
	at := strings.Index(text, " delta")
	for _, c := range []struct {
		name, said, kind, run string
	}{
		{"a word twice", text[:at] + " delta" + text[at:], "doubled", "delta "},
		{"a word lost", text[:at] + text[at+6:], "lost", "delta "},
		{"a line lost", strings.Replace(text, "2: inlet jetty knoll lotus maple north ocean pearl\n", "", 1), "lost", "2: inlet jetty knoll lotus maple north ocean pearl\n"},
		{"a digit twice", strings.Replace(text, "2:", "22:", 1), "doubled", "2"},
		{"the last word twice", text + " river", "doubled", " river"},
		{"another word", strings.Replace(text, "delta", "zebra", 1), "", ""},
		{"another text from there on", text[:at] + " xenon yucca zebra walnut violet urchin thyme sage raven", "", ""},
		{"cut", text[:at], "", ""},
		{"the same", text, "", ""},
		{"nothing", "", "", ""},
	} {
		kind, _, run := audit.Slip(text, c.said)
		if kind != c.kind || run != c.run {
			t.Errorf("%s: %q %q, want %q %q", c.name, kind, run, c.kind, c.run)
		}
	}
}

// FuzzSlip: one run taken out or said twice is proved wherever it lies, and an
// equal text never is.
func FuzzSlip(f *testing.F) {
	f.Add(20, 5, true)
	f.Add(0, 1, false)
	text := ""
	for i := range 40 {
		text += strings.Repeat(string(rune('a'+i%26)), 1+i%3) + " " + string(rune('A'+(i*7)%26)) + "\n"
	}
	f.Fuzz(func(t *testing.T, at, n int, twice bool) {
		if at < 0 || n < 1 || n > 90 || at+n > len(text)-20 {
			return
		}
		said := text[:at] + text[at+n:]
		if twice {
			said = text[:at+n] + text[at:]
		}
		kind, _, _ := audit.Slip(text, said)
		if said != text && kind == "" {
			t.Fatalf("at %d, %d bytes, twice %v: not proved", at, n, twice)
		}
		if k, _, _ := audit.Slip(text, text); k != "" {
			t.Fatal("an equal text slips")
		}
	})
}
