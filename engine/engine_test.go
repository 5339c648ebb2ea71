package engine

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

func ptr[T any](v T) *T { return &v }

func TestGenIsPrintedAsTheNativeServerDoes(t *testing.T) {
	tests := []struct {
		name string
		gen  Gen
		want string
	}{
		{"greedy", Gen{MaxNew: 5, IDs: []int32{1, 2, 3}}, "GEN 5 1,2,3"},
		{"sampled", Gen{MaxNew: 1, Params: Params{Temperature: 0.7, TopP: 0.95, TopK: 20, MinP: 1e-05, Seed: 7}, IDs: []int32{0}},
			"GEN 1 temperature=0.7 top_p=0.95 top_k=20 min_p=1e-05 seed=7 0"},
		{"whole floats keep a fraction", Gen{MaxNew: 1, Params: Params{Temperature: 1}, IDs: []int32{9}}, "GEN 1 temperature=1.0 9"},
		{"top_p 1 is no key", Gen{MaxNew: 1, Params: Params{TopP: 1}, IDs: []int32{9}}, "GEN 1 9"},
		{"penalties bring their window", Gen{MaxNew: 1, Params: Params{PenaltyRepeat: 1.1, PenaltyFreq: -0.5}, IDs: []int32{9}},
			"GEN 1 penalty_repeat=1.1 penalty_freq=-0.5 penalty_last_n=64 9"},
		{"every key", Gen{MaxNew: 2, Image: "/tmp/i.bin", IDs: []int32{248056, 4}, Params: Params{Temperature: 0.5, TopP: 0.5, TopK: 64,
			MinP: 0.25, PenaltyRepeat: 1.5, PenaltyFreq: 0.5, PenaltyPresent: 2, PenaltyLastN: 32, Seed: math.MaxUint64, PCIeFrac: ptr(0.0),
			SpecMinP: ptr(0.75), AuxCPUs: "2-3", NoCheckpoint: true, Pin: 12, Cvec: ptr(0), LogitBias: []Bias{{3, -1.5}, {70, 2}},
			Logprobs: 5, Mask: true}},
			"GENI 2 temperature=0.5 top_p=0.5 top_k=64 min_p=0.25 penalty_repeat=1.5 penalty_freq=0.5 penalty_present=2.0 penalty_last_n=32 " +
				"seed=18446744073709551615 pcie_frac=0.0 spec_min_p=0.75 aux_cpus=2-3 ckpt=0 pin=12 cvec=0 logit_bias=3:-1.5,70:2 logprobs=5 mask=1 " +
				"/tmp/i.bin 248056,4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			line := tt.gen.Append(nil)
			if got := string(line); got != tt.want+"\n" {
				t.Fatalf("printed %q, want %q", got, tt.want)
			}
			var c Command
			if err := ParseCommand(line, &c); err != nil {
				t.Fatal(err)
			}
			if again := string(c.Append(nil)); again != tt.want+"\n" {
				t.Errorf("printed %q after parsing", again)
			}
		})
	}
	// The parsed value, not only its print, equals the original.
	full := tests[len(tests)-1].gen
	var c Command
	if err := ParseCommand(full.Append(nil), &c); err != nil || !reflect.DeepEqual(c.Gen, full) {
		t.Errorf("parsed %+v, %v; want %+v", c.Gen, err, full)
	}
}

func TestFloatsAsPythonPrintsThem(t *testing.T) {
	for v, want := range map[float64]string{0: "0.0", 1: "1.0", 0.1: "0.1", 1e-4: "0.0001", 1e-5: "1e-05", 1.5e-7: "1.5e-07",
		123456789: "123456789.0", 1e15: "1000000000000000.0", 1e16: "1e+16", 1.5e300: "1.5e+300", -2.5: "-2.5"} {
		if got := string(appendFloat(nil, v)); got != want {
			t.Errorf("appendFloat(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestCommandsThatBreakTheirForm(t *testing.T) {
	for line, field := range map[string]string{
		"":                             "verb",
		"HELLO":                        "verb",
		" STOP":                        "verb", // only the bare word is a STOP
		"STOP now":                     "verb",
		"GEN":                          "max_new",
		"GEN x 1":                      "max_new",
		"GEN 0 1":                      "max_new",
		"GEN -3 1":                     "max_new",
		"GEN 99999999999 1":            "max_new",
		"GEN 3":                        "ids",
		"GEN 3 1,,2":                   "ids",
		"GEN 3 1,2,":                   "ids",
		"GEN 3 1,-2":                   "ids",
		"GEN 3 1,2147483648":           "ids",
		"GEN 3 1,2 3":                  "end",
		"GEN 3 1,2 seed=1":             "end", // the ids are the first word without "="
		"GEN 3 temperature=hot 1":      "temperature",
		"GEN 3 temperature=nan 1":      "temperature",
		"GEN 3 temperature=-1 1":       "temperature",
		"GEN 3 seed=-1 1":              "seed",
		"GEN 3 seed= 1":                "seed",
		"GEN 3 ckpt=2 1":               "ckpt",
		"GEN 3 logit_bias=5 1":         "logit_bias",
		"GEN 3 logit_bias=5:1,4:1 1":   "logit_bias",
		"GEN 3 logit_bias=5:1,6:inf 1": "logit_bias",
		"GENI 3 /a/b":                  "ids",
		"GENI 3":                       "path",
		"MF 1,2":                       "cut",
		"MF cut=":                      "cut",
		"MF cut=1 2":                   "end",
		"MK":                           "mask",
		"MK !!":                        "mask",
		"MK AAAA":                      "mask", // three bytes
	} {
		var c Command
		err := ParseCommand([]byte(line), &c)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Field != field || syntax.Fix == "" {
			t.Errorf("%q: %v, want a *SyntaxError about %s with a fix", line, err, field)
		}
		if _, given, ok := strings.Cut(line, field+"="); ok && !strings.HasPrefix(given, " ") && given != "" && syntax.Value == "" {
			t.Errorf("%q: the error does not say what stands there: %v", line, err)
		}
		if c.Kind != CmdNone {
			t.Errorf("%q: kind %d after an error", line, c.Kind)
		}
	}
}

func TestCommandsTolerateWhatTheyDoNotKnow(t *testing.T) {
	var c Command
	if err := ParseCommand([]byte("GEN 7 zzz=1 id=99 seed=3 1,2\r\n"), &c); err != nil || c.Gen.Seed != 3 || len(c.Gen.IDs) != 2 {
		t.Errorf("unknown keys: %+v, %v", c, err)
	}
	if err := ParseCommand([]byte("BGEN 0 5 1,2"), &c); err != nil || c.Kind != CmdUnsupported || c.Name != "BGEN" {
		t.Errorf("BGEN: %+v, %v", c, err)
	}
	if err := ParseCommand([]byte("GEN 7 1"), &c); err != nil || c.Gen.Seed != 0 {
		t.Errorf("a reused Command keeps an old key: %+v", c.Gen)
	}
}

func TestMasks(t *testing.T) {
	m := Mask{Words: []uint32{1 << 5, 1 << 31}}
	var c Command
	if err := ParseCommand(m.Append(nil), &c); err != nil || c.Kind != CmdMaskAllow {
		t.Fatal(err)
	}
	for id := int32(-1); id < 100; id++ {
		if got, want := c.Mask.Allows(id), id == 5 || id == 63; got != want {
			t.Errorf("Allows(%d) = %v", id, got)
		}
	}
	free := Mask{Cut: []int32{248069}}
	if got := string(free.Append(nil)); got != "MF cut=248069\n" {
		t.Errorf("MF prints %q", got)
	}
	if err := ParseCommand([]byte("MF"), &c); err != nil || c.Kind != CmdMaskFree || !c.Mask.Free() || len(c.Mask.Cut) != 0 {
		t.Errorf("MF after MK: %+v, %v", c.Mask, err)
	}
}

func TestRefusals(t *testing.T) {
	g := Gen{MaxNew: 10, IDs: make([]int32, 82)}
	if text := g.Refuse(100, 10); text != "" {
		t.Errorf("82 + 10 + 8 fits in 100: %q", text)
	}
	if text := g.Refuse(99, 10); text != "prompt (82 tokens) + max_new (10) exceeds the context (99)" {
		t.Errorf("refused with %q", text)
	}
	g.IDs[81] = 10
	if text := g.Refuse(100, 10); text != "a token id is outside the vocabulary" {
		t.Errorf("refused with %q", text)
	}
}

func TestRepliesRoundTrip(t *testing.T) {
	for _, line := range []string{
		"INFO context=262144 kv=int8 conversation_cache_mib=8192 token_mask=1 resume_prefill=1 emulated=rtx3090-iq3s engine=0.1.42 zz=1",
		"READY 262144 stop", "READY 4096", "RESUME 0", "RESUME 17", "PP 8192 100000 3012.5 2720", "REUSED 17", "MQ",
		"T 248046", "LP 3 raw 17 -0.25 2 17:-0.25 90:-9999", "ERR bad request: nothing", "ERR verify batch 3 timed out", "FATAL disk",
		"DONE 12 90 1500.25 600 stop 4 9 0 0 0 0 0 0.5 90 0",
		"DONE 12 90 1500.25 600 cancel",
		"DONE 1 2 3 4 length 5 6 7 8 9 10 11 12.5 13 14 15 16 17 18 19", "BT", "",
	} {
		var r Reply
		if err := ParseReply([]byte(line+"\r\n"), &r); err != nil {
			t.Errorf("%q: %v", line, err)
		} else if got := string(r.Append(nil)); got != line+"\n" {
			t.Errorf("%q printed as %q", line, got)
		}
	}
}

func TestRepliesTolerateWhatTheyDoNotKnow(t *testing.T) {
	var r Reply
	for line, kind := range map[string]ReplyKind{
		"PP 5 6": ReplyPP, "PP 5 6 7 inf": ReplyPP, "PP 5 6 7 -nan extra": ReplyPP, "T 4 id=9": ReplyToken,
		"LP 0 raw 4 -inf 0 more": ReplyLogprob, "LP 0 raw 4 1e-7 0": ReplyLogprob,
		"loading 40%": ReplyOther, "TT 5": ReplyOther, "BDONE 0 1 stop 3": ReplyUnsupported,
		"DONE 1 2 3 4 stop 5 6 7 8 9 10 11 12 13 what": ReplyDone,
	} {
		if err := ParseReply([]byte(line), &r); err != nil || r.Kind != kind {
			t.Errorf("%q: kind %d, %v; want %d", line, r.Kind, err, kind)
		}
	}
	for line, want := range map[string]Done{
		"DONE 1 2 3 4 stop":             {Generated: 1, Prompt: 2, PromptMs: 3, DecodeMs: 4, Finish: "stop", Reused: -1, Read: -1, Fields: 5},
		"DONE 1 2 3 4 odd 5 6 x 8":      {Generated: 1, Prompt: 2, PromptMs: 3, DecodeMs: 4, Finish: "odd", Accepted: 5, Offered: 6, Reused: -1, Read: -1, Fields: 7},
		"DONE 1 2 inf 4 stop 5 6 7 8 9": {Generated: 1, Prompt: 2, DecodeMs: 4, Finish: "stop", Accepted: 5, Offered: 6, Reused: 7, Hits: 8, Lookups: 9, Read: -1, Fields: 10},
	} {
		if err := ParseReply([]byte(line), &r); err != nil || r.Done != want {
			t.Errorf("%q: %+v, %v", line, r.Done, err)
		}
	}
	if err := ParseReply([]byte("DONE 1 2 3 4 stop 1 2 3 4 5 6 7 8.5 9 10 11 12 13 14 15 16 17"), &r); err != nil || r.Done.Fields != 20 || r.Done.Windows != 15 {
		t.Errorf("a longer DONE: %+v, %v", r.Done, err)
	}
}

func TestRepliesThatBreakTheirForm(t *testing.T) {
	for line, field := range map[string]string{
		"T": "id", "T x": "id", "T -1": "id", "T 99999999999": "id", "RESUME": "reused", "REUSED -4": "reused",
		"PP": "pos", "PP 5": "total", "PP 5 6 x": "ms", "PP 5 6 7 x": "tok_s", "READY": "context", "READY 0": "context",
		"LP": "index", "LP 0 cooked": "scale", "LP 0 raw x": "id", "LP 0 raw 1 x": "logprob", "LP 0 raw 1 nan 0": "logprob",
		"LP 0 raw 1 0.5 0": "logprob", "LP 0 raw 1 -1 x": "k", "LP 0 raw 1 -1 2 3:-1": "alternative",
		"DONE": "1", "DONE 1 2 3": "4", "DONE 1 2 3 4": "5", "DONE a 2 3 4 stop": "1", "DONE -1 2 3 4 stop": "generated and prompt",
	} {
		var r Reply
		err := ParseReply([]byte(line), &r)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Field != field || r.Kind != ReplyBroken || r.Text != err.Error() {
			t.Errorf("%q: kind %d, %v, want a *SyntaxError about %s", line, r.Kind, err, field)
		}
		if frames := strings.HasPrefix(line, "DONE") || strings.HasPrefix(line, "RESUME"); r.Fatal != frames {
			t.Errorf("%q: fatal %v, want %v", line, r.Fatal, frames)
		}
	}
}

func TestFatal(t *testing.T) {
	for line, fatal := range map[string]bool{
		"ERR verify window 3 timed out": true, "ERR verify batch 1 timed out": true, "FATAL storage": true,
		"ERR bad request: verify timed out": false, "ERR verify failed": false, "ERR": false,
	} {
		var r Reply
		if err := ParseReply([]byte(line), &r); err != nil || r.Kind != ReplyErr || r.Fatal != fatal {
			t.Errorf("%q: %+v, %v", line, r, err)
		}
	}
}

func TestInfo(t *testing.T) {
	info, ok := ParseInfo("INFO engine=1 context=100 loose =x a=b=c spec=-4 token_mask=0 context=200")
	if !ok || len(info) != 5 || info["a"] != "b=c" {
		t.Fatalf("%v %v", info, ok)
	}
	if n, ok := info.Int("spec"); n != -4 || !ok {
		t.Error("a negative integer is an integer")
	}
	if _, ok := info.Int("a"); ok {
		t.Error("text is no integer")
	}
	if !info.Has(KeyTokenMask) || info.Able(KeyTokenMask) || info.Able("absent") || !info.Able("a") {
		t.Error("Able needs a value other than 0")
	}
	if got := info.String(); got != "context=200 spec=-4 token_mask=0 engine=1 a=b=c" {
		t.Errorf("printed %q", got)
	}
	if _, ok := ParseInfo("INFORMATION a=b"); ok {
		t.Error("another word is no INFO")
	}
}

func TestLogLinesRoundTrip(t *testing.T) {
	for _, line := range []string{
		"strata serve: prompt 900 tokens = 300 reused + 600 read in 500.5 ms (1198.8 tok/s), 12 generated in 140.0 ms (85.7 tok/s), drafts accepted 5 of 7, 2 checkpoints",
		"strata serve: prompt 9000 tokens = 0 reused + 8192 of 9000 read in 500.5 ms (1198.8 tok/s), 0 generated in 0.0 ms (0.0 tok/s), drafts accepted 0 of 0, 0 checkpoints (cancelled)",
		"conversation cache: parked 900 tokens in 120.0 ms; parked=2 bytes=1234567890123 evictions=1 snapshot_bytes=5 reused_kv_bytes=6",
		"conversation cache: skipped 900 tokens in 120.0 ms; parked=2 bytes=1 evictions=1 snapshot_bytes=5 reused_kv_bytes=6",
		"conversation cache: restored 900 tokens (checkpoint) in 20.0 ms; parked=0 bytes=0",
		"conversation cache: dropped 2 superseded copies", "conversation cache: skip parking (cache is off)",
	} {
		l, ok := ParseLog(line + "\n")
		if got := string(l.Append(nil)); !ok || got != line+"\n" {
			t.Errorf("%q: ok %v, printed %q", line, ok, got)
		}
	}
	for _, line := range []string{"", "strata serve: ready", "conversation cache: cleared", "conversation cache: restored 5 tokens (moon) in 1 ms",
		"conversation cache: parked x tokens in 1 ms", strings.Repeat("a", 100)} {
		if l, ok := ParseLog(line); ok {
			t.Errorf("%q read as %+v", line, l)
		}
	}
	if l, ok := ParseLog("restored 900 tokens (live) in 20 ms; parked=1 bytes=7"); !ok || l.Source != "live" || l.Bytes != 7 {
		t.Errorf("without its prefix: %+v", l)
	}
}

func TestTokenAndProgressLinesAllocateNothing(t *testing.T) {
	var r Reply
	for _, line := range []string{"T 248046\n", "PP 123456 262144 123456.789012345 2716.123456\n", "RESUME 5\n", "MQ\n", "DONE 1 2 3 4 stop 5 6 7\n"} {
		b := []byte(line)
		if n := testing.AllocsPerRun(100, func() { _ = ParseReply(b, &r) }); n != 0 {
			t.Errorf("%q: %v allocations", line, n)
		}
	}
}

func BenchmarkParseToken(b *testing.B) {
	line, r := []byte("T 24804\n"), Reply{}
	b.ReportAllocs()
	for b.Loop() {
		_ = ParseReply(line, &r)
	}
}

func BenchmarkParseGen100K(b *testing.B) {
	g := Gen{MaxNew: 1, IDs: make([]int32, 100_000)}
	for i := range g.IDs {
		g.IDs[i] = int32(i)
	}
	line, c := g.Append(nil), Command{}
	b.ReportAllocs()
	for b.Loop() {
		if err := ParseCommand(line, &c); err != nil {
			b.Fatal(err)
		}
	}
}

// What parses must print to a line that parses to the same print: one round
// settles every spelling.
func FuzzParseCommand(f *testing.F) {
	for _, s := range []string{"GEN 5 temperature=0.7 seed=3 1,2", "GENI 1 /x 5", "MF cut=1,2", "MK AQAAAA==", "STOP", "QUIT", "VRAM 5", "GEN 1 logit_bias=1:2,3:-4 mask=1 logprobs=2 7"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var c, again Command
		if err := ParseCommand(line, &c); err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || c.Kind != CmdNone {
				t.Fatalf("kind %d with %v", c.Kind, err)
			}
			return
		}
		printed := c.Append(nil)
		if err := ParseCommand(printed, &again); err != nil {
			t.Fatalf("%q printed as %q: %v", line, printed, err)
		}
		if second := again.Append(nil); string(second) != string(printed) {
			t.Fatalf("%q printed as %q, then as %q", line, printed, second)
		}
	})
}

func FuzzParseReply(f *testing.F) {
	for _, s := range []string{"T 5", "PP 1 2 3.5 4", "DONE 1 2 3 4 stop 5 6 7", "LP 0 raw 1 -1 1 2:-3", "INFO a=1 context=5", "READY 5 stop", "ERR x", "FATAL y", "MQ", "RESUME 4"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var r, again Reply
		if err := ParseReply(line, &r); err != nil {
			if r.Kind != ReplyBroken {
				t.Fatalf("kind %d with %v", r.Kind, err)
			}
			return
		}
		printed := r.Append(nil)
		if err := ParseReply(printed, &again); err != nil || again.Kind != r.Kind {
			t.Fatalf("%q printed as %q: kind %d, then %d, %v", line, printed, r.Kind, again.Kind, err)
		}
		if second := again.Append(nil); string(second) != string(printed) {
			t.Fatalf("%q printed as %q, then as %q", line, printed, second)
		}
	})
}

func FuzzParseLog(f *testing.F) {
	f.Add("strata serve: prompt 900 tokens = 300 reused + 600 read in 500.5 ms (1198.8 tok/s), 12 generated in 140.0 ms (85.7 tok/s), drafts accepted 5 of 7, 2 checkpoints")
	f.Add("conversation cache: restored 900 tokens (checkpoint) in 20.0 ms; parked=0 bytes=0")
	f.Fuzz(func(t *testing.T, line string) {
		l, ok := ParseLog(line)
		if !ok {
			return
		}
		printed := string(l.Append(nil))
		again, ok := ParseLog(printed)
		if second := string(again.Append(nil)); !ok || second != printed {
			t.Fatalf("%q printed as %q, then (%v) as %q", line, printed, ok, second)
		}
	})
}
