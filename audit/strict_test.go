package audit_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"interlude/audit"
)

// H141, H142: each way of not being one strict JSON value has its own name.
func TestStrictJSONNamesEachFault(t *testing.T) {
	for _, c := range []struct {
		text   string
		faults []string
	}{
		{`{"a": 1, "b": [true, null, "x"]}`, nil},
		{" \n{\"a\": 1}\r\n\t", nil},
		{`"text"`, nil}, {`-0.5e3`, nil}, {`null`, nil}, {`[]`, nil},
		{`{"a": "\ud83d\ude00"}`, nil},
		{``, []string{"empty"}}, {" \n", []string{"empty"}},
		{"\uFEFF{}", []string{"bom"}},
		{"```json\n{}\n```", []string{"fence"}},
		{"Here it is: {}", []string{"prose"}},
		{"{} done", []string{"trailing_data"}},
		{`{"a":3}{"b":1}`, []string{"trailing_data"}},
		{`{"a": 1, "a": 2}`, []string{"duplicate_key:a"}},
		{`{"x": {"a": 1, "a": 1}}`, []string{"duplicate_key:a"}},
		{`{"a": NaN}`, []string{"nan"}}, {`NaN`, []string{"nan"}}, {`{"a": -Infinity}`, []string{"nan"}}, {`Infinity`, []string{"nan"}},
		{`{"a": 1,}`, []string{"syntax@8"}}, {`{'a': 1}`, []string{"syntax@1"}}, {`{"a": 01}`, []string{"syntax@7"}},
		{`{"a": 1`, []string{"cut_short"}}, {`{"a": "b`, []string{"cut_short"}},
		{"{\"a\": \"\xff\"}", []string{"invalid_utf8"}},
		{`{"a": "\ud800"}`, []string{"lone_surrogate"}}, {`{"a": "\udc00\ud800"}`, []string{"lone_surrogate"}}, {`{"a": "\ud800\ud800"}`, []string{"lone_surrogate"}},
		{`{"a": "\\ud800"}`, nil}, // a backslash and five letters
		{strings.Repeat("[", 10_000), []string{"too_deep"}},
		{strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300), []string{"too_deep"}},
	} {
		_, got := audit.StrictJSON(c.text)
		if !slices.Equal(got, c.faults) {
			t.Errorf("%.60q: %v, want %v", c.text, got, c.faults)
		}
	}
}

func TestNumbersCompareByValue(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"1", "1.0", true}, {"100", "1e2", true}, {"-0", "0", true}, {"0.10", "1e-1", true}, {"12.50", "1250E-2", true},
		{"9007199254740993", "9007199254740992", false}, {"1", "-1", false}, {"1e400", "1e401", false}, {"1e400", "1E+400", true},
		{"1e999999999999", "1e999999999999", true}, {"0e5", "0", true}, {"0.1", "0.10000000000000001", false},
	} {
		if got := audit.SameNumber(c.a, c.b); got != c.same {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}

// FuzzStrictJSON: what is accepted as strict is valid JSON and reads the same
// after another round; nothing panics.
func FuzzStrictJSON(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `[1,2,{"b":null}]`, "```", `{"a":1,"a":2}`, "\uFEFF1", `"\ud800"`, `NaN`, `1 2`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, faults := audit.StrictJSON(text)
		if len(faults) > 0 {
			return
		}
		if !json.Valid([]byte(text)) {
			t.Fatalf("%q is accepted and is no JSON", text)
		}
		w, again := audit.StrictJSON(" " + text + "\n")
		if len(again) > 0 || !audit.SameJSON(v, w) {
			t.Fatalf("%q reads differently with white space around it: %v", text, again)
		}
	})
}
