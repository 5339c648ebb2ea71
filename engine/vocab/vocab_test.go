package vocab

import (
	"strings"
	"testing"
)

// known is how many ids mean something below the specials.
func known() int { return len(vocabulary.pieces) }

func text(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(Piece(id))
	}
	return b.String()
}

func TestEncodeTakesTheLongestPiece(t *testing.T) {
	for in, want := range map[string]int{
		"":                      0,
		"assistant\n":           2,
		"user\n":                2,
		"amber birch":           2,
		"1: amber birch zebra":  5, // digit, ": ", bare word, two with a leading blank
		"\n\n":                  1,
		`{"a": 1, "b": "x"}`:    9,
		"</think>\n\n":          5,  // markup in a text is plain pieces
		"größe 你好":              -1, // only its length in bytes bounds it
		"north northerly":       6,  // no piece of the vocabulary is cut inside
		"<|im_start|>assistant": -1,
	} {
		ids := Encode(nil, in)
		if text(ids) != in {
			t.Errorf("%q became %q", in, text(ids))
		}
		if want >= 0 && len(ids) != want {
			t.Logf("%q: %v", in, pieces(ids))
			t.Errorf("%q takes %d ids, want %d", in, len(ids), want)
		}
	}
}

func pieces(ids []int32) (out []string) {
	for _, id := range ids {
		out = append(out, Piece(id))
	}
	return out
}

func TestMarkupInTextIsNeverSpecial(t *testing.T) {
	for _, s := range specials {
		for _, id := range Encode(nil, "x"+s.text+"y") {
			if int(id) >= known() {
				t.Errorf("%q yields id %d", s.text, id)
			}
		}
		if id, ok := Special(s.text); !ok || id != s.id {
			t.Errorf("Special(%q) = %d, %v", s.text, id, ok)
		}
		if got, ok := SpecialText(s.id); !ok || got != s.text {
			t.Errorf("SpecialText(%d) = %q, %v", s.id, got, ok)
		}
		if shown := Piece(s.id) != ""; shown != s.shown {
			t.Errorf("Piece(%d) = %q", s.id, Piece(s.id))
		}
		if s.id < int32(known()) || s.id >= Size {
			t.Errorf("special id %d lies outside [%d, %d)", s.id, known(), Size)
		}
	}
	for _, id := range []int32{-1, int32(known()), EndOfText - 1, Size, 1 << 30} {
		if Piece(id) != "" {
			t.Errorf("Piece(%d) = %q", id, Piece(id))
		}
	}
}

// Ids are part of published plans and journals: these must never move.
func TestIDsKeepTheirMeaning(t *testing.T) {
	for piece, want := range map[string]int32{"\n\n": 256, "  ": 257, " amber": 310, "amber": 311, "system": 301, " a": 526} {
		ids := Encode(nil, piece)
		if len(ids) != 1 || ids[0] != want {
			t.Errorf("%q is %v, want %d", piece, ids, want)
		}
	}
	if known() != 4298 {
		t.Errorf("%d ids have a meaning", known())
	}
}

func TestEveryRuleWordIsOneToken(t *testing.T) {
	const rule = `amber birch cedar delta ember fjord grove haven inlet jetty knoll lotus maple north ocean pearl quartz river stone tulip umber valley
willow yarrow zenith acorn basil coral daisy eagle falcon garnet hazel iris jasper kelp lilac mango nectar olive plum quail raven sage thyme urchin
violet walnut xenon yucca zebra anchor beacon copper dune echo frost glade harbor island jungle kiwi lagoon meadow`
	words := strings.Fields(rule)
	if len(words) != 64 {
		t.Fatalf("%d rule words", len(words))
	}
	for _, w := range words {
		if len(Encode(nil, w)) != 1 || len(Encode(nil, " "+w)) != 1 {
			t.Errorf("%q is not one token", w)
		}
	}
}

func FuzzEncode(f *testing.F) {
	f.Add("amber </think> größe 🌍 \xff\xfe\n\n  x")
	f.Fuzz(func(t *testing.T, in string) {
		ids := Encode(nil, in)
		if text(ids) != in {
			t.Fatalf("%q became %q", in, text(ids))
		}
		for _, id := range ids {
			if int(id) >= known() {
				t.Fatalf("%q yields the special id %d", in, id)
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	in := strings.Repeat("The observatory records the amber river, and 12 stations answer at dawn.\n", 100)
	ids := Encode(nil, in)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		ids = Encode(ids[:0], in)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(ids)), "ns/token")
}
