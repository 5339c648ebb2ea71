package serve

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"interlude/engine"
	"interlude/engine/micromodel"
	"interlude/sched/chat"
)

// microFile writes the generated model.
func microFile(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := micromodel.Write(&b, micromodel.Micro(), 1); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "micro.gguf")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The tokenizer is what the config names, else what the engine's own model has in
// it, else the built-in one.
func TestTokenizerOfAConfig(t *testing.T) {
	for config, want := range map[string]string{
		`{"exe":"x"}`:                "builtin",
		`{"exe":"x","tokenizer":""}`: "builtin",
		`{"exe":"x","tokenizer":"builtin","args":["--model","m.gguf"]}`: "builtin",
		`{"exe":"x","tokenizer":"model"}`:                               filepath.FromSlash("/srv/model"),
		`{"exe":"x","tokenizer":"/m/t.gguf"}`:                           "/m/t.gguf",
		`{"exe":"x","args":["--model","m.gguf"]}`:                       filepath.FromSlash("/srv/m.gguf"),
		`{"exe":"x","args":["--model=/m/m.gguf"]}`:                      "/m/m.gguf",
		`{"exe":"x","args":["--model","m.bin"]}`:                        "builtin",
	} {
		cfg, err := ParseConfig([]byte(config), "/srv")
		if err != nil || cfg.Tokenizer != want {
			t.Errorf("%s: %+v, %v; want tokenizer %s", config, cfg, err, want)
		}
	}
}

func TestOpenTokenizer(t *testing.T) {
	path := microFile(t)
	tok, err := OpenTokenizer(path)
	if err != nil || tok.Size() != 512 {
		t.Fatalf("%v, %v", tok, err)
	}
	for name, want := range map[string]string{
		filepath.Join(t.TempDir(), "none.gguf"): "none.gguf",
		t.TempDir():                             "tokenizer.json",
		"tokenizer.go":                          "GGUF",
	} {
		if _, err := OpenTokenizer(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", name, err, want)
		}
	}
}

// A model that knows fewer ids than the tokenizer has would be refused token by
// token, or read noise: the request is refused with the cure.
func TestTokenizerOfAnotherModelIsRefused(t *testing.T) {
	small, err := OpenTokenizer(microFile(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		told string
		tok  chat.Tokenizer
		want bool
	}{{"512", chat.Builtin(), true}, {"512", small, false}, {"640", small, false}, {"511", small, true}, {"", chat.Builtin(), false}} {
		info := engine.Info{engine.KeyVocabulary: c.told}
		if got := vocabularyFits(info, c.tok); (got != nil) != c.want || got != nil && !strings.Contains(got.message, "tokenizer") {
			t.Errorf("engine says %q, tokenizer has %d: %v", c.told, c.tok.Size(), got)
		}
	}
	if vocabularyFits(nil, small) != nil {
		t.Error("an engine that told nothing is refused")
	}
}

// ignore_eos forbids every end, whatever the client said of it, in the order that
// the engine wants.
func TestEndlessAnswersForbidTheEnds(t *testing.T) {
	got := neverEnd([]engine.Bias{{ID: 7, Bias: 3}, {ID: 9, Bias: 50}}, []int32{9, 2})
	want := []engine.Bias{{ID: 2, Bias: -100}, {ID: 7, Bias: 3}, {ID: 9, Bias: -100}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
