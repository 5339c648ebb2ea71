package workloads

import (
	"math"
	"slices"
	"testing"
	"time"
)

// TestNamedLoads: the numbers that the docs promise, from the draws.
func TestNamedLoads(t *testing.T) {
	l, ok := NamedLoad("L1")
	if !ok {
		t.Fatal("no L1")
	}
	var answers []int
	turns, rewrites, kept := 0, 0, 0
	for n := range 40 {
		c := l.Conversation(7, n)
		history := 0
		for range 1000 {
			turn := c.Next()
			turns++
			answers = append(answers, turn.Answer)
			switch {
			case turn.Shared == history && history > 0:
				if add := turn.Prompt - history; add < 300 || add > 3000 {
					t.Fatalf("turn %+v adds %d", turn, add)
				}
			case turn.Prompt == 132_000:
				rewrites++
				if turn.Shared == 16_384 {
					kept++
				}
			default:
				if turn.Shared != 0 || turn.Prompt < 12_000 || turn.Prompt > 45_000 || history > 0 && history <= 96_000 {
					t.Fatalf("turn %+v starts over after %d", turn, history)
				}
			}
			history = turn.Prompt + turn.Answer
		}
	}
	slices.Sort(answers)
	if m := answers[len(answers)/2]; math.Abs(float64(m)-850) > 25 || answers[0] != 80 || answers[len(answers)-1] != 3000 {
		t.Errorf("answers: median %d, %d to %d", m, answers[0], answers[len(answers)-1])
	}
	if share := float64(rewrites) / float64(turns); math.Abs(share-0.005) > 0.001 || kept < rewrites/3 || kept > rewrites*2/3 {
		t.Errorf("%d of %d turns rewrite, %d keep a part", rewrites, turns, kept)
	}
	if n := len(l.Probes(7, time.Hour)); n < 180 || n > 300 {
		t.Errorf("%d probes in an hour", n)
	}
	flood, _ := NamedLoad("flood")
	if n := len(flood.Probes(7, time.Hour)); n != 2399 {
		t.Errorf("flood: %d probes", n)
	}
	null, _ := NamedLoad("null")
	if null.Probes(7, time.Hour) != nil {
		t.Error("null has probes")
	}
	if _, ok := NamedLoad("L3"); ok {
		t.Error("L3 exists")
	}
	if len(Loads()) != 4 {
		t.Error(Loads())
	}
}

// TestConversationDraws: a turn depends on seed, conversation and turn alone.
func TestConversationDraws(t *testing.T) {
	l, _ := NamedLoad("L2")
	a, b, other := l.Conversation(1, 0), l.Conversation(1, 0), l.Conversation(2, 0)
	same := 0
	for range 200 {
		x, y := a.Next(), b.Next()
		if x != y {
			t.Fatalf("%+v, %+v", x, y)
		}
		if x == other.Next() {
			same++
		}
	}
	if same > 0 {
		t.Errorf("%d of 200 turns do not depend on the seed", same)
	}
}
