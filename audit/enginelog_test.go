package audit_test

import (
	"testing"

	"interlude/audit"
	"interlude/engine"
)

// TestEngineLogReader reads what the engine's own printer writes: two readers of
// one format must not drift apart.
func TestEngineLogReader(t *testing.T) {
	var log []byte
	for _, l := range []engine.LogLine{
		{Kind: engine.LogServed, Tokens: 627, Reused: 0, Read: 627, Ms: 560.5, Rate: 1118.6, Generated: 700, DecodeMs: 6300.1, DecodeRate: 111, Accepted: 300, Offered: 380, Checkpoints: 2, Cancelled: true},
		{Kind: engine.LogParked, Tokens: 1326, Ms: 125.2, Parked: 1, Bytes: 1 << 20, SnapshotBytes: 5},
		{Kind: engine.LogServed, Tokens: 230, Read: 230, Ms: 396, Generated: 21, DecodeMs: 190, Accepted: 9, Offered: 12},
		{Kind: engine.LogRestored, Tokens: 1326, Source: "live", Ms: 3.9, Parked: 0},
		{Kind: engine.LogServed, Tokens: 9000, Reused: 10, Read: 4000, ReadOf: 8990, Ms: 2000, Cancelled: true},
		{Kind: engine.LogDropped, Tokens: 1, Text: "copies"},
		{Kind: engine.LogSkipped, Tokens: 77, Ms: 0.1},
		{Kind: engine.LogNoParking, Text: "no room"},
	} {
		log = l.Append(log)
	}
	got := audit.ReadEngineLog(append([]byte("some other line\n"), log...))
	if len(got.Runs) != 3 || len(got.Cache) != 4 {
		t.Fatalf("%d GENs and %d cache lines:\n%s", len(got.Runs), len(got.Cache), log)
	}
	r := got.Runs[0]
	if r.Prompt != 627 || r.Read != 627 || r.ReadMs != 560.5 || r.Generated != 700 || r.DecodeMs != 6300.1 || r.Accepted != 300 || r.Offered != 380 || !r.Cancelled || r.Line != 2 {
		t.Errorf("%+v", r)
	}
	if r := got.Runs[2]; r.Reused != 10 || r.Read != 4000 || r.ReadOf != 8990 || !r.Cancelled {
		t.Errorf("%+v", r)
	}
	if c := got.Cache[0]; c.What != "parked" || c.Tokens != 1326 || c.Ms != 125.2 {
		t.Errorf("%+v", c)
	}
	if c := got.Cache[1]; c.What != "restored" || c.From != "live" || c.Ms != 3.9 {
		t.Errorf("%+v", c)
	}
}

func TestRecountByLength(t *testing.T) {
	served := func(prompt, reused, read, generated int, cancelled bool) string {
		l := engine.LogLine{Kind: engine.LogServed, Tokens: prompt, Reused: reused, Read: read, Generated: generated, Cancelled: cancelled}
		return string(l.Append(nil))
	}
	for _, c := range []struct {
		name         string
		log          string
		chunk        int
		lost, reread int
		continued    int
	}{
		{"kept", served(600, 0, 600, 100, true) + served(230, 0, 230, 21, false) + served(700, 699, 0, 500, false), 0, 0, 0, 1},
		{"lost", served(600, 0, 600, 100, true) + served(700, 600, 99, 500, false), 0, 99, 0, 1},
		{"twice parked", served(600, 0, 600, 100, true) + served(700, 699, 0, 50, true) + served(750, 749, 0, 5, false), 0, 0, 0, 2},
		{"a read again", served(9000, 0, 4096, 0, true) + served(9000, 0, 8999, 5, false), 0, 0, 4096, 1},
		{"a read resumed at its chunk", served(9000, 0, 5000, 0, true) + served(9000, 4096, 4903, 5, false), 2048, 0, 0, 1},
		{"a read resumed too early", served(9000, 0, 5000, 0, true) + served(9000, 2048, 6951, 5, false), 2048, 2048, 0, 1},
		{"the next turn is no continuation", served(600, 0, 600, 100, false) + served(720, 600, 119, 5, false), 0, 0, 0, 0},
	} {
		got := audit.Recount(audit.ReadEngineLog([]byte(c.log)), c.chunk)
		if got.Lost != c.lost || got.Reread != c.reread || got.Continuations != c.continued {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// FuzzEngineLog: no log makes the reader panic or invent a GEN.
func FuzzEngineLog(f *testing.F) {
	l := engine.LogLine{Kind: engine.LogServed, Tokens: 600, Read: 600, Generated: 5}
	f.Add(l.Append(nil))
	f.Fuzz(func(t *testing.T, log []byte) {
		got := audit.ReadEngineLog(log)
		audit.Recount(got, 2048)
		if len(got.Runs)+len(got.Cache) > len(log)/20 {
			t.Fatalf("%d lines out of %d bytes", len(got.Runs)+len(got.Cache), len(log))
		}
	})
}
