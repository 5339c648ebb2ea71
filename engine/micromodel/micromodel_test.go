package micromodel

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
)

// TestBytesAreTheSameEverywhere pins the file: tests that compare an engine with
// itself on two machines must have read the same weights.
func TestBytesAreTheSameEverywhere(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, Micro(), 1); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b.Bytes())
	const want = "adc82690f4a1897320d9e6718fe22d23eed3e83bcb4351dfef0892dbfae1a8de"
	if got := hex.EncodeToString(sum[:]); got != want {
		t.Errorf("micro model, seed 1: SHA-256 %s, want %s", got, want)
	}
	var other bytes.Buffer
	if err := Write(&other, Micro(), 2); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(b.Bytes(), other.Bytes()) {
		t.Error("seeds 1 and 2 gave the same weights")
	}
	if b.Len() != other.Len() {
		t.Errorf("sizes differ: %d and %d", b.Len(), other.Len())
	}
}

func TestVocabulary(t *testing.T) {
	v := vocabulary(512)
	if len(v.tokens) != 512 || len(v.types) != 512 {
		t.Fatalf("%d tokens and %d types, want 512", len(v.tokens), len(v.types))
	}
	if v.tokens[v.imEnd] != "<|im_end|>" || v.types[v.imEnd] != tokenControl {
		t.Errorf("token %d is %q of type %d, want a control token <|im_end|>", v.imEnd, v.tokens[v.imEnd], v.types[v.imEnd])
	}
	sorted := slices.Clone(v.tokens)
	slices.Sort(sorted)
	if n := len(slices.Compact(sorted)); n != 512 {
		t.Errorf("only %d of 512 tokens are distinct", n)
	}
	// Each merge makes a token of two tokens that stand before it.
	for i, m := range v.merges {
		left, right, _ := strings.Cut(m, " ")
		at := slices.Index(v.tokens, left+right)
		if at != 256+i || slices.Index(v.tokens, left) >= at || slices.Index(v.tokens, right) >= at {
			t.Errorf("merge %d (%q) is not made of earlier tokens", i, m)
		}
	}
	if !slices.Contains(v.tokens, "Ġthe") {
		t.Error("the commonest word did not become a token")
	}
}

func TestShapeValidate(t *testing.T) {
	for name, change := range map[string]func(*Shape){
		"no layers":            func(s *Shape) { s.Layers = 0 },
		"dim not of heads":     func(s *Shape) { s.Dim = 130 },
		"odd head":             func(s *Shape) { s.Dim, s.Heads = 15, 5 },
		"heads not of kvheads": func(s *Shape) { s.KVHeads = 3 },
		"tiny vocabulary":      func(s *Shape) { s.Vocab = 100 },
	} {
		s := Micro()
		change(&s)
		if err := Write(&bytes.Buffer{}, s, 1); err == nil {
			t.Errorf("%s: no error for %+v", name, s)
		}
	}
}
