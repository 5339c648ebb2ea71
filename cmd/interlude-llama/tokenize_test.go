//go:build llama

// These tests load llama.cpp's libraries into the test program, which panics
// before main where libffi is missing; hence the build tag.
package main

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hybridgroup/yzma/pkg/llama"

	"interlude/engine/micromodel"
	"interlude/sched/chat"
)

var update = flag.Bool("update", false, "write what llama.cpp says to sched/chat/testdata")

// corpus is varied text: languages, numbers, code, white space, emoji, markup of
// no meaning, and random draws over many scripts.
func corpus() []string {
	texts := []string{
		"", " ", "  ", "\n", "\n\n", " \n \n", "\t\tx", "a", " a", "Hello, world!", "Hello,  world ! ", "don't we'll I'D THEY'RE it's 's 'x '", "1", "12", "123", "1234567", "3.14159, -2e10 and 0x1F; ½ ² Ⅷ ٣",
		"Tell a very long story about a river and the people who live beside it.", "größe 你好 🌍 👩‍👩‍👧‍👦", "ΑΒΓ άέή — “quotes” … ‰ № ™", "def f(x):\n    return x ** 2  # square\n\n\n\tif x:\r\n\t\tpass\r\n",
		`{"name": "value", "list": [1, 2, 3], "n": null, "ok": true}`, "<function=stock_level>\n<parameter=item>\nbolt\n</parameter>\n</function>\n", "https://example.org/a_b-c?d=e&f=%20#g", "ＦＵＬＬ　ｗｉｄｔｈ", "नमस्ते दुनिया", "สวัสดีชาวโลก", "שלום עולם", "مرحبا بالعالم",
		"한국어 텍스트입니다.", "これはテストです。カタカナ", "e\u0301 vs é, a\u0308o\u0308", "zero\u200bwidth\u00a0nbsp\u2003em\u3000wide", strings.Repeat("a", 300), strings.Repeat(" ", 70) + "x", strings.Repeat("ab ", 200), strings.Repeat("\n", 9), "x" + strings.Repeat("!?", 40),
		"a\u0085b\u2028c\u2029d", "\u00ad soft\u00ad hyphen", "𝒜𝓁𝓅𝒽𝒶 𐍈", "١٢٣ ௧௨௩ 一二三", "_snake_case CamelCase kebab-case", "'''\"\"\"```", "A\u00a0\u00a0 B \u00a0\n C",
		"\u1e9e\u01c5\u02b0\u00aa\u2160\u24d0", "™®©§¶•ªº", "mixed\r\n\r\nline\rends\n\r", " \t \u3000 x", "end of text  ", "ends with newline\n ",
	}
	draw := rand.New(rand.NewPCG(1, 2))
	ranges := [][2]rune{{0x20, 0x7e}, {0x20, 0x7e}, {0x20, 0x2f}, {0x30, 0x39}, {0x9, 0xd}, {0xa0, 0x17f}, {0x370, 0x3ff}, {0x400, 0x4ff}, {0x5d0, 0x5ea}, {0x620, 0x64a}, {0x900, 0x97f}, {0xe01, 0xe3a}, {0x2000, 0x206f}, {0x2190, 0x21ff}, {0x3040, 0x30ff}, {0x4e00, 0x9fa5}, {0xac00, 0xd7a3}, {0x1f300, 0x1f5ff}, {0x300, 0x36f}}
	for range 400 {
		var b strings.Builder
		for range 1 + draw.IntN(12) {
			r := ranges[draw.IntN(len(ranges))]
			for range 1 + draw.IntN(6) {
				b.WriteRune(r[0] + draw.Int32N(r[1]-r[0]+1))
			}
		}
		texts = append(texts, b.String())
	}
	return texts
}

// vocabularies are the GGUF files to compare with: the micro model, the fetched
// real one, and what INTERLUDE_VOCABULARIES lists.
func vocabularies(t *testing.T) []string {
	micro := filepath.Join(t.TempDir(), "micro.gguf")
	f, err := os.Create(micro)
	if err != nil {
		t.Fatal(err)
	}
	if err := micromodel.Write(f, micromodel.Micro(), 1); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	files := []string{micro}
	cache, _ := os.UserCacheDir()
	found, _ := filepath.Glob(filepath.Join(cache, "interlude", "smollm2", "*.gguf"))
	if len(found) == 0 {
		t.Log("NOT RUN on real weights: `interlude fetch smollm2` gets them")
	}
	files = append(files, found...)
	for _, list := range filepath.SplitList(os.Getenv("INTERLUDE_VOCABULARIES")) {
		found, err := filepath.Glob(list)
		if err != nil || len(found) == 0 {
			t.Errorf("INTERLUDE_VOCABULARIES names %s: %d files, %v", list, len(found), err)
		}
		files = append(files, found...)
	}
	return files
}

func loadLibraries(t *testing.T) {
	lib := os.Getenv("INTERLUDE_LLAMA_LIB")
	if lib == "" {
		cache, _ := os.UserCacheDir()
		lib = filepath.Join(cache, "interlude", "llama", "lib")
	}
	if _, err := libraryVersion(lib); err != nil {
		if os.Getenv("INTERLUDE_REQUIRE_LLAMA") != "" {
			t.Fatal(err)
		}
		t.Skipf("NOT RUN: %v", err)
	}
	if err := llama.Load(lib); err != nil {
		t.Fatal(err)
	}
	llama.LogSet(llama.LogSilent())
	llama.Init()
}

// vector is one text with the library's ids.
type vector struct {
	Text string  `json:"text"`
	IDs  []int32 `json:"ids"`
}

// TestTokenizersEqualTheLibrary compares our tokenizers with llama.cpp's, token by
// token, and our pieces with its pieces.
func TestTokenizersEqualTheLibrary(t *testing.T) {
	loadLibraries(t)
	for i, file := range vocabularies(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			tok := ours(t, file)
			p := llama.ModelDefaultParams()
			p.VocabOnly = 1
			model, err := llama.ModelLoadFromFile(file, p)
			if err != nil || model == 0 {
				t.Fatalf("llama.cpp cannot load it: %v", err)
			}
			defer llama.ModelFree(model)
			v := llama.ModelGetVocab(model)
			var vectors []vector
			faults := 0
			for _, text := range corpus() {
				want := []int32{}
				for _, id := range llama.Tokenize(v, text, false, false) {
					want = append(want, int32(id))
				}
				vectors = append(vectors, vector{text, want})
				got := tok.Encode(nil, text)
				if !equal(got, want) {
					if faults++; faults <= 10 {
						t.Errorf("%q:\ngot  %v %q\nwant %v %q", text, got, pieces(tok, got), want, pieces(tok, want))
					}
				}
			}
			t.Logf("%s: %d texts, %d differ", tok.Name(), len(vectors), faults)
			comparePieces(t, tok, v)
			if i == 0 && *update {
				data, _ := json.Marshal(vectors[:120])
				if err := os.WriteFile(filepath.Join("..", "..", "sched", "chat", "testdata", "micro-tokens.json"), append(data, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func ours(t *testing.T, file string) chat.Tokenizer {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	tok, err := chat.FromGGUF(f, info.Size())
	if err != nil {
		t.Skipf("not supported here: %v", err)
	}
	return tok
}

func comparePieces(t *testing.T, tok chat.Tokenizer, v llama.Vocab) {
	buf := make([]byte, 512)
	if n := int(llama.VocabNTokens(v)); n != tok.Size() {
		t.Errorf("%d ids, llama.cpp has %d", tok.Size(), n)
	}
	faults := 0
	for id := range int32(tok.Size()) {
		n := llama.TokenToPiece(v, llama.Token(id), buf, 0, false)
		got, want := tok.Piece(id), string(buf[:max(n, 0)])
		// The library marks characters that byte-level BPE cannot write; texts never have them.
		if got != want && !strings.Contains(want, "[UNK_BYTE") && !llama.VocabIsEOG(v, llama.Token(id)) {
			if faults++; faults <= 10 {
				t.Errorf("id %d: piece %q, llama.cpp has %q", id, got, want)
			}
		}
		ends := false
		for _, e := range tok.EndIDs() {
			ends = ends || e == id
		}
		if ends != llama.VocabIsEOG(v, llama.Token(id)) {
			t.Errorf("id %d %q: an end here %v, in llama.cpp %v", id, want, ends, !ends)
		}
	}
}

func pieces(tok chat.Tokenizer, ids []int32) (out []string) {
	for _, id := range ids {
		out = append(out, tok.Piece(id))
	}
	return out
}

func equal(a, b []int32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
