package workloads

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func lineRule(count int) *LineRule {
	return &LineRule{Nonce: "abc", Words: RuleWords()[:16], Count: count}
}

// TestLineText pins the rule: other programs (the stand-in's reader) follow it too.
func TestLineText(t *testing.T) {
	got := LineText(lineRule(9), 7)
	h := uint64(14695981039346656037)
	for _, b := range []byte("abc/7") {
		h = (h ^ uint64(b)) * 1099511628211
	}
	want := "7:"
	for j := range 8 {
		want += " " + RuleWords()[h>>(4*j)%16]
	}
	if got != want {
		t.Errorf("line 7 is %q, want %q", got, want)
	}
}

func TestCheckLines(t *testing.T) {
	r := lineRule(6)
	line := func(k int) string { return LineText(r, k) }
	whole := Answer(&Expect{Lines: r})
	words := strings.Split(line(3), " ")
	without := func(i int) string { return strings.Join(slices.Delete(slices.Clone(words), i, i+1), " ") }
	with := func(i int, w string) string { return strings.Join(slices.Insert(slices.Clone(words), i, w), " ") }
	swap3 := func(other string) string { return strings.Replace(whole, line(3), other, 1) }
	at3 := len(line(1)) + len(line(2)) + 2
	for _, c := range []struct {
		name, text, finish string
		want               string // kind line offset, "" right
	}{
		{"whole", whole, "stop", ""},
		{"cut by the budget", whole[:at3+9], "length", ""},
		{"cut at a line end", whole[:at3], "length", ""},
		{"left by its client", whole[:30], "", ""},
		{"empty and cut", "", "length", ""},
		{"ended early", whole[:at3-1], "stop", fmt.Sprint("too_short 3 ", at3-1)},
		{"cut, then ended", whole[:at3+9], "stop", fmt.Sprint("too_short 3 ", at3+9)},
		{"lost line", strings.Replace(whole, line(3)+"\n", "", 1), "stop", fmt.Sprint("lost_line 3 ", at3)},
		{"doubled line", swap3(line(3) + "\n" + line(3)), "stop", fmt.Sprint("doubled_line 3 ", at3+len(line(3))+1)},
		{"lost word", swap3(without(4)), "stop", "lost_token 3"},
		{"doubled word", swap3(with(4, words[3])), "stop", "doubled_token 3"},
		{"foreign word", swap3(with(4, "intruder")), "stop", "foreign_token 3"},
		{"word replaced", swap3(strings.Replace(line(3), words[4], "intruder", 1)), "stop", "foreign_token 3"},
		{"lost line end", strings.Replace(whole, line(3)+"\n", line(3), 1), "stop", fmt.Sprint("lost_token 3 ", at3+len(line(3)))},
		{"doubled line end", strings.Replace(whole, line(3)+"\n", line(3)+"\n\n", 1), "stop", "doubled_token 4"},
		{"text behind the end", whole + "\nmore", "stop", "foreign_text 7"},
		{"text before", "Sure! " + whole, "stop", "foreign_token 1 0"},
		{"aside that was not asked for", swap3(line(3) + " (" + r.Words[0] + ")"), "stop", "foreign_token 3"},
		{"another conversation's line", swap3(LineText(&LineRule{Nonce: "other", Words: RuleWords()[16:32], Count: 9}, 3)), "stop", "foreign_text 3"},
	} {
		faults := CheckLines(r, c.text, c.finish)
		got := ""
		if len(faults) > 0 {
			got = fmt.Sprint(faults[0].Kind, " ", faults[0].Line, " ", faults[0].Offset)
		}
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if len(faults) > 1 {
			t.Errorf("%s: %d faults for one: %v", c.name, len(faults), faults)
		}
	}
}

func TestCheckLinesAsides(t *testing.T) {
	r := lineRule(5)
	r.Aside = true
	aside := " (" + r.Words[3] + ")"
	good := LineText(r, 1) + aside + "\n" + LineText(r, 2) + "\n" + LineText(r, 3) + aside
	if f := CheckLines(r, good, "length"); len(f) > 0 {
		t.Errorf("two asides: %v", f)
	}
	for cut := range len(good) {
		if f := CheckLines(r, good[:cut], "length"); len(f) > 0 {
			t.Errorf("cut at byte %d: %v", cut, f)
		}
	}
	for _, bad := range []string{aside + aside, " (intruder)", " ()", aside + " x"} {
		if f := CheckLines(r, LineText(r, 1)+bad+"\n"+LineText(r, 2), "length"); len(f) != 1 {
			t.Errorf("line 1 with %q: faults %v", bad, f)
		}
	}
}

// TestCheckLinesFindsEveryEdit drops, doubles and replaces one word at random
// places: each edit that changes the text is found, in its line.
func TestCheckLinesFindsEveryEdit(t *testing.T) {
	r := lineRule(40)
	text := Answer(&Expect{Lines: r})
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		lines := strings.Split(text, "\n")
		k := rng.IntN(len(lines))
		words := strings.Split(lines[k], " ")
		i := 1 + rng.IntN(8)
		switch rng.IntN(3) {
		case 0:
			words = slices.Delete(words, i, i+1)
		case 1:
			words = slices.Insert(words, i, words[i])
		case 2:
			words[i] = r.Words[rng.IntN(16)]
		}
		lines[k] = strings.Join(words, " ")
		edited := strings.Join(lines, "\n")
		faults := CheckLines(r, edited, "stop")
		if edited == text != (len(faults) == 0) {
			t.Fatalf("line %d edited to %q: faults %v", k+1, lines[k], faults)
		}
		if len(faults) > 0 && faults[0].Line != k+1 {
			t.Fatalf("edit in line %d found in line %d", k+1, faults[0].Line)
		}
	}
}

func TestCheckWords(t *testing.T) {
	r := &WordRule{Nonce: "n", Words: RuleWords()[:16], Count: 20}
	good := WordsText(r)
	words := strings.Split(good, " ")
	for _, c := range []struct{ name, text, want string }{
		{"right", good, ""},
		{"short", strings.Join(words[:12], " "), "too_short"},
		{"empty", "", "too_short"},
		{"lost", strings.Join(slices.Delete(slices.Clone(words), 5, 6), " "), "lost_token"},
		{"foreign", strings.Join(slices.Insert(slices.Clone(words), 5, "intruder"), " "), "foreign_token"},
		{"blank behind", good + " ", "foreign_token"},
	} {
		got := ""
		if f := CheckWords(r, c.text); len(f) > 0 {
			got = f[0].Kind
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// FuzzCheckLines: only the whole text, or a cut of it, is right.
func FuzzCheckLines(f *testing.F) {
	text := Answer(&Expect{Lines: lineRule(8)})
	f.Add(text, true)
	f.Add(text[:40], false)
	f.Add(text+"\n", true)
	f.Add(strings.Replace(text, "2:", "3:", 1), true)
	f.Fuzz(func(t *testing.T, got string, ended bool) {
		finish := "length"
		if ended {
			finish = "stop"
		}
		faults := CheckLines(lineRule(8), got, finish)
		right := got == text || !ended && strings.HasPrefix(text, got)
		if right != (len(faults) == 0) {
			t.Fatalf("%q (%s): faults %v", got, finish, faults)
		}
		for _, fault := range faults {
			if fault.Offset < 0 || fault.Offset > len(got) {
				t.Fatalf("offset %d outside the text of %d bytes", fault.Offset, len(got))
			}
		}
	})
}
