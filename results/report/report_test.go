package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"interlude/audit"
	"interlude/audit/audittest"
	"interlude/results"
	"interlude/results/report"
)

// judged fabricates a run, plants a lie, judges it and writes what cmd writes.
func judged(t *testing.T, o audittest.Options, plant func(*audittest.Build)) string {
	t.Helper()
	dir, err := audittest.Make(t.TempDir(), o, plant)
	if err != nil {
		t.Fatal(err)
	}
	judge(t, dir)
	return dir
}

func judge(t *testing.T, dir string) {
	t.Helper()
	r, s, err := audittest.Judge(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]any{results.SummaryFile: s, results.FindingsFile: r.Findings, results.JudgementsFile: r.Judgements} {
		if err := results.WriteJSON(dir, name, v); err != nil {
			t.Fatal(err)
		}
	}
}

func render(t *testing.T, dir string) (report.Files, string) {
	t.Helper()
	files, err := report.Render(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	page := string(files["README.md"])
	checkMarkdown(t, page)
	return files, page
}

var link = regexp.MustCompile(`!\[[^\]]*\]\(([^)]+)\)`)

// checkMarkdown demands that every table row has the columns of its head and that
// every fence is closed.
func checkMarkdown(t *testing.T, text string) {
	t.Helper()
	fence, columns := "", 0
	for n, line := range strings.Split(text, "\n") {
		if m := regexp.MustCompile("^`{3,}").FindString(line); m != "" {
			switch {
			case fence == "":
				fence = m
			case m == fence && line == fence:
				fence = ""
			}
			continue
		}
		if fence != "" {
			continue
		}
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		bare := strings.ReplaceAll(strings.ReplaceAll(line, `\\`, ""), `\|`, "")
		got := strings.Count(bare, "|") - 1
		if columns == 0 {
			columns = got
		}
		if got != columns {
			t.Errorf("line %d: %d columns where the table has %d: %s", n+1, got, columns, line)
		}
	}
	if fence != "" {
		t.Error("a code fence is not closed")
	}
	for _, bad := range []string{"NaN", "Inf", "%!", "<nil>"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page says %q", bad)
		}
	}
}

func TestFirstScreenOfACorrectRun(t *testing.T) {
	dir := judged(t, audittest.Options{Manifest: "paired-short", Pairs: 8, AA: 2}, nil)
	files, page := render(t, dir)
	first, _, _ := strings.Cut(page, "## What was run")
	for _, want := range []string{"# BETTER: paired-short, emulated engine, profile rtx3090-iq3s", "**The engine is emulated.**", "n = 8 pairs", "95 % interval",
		"20.13 s → 0.561 s", "20.52 s → 0.610 s", "113.04 → 108.80", "111.29 → 107.88", "2 off/off pairs put the noise", "0 of 64 (95 % bound 4.6 %)", "16 of 16", "byte-equal between the arms: **8 of 8**"} {
		if !strings.Contains(first, want) {
			t.Errorf("the first screen lacks %q", want)
		}
	}
	for _, want := range []string{"## Where a probe's time went", "## Who pays", "## Not run", "## Limits", "## Method", "records; the last one hashes to", "| text  |     8 |"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, m := range link.FindAllStringSubmatch(page, -1) {
		if files[m[1]] == nil {
			t.Errorf("the page shows %s, which is not there", m[1])
		}
	}
	if len(link.FindAllString(page, -1)) != 3 {
		t.Error("three plots are expected")
	}
	for name, data := range files {
		if !strings.HasSuffix(name, ".svg") {
			continue
		}
		for d := xml.NewDecoder(bytes.NewReader(data)); ; {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s is no XML: %v", name, err)
			}
		}
		if !bytes.Contains(data, []byte("emulated rtx3090-iq3s")) {
			t.Errorf("%s does not say that the engine is emulated", name)
		}
	}
	again, _ := render(t, dir)
	for name, data := range files {
		if !bytes.Equal(data, again[name]) {
			t.Errorf("%s is not the same twice", name)
		}
	}
}

// A place in which no park of a soak fell is shown all the same, with what an hour
// must have there.
func TestSoakShowsEveryPlaceOfParks(t *testing.T) {
	dir := judged(t, audittest.Options{Kind: "soak"}, nil)
	row := func(page, place string) string {
		return regexp.MustCompile(`(?m)^\|\s*` + regexp.QuoteMeta(place) + `.*$`).FindString(page)
	}
	_, page := render(t, dir)
	for _, place := range audit.Places() {
		want := `\|\s*0\s*\|$`
		if place.Name == audit.InText {
			want = `\|\s*1\s*\|$`
		}
		if got := row(page, place.Name); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s: %q", place.Name, got)
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, results.FindingsFile))
	if err != nil {
		t.Fatal(err)
	}
	var findings []results.Finding
	if err := json.Unmarshal(raw, &findings); err != nil {
		t.Fatal(err)
	}
	for i := range findings {
		if findings[i].Check == "park_places" {
			findings[i].Status = audit.Pass // as an hour's is
		}
	}
	if err := results.WriteJSON(dir, results.FindingsFile, findings); err != nil {
		t.Fatal(err)
	}
	_, page = render(t, dir)
	if got := row(page, audit.InText); !regexp.MustCompile(`\|\s*1\s*\|\s*20\s*\|$`).MatchString(got) {
		t.Errorf("an hour: %q", got)
	}
}

// What a probe waited beside its own read stands there in time and in steps of the
// long answer, and how many kept within three steps and 50 ms.
func TestWaitBesideTheOwnRead(t *testing.T) {
	row := func(page, arm string) []string {
		_, table, _ := strings.Cut(page, "What a probe waited beside its own read")
		cells := strings.Split(regexp.MustCompile(`(?m)^\|\s*`+arm+`\s*\|.*$`).FindString(table), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		return cells
	}
	// The builder's chunks are 18 ms apart.
	wait := func(ms float64) func(*audittest.Build) {
		return func(b *audittest.Build) {
			for i := range b.Records {
				if r := &b.Records[i]; r.Class == "probe" && r.Arm == results.On {
					r.Timings["prompt_ms"] = float64(r.FirstToken-r.Due)/1e6 - ms
				}
			}
		}
	}
	for ms, want := range map[float64]string{45: "45.0 ms|18.0 ms|2.50|4 of 4", 103: "103.0 ms|18.0 ms|5.72|4 of 4", 105: "105.0 ms|18.0 ms|5.83|0 of 4"} {
		_, page := render(t, judged(t, audittest.Options{}, wait(ms)))
		if got := row(page, "on"); len(got) != 8 || strings.Join(got[3:7], "|") != want || got[2] != "4" {
			t.Errorf("%v ms: %q, want %s", ms, got, want)
		}
		if got := row(page, "off"); len(got) != 8 || got[6] != "0 of 4" {
			t.Errorf("off: %q", got)
		}
	}
}

// A probe that waited long with the flag on is explained: what nobody tells is marked.
func TestSlowProbeIsExplained(t *testing.T) {
	late := func(b *audittest.Build) { b.Find(1, results.On, "P1").Due -= 9_000_000_000 }
	nobody := func(b *audittest.Build) {
		r := b.Find(1, results.On, "P1")
		for _, s := range []*results.Stamp{&r.FirstEvent, &r.FirstToken, &r.FirstContent, &r.LastToken, &r.Terminal, &r.End} {
			*s += 9_000_000_000
		}
		for i := range r.Chunks {
			r.Chunks[i].At += 9_000_000_000
		}
	}
	for name, c := range map[string]struct {
		plant func(*audittest.Build)
		want  string
	}{
		"sent late": {late, "\\| 9\\.00 s +\\| 0\\.40 s +\\| 0\\.02 s +\\| 0\\.1\\d s +\\|$"},
		"nobody's":  {nobody, "\\| 0\\.00 s +\\| 0\\.40 s +\\| 0\\.02 s +\\| \\*\\*9\\.1\\d s\\*\\* +\\|$"},
	} {
		_, page := render(t, judged(t, audittest.Options{}, c.plant))
		if row := regexp.MustCompile("(?m)^\\| `2/P1` .*$").FindString(page); !regexp.MustCompile(c.want).MatchString(row) {
			t.Errorf("%s: %q", name, row)
		}
	}
}

func TestHeadlineSaysTheSpeed(t *testing.T) {
	_, page := render(t, judged(t, audittest.Options{}, func(b *audittest.Build) { b.Run.Speed = 8 }))
	if head, _, _ := strings.Cut(page, "\n"); !strings.Contains(head, "×8") {
		t.Errorf("headline %q does not say ×8", head)
	}
}

func TestOnlyThePairedWorkloadStandsBesideTheReference(t *testing.T) {
	_, page := render(t, judged(t, audittest.Options{Manifest: "smoke"}, nil))
	if strings.Contains(page, "20.13") {
		t.Error("numbers of another workload stand beside ours")
	}
}

// H132: the numbers of a run that cannot be believed are withheld from the headline.
func TestInvalidRunShowsNoNumbersUpFront(t *testing.T) {
	dir := judged(t, audittest.Options{}, func(b *audittest.Build) {
		off := false
		b.Run.Slots[1].Flag = &off
		b.Find(2, results.On, "P1").Outcome = results.Truncated // the block of pair 2 has no value
	})
	_, page := render(t, dir)
	body, appendix, found := strings.Cut(page, "## Appendix: numbers of an invalid run")
	if !found || !strings.Contains(appendix, "short TTFT, median") {
		t.Error("the numbers are not kept in an appendix")
	}
	if row := regexp.MustCompile(`(?m)^\|\s*pair, sent to last token.*$`).FindString(appendix); !regexp.MustCompile(`\|\s*3\s*\|`).MatchString(row) {
		t.Errorf("n is not the number of pairs that have a value: %s", row)
	}
	for _, want := range []string{"# INVALID", "**Valid: no.**", "reports solo"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(body, "short TTFT, median") || regexp.MustCompile(`got its first token after`).MatchString(body) {
		t.Error("numbers of an invalid run stand in its body")
	}
	if _, err := report.GoBench(os.DirFS(dir)); err == nil {
		t.Error("gobench gives numbers of an invalid run")
	}
	pr, err := report.PR(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(pr, []byte("Short TTFT, median")) {
		t.Error("the pull request block gives numbers of an invalid run")
	}
}

// H73, H74: a run in which nothing succeeded still has a page.
func TestNothingSucceeded(t *testing.T) {
	_, page := render(t, judged(t, audittest.Options{}, func(b *audittest.Build) {
		for i := range b.Records {
			r := &b.Records[i]
			r.Outcome, r.Status, r.Error, r.Usage, r.Timings, r.Finishes, r.FinishReason = results.RefusedOutcome, 500, "HTTP 500", nil, nil, 0, ""
			r.FirstByte, r.FirstEvent, r.FirstToken, r.FirstContent, r.FirstTool, r.LastToken, r.Terminal = 0, 0, 0, 0, 0, 0, 0
			r.Chunks, r.Text, r.Tools, r.States = nil, "", nil, nil
		}
		for i := range b.Run.Slots {
			b.Run.Slots[i].Witness["strata:solo_preemptions_total"] = 0
		}
		clear(b.Logs)
	}))
	if !strings.Contains(page, "**No data:**") || !strings.Contains(page, "24 of 24") {
		t.Errorf("a run without success does not say so:\n%s", page[:2000])
	}
}

// H84, H85: an answer with a fence, a table, markup and line ends of all kinds
// breaks no table and ends no fence.
func TestHostileAnswer(t *testing.T) {
	nasty := "```\n| a | b |\n|---|---|\r\n````\r<script>alert(1)</script> ![x](y) **b** `c` \u2028 \x00 \\| [l](u)"
	dir := judged(t, audittest.Options{}, func(b *audittest.Build) {
		audittest.Say(b.Find(1, results.On, "A2"), nasty)
		b.Run.Host.CPU = "a|b\nc"
		b.Run.Slots[0].Info["model"] = "x|y`z"
		b.Events = append(b.Events, results.Event{Kind: "deviation", Text: "pipe | and\nline <b>"})
	})
	_, page := render(t, dir)
	outside := page
	for _, f := range regexp.MustCompile("(?s)`{5,}.*?`{5,}").FindAllString(page, -1) {
		outside = strings.ReplaceAll(outside, f, "")
	}
	if strings.Contains(outside, "<script>") || strings.Contains(outside, "![x](y)") {
		t.Error("markup of an answer stands on the page as markup")
	}
	pr, err := report.PR(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	checkMarkdown(t, string(pr))
}

func TestPullRequestBlock(t *testing.T) {
	dir := judged(t, audittest.Options{Manifest: "paired-short", Pairs: 8}, nil)
	out, err := report.PR(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	text := string(out)
	checkMarkdown(t, text)
	at := 0
	for _, want := range []string{"[Engine] ", "### Problem and result", "### Approach", "### Validation", "Tested revision: `0123", "2026-11-29", "Passed:", "Failed attempts:", "### Not run", "### Earlier evidence (not rerun on this base)", "### Limits", "the last hashes to"} {
		i := strings.Index(text[at:], want)
		if i < 0 {
			t.Fatalf("%q is missing or out of order:\n%s", want, text)
		}
		at += i
	}
	if !strings.Contains(strings.SplitN(text, "\n", 2)[0], "emulated") {
		t.Error("the title does not say that the engine is emulated")
	}
}

func TestBenchAndTraceAndJSON(t *testing.T) {
	dir := os.DirFS(judged(t, audittest.Options{Pairs: 6}, nil))
	bench, err := report.GoBench(dir)
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^BenchmarkPair/manifest=smoke/arm=(off|on) 1 [0-9.]+ ttft-sec [0-9.]+ block-sec [0-9.]+ out-tok/s$`)
	if n := len(line.FindAll(bench, -1)); n != 12 {
		t.Errorf("%d benchmark lines, want 12:\n%s", n, bench)
	}
	raw, err := report.Trace(dir)
	if err != nil {
		t.Fatal(err)
	}
	var trace struct {
		TraceEvents []struct {
			Ph  string  `json:"ph"`
			Ts  float64 `json:"ts"`
			Dur float64 `json:"dur"`
		} `json:"traceEvents"`
	}
	if err := json.Unmarshal(raw, &trace); err != nil {
		t.Fatal(err)
	}
	if len(trace.TraceEvents) < 200 {
		t.Errorf("only %d events", len(trace.TraceEvents))
	}
	for _, e := range trace.TraceEvents {
		if e.Ts < 0 || e.Dur < 0 {
			t.Errorf("%+v goes back in time", e)
		}
	}
	summary, err := report.JSON(dir)
	if err != nil {
		t.Fatal(err)
	}
	var s results.Summary
	if err := json.Unmarshal(summary, &s); err != nil || s.Verdict != results.VerdictBetter {
		t.Errorf("%v %v", s.Verdict, err)
	}
}

func TestShow(t *testing.T) {
	dir := os.DirFS(judged(t, audittest.Options{}, nil))
	one, err := report.Show(dir, "2/A1")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"arm on, pair 1", "server says: parked", "no output for 0.", "judged: right", "outcome completed"} {
		if !strings.Contains(string(one), want) {
			t.Errorf("lacks %q:\n%s", want, one)
		}
	}
	all, err := report.Show(dir, "P1")
	if err != nil || strings.Count(string(all), "class probe") != 8 {
		t.Errorf("a request of the plan shows %d records: %v", strings.Count(string(all), "class probe"), err)
	}
	if _, err := report.Show(dir, "Q9"); err == nil || !strings.Contains(err.Error(), "P1") {
		t.Errorf("an unknown request is not answered with those there are: %v", err)
	}
}

func TestUnjudgedRunSaysWhatToDo(t *testing.T) {
	dir, err := audittest.Make(t.TempDir(), audittest.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := report.Render(os.DirFS(dir)); err == nil || !strings.Contains(err.Error(), "interlude audit") {
		t.Errorf("%v", err)
	}
}

func TestDossierPoolsNothing(t *testing.T) {
	now := judged(t, audittest.Options{Manifest: "paired-short", Pairs: 8}, func(b *audittest.Build) { b.Run.Started = "2026-12-02T00:00:00Z" })
	twin := judged(t, audittest.Options{Manifest: "smoke"}, func(b *audittest.Build) { b.Run.Started = "2026-12-01T00:00:00Z" })
	old := judged(t, audittest.Options{Manifest: "smoke", Seed: 9}, func(b *audittest.Build) {
		b.Run.Revision, b.Run.Started, b.Run.ID = strings.Repeat("f", 40), "2026-11-01T00:00:00Z", "old-run"
	})
	parts := []report.Part{{Link: "runs/old", FS: os.DirFS(old)}, {Link: "runs/now", FS: os.DirFS(now)}, {Link: "runs/twin", FS: os.DirFS(twin)}}
	out, err := report.Dossier(parts)
	if err != nil {
		t.Fatal(err)
	}
	text := string(out)
	checkMarkdown(t, text)
	at := strings.Index(text, "## Earlier evidence, not rerun on this base")
	if at < 0 || !strings.Contains(text[at:], "old-run") || strings.Contains(text[strings.Index(text, "## Overview")+1:at], "Run [old-run]") {
		t.Errorf("a run of another revision does not stand under earlier evidence:\n%s", text)
	}
	for _, link := range []string{"runs/old/README.md", "runs/now/README.md", "runs/twin/README.md"} {
		if !strings.Contains(text, link) {
			t.Errorf("no link to %s", link)
		}
	}
	if strings.Count(text, "short TTFT, median") != 3 {
		t.Error("each run needs a table of its own")
	}
	pr, err := report.DossierPR(parts)
	if err != nil {
		t.Fatal(err)
	}
	checkMarkdown(t, string(pr))
	if !strings.Contains(string(pr), "### Earlier evidence (not rerun on this base)") || strings.Count(string(pr), "\n- ab ") != 3 {
		t.Errorf("%s", pr)
	}
	if _, err := report.Dossier(nil); err == nil {
		t.Error("no run makes a dossier")
	}
}

func TestPageOfASoak(t *testing.T) {
	plain := audittest.Options{Manifest: "paired-short", Kind: "soak"}
	first := func(page string) string { first, _, _ := strings.Cut(page, "## What was run"); return first }
	_, page := render(t, judged(t, plain, nil))
	if strings.Contains(first(page), "reference") {
		t.Error("a workload that is not the reference's hour stands beside it")
	}
	_, page = render(t, judged(t, plain, func(b *audittest.Build) {
		b.Plan.Name = "soak"
		b.Run.PlanHash = b.Plan.Hash()
	}))
	for _, want := range []string{"# PASS: soak", "One `soak` with `solo_priority` on", "0.669 / 7.054 / 46.503 s", "46.663 s", "409 requests: 395 completed", "8 requests: 8 completed, 0 cancelled", "2 of 2", " % of "} {
		if !strings.Contains(first(page), want) {
			t.Errorf("the first screen lacks %q:\n%s", want, first(page))
		}
	}
	if strings.Contains(page, "plots/pairs.svg") {
		t.Error("a run of one arm has no pair plot")
	}
	broken := judged(t, audittest.Options{Manifest: "paired-short", Kind: "soak"}, func(b *audittest.Build) {
		audittest.Say(b.Find(1, results.On, "A2"), "{}")
	})
	_, page = render(t, broken)
	if !strings.HasPrefix(page, "# BROKEN") || !strings.Contains(page, `wrong\_answer`) {
		t.Errorf("a wrong answer of a soak is not on its page:\n%s", page[:1500])
	}
}

func TestCellsAreCountedAndNamed(t *testing.T) {
	dir := judged(t, audittest.Options{Kind: "inject"}, nil)
	raw, err := os.ReadFile(filepath.Join(dir, results.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	var s results.Summary
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	yes, no, told := true, false, 0.42
	s.Cells = []results.Cell{{How: "SIGKILL", When: "decode", API: "chat", Told: &told, Pass: &yes}, {How: "exit 0", When: "idle", API: "responses", Pass: &no, Hung: 1}, {How: "abort", When: "loading", API: "chat", NotRun: "this engine loads in no time"}}
	if err := results.WriteJSON(dir, results.SummaryFile, s); err != nil {
		t.Fatal(err)
	}
	_, page := render(t, dir)
	for _, want := range []string{"1 of 3 cells passed, **1 failed**, 1 could not run", "**FAIL**", "not run: this engine loads in no time", "0.420 s"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
