package report_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"interlude/audit/audittest"
	"interlude/results"
	"interlude/results/report"
	"interlude/workloads"
)

// part is a judged run as a part of a page over several.
func part(t *testing.T, link string, o audittest.Options, plant func(*audittest.Build)) report.Part {
	t.Helper()
	return report.Part{Link: link, FS: os.DirFS(judged(t, o, plant))}
}

func pages(t *testing.T, parts ...report.Part) (page, block string) {
	t.Helper()
	a, err := report.Dossier(parts)
	if err != nil {
		t.Fatal(err)
	}
	b, err := report.DossierPR(parts)
	if err != nil {
		t.Fatal(err)
	}
	checkMarkdown(t, string(a))
	checkMarkdown(t, string(b))
	return string(a), string(b)
}

// section is a page's text from a heading of any level to the next one.
func section(page, title string) string {
	_, rest, _ := strings.Cut(page, title)
	if at := regexp.MustCompile(`(?m)^#`).FindStringIndex(rest); at != nil {
		return rest[:at[0]]
	}
	return rest
}

func block(t *testing.T, dir string) string {
	t.Helper()
	b, err := report.PR(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	checkMarkdown(t, string(b))
	return string(b)
}

// Attempts that ended badly before a run are on the page and in the block over
// several runs, each once, whichever parts carry them.
func TestEarlierAttemptsOfEveryPart(t *testing.T) {
	lines := `{"n":1,"phase":"start","time":"2026-11-28T10:00:00Z","run":"first-try","manifest":"smoke","target":"interlude"}
{"n":1,"phase":"end","run":"first-try","verdict":"BROKEN"}
{"n":2,"phase":"start","time":"2026-11-28T11:00:00Z","run":"second-try","manifest":"smoke","target":"interlude"}
{"n":2,"phase":"end","run":"second-try","verdict":"INVALID","why":"the lid was shut"}
{"n":3,"phase":"start","time":"2026-11-28T12:00:00Z","run":"third-try","manifest":"smoke","target":"interlude"}
`
	var parts []report.Part
	for _, name := range []string{"a", "b"} {
		dir := judged(t, audittest.Options{}, func(b *audittest.Build) { b.Run.ID = name })
		ledger := filepath.Join(dir, results.AttemptsFile)
		own, err := os.ReadFile(ledger)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(ledger, append([]byte(lines), own...), 0o644); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, report.Part{Link: "runs/" + name, FS: os.DirFS(dir)})
	}
	page, pr := pages(t, parts...)
	for _, text := range []string{section(page, "## Failed and earlier attempts"), section(pr, "Failed attempts:")} {
		for _, want := range []string{"`first-try`, 2026-11-28 10:00 UTC: BROKEN (the ledger does not say why)", "INVALID (the lid was shut)", "`third-try`, 2026-11-28 12:00 UTC: had not ended", "That is 3 of 5 starts"} {
			if strings.Count(text, want) != 1 {
				t.Errorf("%q stands %d times in:\n%s", want, strings.Count(text, want), text)
			}
		}
		if strings.Contains(text, "None") {
			t.Errorf("attempts are listed and denied:\n%s", text)
		}
	}
	if !strings.Contains(page, "1 earlier attempt ended BROKEN") {
		t.Error("the first screen does not know of the BROKEN attempt")
	}
}

// A page over several runs never points at what does not stand on it.
func TestPartsCarryWhatTheAuditFound(t *testing.T) {
	page, _ := pages(t, part(t, "runs/one", audittest.Options{Kind: "soak"}, func(b *audittest.Build) {
		b.Events = append(b.Events, results.Event{Kind: "disclosure", Text: "the lights flickered"})
	}))
	if strings.Contains(page, "stands below") {
		t.Error("the page points below, where nothing stands")
	}
	for _, want := range []string{"the lights flickered", "It could not check:", "Check `identity`"} {
		if !strings.Contains(page, want) {
			t.Errorf("the part lacks %q", want)
		}
	}
}

// What one part ran is not called not run, and a limit names the parts it is of.
func TestNotRunAndLimitsOverAllParts(t *testing.T) {
	ab := part(t, "runs/ab", audittest.Options{Pairs: 3}, func(b *audittest.Build) {
		for i := range b.Records {
			b.Records[i].Timings["draft_n"] = 0
		}
	})
	soak := part(t, "runs/soak", audittest.Options{Kind: "soak"}, nil)
	life := part(t, "runs/life", audittest.Options{Kind: "lifecycle"}, func(b *audittest.Build) { b.Run.Revision = strings.Repeat("e", 40) })
	page, pr := pages(t, ab, soak, life)
	for _, text := range []string{page, pr} {
		not := section(text, "## Not run")
		for _, ran := range []string{"interlude lifecycle", "interlude ab", "An hour under load (`interlude soak`).\n"} {
			if strings.Contains(not, ran) {
				t.Errorf("%q is called not run: %s", ran, not)
			}
		}
		if !strings.Contains(not, "interlude inject") {
			t.Errorf("what nobody ran is missing: %s", not)
		}
		limits := section(text, "## Limits")
		for _, want := range []string{"With 3 pairs", "No speculative decoding"} {
			if !regexp.MustCompile(want + `[^\n]*\(\[ab\]\(runs/ab/README\.md\)\)\n`).MatchString(limits) {
				t.Errorf("%q does not name its run alone: %s", want, limits)
			}
		}
		if !regexp.MustCompile(`hard real-time guarantee\.\n`).MatchString(limits) {
			t.Error("what holds for all names nobody")
		}
	}
}

// The four answers come before everything, the paired runs before the others.
func TestAnswersComeFirst(t *testing.T) {
	soak := part(t, "runs/soak", audittest.Options{Kind: "soak"}, func(b *audittest.Build) {
		b.Run.Revision, b.Run.Started = strings.Repeat("e", 40), "2026-12-01T00:00:00Z"
	})
	ab := part(t, "runs/ab", audittest.Options{Manifest: "paired-short", Pairs: 4}, nil)
	page, _ := pages(t, soak, ab)
	at := 0
	for _, want := range []string{"Does it help, and by how much?** The primary metric is better with the flag on in 1 of 1 paired run", "What does it cost?** Output rate", "Who pays?** The long answers", "Does it break anything?** No run of this page is BROKEN", "The parts span 2 revisions", "## Overview", "[ab](runs/ab/README.md)", "[soak](runs/soak/README.md)"} {
		i := strings.Index(page[at:], want)
		if i < 0 {
			t.Fatalf("%q is missing or out of order:\n%.4000s", want, page)
		}
		at += i
	}
	page, _ = pages(t, soak)
	if strings.Count(page, "Not known: no valid paired run") != 3 {
		t.Error("without a paired run nothing is known of help, cost and payers")
	}
}

// Cells stand as counts on a page over several runs, and one line a way.
func TestCellsOfAPartAreCounted(t *testing.T) {
	dir := judged(t, audittest.Options{Kind: "inject"}, func(b *audittest.Build) { b.Run.Speed = 20 })
	var s results.Summary
	readJSON(t, dir, results.SummaryFile, &s)
	yes, a, b, again := true, 0.2, 0.7, 9.5
	s.Cells = []results.Cell{{How: "kill", When: "decode", API: "chat", Told: &a, ServedAgain: &again, Pass: &yes}, {How: "kill", When: "idle", API: "chat", Told: &b, Pass: &yes}, {How: "close", When: "idle", API: "chat", NotRun: "no"}}
	if err := results.WriteJSON(dir, results.SummaryFile, s); err != nil {
		t.Fatal(err)
	}
	page, _ := pages(t, report.Part{Link: "runs/inject", FS: os.DirFS(dir)})
	_, own := render(t, dir)
	for _, text := range []string{page, own, block(t, dir)} {
		if !regexp.MustCompile(`(?m)^\| kill +\| +2 \| +0 \| +0 \| 0\.700 s \| +— \| +9\.500 s \|`).MatchString(text) {
			t.Errorf("no line for the way kill at its worst:\n%s", text)
		}
		for _, want := range []string{"the reference's", "1.228 s", "23.621 s", "At ×20"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing", want)
			}
		}
	}
	inOrder(t, own, "**How soon does a client know that its engine is gone?** Within 0.700 s. A new request was served again after 9.500 s at most. Clients left hanging 0", "Each way of ending the engine", "## What was run")
	if !strings.Contains(page, "the table of all 3 stands in [its report](runs/inject/README.md)") || strings.Contains(page, "| kill  | decode") {
		t.Error("the page has the whole matrix, or does not say where it stands")
	}
	if strings.Contains(own, "(n = 0)") {
		t.Error("a row without a value stands on the page")
	}
}

func readJSON(t *testing.T, dir, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Each number of an arm says how it was made; a slot's own median is named where
// the slot has few probes.
func TestNumbersNameTheirAggregation(t *testing.T) {
	_, page := render(t, judged(t, audittest.Options{Manifest: "paired-short", Pairs: 4}, nil))
	for _, want := range []string{"medians over all requests of the arm", "parks and switch cost are sums", "the pause is a maximum", "that of its only probe"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "Columns off and on are medians over the slots") {
		t.Error("a sum is called a median")
	}
	row := regexp.MustCompile(`(?m)^\| switch cost .*$`).FindString(page)
	if !regexp.MustCompile(`1\.240 s \(\d+\.\d\d % of \d+\.\d+ s\)`).MatchString(row) {
		t.Errorf("no share of what: %s", row)
	}
	if !regexp.MustCompile(`(?m)^\| tool round trips right +\| +8 of 8 \| +8 of 8 \|`).MatchString(page) {
		t.Error("round trips without how many")
	}
	_, page = render(t, judged(t, audittest.Options{Manifest: "paired-short", Pairs: 4}, func(b *audittest.Build) { b.Run.Slots[len(b.Run.Slots)-1].Complete = false }))
	if row := regexp.MustCompile(`(?m)^\| tool round trips right .*$`).FindString(page); !strings.Contains(row, " 6 of 6 ") || !strings.Contains(row, " 8 of 8 ") {
		t.Errorf("what a slot that broke off asked for is held against the others: %s", row)
	}
}

// The block of a run of one arm has no arm that was not run.
func TestBlockOfASoak(t *testing.T) {
	text := block(t, judged(t, audittest.Options{Manifest: "paired-short", Kind: "soak"}, func(b *audittest.Build) {
		b.Plan.Name = "soak"
		b.Run.PlanHash = b.Plan.Hash()
	}))
	for _, bad := range []string{"0 pairs", "→", "no ratio", "off,"} {
		if strings.Contains(text, bad) {
			t.Errorf("the block of one arm says %q:\n%s", bad, text)
		}
	}
	at := 0
	for _, want := range []string{"soak PASS, n = 8 requests", "8 requests: 8 completed", "Audits exact: 2 of 2", "Strict JSON: ", "Tool round trips right: 2 of 2", "Parks 1, lost prefix tokens 0", "Short TTFT, median / p95 / max: ", "409 requests: 395 completed"} {
		i := strings.Index(text[at:], want)
		if i < 0 {
			t.Fatalf("%q is missing or out of order:\n%s", want, text)
		}
		at += i
	}
}

// What a manifest only scores is no failed attempt, and a page says that it is scored.
func TestScoredAnswersAreNoFailedAttempts(t *testing.T) {
	dir := judged(t, audittest.Options{}, func(b *audittest.Build) {
		b.Run.Emulated = ""
		for i := range b.Run.Slots {
			b.Run.Slots[i].Info = map[string]string{"backend": "cpu", "model": "tiny.Q4_1", "engine": "llama.cpp-1", "threads": "1"}
		}
		b.Run.Files = append(b.Run.Files, results.File{Role: "model", Name: "tiny.Q4_1.gguf", Note: "Q4_1"}, results.File{Role: "library", Name: "libllama.so", SHA256: strings.Repeat("0", 64)})
	})
	var s results.Summary
	var judged []results.Judgement
	readJSON(t, dir, results.SummaryFile, &s)
	readJSON(t, dir, results.JudgementsFile, &judged)
	for i := range judged {
		judged[i].Scored = true
	}
	for _, a := range s.Arms {
		a.Audits = &results.Exact{Exact: 0, Total: 16}
	}
	s.Verdict, s.Reasons = results.VerdictInconclusive, []string{"guard long_excess: UNSURE"}
	for name, v := range map[string]any{results.SummaryFile: s, results.JudgementsFile: judged} {
		if err := results.WriteJSON(dir, name, v); err != nil {
			t.Fatal(err)
		}
	}
	text := block(t, dir)
	if failed := section(text, "Failed attempts:"); strings.Contains(failed, "Audits exact") {
		t.Errorf("scored audits are called failed attempts:%s", failed)
	}
	for _, want := range []string{"Audits exact (scored, not demanded): 0 of 16 off", `guard long\_excess: UNSURE`, "Engine cpu tiny.Q4\\_1; model `tiny.Q4_1.gguf` (Q4\\_1); library `libllama.so`", "announced as `llama.cpp-1`, threads 1; a processor, 2 cores"} {
		if !strings.Contains(text, want) {
			t.Errorf("the block lacks %q:\n%s", want, text)
		}
	}
	if _, page := render(t, dir); !strings.Contains(page, "does not demand") || !strings.Contains(page, "audits exact (scored, not demanded)") {
		t.Error("the page does not say that its answers are scored")
	}
}

// A control arm shows its own command, not our configuration, and the line that
// repeats the run sets the variables which that command reads.
func TestControlsShowHowTheyWereStarted(t *testing.T) {
	control := func(argv []string) func(*audittest.Build) {
		return func(b *audittest.Build) {
			for i := range b.Run.Slots {
				b.Run.Slots[i].Config = json.RawMessage(`{"ours":true}`)
				if argv != nil {
					b.Run.Slots[i].Argv = []string{"{self}", "serve", "--config", "{config}"}
				}
			}
			last := b.Run.Slots[len(b.Run.Slots)-1]
			last.Slot, last.Pair, last.Arm, last.Argv, last.ArgvHash = last.Slot+1, 0, "np1", argv, strings.Repeat("9", 64)
			b.Run.Slots = append(b.Run.Slots, last)
			b.Plan.Slots = append(slices.Clone(b.Plan.Slots), workloads.Slot{Slot: last.Slot, Arm: "np1"})
			b.Run.PlanHash = b.Plan.Hash()
		}
	}
	_, page := render(t, judged(t, audittest.Options{}, control([]string{"{env:LLAMA_SERVER}", "-m", "{tokenizer}", "--alias", "a b"})))
	for _, want := range []string{"Server of arm off, on: `{self} serve --config {config}`", "Server of arm np1: `$LLAMA_SERVER -m {tokenizer} --alias 'a b'`", "\nLLAMA_SERVER=/path/to/it interlude ab --plan plan.json"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	_, old := render(t, judged(t, audittest.Options{}, control(nil)))
	if !strings.Contains(old, "recorded as hashes alone: np1 (argv hash `999999999999`)") || !strings.Contains(old, "# set the environment variables that the target interlude names") {
		t.Error("a run that kept no command does not say so")
	}
	for _, text := range []string{page, old} {
		if strings.Contains(text, "Configuration of arm np1") || !strings.Contains(text, "Configuration of arm off") {
			t.Error("our configuration stands as that of a server which never read it")
		}
	}
}

// What a reader may copy into a shell is quoted for it.
func TestCommandsAreQuoted(t *testing.T) {
	dir := judged(t, audittest.Options{Kind: "soak"}, func(b *audittest.Build) {
		b.Run.Command = []string{"interlude", "soak", "--engine", "emulate --resume-prefill --sequences 4"}
	})
	_, page := render(t, dir)
	dossier, pr := pages(t, report.Part{Link: "runs/x", FS: os.DirFS(dir)})
	for name, text := range map[string]string{"page": page, "block": block(t, dir), "dossier": dossier, "dossier's block": pr} {
		if !strings.Contains(text, "--engine 'emulate --resume-prefill --sequences 4'") || strings.Contains(text, "--engine emulate") {
			t.Errorf("%s: the command is not quoted", name)
		}
	}
}

// A soak tells in which state its clients left.
func TestCancellationsByState(t *testing.T) {
	_, page := render(t, judged(t, audittest.Options{Manifest: "paired-short", Kind: "soak"}, func(b *audittest.Build) {
		for i, state := range []string{"queued 2", "reading 0/9", "decoding", "parked", "decoding"} {
			r := *b.Find(1, results.On, "A1")
			r.ID, r.Planned, r.Outcome, r.States = strings.Replace(r.ID, "/", "/X", 1)+state[:1], "cancel", results.Cancelled, []results.Seen{{At: r.Sent, Text: "queued 1"}, {At: r.Sent + 1, Text: state}}
			if i == 4 {
				r.ID, r.Outcome = r.ID+"2", results.Completed
			}
			b.Records = append(b.Records, r)
		}
	}))
	text := section(page, "## Cancellations")
	for _, want := range []string{`queued +\| +1 \| +1 \| +0`, `reading +\| +1 \| +1 \| +0`, `decoding +\| +2 \| +1 \| +1`, `parked +\| +1 \| +1 \| +0`} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%s is missing in:\n%s", want, text)
		}
	}
}

// A request that an injection ended owes no answer: it is not called wrong.
func TestStruckRequestsAreNotWrong(t *testing.T) {
	_, page := render(t, judged(t, audittest.Options{Kind: "inject"}, func(b *audittest.Build) {
		r := b.Find(1, results.On, "A1")
		r.Planned, r.Outcome, r.Text, r.Chunks, r.Error = "kill", results.StreamError, "", nil, "engine died"
	}))
	answers := section(page, "## Answers")
	if strings.Contains(answers, "1/A1") || !strings.Contains(answers, "1 request that the run itself ended") {
		t.Errorf("a struck request is called a wrong answer, or is not mentioned:%s", answers)
	}
}

// A soak that was sent again with the flag off answers whether it helps, too.
func TestControlOfASoakStandsAmongTheAnswers(t *testing.T) {
	dir := judged(t, audittest.Options{Manifest: "paired-short", Kind: "soak"}, func(b *audittest.Build) {
		for _, r := range slices.Clone(b.Records) {
			r.ID, r.Slot, r.Pair, r.Arm = "2/"+r.Request, 2, 0, results.Off
			if r.Class == "probe" {
				r.FirstToken += 9e9
			}
			b.Records = append(b.Records, r)
		}
		slot := b.Run.Slots[0]
		slot.Slot, slot.Pair, slot.Arm = 2, 0, results.Off
		b.Run.Slots = append(b.Run.Slots, slot)
		b.Plan.Slots = append(slices.Clone(b.Plan.Slots), workloads.Slot{Slot: 2, Arm: results.Off})
		b.Plan.Options = map[string]string{"control": "15m"}
		b.Run.PlanHash = b.Plan.Hash()
	})
	var s results.Summary
	readJSON(t, dir, results.SummaryFile, &s)
	s.Verdict = results.VerdictPass // the audit is not fooled by a control made of the run itself
	if err := results.WriteJSON(dir, results.SummaryFile, s); err != nil {
		t.Fatal(err)
	}
	page, _ := pages(t, report.Part{Link: "runs/soak", FS: os.DirFS(dir)})
	if !regexp.MustCompile(`the same requests of the first 15m0s: short TTFT, median / p95 / max, 9\.\d{3} s / .* \(n = 1\) with the flag off, 0\.\d{3} s`).MatchString(page) {
		t.Errorf("the control is not among the answers:\n%.3000s", page)
	}
	var run results.Run
	readJSON(t, dir, results.RunFile, &run)
	run.Slots[1].Complete = false
	if err := results.WriteJSON(dir, results.RunFile, run); err != nil {
		t.Fatal(err)
	}
	if page, _ := pages(t, report.Part{Link: "runs/soak", FS: os.DirFS(dir)}); strings.Contains(page, "with the flag off, 0.") {
		t.Error("half a control answers")
	}
}
