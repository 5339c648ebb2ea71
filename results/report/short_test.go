package report_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"interlude/audit/audittest"
	"interlude/results"
	"interlude/results/report"
)

// inOrder demands that texts stand in a page, each behind the one before.
func inOrder(t *testing.T, page string, texts ...string) {
	t.Helper()
	at := 0
	for _, want := range texts {
		i := strings.Index(page[at:], want)
		if i < 0 {
			t.Fatalf("%q is missing or out of order:\n%.5000s", want, page)
		}
		at += i + len(want)
	}
}

// Whoever opens a page has the four answers, in words, before any table.
func TestFirstScreenAnswersInWords(t *testing.T) {
	_, page := render(t, judged(t, audittest.Options{Manifest: "paired-short", Pairs: 8}, nil))
	inOrder(t, page, "# BETTER", "> **The engine is emulated.**", "run inside a long answer?** Yes. ", "with it on (medians of 8 and 8; pair by pair ÷", "95 % interval", "n = 8 pairs",
		"**What does it cost?** Less than the 5 % that were allowed. Output ", "By the server's estimate switching between requests took", "8 parks", "**Who pays?** The long answers that are overtaken: ", "they lost less than the 5 % that were allowed. The longest that a park kept a stream waiting: 0.",
		"**Does it break anything?** Nothing that was checked: unplanned failures 0 of 64", "Verdict **BETTER**:", "](plots/timeline.svg)", "\n|", "| approximate sign-flip p |", "the smallest that 8 pairs can give is 0.0078", "](plots/ttft.svg)", "](plots/pairs.svg)", "## What was run")

	_, page = render(t, judged(t, audittest.Options{Manifest: "paired-short", Kind: "soak"}, nil))
	inOrder(t, page, "# PASS", "long answer?** Yes: running requests were parked once. One `soak`", "**What does it cost?** By the server's estimate switching between requests took", "Nothing here says what the same load would have brought",
		"nothing here compares them", "Nothing that was checked", "Verdict **PASS**: no unplanned failure", "](plots/ttft-over-time.svg)", "\n|")

	_, page = render(t, judged(t, audittest.Options{Manifest: "paired-null", Pairs: 6}, nil))
	inOrder(t, page, "# NO DIFFERENCE", "long answer?** Nothing short was asked. The workload took", "0 parks")

	_, page = render(t, judged(t, audittest.Options{}, func(b *audittest.Build) {
		audittest.Say(b.Find(1, results.On, "A2"), "{}")
	}))
	inOrder(t, page, "# BROKEN", "**Does it break anything?** **Yes, for the reasons below.**", "**Does a short request", "Verdict **BROKEN**:")
}

// A page says that an engine is real as loudly as that it is not.
func TestRealEngineIsNamed(t *testing.T) {
	dir := judged(t, audittest.Options{Pairs: 3}, func(b *audittest.Build) {
		b.Run.Emulated = ""
		for i := range b.Run.Slots {
			b.Run.Slots[i].Info = map[string]string{"backend": "cpu", "model": "tiny"}
		}
	})
	_, page := render(t, dir)
	inOrder(t, page, "> **The engine is real:** cpu tiny computed every token.", "**Does a short request")
	over, _ := pages(t, report.Part{Link: "runs/one", FS: os.DirFS(dir)}, part(t, "runs/two", audittest.Options{Pairs: 3}, nil))
	inOrder(t, over, "> **The engine is emulated in 1 of the 2 runs:**", "The other 1 had a real one: cpu tiny")
}

// What a run that cannot be believed measured stands in no picture of its first screen.
func TestInvalidRunShowsNoPictureUpFront(t *testing.T) {
	_, page := render(t, judged(t, audittest.Options{}, func(b *audittest.Build) {
		off := false
		b.Run.Slots[1].Flag = &off
	}))
	body, appendix, _ := strings.Cut(page, "## Appendix: numbers of an invalid run")
	if strings.Contains(body, "](plots/") || !strings.Contains(appendix, "](plots/ttft.svg)") {
		t.Error("the pictures of an invalid run do not stand in its appendix alone")
	}
}

// A picture says what it shows to those who cannot see it, on the page and in itself.
func TestPicturesAreToldInWords(t *testing.T) {
	files, page := render(t, judged(t, audittest.Options{Manifest: "paired-short", Pairs: 4}, nil))
	for name, want := range map[string]string{
		"plots/timeline.svg": `Timeline of pair \d\. Flag off: A1 \(long\) sent at 0\.0 s, output from .*Flag on: A1 \(long\) .*, parked from 7\.\d to \d\.\d s; P1 \(probe\) sent at 7\.0 s`,
		"plots/ttft.svg":     `Flag off: median \d+\.\d+ s, from .*, n = 4\. Flag on: median 0\.\d+ s`,
		"plots/pairs.svg":    `Pair by pair, short TTFT: .* less with it on in 4 of 4 pairs\.`,
	} {
		text := regexp.MustCompile(want)
		if alt := regexp.MustCompile(`!\[([^\]]*)\]\(` + name + `\)`).FindStringSubmatch(page); alt == nil || !text.MatchString(alt[1]) {
			t.Errorf("%s on the page: %q", name, alt)
		}
		svg := string(files[name])
		if desc := regexp.MustCompile(`<desc>([^<]*)</desc>`).FindStringSubmatch(svg); desc == nil || !text.MatchString(desc[1]) {
			t.Errorf("%s tells itself as %q", name, desc)
		}
		if !strings.Contains(svg, `role="img"`) || !strings.Contains(svg, "<title>") {
			t.Errorf("%s has no title or is no picture to a screen reader", name)
		}
	}
}

// Two arms in one cloud are told apart by shape, and named.
func TestControlHasALegend(t *testing.T) {
	files, _ := render(t, judged(t, audittest.Options{Manifest: "paired-short", Kind: "soak"}, nil))
	if strings.Contains(string(files["plots/ttft-over-time.svg"]), "flag on") {
		t.Error("one arm alone needs no legend")
	}
	files, _ = render(t, judged(t, audittest.Options{Manifest: "paired-short", Kind: "soak"}, func(b *audittest.Build) {
		r := *b.Find(1, results.On, "P1")
		r.ID, r.Slot, r.Pair, r.Arm = "2/P1", 2, 0, results.Off
		b.Records = append(b.Records, r)
	}))
	for _, want := range []string{">flag off<", ">flag on<"} {
		if !strings.Contains(string(files["plots/ttft-over-time.svg"]), want) {
			t.Errorf("no legend has %q", want)
		}
	}
}

// Slopes of bytes and seconds are written so that nobody has to count digits.
func TestSlopesHaveUnits(t *testing.T) {
	dir := judged(t, audittest.Options{Kind: "soak"}, nil)
	var s results.Summary
	readJSON(t, dir, results.SummaryFile, &s)
	per, low, high, budget, step := 25555529.1, 19464192.0, 32833536.0, 64e6, 0.00006964
	s.Slopes = map[string]results.Slope{"engine_rss_bytes": {PerHour: &per, Low: &low, High: &high, Budget: &budget}, "itl_s": {PerHour: &step}}
	s.Verdict, s.Reasons = results.VerdictPass, nil
	if err := results.WriteJSON(dir, results.SummaryFile, s); err != nil {
		t.Fatal(err)
	}
	_, page := render(t, dir)
	for _, want := range []string{`engine\\_rss\\_bytes \| +25\.6 MB \| +19\.5 MB \| +32\.8 MB \| +64 MB \| kept`, `itl\\_s +\| 0\.0696 ms`} {
		if !regexp.MustCompile(want).MatchString(page) {
			t.Errorf("no %s in\n%s", want, section(page, "## Drift over the run"))
		}
	}
	if text := block(t, dir); !strings.Contains(text, "25.6 MB an hour (19.5 MB to 32.8 MB, budget 64 MB)") {
		t.Errorf("the block writes slopes otherwise:\n%s", text)
	}
}

// A page over several runs has each of them in one table, and a picture of one pair.
func TestRunsStandSideBySide(t *testing.T) {
	dir := judged(t, audittest.Options{Manifest: "paired-short", Pairs: 4}, nil)
	files, _ := render(t, dir)
	if err := os.MkdirAll(filepath.Join(dir, "plots"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "plots", "timeline.svg"), files["plots/timeline.svg"], 0o644); err != nil {
		t.Fatal(err)
	}
	invalid := part(t, "runs/bad", audittest.Options{}, func(b *audittest.Build) {
		off := false
		b.Run.Slots[1].Flag = &off
	})
	page, pr := pages(t, invalid, report.Part{Link: "runs/ab", FS: os.DirFS(dir)}, part(t, "runs/soak", audittest.Options{Manifest: "paired-short", Kind: "soak"}, nil))
	inOrder(t, page, "**Does it help, and by how much?**", "Short requests' time to first token: ÷ ", "on emulated engines (1 run)", "the loss allowed by the plan was kept in 1 of 1 paired run", "](runs/ab/plots/timeline.svg)", "**Off against on, in pairs.**", "**One server with the flag on.**", "## Overview")
	for _, text := range []string{page, pr} {
		for _, want := range []string{`\| \[bad\]\(runs/bad/README\.md\) .*\| INVALID +\| 4 +\| withheld`, `\| \[ab\]\(runs/ab/README\.md\) .*\| BETTER +\| 4 .*\(n = 4\) → 0\.\d+ s \(n = 4\) \| ÷ \d+\.\d \(÷`, `\| \[soak\]\(runs/soak/README\.md\) .*\| PASS +\| 0\.\d+ s / `} {
			if !regexp.MustCompile(want).MatchString(text) {
				t.Errorf("no row %s in\n%.6000s", want, text)
			}
		}
	}
}

// A wrong answer that counts is not lost among those that a manifest only scores.
func TestWrongAnswersThatCountComeFirst(t *testing.T) {
	dir := judged(t, audittest.Options{Pairs: 8}, func(b *audittest.Build) {
		b.Run.Emulated = ""
		b.Plan.Manifest = append([]byte(`{"scored":true,`), bytes.TrimSpace(b.Plan.Manifest)[1:]...)
		b.Run.PlanHash = b.Plan.Hash()
		for i := range b.Records {
			if r := &b.Records[i]; r.Request == "A2" && (r.Pair < 8 || r.Arm == results.On) {
				audittest.Say(r, strings.TrimSuffix(r.Text, "}")+`,"more":1}`)
			}
		}
	})
	_, page := render(t, dir)
	answers := section(page, "## Answers")
	first := regexp.MustCompile("(?m)^- `([^`]+)`").FindStringSubmatch(answers)
	if first == nil || !strings.HasSuffix(first[1], "/A2") || !strings.Contains(answers, first[0]+" (audit, arm on, pair 8)") {
		t.Errorf("the first wrong answer is %q:%s", first, answers)
	}
	if !strings.Contains(answers, "and 9 more: `interlude audit` lists them all") {
		t.Errorf("scored answers fill the page:%s", answers)
	}
	inOrder(t, page, "# INCONCLUSIVE", "**Does it break anything?** **There is doubt, for the reasons below.**", "Verdict **INCONCLUSIVE**:", `wrong\_in\_on\_only`)
}
