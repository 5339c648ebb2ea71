package results

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func TestLedgerNumbersStarts(t *testing.T) {
	runs := t.TempDir()
	l := OpenLedger(runs)
	start := func(manifest, target string) int {
		n, err := l.Start(Attempt{Run: "r", Manifest: manifest, Target: target})
		must(t, err)
		return n
	}
	if a, b, c, d := start("m", "t"), start("m", "t"), start("m", "other"), start("m", "t"); a != 1 || b != 2 || c != 1 || d != 3 {
		t.Errorf("numbers %d %d %d %d", a, b, c, d)
	}
	if n := start("another", "t"); n != 1 {
		t.Errorf("the first start of another manifest has number %d", n)
	}
	must(t, l.End(Attempt{N: 2, Run: "r", Manifest: "m", Target: "t", Verdict: VerdictInvalid}))
	list, err := l.Read("m", "t")
	must(t, err)
	if len(list) != 4 || list[3].Phase != EndPhase || list[3].Verdict != VerdictInvalid {
		t.Errorf("%+v", list)
	}
	w := newWriter(t)
	write(t, w, 0)
	must(t, l.CopyTo(w.Dir(), "m", "t"))
	d, err := Open(os.DirFS(w.Dir()))
	must(t, err)
	if len(d.Attempts) != 4 {
		t.Errorf("%d attempts in the copy", len(d.Attempts))
	}
}

// TestLedgerSurvivesAKill: a line cut in the middle loses itself and nothing else.
func TestLedgerSurvivesAKill(t *testing.T) {
	runs := t.TempDir()
	l := OpenLedger(runs)
	_, err := l.Start(Attempt{Manifest: "m"})
	must(t, err)
	f, err := os.OpenFile(filepath.Join(runs, AttemptsFile), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString(`{"n":2,"phase":"sta`)
	must(t, err)
	must(t, f.Close())
	n, err := l.Start(Attempt{Manifest: "m"})
	must(t, err)
	list, err := l.Read("", "")
	must(t, err)
	if n != 2 || len(list) != 2 {
		t.Errorf("number %d, %d lines", n, len(list))
	}
}

func TestLedgerTakesTurns(t *testing.T) {
	l := OpenLedger(t.TempDir())
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := l.Start(Attempt{Manifest: "m"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	list, err := l.Read("", "")
	must(t, err)
	seen := map[int]bool{}
	for _, a := range list {
		seen[a.N] = true
	}
	if len(seen) != 20 {
		t.Errorf("%d numbers for 20 starts", len(seen))
	}
}

func TestLedgerTakesAnOldLockAway(t *testing.T) {
	runs := t.TempDir()
	lock := filepath.Join(runs, AttemptsFile+".lock")
	must(t, os.WriteFile(lock, nil, 0o644))
	old := time.Now().Add(-time.Minute)
	must(t, os.Chtimes(lock, old, old))
	if n, err := OpenLedger(runs).Start(Attempt{Manifest: "m"}); n != 1 || err != nil {
		t.Errorf("%d %v", n, err)
	}
}
