package workloads

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func plan(t *testing.T, name string, o PlanOptions) *Plan {
	t.Helper()
	m, err := Load(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(m, o, wordCounter())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlanOrder(t *testing.T) {
	for _, c := range []struct {
		pairs, aa int
		controls  []string
		want      string
	}{
		{3, 0, nil, "1off 1on 2on 2off 3off 3on"},
		{4, 0, nil, "1off 1on 2on 2off 3on 3off 4off 4on"},
		{6, 0, nil, "1off 1on 2on 2off 3on 3off 4off 4on 5off 5on 6on 6off"},
		{4, 1, []string{"upstream"}, "1off 1on 2on 2off 3on 3off 4off 4on 5off* 5off* 0upstream"},
	} {
		var got []string
		for i, s := range plan(t, "smoke", PlanOptions{Kind: "ab", Pairs: c.pairs, AA: c.aa, Controls: c.controls}).Slots {
			if s.Slot != i+1 {
				t.Errorf("slot %d stands at place %d", s.Slot, i+1)
			}
			got = append(got, fmt.Sprint(s.Pair, s.Arm, map[bool]string{true: "*"}[s.AA]))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("pairs %d: %v, want %s", c.pairs, got, c.want)
		}
	}
	for n := 4; n <= 40; n += 2 {
		first := 0
		for _, s := range plan(t, "smoke", PlanOptions{Kind: "ab", Pairs: n}).Slots {
			if s.Slot%2 == 1 && s.Arm == "off" {
				first++
			}
		}
		if first != n/2 {
			t.Errorf("%d pairs: %d of them start with off, want half", n, first)
		}
	}
}

func TestPlanRefusesPairs(t *testing.T) {
	m, err := Load("smoke", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{-2, 0, 1, 2, 5, 7} {
		if _, err := NewPlan(m, PlanOptions{Kind: "ab", Pairs: n}, wordCounter()); err == nil || !strings.Contains(err.Error(), fmt.Sprint(n)) {
			t.Errorf("pairs %d: error %v", n, err)
		}
	}
}

func TestPlanReadsBack(t *testing.T) {
	p := plan(t, "paired-short", PlanOptions{Kind: "ab", Pairs: 8, Seed: 1<<63 + 5, Target: "ours", Options: map[string]string{"duration": "1h"}})
	data := p.Encode()
	again, err := ReadPlan(data)
	if err != nil {
		t.Fatal(err)
	}
	if again.Hash() != p.Hash() || again.Seed != p.Seed {
		t.Errorf("hash %s after reading, %s before", again.Hash(), p.Hash())
	}
	other := plan(t, "paired-short", PlanOptions{Kind: "ab", Pairs: 8, Seed: 6, Target: "ours"})
	if other.Hash() == p.Hash() {
		t.Error("another seed gives the same hash")
	}
	for _, edit := range [][2]string{{`"margin": 0.05`, `"margin": 0.5`}, {`"kind": "ab"`, `"kind": "ab", "kid": 1`}, {"\n", "\n\n"}, {`"warmups": 1`, `"warmups": 99`}} {
		bad := strings.Replace(string(data), edit[0], edit[1], 1)
		got, err := ReadPlan([]byte(bad))
		if err == nil && got.Hash() == p.Hash() {
			t.Errorf("edited %q passes as the same plan", edit)
		}
	}
}

// TestPlanExpected: the estimate that is shown before the first start is that of
// an engine which serves one request at a time.
func TestPlanExpected(t *testing.T) {
	one := time.Duration(plan(t, "paired-short", PlanOptions{Kind: "ab", Pairs: 4}).Expected)
	fast := time.Duration(plan(t, "paired-short", PlanOptions{Kind: "ab", Pairs: 4, Speed: 8}).Expected)
	if s := one.Seconds(); s < 8*27 || s > 8*60 {
		t.Errorf("8 slots are expected to take %v", s)
	}
	if r := one.Seconds() / fast.Seconds(); r < 7.5 || r > 8.5 {
		t.Errorf("×8 shortens the expected time by %.2f", r)
	}
}

// TestPromptsAreDisjoint: no two conversations of a pair, and no conversation of
// another pair, start alike, so that no cache can help where it should not.
func TestPromptsAreDisjoint(t *testing.T) {
	seen := map[string]string{}
	for pair := 1; pair <= 4; pair++ {
		for _, r := range expand(t, "paired-short", 3, pair) {
			if r.Turn > 0 || r.Class == Canary && pair > 1 {
				continue
			}
			start := strings.Join(strings.Fields(r.System)[:2], " ")
			if other, ok := seen[start]; ok {
				t.Errorf("pair %d, %s starts with %q as %s does", pair, r.ID, start, other)
			}
			seen[start] = fmt.Sprint("pair ", pair, ", ", r.ID)
		}
	}
}

func TestCanariesAreTheSameInEveryPair(t *testing.T) {
	text := map[string]string{}
	for pair := 1; pair <= 3; pair++ {
		for _, r := range expand(t, "paired-short", 3, pair) {
			if r.Class != Canary {
				continue
			}
			if now := string(mustJSON(r)); text[r.ID] == "" {
				text[r.ID] = now
			} else if text[r.ID] != now {
				t.Errorf("%s of pair %d differs", r.ID, pair)
			}
		}
	}
	if len(text) == 0 {
		t.Error("no canary")
	}
}

// TestAskingTurnHidesTheAnswer: a turn that asks for facts contains none of the values.
func TestAskingTurnHidesTheAnswer(t *testing.T) {
	asked := 0
	for seed := range uint64(30) {
		for _, r := range expand(t, "paired-short", seed, 1) {
			if r.Class != Audit {
				continue
			}
			asked++
			if len(r.Expect.JSON.Fields) != 20 {
				t.Errorf("%s asks for %d fields", r.ID, len(r.Expect.JSON.Fields))
			}
			kinds := map[byte]bool{}
			for _, f := range r.Expect.JSON.Fields {
				kinds[f.Value[0]] = true
				if strings.Contains(r.User, strings.Trim(string(f.Value), `"`)) {
					t.Errorf("seed %d: %s contains %s of %s", seed, r.ID, f.Value, f.Name)
				}
			}
			if !kinds['"'] || !kinds['n'] || !kinds['['] || !kinds['t'] && !kinds['f'] {
				t.Errorf("seed %d: %s asks for too few types: %v", seed, r.ID, kinds)
			}
		}
	}
	if asked < 60 {
		t.Errorf("%d audits", asked)
	}
}

func TestSamplingAlternates(t *testing.T) {
	for pair := 1; pair <= 4; pair++ {
		for _, r := range expand(t, "paired-short", 3, pair) {
			sampled := r.Class == Long && pair%2 == 0
			if sampled != (r.Temperature > 0) || sampled != (r.Seed > 0) || sampled != (r.Expect.Lines != nil && r.Expect.Lines.Aside) {
				t.Errorf("pair %d, %s: temperature %v, seed %d", pair, r.ID, r.Temperature, r.Seed)
			}
		}
	}
}

// TestStreamsStandApart: a fact more in one step moves nothing in another conversation.
func TestStreamsStandApart(t *testing.T) {
	m, err := Load("paired-short", nil)
	if err != nil {
		t.Fatal(err)
	}
	before, err := Expand(m, 1, 1, wordCounter())
	if err != nil {
		t.Fatal(err)
	}
	m.Conversations[0].Steps[0].Plant++
	after, err := Expand(m, 1, 1, wordCounter())
	if err != nil {
		t.Fatal(err)
	}
	for i := range before {
		if before[i].Conversation != "A" && string(mustJSON(before[i])) != string(mustJSON(after[i])) {
			t.Errorf("%s moved", before[i].ID)
		}
		if before[i].ID == "A1" && (before[i].Expect.Lines.Nonce != after[i].Expect.Lines.Nonce || before[i].User == after[i].User) {
			t.Errorf("A1: rule %s became %s", before[i].Expect.Lines.Nonce, after[i].Expect.Lines.Nonce)
		}
	}
}

func TestTemplateHashFollowsHistory(t *testing.T) {
	reqs := Measured(expand(t, "smoke", 1, 1))
	a := reqs[:2]
	if a[0].ID != "A1" || a[1].ID != "A2" {
		t.Fatal("the smoke manifest has changed")
	}
	whole := TemplateHash(a)
	edited := []Request{a[0], a[1]}
	edited[0].User += " "
	if TemplateHash(edited) == whole || a[1].TemplateHash != whole {
		t.Error("the hash of the second turn does not cover the first")
	}
	edited[0] = a[0]
	edited[1].MaxTokens++
	if TemplateHash(edited) == whole {
		t.Error("the hash does not cover max_tokens")
	}
}

func TestContextNeeded(t *testing.T) {
	reqs := []Request{
		{Conversation: "A", User: "one two", MaxTokens: 100},
		{Conversation: "A", Turn: 1, User: "one", MaxTokens: 50},
		{Conversation: "B", User: "one", MaxTokens: 20},
	}
	if got := ContextNeeded(reqs, wordCounter()); got != 12+100+16+1+50 {
		t.Errorf("%d tokens", got)
	}
	reqs[1].Rollover = true
	if got := ContextNeeded(reqs, wordCounter()); got != 112 {
		t.Errorf("%d tokens with a rollover", got)
	}
}

// TestDrawsArePinned: a published plan must expand to the same bytes for ever. If
// this changes on purpose, PlanSchema has to change with it.
func TestDrawsArePinned(t *testing.T) {
	m, err := Parse([]byte(goodManifest))
	if err != nil {
		t.Fatal(err)
	}
	reqs, err := Expand(m, 1, 2, wordCounter())
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, r := range reqs {
		fmt.Fprintln(&text, r.ID, r.System, r.User, r.Results, r.Seed, Answer(&r.Expect), string(mustJSON(r.Expect.Calls)))
	}
	const want = "6d92a671babd7eb0430b6503b5250eb2a400dbae8ed3d1d2b4b73144efb024a8"
	if got := hash([]byte(text.String())); got != want {
		t.Errorf("the requests hash to %s, want %s", got, want)
	}
}

// FuzzReadPlan: what is read is written again as the same bytes.
func FuzzReadPlan(f *testing.F) {
	m, err := Parse([]byte(goodManifest))
	if err != nil {
		f.Fatal(err)
	}
	p, err := NewPlan(m, PlanOptions{Kind: "ab", Pairs: 3}, wordCounter())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p.Encode())
	f.Add([]byte(`{"schema": 1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := ReadPlan(data); err == nil && string(p.Encode()) != string(data) {
			t.Fatalf("%q became %q", data, p.Encode())
		}
	})
}
