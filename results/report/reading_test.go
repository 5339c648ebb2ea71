package report_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"interlude/audit/audittest"
	"interlude/results"
	"interlude/results/report"
)

// What a reader meets first must be what matters, said once.

func TestNothingMeasuredSaysSoFirst(t *testing.T) {
	const cause = "slot 1 (off): the server ended before it was ready: exit status 1; its last words:\n  engine: boom"
	_, page := render(t, judged(t, audittest.Options{}, func(b *audittest.Build) {
		b.Records, b.Run.Slots = nil, b.Run.Slots[:1]
		b.Run.Status, b.Run.Why, b.Run.Emulated = "aborted", "ab: "+cause, ""
		s := &b.Run.Slots[0]
		s.Complete, s.Why, s.Info, s.Flag, s.ReadyS, s.Witness = false, cause, nil, nil, 0, nil
	}))
	if !strings.HasPrefix(page, "# INVALID, nothing was measured: smoke\n") {
		t.Errorf("the page begins %.80q", page)
	}
	first, _, _ := strings.Cut(page, "## What was run")
	if !strings.Contains(first, cause) || strings.Contains(first, "|") {
		t.Errorf("the first screen of a run without data:\n%s", first)
	}
}

func TestDisclosuresAreNoFailedAttempts(t *testing.T) {
	dir := judged(t, audittest.Options{}, func(b *audittest.Build) {
		for slot := range 8 {
			b.Events = append(b.Events, results.Event{Time: fmt.Sprintf("2026-11-29T12:00:0%d.000Z", slot), Slot: slot + 1, Kind: "deviation",
				Text: fmt.Sprintf("the machine was not idle within 10.%ds (%d %% busy) when the slot started", slot, 60+slot)})
		}
		b.Events = append(b.Events, results.Event{Time: "2026-11-29T12:00:09.000Z", Kind: "disclosure", Text: "the lights flickered"})
	})
	_, page := render(t, dir)
	if n := strings.Count(page, "the machine was not idle"); n != 1 || !strings.Contains(page, "(and 7 more like it)") {
		t.Errorf("the page says %d times that the machine was busy", n)
	}
	pr, err := report.PR(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(pr), "Failed attempts:")
	failed, disclosed, ok := strings.Cut(rest, "Disclosed:")
	if !ok || !strings.Contains(failed, "None") || strings.Contains(failed, "flickered") || !strings.Contains(disclosed, "flickered") || !strings.Contains(disclosed, "and 7 more") {
		t.Errorf("failed attempts:%s\ndisclosed:%s", failed, disclosed)
	}
	both, err := report.DossierPR([]report.Part{{Link: "run", FS: os.DirFS(dir)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, rest, _ := strings.Cut(string(both), "Failed attempts:"); !strings.Contains(rest, "no part has an earlier attempt") {
		t.Errorf("over several runs:%s", rest)
	}
}

func TestShowKnowsTheSlots(t *testing.T) {
	dir := os.DirFS(judged(t, audittest.Options{}, nil))
	if _, err := report.Show(dir, "99/P1"); err == nil || !strings.Contains(err.Error(), "P1 was sent in slots 1 to 8") {
		t.Error(err)
	}
}

func TestPublishedPathsAreRelative(t *testing.T) {
	dir := judged(t, audittest.Options{}, func(b *audittest.Build) {
		b.Run.Command = []string{"interlude", "ab", "--out", "/tmp/somebody/i1", "--engine", "/home/me/eng.sh --pack C:\\Users\\me\\pack.bin"}
		b.Events = append(b.Events, results.Event{Kind: "server_start", Text: "GET /v1/status, log /var/tmp/x/engine.log, open \"/tmp/x/\""})
	})
	ledger := dir + "/" + results.AttemptsFile
	raw, err := os.ReadFile(ledger)
	if err != nil {
		t.Fatal(err)
	}
	other := `{"n":2,"phase":"end","run":"another","why":"it ended; its last words:\n  --api-key=hunter2"}` + "\n"
	if err := os.WriteFile(ledger, append(raw, other...), 0o644); err != nil {
		t.Fatal(err)
	}
	files, _ := render(t, dir)
	if err := os.WriteFile(dir+"/README.md", files["README.md"], 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := report.Publish(os.DirFS(dir), nil, "2026-11-30T00:00:00Z")
	if err != nil {
		t.Fatal(err)
	}
	all := ""
	for name, data := range out {
		if strings.HasSuffix(name, ".svg") {
			continue
		}
		all += string(data)
		if strings.HasSuffix(name, ".json") && !json.Valid(data) {
			t.Errorf("%s is no JSON any more", name)
		}
		for _, bad := range []string{"/tmp/somebody", "/home/", "Users", "/var/", "hunter2"} {
			if strings.Contains(string(data), bad) {
				t.Errorf("%s still says %s", name, bad)
			}
		}
	}
	for _, kept := range []string{"--out i1", "eng.sh", "pack.bin", "GET /v1/status, log engine.log", "it ended; its last words: …"} {
		if !strings.Contains(all, kept) {
			t.Errorf("%q is gone", kept)
		}
	}
}
