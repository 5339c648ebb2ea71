package model

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"interlude/engine/vocab"
	"interlude/sched/chat"
)

const sixteen = "amber birch cedar delta ember fjord grove haven inlet jetty knoll lotus maple north ocean pearl"

func user(text string) chat.Message {
	return chat.Message{Role: chat.User, Content: chat.Text(text)}
}
func assistant(text string) chat.Message {
	return chat.Message{Role: chat.Assistant, Content: chat.Text(text)}
}
func result(text string) chat.Message {
	return chat.Message{Role: chat.ToolRole, Content: chat.Text(text)}
}

func render(t testing.TB, thinking bool, messages ...chat.Message) []int32 {
	t.Helper()
	p, err := chat.Render(chat.Builtin(), chat.Conversation{Messages: messages}, chat.Options{Thinking: thinking})
	if err != nil {
		t.Fatal(err)
	}
	return p.IDs
}

// speak continues ids until an end token or for n tokens.
func speak(ids []int32, n int, temperature float64, seed uint64) []int32 {
	text := NewIDs(ids)
	r := NewReader(text, temperature, seed)
	var out []int32
	for len(out) < n {
		id := r.Next(nil)
		text.Append(id)
		out = append(out, id)
		if id == vocab.ImEnd {
			break
		}
	}
	return out
}

func textOf(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(vocab.Piece(id))
	}
	return b.String()
}

func answer(t testing.TB, messages ...chat.Message) string {
	t.Helper()
	return textOf(speak(render(t, false, messages...), 100_000, 0, 0))
}

func TestTasks(t *testing.T) {
	call := chat.Call{Name: "put_rows", Args: `{"table": "t1", "rows": [10, 20, 30, 40, 50]}`}
	for _, c := range []struct {
		name string
		ask  []chat.Message
		want string
	}{
		{"nothing", []chat.Message{user("Hello there.")}, "No task given."},
		{"quote", []chat.Message{user("filler\nQuote: größe 你好 🌍 👩‍👩‍👧‍👦")}, "größe 你好 🌍 👩‍👩‍👧‍👦"},
		{"facts", []chat.Message{user("Fact: a_b = 12\nFact: c = \"x y\"\nAudit: c, zz, a_b")}, `{"c": "x y", "zz": null, "a_b": 12}`},
		{"last fact wins", []chat.Message{user("Fact: a = 1"), assistant("No task given."), user("Fact: a = 2.50\nAudit: a")}, `{"a": 2.50}`},
		{"spacing", []chat.Message{user("Fact: a = [1,2, {\"k\":\"\\u00e4<\"}]\nAudit: a")}, `{"a": [1, 2, {"k": "ä<"}]}`},
		{"an answer plants nothing", []chat.Message{user("x"), assistant("Fact: a = 1"), user("Audit: a")}, `{"a": null}`},
		{"no JSON is no fact", []chat.Message{user("Fact: a = 7\nFact: a = seven\nAudit: a")}, `{"a": 7}`},
		{"fact in a result", []chat.Message{user("Call: f {}"), {Role: chat.Assistant, Calls: []chat.Call{{Name: "f", Args: "{}"}}},
			result("ok\nFact: a = true\nReceipt: r1"), assistant("x"), user("Audit: a")}, `{"a": true}`},
		{"receipts", []chat.Message{user("Call: f {}"), {Role: chat.Assistant, Calls: []chat.Call{{Name: "f"}, {Name: "f"}}},
			result("Receipt: r 1"), result("nothing")}, `{"receipts": ["r 1", null]}`},
		{"call", []chat.Message{user(`Call: look {"city": "Bonn <b>", "n": [1,2], "deep": {"a":true}}`)},
			"<tool_call>\n<function=look>\n<parameter=city>\nBonn <b>\n</parameter>\n<parameter=n>\n[1, 2]\n</parameter>\n" +
				"<parameter=deep>\n{\"a\": true}\n</parameter>\n</function>\n</tool_call>"},
		{"parallel calls", []chat.Message{user("Call: f {}\nCall: g {\"r\": \"@range 3 6\"}")},
			"<tool_call>\n<function=f>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n<parameter=r>\n[3, 4, 5, 6]\n</parameter>\n</function>\n</tool_call>"},
		{"recall", []chat.Message{user("x"), {Role: chat.Assistant, Calls: []chat.Call{call}}, result("Receipt: a"), assistant("ok"),
			user("Recall: items 1, 4, 9 of put_rows")}, `{"items": [10, 40, null], "checksum": 150}`},
		{"call wins", []chat.Message{user("Quote: x\nWords: " + sixteen + "\nSay 3 words by rule n.\nCall: f {}")}, "<tool_call>\n<function=f>\n</function>\n</tool_call>"},
		{"say", []chat.Message{user("Words: " + sixteen + "\nSay 4 words by rule abc.")}, say("abc", 4)},
		{"words of the history", []chat.Message{user("Words: " + sixteen), assistant("No task given."), user("Say 2 words by rule q.")}, say("q", 2)},
		{"no words", []chat.Message{user("Say 2 words by rule q.")}, "No task given."},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := answer(t, c.ask...); got != c.want {
				t.Errorf("answered %q, want %q", got, c.want)
			}
		})
	}
}

func say(nonce string, n int) string {
	words := strings.Fields(sixteen)
	var out []string
	for i := range n {
		out = append(out, words[ruleHash(fmt.Sprintf("%s#%d", nonce, i))&15])
	}
	return strings.Join(out, " ")
}

func line(nonce string, k int) string {
	words := strings.Fields(sixteen)
	h := ruleHash(fmt.Sprintf("%s/%d", nonce, k))
	out := fmt.Sprintf("%d:", k)
	for j := range 8 {
		out += " " + words[h>>(4*j)&15]
	}
	return out
}

func longTask(n int) chat.Message {
	return user(fmt.Sprintf("Words: %s\nWrite %d lines by rule k7.", sixteen, n))
}

func TestWriteLines(t *testing.T) {
	var want []string
	for k := 1; k <= 30; k++ {
		want = append(want, line("k7", k))
	}
	if got := answer(t, longTask(30)); got != strings.Join(want, "\n") {
		t.Errorf("wrote\n%s", got)
	}
}

func TestAsides(t *testing.T) {
	ids := render(t, false, longTask(200))
	aside := regexp.MustCompile(`^(.*?)( \((\w+)\))?$`)
	run := func(seed uint64) (asides int, text string) {
		text = textOf(speak(ids, 100_000, 0.8, seed))
		for i, l := range strings.Split(text, "\n") {
			m := aside.FindStringSubmatch(l)
			if m[1] != line("k7", i+1) {
				t.Fatalf("line %d is %q", i+1, l)
			}
			if m[2] != "" {
				asides++
				if !slices.Contains(strings.Fields(sixteen), m[3]) {
					t.Errorf("aside %q", m[3])
				}
			}
		}
		return asides, text
	}
	n, first := run(7)
	if n < 30 || n > 70 {
		t.Errorf("%d asides in 200 lines, want about 50", n)
	}
	if _, again := run(7); again != first {
		t.Error("the same seed wrote another text")
	}
	if _, other := run(8); other == first {
		t.Error("another seed wrote the same text")
	}
}

// Whatever the splits, greedy or seeded, thinking or not: the same tokens.
func TestContinuation(t *testing.T) {
	for _, c := range []struct {
		name     string
		thinking bool
		ask      string
		temp     float64
	}{
		{"greedy", false, "Words: " + sixteen + "\nWrite 12 lines by rule a.", 0},
		{"seeded", false, "Words: " + sixteen + "\nWrite 12 lines by rule a.", 0.7},
		{"thinking", true, "Words: " + sixteen + "\nWrite 3 lines by rule a.", 0.7},
		{"calls", false, "Call: f {\"a\": \"@range 1 60\"}\nCall: g {\"b\": \"🌍\"}", 0},
		{"bytes", false, "Quote: größe 你好 🌍 👩‍👩‍👧‍👦", 0},
		{"thinking, no rule", true, "Quote: x", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ids := render(t, c.thinking, user(c.ask))
			whole := speak(ids, 100_000, c.temp, 42)
			if whole[len(whole)-1] != vocab.ImEnd || len(whole) < 5 {
				t.Fatalf("answered %q", textOf(whole))
			}
			for cut := 1; cut < len(whole); cut++ {
				rest := speak(append(slices.Clone(ids), whole[:cut]...), 100_000, c.temp, 42)
				if !slices.Equal(rest, whole[cut:]) {
					t.Fatalf("cut at %d of %d: went on with %q", cut, len(whole), textOf(rest))
				}
			}
		})
	}
}

// Dropping, doubling or swapping one emitted id changes the text from there on.
func TestDerailment(t *testing.T) {
	ids := render(t, false, longTask(40))
	whole := speak(ids, 100_000, 0, 0)
	said := whole[:200]
	for at := 0; at < len(said)-1; at++ {
		drop := slices.Delete(slices.Clone(said), at, at+1)
		double := slices.Insert(slices.Clone(said), at, said[at])
		swap := slices.Clone(said)
		swap[at], swap[at+1] = swap[at+1], swap[at]
		for name, emitted := range map[string][]int32{"drop": drop, "double": double, "swap": swap} {
			if name == "swap" && swap[at] == swap[at+1] {
				continue
			}
			// What the client would have seen: the emitted ids, then the rest.
			rest := speak(append(slices.Clone(ids), emitted...), 60, 0, 0)
			if n := len(emitted); rest[0] == whole[n] {
				t.Fatalf("%s at %d went unnoticed", name, at)
			}
			if same := len(rest) > 30 && slices.Equal(rest[:30], whole[len(said):len(said)+30]); same {
				t.Fatalf("%s at %d came back to the text", name, at)
			}
		}
	}
	// The last one dropped: it is said again, so the client sees it doubled.
	rest := speak(append(slices.Clone(ids), said[:199]...), 5, 0, 0)
	if rest[0] != said[199] {
		t.Errorf("went on with %v", rest)
	}
	// Two different errors derail differently.
	a := speak(append(slices.Clone(ids), said[1:]...), 40, 0, 0)
	b := speak(append(slices.Clone(ids), said[2:]...), 40, 0, 0)
	if slices.Equal(a, b) {
		t.Error("two derailments are the same")
	}
}

// An audit answers from the ids: editing one fact changes exactly its field,
// deleting it makes the field null.
func TestPlantedFacts(t *testing.T) {
	fields := make([]string, 20)
	for i := range fields {
		fields[i] = fmt.Sprintf("f%d", i)
	}
	plant := func(i int, value string) string {
		return fmt.Sprintf("Some filler.\nFact: %s = %s\nMore filler.\n", fields[i], value)
	}
	for _, where := range []string{"user", "tool", "rollover"} {
		t.Run(where, func(t *testing.T) {
			// fact i stands as value, or not at all when it is "".
			build := func(edit int, value string) []int32 {
				text := func(from, to int) string {
					var b strings.Builder
					for i := from; i < to; i++ {
						v := fmt.Sprint(100 + i)
						if i == edit {
							v = value
						}
						if v != "" {
							b.WriteString(plant(i, v))
						}
					}
					return b.String()
				}
				ask := user("Audit: " + strings.Join(fields, ", "))
				switch where {
				case "user":
					return render(t, false, user(text(0, 8)), assistant("No task given."), user(text(8, 20)), assistant("No task given."), ask)
				case "tool":
					return render(t, false, user(text(0, 8)+"Call: f {}"), chat.Message{Role: chat.Assistant, Calls: []chat.Call{{Name: "f"}}},
						result(text(8, 20)+"Receipt: r"), assistant(`{"receipts": ["r"]}`), ask)
				}
				return render(t, false, user("The conversation so far, in short.\n"+text(0, 20)), assistant("No task given."), ask)
			}
			read := func(ids []int32) map[string]any {
				var m map[string]any
				if err := json.Unmarshal([]byte(textOf(speak(ids, 10_000, 0, 0))), &m); err != nil {
					t.Fatal(err)
				}
				return m
			}
			before := read(build(-1, ""))
			if len(before) != 20 {
				t.Fatalf("answered %v", before)
			}
			for i := range fields {
				for value, want := range map[string]any{"777": 777.0, "": nil} {
					after := read(build(i, value))
					for j, f := range fields {
						if j == i && after[f] != want {
							t.Errorf("fact %d is %q, answered %v", i, value, after[f])
						}
						if j != i && after[f] != before[f] {
							t.Errorf("fact %d was changed, %s answered %v", i, f, after[f])
						}
					}
				}
			}
		})
	}
}

// The next turn's prompt, as the server renders it, begins with the ids that
// were read and said: the live session is continued and not read again.
func TestHistoryExtendsTheSession(t *testing.T) {
	words := "Words: " + sixteen + "\n"
	for _, c := range []struct {
		name string
		ask  string
		temp float64
		call []chat.Call
	}{
		{"lines", words + "Write 20 lines by rule a.", 0, nil},
		{"asides", words + "Write 20 lines by rule a.", 1, nil},
		{"words", words + "Say 30 words by rule a.", 0, nil},
		{"json", "Fact: a = \"🌍 (x): y\"\nFact: b = [1, 2]\nAudit: a, b, c", 0, nil},
		{"quote", "Quote: a, b. (c) {\"d\": 1}  größe 你好\tx", 0, nil},
		{"calls", "Call: f {\"a\": \"@range 1 40\", \"s\": \"two words\"}\nCall: g {}", 0,
			[]chat.Call{{Name: "f", Args: `{"a": ` + ranged("@range 1 40") + `, "s": "two words"}`}, {Name: "g", Args: "{}"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ids := render(t, false, user(c.ask))
			said := speak(ids, 100_000, c.temp, 5)
			reply := chat.Message{Role: chat.Assistant, Calls: c.call}
			if c.call == nil {
				reply.Content = chat.Text(textOf(said))
			}
			next := render(t, false, user(c.ask), reply, user("Go on."))
			want := append(slices.Clone(ids), said...)
			if len(next) < len(want) || !slices.Equal(next[:len(want)], want) {
				i := 0
				for i < len(next) && next[i] == want[i] {
					i++
				}
				t.Errorf("differs at %d of %d, behind %q: %q, want %q", i, len(want), textOf(want[max(0, i-5):i]), vocab.Piece(next[i]), vocab.Piece(want[i]))
			}
		})
	}
}

func TestReasoning(t *testing.T) {
	ids := render(t, true, longTask(2))
	text := textOf(speak(ids, 10_000, 0, 0))
	m := regexp.MustCompile(`^Rule k7:((?: \w+)+)\n</think>\n\n(.*)$`).FindStringSubmatch(strings.Replace(text, "\n2:", "|2:", 1))
	if m == nil {
		t.Fatalf("answered %q", text)
	}
	if n := len(strings.Fields(m[1])); n < 12 || n > 40 {
		t.Errorf("%d words of reasoning", n)
	}
	if m[2] != line("k7", 1)+"|"+line("k7", 2) {
		t.Errorf("then %q", m[2])
	}
	if other := textOf(speak(render(t, true, user("Quote: x")), 1000, 0, 0)); !strings.HasPrefix(other, "Rule none: ") {
		t.Errorf("without a rule: %q", other)
	}
}

// A slice ends anywhere; its token is thrown away, but there must be one.
func TestPrefixOfAPromptDerails(t *testing.T) {
	ids := render(t, false, longTask(5))
	for n := 1; n < len(ids); n++ {
		if out := speak(ids[:n], 1, 0, 0); len(out) != 1 {
			t.Fatalf("prefix of %d said nothing", n)
		}
	}
}

func TestReaderUnderMasks(t *testing.T) {
	text := NewIDs(render(t, false, user("Quote: x")))
	r := NewReader(text, 0, 0)
	only := func(id int32) func(int32) bool { return func(v int32) bool { return v == id } }
	for _, want := range []int32{'{', '}', vocab.ImEnd, 3000, 5} {
		if got := r.Next(only(want)); got != want {
			t.Fatalf("said %d where only %d is allowed", got, want)
		}
	}
	if got := r.Next(func(int32) bool { return false }); got != vocab.ImEnd {
		t.Errorf("said %d where nothing is allowed", got)
	}
}

func TestScoresDoNotDependOnSplits(t *testing.T) {
	a, b := score(17, 900, 3, 40), score(17, 900, 3, 2)
	b.Index = a.Index
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("%v, then %v", a, b)
	}
	if len(a.Top) != 3 || a.Top[0].ID != 17 || a.Top[1].Logprob >= a.Top[0].Logprob || a.Top[2].Logprob >= a.Top[1].Logprob {
		t.Errorf("scores %v", a)
	}
}

func FuzzReader(f *testing.F) {
	f.Add("Fact: a = 1\nAudit: a", "x", 3)
	f.Add("Call: f {\"a\": \"@range 1 5\"}", "Fact: a = [", 7)
	f.Add("Words: "+sixteen+"\nWrite 3 lines by rule z.", "Recall: items 1 of f", 9)
	f.Fuzz(func(t *testing.T, a, b string, cut int) {
		ids := render(t, false, user(a), assistant(b), user(b+"\n"+a))
		whole := speak(ids, 120, 0.5, 3)
		if len(whole) == 0 {
			t.Fatal("nothing was said")
		}
		cut = int(uint(cut) % uint(len(whole)))
		rest := speak(append(slices.Clone(ids), whole[:cut]...), 120-cut, 0.5, 3)
		if !slices.Equal(rest, whole[cut:]) {
			t.Errorf("cut at %d: %q, then %q", cut, textOf(whole[cut:]), textOf(rest))
		}
		// Any ids at all are read without harm.
		loose := vocab.Encode(nil, a)
		for i := range loose {
			if i%3 == 0 {
				loose[i] = []int32{vocab.ImStart, vocab.ImEnd, vocab.ToolCall, vocab.ToolResponse, vocab.Think, vocab.ToolCallEnd}[i/3%6]
			}
		}
		speak(loose, 3, 0, 0)
	})
}

func BenchmarkReader(b *testing.B) {
	ids := render(b, false, user(strings.Repeat("some filler of common words that say nothing\n", 14_000)), assistant("ok"), longTask(1000))
	b.Logf("%d tokens", len(ids))
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			NewReader(NewIDs(ids), 0, 0)
		}
	})
	b.Run("token", func(b *testing.B) {
		text := NewIDs(render(b, false, longTask(1<<30)))
		r := NewReader(text, 0, 0)
		b.ReportAllocs()
		for b.Loop() {
			text.Append(r.Next(nil))
		}
	})
}
