package audit

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"interlude/results"
	"interlude/workloads"
)

// Report is the audit's whole opinion of a run.
type Report struct {
	Judgements []results.Judgement
	Findings   []results.Finding
}

// Statuses of a finding.
const (
	Pass   = "pass"
	Fail   = "fail"
	NotRun = "not_run"
)

// Worst returns the heaviest weight among the failed checks: results.Broken,
// results.Invalid, results.Worse, results.Doubt, results.Note, or "" when nothing
// failed.
func (r *Report) Worst() string {
	order := []string{results.Note, results.Doubt, results.Worse, results.Invalid, results.Broken}
	worst := -1
	for _, f := range r.Findings {
		if f.Status == Fail {
			worst = max(worst, slices.Index(order, f.Weight))
		}
	}
	if worst < 0 {
		return ""
	}
	return order[worst]
}

// Judge judges a run directory. counter must count as the plan's counter did,
// since the plan is expanded again from its manifest; with another one, or none,
// the checks that need it are NotRun. The error is for a directory that holds no
// run at all; everything wrong with a run is a finding.
func Judge(fsys fs.FS, counter workloads.Counter) (*Report, error) {
	e, err := gather(fsys, counter)
	if err != nil {
		return nil, err
	}
	e.checkMeasured()
	e.checkServers()
	e.checkFiles()
	e.checkChain()
	e.checkPlan()
	e.checkSlots()
	e.checkIdentity()
	e.checkColdStart()
	e.checkLedger()
	e.checkStamps()
	e.checkEvents()
	e.checkAttempts()

	e.judgeAnswers()
	e.checkLeaks()
	e.checkTokens()
	e.checkHangs()
	e.checkArms()
	e.checkCanaries()
	e.checkIdentical()
	e.checkStreams()
	e.checkPlaces()

	e.checkFlag()
	e.checkWitness()
	e.checkServerLedger()
	e.checkReuse()
	e.checkJournal()
	e.checkFalls()
	e.checkEarly()
	return &e.Report, nil
}

// evidence is a run with its plan expanded again, and the opinion as it grows.
type evidence struct {
	Report
	fsys     fs.FS
	data     *results.Data
	plan     *workloads.Plan
	requests map[int]map[string]*workloads.Request // by pair, by id; nil: not expanded
	unread   string                                // why the plan was not expanded
	slots    map[int]results.SlotInfo
	verdicts map[string]*results.Judgement // by record id
	nothing  bool                          // nothing was measured
}

func (e *evidence) pass(check, format string, args ...any) {
	e.Findings = append(e.Findings, results.Finding{Check: check, Status: Pass, Text: fmt.Sprintf(format, args...)})
}

func (e *evidence) notRun(check, format string, args ...any) {
	e.Findings = append(e.Findings, results.Finding{Check: check, Status: NotRun, Text: fmt.Sprintf(format, args...)})
}

// fail adds a failed check. The command shows its first record, else the audit.
func (e *evidence) fail(check, weight string, records []string, evidence, format string, args ...any) {
	command := "interlude audit DIR"
	if len(records) > 0 {
		command = "interlude show DIR " + records[0]
	}
	e.Findings = append(e.Findings, results.Finding{Check: check, Status: Fail, Weight: weight, Records: records,
		Text: fmt.Sprintf(format, args...), Evidence: evidence, Command: command})
}

// deterministic reports whether the same ids must give the same text, so that an
// answer that differs between arms was damaged by the server. The stand-in
// always is; a manifest's options may declare it of another engine.
func (e *evidence) deterministic() bool {
	return e.data.Run.Emulated != "" || e.plan != nil && e.plan.Options["deterministic"] == "true"
}

// request finds what the plan promised for a record; nil where the plan was not
// expanded or knows no such request.
func (e *evidence) request(rec *results.Record) *workloads.Request {
	return e.requests[rec.Pair][rec.Request]
}

// controls reports whether a slot or record of this pair belongs to the control of a
// soak, which is asked what pair 1 was asked and is outside the verdict.
func (e *evidence) controls(pair int) bool {
	return pair == 0 && e.plan != nil && e.plan.Control() > 0
}

// gravity is the weight of what one answer proves. What is outside the verdict, a
// control's answer, is only told: it may be another server's, or the flag's off.
func (e *evidence) gravity(rec *results.Record) string {
	if e.controls(rec.Pair) || rec.Arm != results.Off && rec.Arm != results.On {
		return results.Note
	}
	return results.Broken
}

// measured reports whether a record counts: warm-ups and canaries do not, nor
// does a slot outside the plan.
func measured(rec *results.Record) bool {
	return rec.Class != workloads.Warmup && rec.Class != workloads.Canary
}

// couple is one request of a pair in both arms; a nil side has no record.
type couple struct {
	pair    int
	request string
	a, b    *results.Record // off, on
}

// couples lists the measured requests of the paired slots in the order of pair
// and plan. A/A slots and control arms are outside, and so is what only an
// interruption cut short.
func (e *evidence) couples() []couple {
	index := map[string]int{}
	var list []couple
	for i := range e.data.Records {
		rec := &e.data.Records[i]
		if rec.AA || rec.Pair == 0 || !measured(rec) || e.data.CutShort(rec) {
			continue
		}
		key := fmt.Sprintf("%d/%s", rec.Pair, rec.Request)
		at, ok := index[key]
		if !ok {
			at = len(list)
			index[key] = at
			list = append(list, couple{pair: rec.Pair, request: rec.Request})
		}
		switch rec.Arm {
		case results.Off:
			list[at].a = rec
		case results.On:
			list[at].b = rec
		}
	}
	return list
}

// some joins the first few of a list for a sentence.
func some(list []string) string {
	if len(list) <= 4 {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:4], ", "), len(list)-4)
}
