package sched

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// recorded runs a world and returns its events and the machine's actions.
func recorded(t *testing.T, seed uint64, policy string, e Engine) (Config, []Event, [][]Action) {
	t.Helper()
	cfg := testConfig(policy)
	w := newWorld(seed, cfg, e, 30, true)
	w.fallsMute(seed%2 == 1)
	var events []Event
	var actions [][]Action
	w.after = func(e Event, a []Action) {
		events, actions = append(events, e), append(actions, slices.Clone(a))
	}
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
	return cfg, events, actions
}

// forRecorded runs f over worlds of every policy and engine.
func forRecorded(t *testing.T, f func(t *testing.T, cfg Config, events []Event, actions [][]Action)) {
	for _, policy := range policies() {
		for name, e := range engines() {
			for seed := range uint64(4) {
				t.Run(policy+"/"+name, func(t *testing.T) {
					cfg, events, actions := recorded(t, seed, policy, e)
					f(t, cfg, events, actions)
				})
			}
		}
	}
}

// TestShiftedTime: shifting all times shifts the answers and changes nothing else.
func TestShiftedTime(t *testing.T) {
	const shift = 12345 * time.Second
	forRecorded(t, func(t *testing.T, cfg Config, events []Event, actions [][]Action) {
		m := New(cfg)
		for i, e := range events {
			e.At += shift
			for j, a := range m.Step(e, nil) {
				if a.At != 0 {
					a.At -= shift
				}
				if a != actions[i][j] {
					t.Fatalf("event %d, %s: %s, unshifted %s", i, e.AppendText(nil), a.AppendText(nil), actions[i][j].AppendText(nil))
				}
			}
		}
	})
}

// TestRenamedIDs: the machine never looks at what an id is.
func TestRenamedIDs(t *testing.T) {
	rename := func(id ID) ID {
		if id == 0 {
			return 0
		}
		return 1000 - 7*id
	}
	forRecorded(t, func(t *testing.T, cfg Config, events []Event, actions [][]Action) {
		m := New(cfg)
		for i, e := range events {
			e.ID = rename(e.ID)
			for j, a := range m.Step(e, nil) {
				want := actions[i][j]
				want.ID = rename(want.ID)
				if a != want {
					t.Fatalf("event %d, %s: %s, want %s", i, e.AppendText(nil), a.AppendText(nil), want.AppendText(nil))
				}
			}
		}
	})
}

// TestArriveAndCancel: one that arrives behind others and leaves at once leaves
// no trace on them.
func TestArriveAndCancel(t *testing.T) {
	forRecorded(t, func(t *testing.T, cfg Config, events []Event, actions [][]Action) {
		m := New(cfg)
		rng := rand.New(rand.NewPCG(1, 2))
		guest, guests := ID(1<<40), 0
		for i, e := range events {
			got := m.Step(e, nil)
			if !slices.Equal(got, actions[i]) {
				t.Fatalf("event %d, %s: %v, without guests %v", i, e.AppendText(nil), got, actions[i])
			}
			if waiting, active, _ := m.Load(); active == 0 || waiting >= cfg.Queue || m.armed == e.At || rng.IntN(10) > 0 {
				continue // with a Wake due in this very instant the guest would only come before it
			}
			guest++
			guests++
			out := m.Step(Event{Kind: Arrive, ID: guest, At: e.At, Request: Request{Explicit: true, Priority: -9, Prompt: 1 << 20, Unread: 9, MaxNew: 9}}, nil)
			out = append(out, m.Step(Event{Kind: Cancel, ID: guest, At: e.At}, nil)...)
			for _, a := range out {
				if a.ID != guest && a.Kind != WakeAt {
					t.Fatalf("the guest caused %s", a.AppendText(nil))
				}
			}
		}
		if guests < 10 {
			t.Fatalf("only %d guests", guests)
		}
	})
}

// TestForeignEvents: events that name nobody the machine knows change nothing.
func TestForeignEvents(t *testing.T) {
	_, events, actions := recorded(t, 3, Budget, engines()["stop"])
	m := New(testConfig(Budget))
	for i, e := range events {
		if got := m.Step(e, nil); !slices.Equal(got, actions[i]) {
			t.Fatalf("event %d: %v, want %v", i, got, actions[i])
		}
		for k := Cancel; k <= TimedOut; k++ {
			x := Event{Kind: k, ID: 999, At: e.At, N: 5, Epoch: m.epoch, Finish: FinishStop}
			if out := m.Step(x, nil); len(out) > 0 {
				t.Fatalf("%s caused %s", x.AppendText(nil), out[0].AppendText(nil))
			}
		}
	}
}

// TestJournal: a journal replays to the same actions; a changed one does not.
func TestJournal(t *testing.T) {
	cfg, events, actions := recorded(t, 5, Budget, engines()["stop"])
	text, err := AppendJournalHeader(nil, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range events {
		text = AppendJournal(text, e, actions[i])
	}
	rep, err := Replay(bytes.NewReader(text), nil)
	if err != nil || rep.Mismatch != "" || rep.Truncated || rep.Events != len(events) || rep.Counters.Preemptions == 0 {
		t.Fatalf("replayed %+v, %v", rep, err)
	}
	for name, edit := range map[string]func(string) string{
		"an action is gone":   func(s string) string { return strings.Replace(s, "\tstop ", "\tstap ", 1) },
		"an action was added": func(s string) string { return strings.Replace(s, "\tstop ", "\tload\n\tstop ", 1) },
		"another priority":    func(s string) string { return strings.Replace(s, " max=", " explicit priority=7 max=", 3) },
		"an end is gone":      func(s string) string { return s[:strings.LastIndex(s, "\t")] },
	} {
		rep, err := Replay(strings.NewReader(edit(string(text))), nil)
		if err != nil || rep.Mismatch == "" {
			t.Errorf("%s: mismatch %q, %v", name, rep.Mismatch, err)
		}
	}
	cut, err := Replay(bytes.NewReader(text[:len(text)-3]), nil)
	if err != nil || !cut.Truncated {
		t.Errorf("a cut journal: %+v, %v", cut, err)
	}
	marked, err := Replay(bytes.NewReader(AppendJournalTruncated(slices.Clone(text))), nil)
	if err != nil || !marked.Truncated || marked.Mismatch != "" {
		t.Errorf("a marked journal: %+v, %v", marked, err)
	}
	if _, err := Replay(strings.NewReader("nonsense\n"), nil); err == nil {
		t.Error("nonsense is a journal")
	}
}

// TestTableInNote: DESIGN.md shows the transitions as they are.
func TestTableInNote(t *testing.T) {
	note := readFile(t, "DESIGN.md")
	if !strings.Contains(note, Table()) {
		t.Errorf("DESIGN.md must contain this table:\n%s", Table())
	}
}

// TestEveryTransition: random worlds take every transition of the table.
func TestEveryTransition(t *testing.T) {
	taken := map[[2]State]bool{}
	see := func(w *world) {
		last := map[ID]State{}
		w.after = func(_ Event, actions []Action) {
			m := w.check.m
			for id := range w.size {
				now := m.State(id)
				if now == StateNone && last[id] != StateNone {
					now = StateEnded
				}
				taken[[2]State{last[id], now}] = true
				last[id] = now
				if now == StateEnded {
					last[id] = StateNone
				}
			}
		}
	}
	for seed := range uint64(40) {
		for _, policy := range policies() {
			cfg := testConfig(policy)
			cfg.ForceParkEvery = int(seed % 3 * 20)
			w := newWorld(seed, cfg, engines()[[]string{"stop", "resume"}[seed%2]], 40, true)
			see(w)
			if err := w.run(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for from := range transitions {
		for to, why := range transitions[from] {
			// Within one Step: the next slice, a turn given back, a nonfinite retry.
			if why == "" || State(from) == State(to) || State(from) == StateStopping && State(to) == StateReading || State(from) == StateReading && State(to) == StateWaiting {
				continue
			}
			if !taken[[2]State{State(from), State(to)}] {
				t.Errorf("no world goes from %s to %s (%s)", State(from), State(to), why)
			}
		}
	}
}
