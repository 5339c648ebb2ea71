package workloads

import (
	"errors"
	"strings"
	"testing"
	"time"
)

const goodManifest = `{"schema": 1, "name": "x", "about": "a", "primary": "ttft_short",
"tools": [{"name": "t", "description": "d", "parameters": {"type": "object", "properties": {"a": {"type": "array"}, "b": {"type": "integer"}}}}],
"conversations": [
 {"id": "A", "tools": ["t"], "steps": [
  {"id": "A1", "class": "tool", "plant": 3, "calls": [{"tool": "t", "plant": 2}], "max_tokens": 99},
  {"id": "A2", "class": "tool", "receipts": true, "max_tokens": 99},
  {"id": "A3", "class": "audit", "audit": 5, "max_tokens": 99},
  {"id": "A4", "class": "short", "recall": {"tool": "t", "items": 2}, "max_tokens": 99},
  {"id": "A5", "class": "short", "rollover": true, "restate": true, "quote": "größe", "max_tokens": 9}]},
 {"id": "P", "steps": [{"id": "P1", "class": "probe", "say": 3, "max_tokens": 9, "after": {"request": "A1", "event": "token", "n": 4}}]}]}`

func TestParseGood(t *testing.T) {
	if _, err := Parse([]byte(goodManifest)); err != nil {
		t.Fatal(err)
	}
}

// TestParseNamesEveryFault edits the good manifest and wants each fault at its
// path, several at once where there are several.
func TestParseNamesEveryFault(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		want           []string // each in the error, one a line of it
	}{
		{"unknown field", `"about": "a"`, `"about": "a", "primery": 1`, []string{`primery: unknown field: did you mean "primary"?`}},
		{"unknown field deep", `"say": 3`, `"say": 3, "max_token": 3`, []string{`conversations.1.steps.0.max_token: unknown field: did you mean "max_tokens"?`}},
		{"doubled key", `"about": "a"`, `"about": "a", "about": "b"`, []string{"line 1: about is given twice"}},
		{"doubled key deep", `"say": 3`, `"say": 3, "say": 4`, []string{"conversations.1.steps.0.say is given twice"}},
		{"wrong type", `"say": 3`, `"say": "3"`, []string{`conversations.1.steps.0.say: "3"`}},
		{"two faults", `"say": 3, "max_tokens": 9`, `"say": 0, "max_tokens": -1`, []string{"conversations.1.steps.0.say: 0", "conversations.1.steps.0.max_tokens: -1"}},
		{"trailing", `"n": 4}}]}]}`, `"n": 4}}]}]} x`, []string{"text after the JSON value"}},
		{"cut", `"n": 4}}]}]}`, `"n": 4}}]`, []string{"ends too early"}},
		{"bom", `{"schema": 1`, "\xef\xbb\xbf" + `{"schema": 1`, []string{"byte order mark"}},
		{"utf8", "größe", "gr\xf6\xdfe", []string{"not valid UTF-8"}},
		{"schema version", `"schema": 1`, `"schema": 2`, []string{"schema: 2"}},
		{"two tasks", `"say": 3`, `"say": 3, "write": 2`, []string{"has 2 tasks"}},
		{"no task", `"say": 3, `, ``, []string{"has 0 tasks"}},
		{"trigger names nobody", `"request": "A1"`, `"request": "A9"`, []string{"conversations.1.steps.0.after.request: A9"}},
		{"waits for itself", `"request": "A1"`, `"request": "P1"`, []string{"waits for itself"}},
		{"circle", `"id": "A1", `, `"id": "A1", "after": {"request": "P1", "event": "end"}, `, []string{"break the circle"}},
		{"token without n", `"event": "token", "n": 4`, `"event": "token"`, []string{"conversations.1.steps.0.after.n: 0"}},
		{"audit of more than planted", `"audit": 5`, `"audit": 6`, []string{"conversations.0.steps.2.audit: 6: asks for more facts than the 5"}},
		{"receipts without calls", `"receipts": true, "max_tokens": 99},`, `"receipts": true, "max_tokens": 99}, {"id": "A9", "class": "tool", "receipts": true, "max_tokens": 9},`, []string{"needs calls in the step before"}},
		{"calls without receipts", `"receipts": true`, `"say": 3`, []string{"must be the receipts step"}},
		{"tool not offered", `"calls": [{"tool": "t"`, `"calls": [{"tool": "u"`, []string{"conversations.0.steps.0.calls.0.tool: u", "conversations.0.steps.3.recall.tool: t"}},
		{"exact prompt with history", `"audit": 5`, `"audit": 5, "prompt_tokens": 900`, []string{"conversations.0.steps.2.prompt_tokens: 900"}},
		{"probe in the slow window", `"say": 3`, `"say": 3, "prompt_tokens": 50`, []string{"lies in 33–64"}},
		{"id twice", `"id": "A2"`, `"id": "A1"`, []string{`steps.1.id: A1: is given twice`}},
		{"rounds too close and none", `"about": "a"`, `"about": "a", "rounds": {"every": "1ms", "count": 10001}`, []string{"rounds.every: 1ms: must be at least 1s", "rounds.count: 10001"}},
		{"id of a later round", "\"conversations\": [\n {\"id\": \"A\"", "\"rounds\": {\"every\": \"1m\", \"count\": 2}, \"conversations\": [\n {\"id\": \"A-2\"", []string{`conversations.0.id: A-2: must not end like the ids of later rounds, "-2"`}},
		{"step of a later round", `"conversations": [`, `"rounds": {"every": "1m", "count": 2}, "conversations": [{"id": "X", "steps": [{"id": "A1-3", "class": "short", "say": 3, "max_tokens": 9}]},`, []string{"conversations.0.steps.0.id: A1-3"}},
		{"rounds of a load", `"about": "a"`, `"about": "a", "rounds": {"every": "1m", "count": 2}, "generate": {"load": "L1", "duration": "9m"}`, []string{"rounds: repeats listed conversations"}},
		{"reserved id", `"id": "A2"`, `"id": "canary-1"`, []string{`must not start with "warmup-" or "canary-"`}},
		{"no probes", `"class": "probe"`, `"class": "short"`, []string{"primary: ttft_short: needs at least one step of class probe"}},
		{"restate without rollover", `"rollover": true, `, ``, []string{"conversations.0.steps.4.restate"}},
		{"facts forgotten by a rollover", `"restate": true, "quote": "größe", "max_tokens": 9}`, `"quote": "größe", "max_tokens": 9}, {"id": "A6", "class": "audit", "audit": 1, "max_tokens": 9}`, []string{"conversations.0.steps.5.audit: 1: asks for more facts than the 0"}},
		{"keep without rollover", `"audit": 5`, `"audit": 5, "keep": 9`, []string{"conversations.0.steps.2.keep"}},
		{"audit says its own facts", `"audit": 5`, `"audit": 5, "plant": 1`, []string{"must not say any facts itself"}},
		{"conversations and generate", `"about": "a"`, `"about": "a", "generate": {"load": "L1", "duration": "9m"}`, []string{"give either conversations or generate"}},
		{"generate for no time", `"about": "a"`, `"about": "a", "generate": {"load": "L1", "duration": "9ms"}`, []string{"generate.duration: 9ms"}},
		{"load without its tools", `"about": "a"`, `"about": "a", "generate": {"load": "lifecycle", "duration": "9m"}`, []string{"tools: has no reserve, which the load lifecycle calls"}},
		{"deep", `"about": "a"`, `"about": ` + strings.Repeat("[", 1<<20), []string{"is nested deeper than 100 levels"}},
		{"no object", goodManifest, `[]`, []string{"the document: []: Invalid type"}},
		{"priority beyond an integer", `"say": 3`, `"say": 3, "priority": 100000000000000000000`, []string{"steps.0.priority: 100000000000000000000: Must be less"}},
		{"answer longer than budget", `"say": 3`, `"say": 3, "output_tokens": 10`, []string{"is more than max_tokens 9"}},
		{"header without priority", `"say": 3`, `"say": 3, "priority_by": "header"`, []string{"needs a priority"}},
		{"cancel too late", `"say": 3`, `"say": 3, "cancel": {"request": "P1", "event": "end"}`, []string{"comes too late"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.Count(goodManifest, c.old) != 1 {
				t.Fatalf("%q stands %d times in the good manifest", c.old, strings.Count(goodManifest, c.old))
			}
			_, err := Parse([]byte(strings.Replace(goodManifest, c.old, c.new, 1)))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestLoadNamesWhatIsThere(t *testing.T) {
	_, err := Load("paired-shrot", func(string) ([]byte, error) { return nil, errors.New("no such file") })
	if err == nil || !strings.Contains(err.Error(), "paired-short") || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("error %v", err)
	}
	m, err := Load("my.json", func(p string) ([]byte, error) { return []byte(goodManifest), nil })
	if err != nil || m.Name != "x" {
		t.Errorf("%v %v", m, err)
	}
}

// FuzzParse: whatever passes is expandable, and writing it again gives the same
// requests.
func FuzzParse(f *testing.F) {
	f.Add([]byte(goodManifest))
	for _, name := range Builtin() {
		data, _ := Source(name)
		f.Add(data)
	}
	f.Add([]byte(`{"schema":1,"schema":1}`))
	f.Add([]byte(`[[[[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			return
		}
		if m.Generate != nil {
			m.Generate.Duration = Duration(time.Second)
		}
		small := 0
		for _, c := range m.Conversations {
			for _, s := range c.Steps {
				small += s.Prompt + s.Unread + s.Write + s.Say + s.Plant
			}
		}
		if small > 20000 {
			return
		}
		reqs, err := Expand(m, 1, 1, wordCounter())
		if err != nil {
			return // a length that cannot be met
		}
		again, err := Parse(mustJSON(m))
		if err != nil {
			t.Fatalf("what was parsed does not parse again: %v\n%s", err, mustJSON(m))
		}
		other, err := Expand(again, 1, 1, wordCounter())
		if err != nil || string(mustJSON(reqs)) != string(mustJSON(other)) {
			t.Fatalf("the manifest written again gives other requests (%v)", err)
		}
	})
}
