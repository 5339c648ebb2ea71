package audit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlude/audit"
	"interlude/audit/audittest"
	"interlude/results"
)

// cut ends a run in slot n: what that slot had done up to record keep stays, the
// record after it is cut off, the rest is not sent, later slots never start.
func cut(b *audittest.Build, n, keep int) {
	b.Run.Status, b.Run.Why = "aborted", results.Interrupted
	b.Run.Slots = b.Run.Slots[:n]
	s := &b.Run.Slots[n-1]
	s.Complete, s.Witness, s.Why = false, nil, "context canceled"
	var kept []results.Record
	in := 0
	for _, r := range b.Records {
		switch {
		case r.Slot > n:
			continue
		case r.Slot == n && in >= keep:
			stub := results.Record{Schema: r.Schema, ID: r.ID, Request: r.Request, Slot: r.Slot, Pair: r.Pair, Arm: r.Arm, Class: r.Class,
				Conversation: r.Conversation, Turn: r.Turn, API: r.API, Stream: r.Stream, Outcome: results.NotSent, Error: "the slot ended first",
				Due: r.Due, End: r.End, TemplateHash: strings.Repeat("ee", 32)} // of a history that was never finished
			if in == keep {
				stub.Outcome, stub.Sent, stub.TemplateHash = results.CutOff, r.Sent, r.TemplateHash
			}
			r = stub
		}
		if r.Slot == n {
			in++
		}
		kept = append(kept, r)
	}
	b.Records = kept
}

// A run that somebody stopped is valid as far as it goes: nothing is held against
// it but what is missing, whatever the moment.
func TestInterruptedRunIsIncomplete(t *testing.T) {
	for _, kind := range []string{"ab", "soak"} {
		slots := []int{3, 4, 2}
		if kind == "soak" {
			slots = []int{1}
		}
		for _, n := range slots {
			for _, keep := range []int{-2, -1, 1, 2, 3, 4} { // -1: while the server of the slot was starting, -2: while it was asked what it is
				if n == 1 && keep < 3 {
					continue // nothing would be measured
				}
				r := fabricate(t, audittest.Options{Kind: kind}, func(b *audittest.Build) {
					cut(b, n, max(0, keep))
					if keep >= 0 {
						return
					}
					s := &b.Run.Slots[n-1]
					s.Info, s.Flag = nil, nil
					if s.Why = results.Interrupted; keep == -1 {
						s.ReadyS = 0
					}
					for len(b.Records) > 0 && b.Records[len(b.Records)-1].Slot == n {
						b.Records = b.Records[:len(b.Records)-1]
					}
				}, nil)
				for _, j := range r.Judgements {
					if !j.Right {
						t.Errorf("%s, slot %d after %d records: %s is judged: %v", kind, n, keep, j.Record, j.Faults)
					}
				}
				if w := r.Worst(); w != results.Doubt {
					t.Errorf("%s, slot %d after %d records: judged %q:\n%s", kind, n, keep, w, dump(r))
				}
				for _, f := range r.Findings {
					if f.Status == audit.Fail && f.Weight == results.Doubt && f.Check != "slots" {
						t.Errorf("%s, slot %d after %d records: %s: %s", kind, n, keep, f.Check, f.Text)
					}
				}
				if f := failed(r, "slots"); len(f) != 1 || !strings.Contains(f[0].Text, "interrupted") {
					t.Errorf("%s, slot %d: what is missing is not named: %v", kind, n, f)
				}
			}
		}
	}
}

// A server that is killed takes the lines with it that its journal had not written
// yet, the first ones among them: that is no fault of the rig.
func TestJournalOfAKilledServerMayBeEmpty(t *testing.T) {
	for _, left := range []string{"", "interlude journ"} {
		r := fabricate(t, audittest.Options{}, func(b *audittest.Build) { cut(b, 4, 2) }, func(dir string) {
			at := filepath.Join(dir, "slots", "04")
			if err := os.MkdirAll(at, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(at, results.JournalFile), []byte(left), 0o644); err != nil {
				t.Fatal(err)
			}
		})
		if f := failed(r, "journal"); len(f) > 0 || r.Worst() != results.Doubt {
			t.Errorf("%q: judged %q: %v", left, r.Worst(), f)
		}
	}
}

// What ended for another reason than an interruption is no excuse: a server that
// dies in the arm on has failed its requests.
func TestDeadServerIsNoInterruption(t *testing.T) {
	r := fabricate(t, audittest.Options{}, func(b *audittest.Build) {
		cut(b, 4, 2)
		b.Run.Why = "slot 4 (on): the server ended while it was measured: signal: killed"
		for i := range b.Records {
			if rec := &b.Records[i]; rec.Outcome == results.CutOff {
				rec.Outcome = results.TransportError
			}
		}
	}, nil)
	if len(failed(r, "failures_by_arm")) == 0 {
		t.Errorf("requests that a dead server failed are not named:\n%s", dump(r))
	}
}

// A run in which nothing was measured says so first, with the cause, and nothing
// that follows from it alone.
func TestNothingWasMeasured(t *testing.T) {
	const cause = "slot 1 (off): the server ended before it was ready: exit status 1; its last words:\n  engine: boom"
	for _, c := range []struct {
		name  string
		plant func(*audittest.Build)
		want  string
	}{
		{"the engine never started", func(b *audittest.Build) {
			cut(b, 1, 0)
			b.Run.Why, b.Run.Emulated = "ab: "+cause, ""
			b.Run.Slots[0].Info, b.Run.Slots[0].Flag, b.Run.Slots[0].ReadyS, b.Run.Slots[0].Why = nil, nil, 0, cause
			b.Records = nil
		}, "boom"},
		{"the warm-up failed", func(b *audittest.Build) {
			cut(b, 1, 0)
			b.Run.Why, b.Run.Slots[0].Why = "ab: warmup 1/warmup-1 ended as refused: 400", "warmup 1/warmup-1 ended as refused: 400"
			b.Records = b.Records[:1]
			b.Records[0].Outcome, b.Records[0].Sent = results.RefusedOutcome, b.Records[0].Due
		}, "ended as refused: 400"},
		{"interrupted before the first request", func(b *audittest.Build) { cut(b, 1, 0); b.Records = nil }, "interrupted"},
	} {
		r := fabricate(t, audittest.Options{}, c.plant, nil)
		f := r.Findings[0]
		if f.Check != "measured" || f.Weight != results.Invalid || !strings.HasPrefix(f.Text, "nothing was measured: ") || !strings.Contains(f.Text, c.want) {
			t.Errorf("%s: the first finding is %+v", c.name, f)
		}
		for _, f := range r.Findings[1:] {
			if f.Status == audit.Fail && (f.Weight == results.Invalid || f.Weight == results.Broken) {
				t.Errorf("%s: %s: %s", c.name, f.Check, f.Text)
			}
		}
	}
}
