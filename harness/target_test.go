package harness

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"interlude/results"
)

func TestBuiltInTargets(t *testing.T) {
	if got := Targets(); !slices.Equal(got, []string{"beside-llama-server", "forced-parks", "impatient", "interlude", "llama-server", "ollama", "strata-server", "vllm"}) {
		t.Errorf("targets %v", got)
	}
	for _, name := range Targets() {
		if _, err := LoadTarget(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	path := filepath.Join(t.TempDir(), "mine.json")
	if err := os.WriteFile(path, []byte(`{"schema":1,"name":"mine","url":"http://127.0.0.1:1","shared_cache":true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := LoadTarget(path); err != nil || got.Name != "mine" {
		t.Errorf("a file: %+v, %v", got, err)
	}
	if _, err := LoadTarget("no-such"); err == nil || !strings.Contains(err.Error(), "strata-server") {
		t.Errorf("an unknown name: %v", err)
	}
}

// A control with a command of its own is asked for nothing that only ours proves.
func TestForeignControl(t *testing.T) {
	target, err := LoadTarget("beside-llama-server")
	if err != nil {
		t.Fatal(err)
	}
	if ours := target.of("on"); ours != target || ours.Flag == nil {
		t.Errorf("arm on is asked as %+v", ours)
	}
	other := target.of("np1")
	if other.Flag != nil || other.Instance != nil || other.Info != nil || other.Metrics != "" || other.Ready.Want != "ok" || other.Ready.Within == 0 {
		t.Errorf("arm np1 is asked as %+v", other)
	}
}

// Every fault of a target is said at once, each with its key.
func TestTargetFaults(t *testing.T) {
	for name, row := range map[string]struct{ text, said string }{
		"unknown key":       {`{"schema":1,"name":"x","ready_check":1}`, "ready_check"},
		"two values":        {`{} {}`, "text after the JSON value"},
		"key twice":         {`{"schema":1,"name":"x","command":["a"],"command":["b"]}`, "command is given twice"},
		"byte order mark":   {"\xef\xbb\xbf{}", "byte order mark"},
		"patch of a number": {`{"schema":1,"name":"x","command":["a"],"config":{},"arms":{"off":{},"on":{"patch":3}}}`, "arms.on.patch 3: must be an object"},
		"no JSON":           {`nope`, "line 1: invalid character"},
		"nothing to start":  {`{"schema":1,"name":"x"}`, "command: is missing"},
		"no arms":           {`{"schema":1,"name":"x","command":["a"]}`, "arms.on: is missing"},
		"both":              {`{"schema":1,"name":"x","command":["a"],"url":"http://h","arms":{"off":{},"on":{}}}`, "cannot stand beside"},
		"patch of nothing":  {`{"schema":1,"name":"x","command":["a"],"arms":{"off":{},"on":{"patch":{"a":1}}}}`, "no config to patch"},
		"another command":   {`{"schema":1,"name":"x","command":["a"],"arms":{"off":{},"on":{"command":["b"]}}}`, "the same command"},
		"ready of ours":     {`{"schema":1,"name":"x","command":["a"],"arms":{"off":{},"on":{"ready":{"path":"/h"}}}}`, "arms.on.ready"},
		"pointer":           {`{"schema":1,"name":"x","command":["a"],"arms":{"off":{},"on":{}},"flag":{"path":"status","pointer":"x"}}`, "must begin with /"},
		"schema":            {`{"schema":2,"name":"x","url":"http://h","shared_cache":true}`, "schema 2"},
		"name with a slash": {`{"schema":1,"name":"a/b","url":"http://h","shared_cache":true}`, "name"},
	} {
		if _, err := ParseTarget([]byte(row.text)); err == nil || !strings.Contains(err.Error(), row.said) {
			t.Errorf("%s: error %v does not say %q", name, err, row.said)
		}
	}
	_, err := ParseTarget([]byte(`{"schema":3,"name":"","command":["a"]}`))
	for _, said := range []string{"schema 3", `name ""`, "arms.off"} {
		if err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("not all faults at once: %v", err)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, name := range Targets() {
		raw, _ := embeddedTargets.ReadFile("targets/" + name + ".json")
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if target, err := ParseTarget(raw); err == nil && target.Name == "" {
			t.Error("a target without a name passed")
		}
	})
}

func TestEngineWords(t *testing.T) {
	for _, row := range []struct {
		text    string
		speed   float64
		program string
		args    string
	}{
		{"emulate --load 1s", 1, "me engine emulate --serve", "--load 1s"},
		{"emulate", 8, "me engine emulate --serve", "--speed 8"},
		{"emulate --speed 4", 8, "me engine emulate --serve", "--speed 4"},
		{"llama --model 'my model.gguf'", 1, "me engine llama --serve", "--model|my model.gguf"},
		{`strata --pack "a b" c\ d`, 1, "strata", "--pack|a b|c d"},
		{`sh -c 'exec eng "$@"' sh --serve --x`, 1, `sh -c exec eng "$@" sh --serve`, "--x"},
		{"env X=1 strata --serve --pack x", 1, "env X=1 strata --serve", "--pack|x"},
	} {
		e, err := ParseEngine(row.text, "me", row.speed)
		args := strings.Join(e.Args, "|")
		if err != nil || strings.Join(e.Program, " ") != row.program || !strings.Contains(args, strings.ReplaceAll(row.args, "--load 1s", "--load|1s")) &&
			!strings.Contains(strings.ReplaceAll(args, "|", " "), row.args) {
			t.Errorf("%q: program %q, arguments %q, %v", row.text, e.Program, e.Args, err)
		}
	}
	e, _ := ParseEngine("emulate --conversation-cache-mib 0", "me", 1)
	if n := strings.Count(strings.Join(e.Args, " "), "--conversation-cache-mib"); n != 1 {
		t.Errorf("the user's cache size is not the only one: %v", e.Args)
	}
	e, _ = ParseEngine("emulate", "me", 1)
	if !slices.Contains(e.Args, "--conversation-cache-mib") {
		t.Errorf("%v: upstream's default of 0 loses every parked state", e.Args)
	}
	for text, said := range map[string]string{"": "empty", "'open": "not closed", `end\`: "backslash", "llama": "time can be scaled"} {
		if _, err := ParseEngine(text, "me", 2); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// An engine runs in its slot's folder, so files that are named from here are named
// absolutely; what is recorded are the words that were typed.
func TestEngineOfThisFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"eng.sh", "model.bin"} {
		if err := os.WriteFile(name, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("pack", 0o755); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(here, name) }
	for text, want := range map[string][]string{
		"./eng.sh --model model.bin":    {at("eng.sh"), "--model", at("model.bin")},
		"eng.sh model.bin nosuch":       {"eng.sh", at("model.bin"), "nosuch"}, // the first word is a program of PATH
		"python3 eng.sh --serve pack":   {"python3", at("eng.sh"), "--serve", "pack"},
		"python3 eng.sh --serve ./pack": {"python3", at("eng.sh"), "--serve", at("pack")},
	} {
		e, err := ParseEngine(text, "me", 1)
		if got := slices.Concat(e.Program, e.Args); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
		v := values{lists: map[string]any{"{engine}": e.Program, "{engine_args}": e.Args}, given: e.given}
		plain := v.plain()
		typed := slices.Concat(plain.lists["{engine}"].([]string), plain.lists["{engine_args}"].([]string))
		if words, _ := splitWords(text); !slices.Equal(typed, words) {
			t.Errorf("%q is recorded as %q", text, typed)
		}
		if said := e.advice(); (said == "") != strings.Contains(text, "--serve") {
			t.Errorf("%q: advice %q", text, said)
		}
	}
}

func FuzzSplitWords(f *testing.F) {
	f.Add(`a "b c" 'd "e' f\ g ""`)
	f.Fuzz(func(t *testing.T, text string) {
		words, err := splitWords(text)
		if err != nil {
			return
		}
		var quoted []string
		for _, w := range words {
			quoted = append(quoted, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
		}
		again, err := splitWords(strings.Join(quoted, " "))
		if err != nil || !slices.Equal(again, words) {
			t.Errorf("%q gives %q, quoted again %q, %v", text, words, again, err)
		}
	})
}

// slotValues are the placeholders of some slot.
func slotValues(n string) values {
	return values{
		words: map[string]string{"self": "/bin/" + n, "policy": "quantum", "port": n, "nonce": "nonce" + n, "slot": "/tmp/" + n, "logs": "/run/" + n, "config": "/tmp/" + n + "/config.json"},
		lists: map[string]any{"{engine}": []string{"/bin/" + n, "engine", "emulate"}, "{engine_args}": []string{"--speed", "8"}, "{speed}": 8.0},
	}
}

// Two slots of two arms resolve to different things with the same hashes: they
// differ in the flag alone. What differs beyond it changes a hash.
func TestHashesSeeEverythingButTheFlag(t *testing.T) {
	t.Setenv("STRATA_API_KEY", "sesame")
	target, err := LoadTarget("interlude")
	if err != nil {
		t.Fatal(err)
	}
	off, err := target.resolve(results.Off, slotValues("1"))
	if err != nil {
		t.Fatal(err)
	}
	on, err := target.resolve(results.On, slotValues("2"))
	if err != nil {
		t.Fatal(err)
	}
	if off.hashes != on.hashes {
		t.Errorf("hashes %+v and %+v", off.hashes, on.hashes)
	}
	if slices.Equal(off.argv, on.argv) || string(off.config) == string(on.config) {
		t.Error("port, paths and flag are not filled in")
	}
	var config struct {
		Exe   []string
		Args  []string
		Log   string
		Solo  bool    `json:"solo_priority"`
		Scale float64 `json:"solo_time_scale"`
	}
	if err := json.Unmarshal(on.config, &config); err != nil {
		t.Fatal(err)
	}
	if !config.Solo || config.Scale != 8 || config.Log != "/run/2/engine.log" || len(config.Exe) != 3 || config.Args[1] != "8" {
		t.Errorf("config %+v", config)
	}
	if !slices.Contains(on.env, "INTERLUDE_INSTANCE=nonce2") {
		t.Error("the nonce is not in the environment")
	}
	if got := strings.Join(on.typed, " "); got != "{self} serve --config {config} --port {port}" {
		t.Errorf("the command is recorded as %q", got)
	}
	if shown := string(on.shown); strings.Contains(shown, "/run/2") || strings.Contains(shown, "/bin/2") {
		t.Errorf("the shown config has paths of the slot: %s", shown)
	}

	other := slotValues("2")
	other.lists["{engine_args}"] = []string{"--speed", "9"}
	if l, err := target.resolve(results.On, other); err != nil || l.hashes.config == on.hashes.config {
		t.Errorf("another engine flag has the same config hash (%v)", err)
	}
	t.Setenv("CUDA_VISIBLE_DEVICES", "1")
	if l, err := target.resolve(results.On, slotValues("2")); err != nil || l.hashes.env == on.hashes.env {
		t.Errorf("another environment has the same hash (%v)", err)
	}
	target.Command = append(target.Command, "--verbose")
	if l, err := target.resolve(results.On, slotValues("2")); err != nil || l.hashes.argv == on.hashes.argv {
		t.Errorf("another command has the same hash (%v)", err)
	}
}

// A user's config is a starting point that is only read; secrets of it reach no
// file of the run.
func TestConfigOfTheUserIsPatchedInACopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "strata.json")
	const mine = `{"exe":"strata","api_key":"sesame","solo_priority":true,"sampling":{"temperature":0.7,"seed":12345678901234567890},"repeat_stop_tokens":256,"solo_priority_map":{"sesame2":1}}`
	if err := os.WriteFile(path, []byte(mine), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("STRATA_CONFIG", path)
	t.Setenv("STRATA_SERVER", "server.py")
	target, err := LoadTarget("strata-server")
	if err != nil {
		t.Fatal(err)
	}
	l, err := target.resolve(results.Off, slotValues("1"))
	if err != nil {
		t.Fatal(err)
	}
	config := string(l.config)
	for _, want := range []string{`"solo_priority": false`, `"api_key": "sesame"`, `12345678901234567890`, `"log": "/run/1/engine.log"`} {
		if !strings.Contains(config, want) {
			t.Errorf("the slot's config lacks %s:\n%s", want, config)
		}
	}
	if shown := string(l.shown); strings.Contains(shown, "sesame") || !strings.Contains(shown, "256") {
		t.Errorf("shown: %s", shown)
	}
	if raw, _ := os.ReadFile(path); string(raw) != mine {
		t.Error("the user's config was written")
	}
	if l.argv[1] != "server.py" {
		t.Errorf("argv %v", l.argv)
	}
}

func TestMergePatch(t *testing.T) {
	for _, row := range [][3]string{ // base, patch, result (RFC 7386, appendix A)
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`}, {`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`}, {`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`}, {`["a","b"]`, `["c","d"]`, `["c","d"]`}, {`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`}, {`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		var base, patch any
		if decodeExact([]byte(row[0]), &base) != nil || decodeExact([]byte(row[1]), &patch) != nil {
			t.Fatal(row)
		}
		got, err := encodeJSON(mergePatch(base, patch))
		if err != nil || string(got) != row[2] {
			t.Errorf("%s patched with %s is %s, want %s", row[0], row[1], got, row[2])
		}
	}
}

// State that the server keeps on disk is copied anew for each slot.
func TestStateIsCopied(t *testing.T) {
	from := t.TempDir()
	if err := os.MkdirAll(filepath.Join(from, "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "deep", "profile.bin"), []byte("hot experts"), 0o600); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "state")
	if err := copyState(from, to); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(to, "deep", "profile.bin")); err != nil || string(got) != "hot experts" {
		t.Errorf("%q, %v", got, err)
	}
	file := filepath.Join(t.TempDir(), "a", "b")
	if err := copyState(filepath.Join(from, "deep", "profile.bin"), file); err != nil {
		t.Fatal(err)
	}
	if err := copyState(filepath.Join(from, "none"), file); err == nil {
		t.Error("a missing source was copied")
	}
}

// What is recorded of a command keeps its placeholders and loses its secrets.
func TestRecordedCommandHoldsNoSecret(t *testing.T) {
	got := strings.Join(maskWords([]string{"env", "API_KEY=hunter1", "{env:PROGRAM}", "--api-key", "hunter2", "--token=hunter3", "--tokenizer", "m.gguf", "--api-key", "{env:KEY}", "--key", "-v"}), " ")
	if want := "env API_KEY=(not recorded) {env:PROGRAM} --api-key (not recorded) --token=(not recorded) --tokenizer m.gguf --api-key {env:KEY} --key -v"; got != want {
		t.Errorf("recorded as %q, want %q", got, want)
	}
}
