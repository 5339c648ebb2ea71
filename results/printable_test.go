package results

import "testing"

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"größe 你好\t👩‍👩‍👧\n":       "größe 你好\t👩‍👩‍👧\n",
		"\x1b[31mred\x1b[0m":      "\uFFFD[31mred\uFFFD[0m",
		"\u009b31m\x00\x7f\r":     "\uFFFD31m\uFFFD\uFFFD\uFFFD",
		"user\u202Etxt.exe \xff.": "user\uFFFDtxt.exe \uFFFD.",
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q gives %q, want %q", in, got, want)
		}
	}
}
