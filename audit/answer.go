package audit

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"interlude/results"
	"interlude/workloads"
)

// judge says whether one answer is what the plan promised. An answer that was
// cut, by a budget or by a client that left as planned, is held to the part that
// came.
func judge(rec *results.Record, req *workloads.Request) results.Judgement {
	j := results.Judgement{Record: rec.ID, Class: rec.Class, Scored: req.Expect.Scored, Parks: placesOf(rec, req.Stop)}
	planned := rec.Outcome == results.Cancelled && rec.Planned != ""
	if rec.Outcome != results.Completed && !planned {
		j.Faults = append(j.Faults, "outcome:"+string(rec.Outcome))
	}
	whole := rec.Outcome == results.Completed
	if !utf8.ValidString(rec.Text) || slices.Contains(rec.Faults, "invalid_utf8") || strings.ContainsRune(rec.Text, utf8.RuneError) {
		j.Faults = append(j.Faults, "invalid_utf8")
	}
	e := &req.Expect
	switch {
	case e.Lines != nil:
		judgeText(&j, rec.Text, workloads.CheckLines(e.Lines, rec.Text, finishOf(rec)))
	case e.Words != nil:
		judgeWords(&j, rec, e.Words, whole)
	case e.Exact != "":
		if whole && rec.Text != e.Exact || !whole && !strings.HasPrefix(e.Exact, rec.Text) {
			at := commonPrefix(rec.Text, e.Exact)
			j.Faults = append(j.Faults, fmt.Sprintf("not_exact@%d", at))
			j.Excerpt = excerpt(rec.Text, at)
		}
	case e.JSON != nil && whole:
		judgeJSON(&j, rec.Text, e.JSON)
	case e.Calls != nil && whole:
		strict := strictCalls(rec.Tools)
		j.Strict = &strict
		if faults := toolFaults(rec, e.Calls, req.Tools); len(faults) > 0 {
			j.Faults = append(j.Faults, faults...)
			j.Excerpt = excerptCalls(rec.Tools)
		}
	}
	if e.Calls == nil && len(rec.Tools) > 0 {
		j.Faults = append(j.Faults, fmt.Sprintf("calls:%d_of_0", len(rec.Tools)))
	}
	if whole {
		j.Faults = append(j.Faults, endFaults(rec, req)...)
	}
	j.Right = len(j.Faults) == 0
	return j
}

// finishOf gives CheckLines the reason why a text may stop early.
func finishOf(rec *results.Record) string {
	if rec.Outcome != results.Completed {
		return ""
	}
	return rec.FinishReason
}

// endFaults judges how a completed answer ended: one finish_reason, the promised
// one, and the promised token counts.
func endFaults(rec *results.Record, req *workloads.Request) []string {
	var faults []string
	if rec.Finishes != 1 {
		faults = append(faults, fmt.Sprintf("finishes:%d", rec.Finishes))
	}
	if want := req.Expect.Finish; want != "" && rec.FinishReason != want {
		faults = append(faults, fmt.Sprintf("finish:%s_not_%s", rec.FinishReason, want))
	}
	if rec.Usage == nil {
		if req.Expect.OutputTokens > 0 || req.PromptTokens > 0 {
			faults = append(faults, "usage:missing")
		}
		return faults
	}
	if want := req.Expect.OutputTokens; want > 0 && rec.Usage.Completion != want {
		faults = append(faults, fmt.Sprintf("output_tokens:%d_of_%d", rec.Usage.Completion, want))
	}
	if want := req.PromptTokens; want > 0 && rec.Usage.Prompt != want {
		faults = append(faults, fmt.Sprintf("prompt_tokens:%d_of_%d", rec.Usage.Prompt, want))
	}
	return faults
}

func judgeText(j *results.Judgement, text string, faults []workloads.Fault) {
	for i, f := range faults {
		if i == 0 {
			j.Excerpt = excerpt(text, f.Offset)
		}
		j.Faults = append(j.Faults, fmt.Sprintf("%s@%d", f.Kind, f.Offset))
	}
}

func judgeWords(j *results.Judgement, rec *results.Record, rule *workloads.WordRule, whole bool) {
	if !whole {
		if want := workloads.WordsText(rule); !strings.HasPrefix(want, rec.Text) {
			at := commonPrefix(rec.Text, want)
			j.Faults = append(j.Faults, fmt.Sprintf("not_exact@%d", at))
			j.Excerpt = excerpt(rec.Text, at)
		}
		return
	}
	judgeText(j, rec.Text, workloads.CheckWords(rule, rec.Text))
}

// judgeJSON keeps two verdicts apart: Strict, whether the answer is one strict
// JSON object of the schema, and Recoverable, whether the right values could be
// dug out of whatever it is.
func judgeJSON(j *results.Judgement, text string, rule *workloads.JSONRule) {
	v, bad := strictJSON(text)
	if len(bad) == 0 {
		bad = schemaFaults("", rule.Schema, text)
	}
	strict := len(bad) == 0
	j.Strict = &strict
	j.Faults = append(j.Faults, bad...)
	if v == nil {
		v, _ = dig(text)
	}
	right, wrong := fieldFaults(v, rule.Fields)
	of := len(rule.Fields)
	j.Fields, j.FieldsOf = &right, &of
	recoverable := len(wrong) == 0
	j.Recoverable = &recoverable
	j.Faults = append(j.Faults, wrong...)
	if len(j.Faults) > 0 {
		at := 0
		if len(wrong) > 0 {
			_, name, _ := strings.Cut(wrong[0], ":")
			at = max(0, strings.Index(text, `"`+name+`"`))
		}
		j.Excerpt = excerpt(text, at)
	}
}

// fieldFaults compares the members of v with the expected fields, and nothing
// more: exactly these names, each with exactly this value.
func fieldFaults(v any, fields []workloads.Field) (right int, faults []string) {
	o, ok := v.(*object)
	if !ok {
		return 0, []string{"not_an_object"}
	}
	known := map[string]bool{}
	for _, f := range fields {
		known[f.Name] = true
		got, present := o.members[f.Name]
		want, _ := strictJSON(string(f.Value))
		switch {
		case !present:
			faults = append(faults, "missing_field:"+f.Name)
		case !sameJSON(want, got):
			faults = append(faults, "wrong_field:"+f.Name)
		default:
			right++
		}
	}
	for _, name := range o.names {
		if !known[name] {
			faults = append(faults, "extra_field:"+name)
		}
	}
	return right, faults
}

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// excerpt is the raw text around a byte offset, cut at rune boundaries where the
// text has any.
func excerpt(text string, at int) string {
	from, to := max(0, at-60), min(len(text), at+100)
	for from > 0 && from < len(text) && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	if from >= to {
		return ""
	}
	return text[from:to]
}

func excerptCalls(calls []results.ToolCall) string {
	var b strings.Builder
	for _, c := range calls {
		fmt.Fprintf(&b, "%s(%s) ", c.Name, c.Arguments)
	}
	return excerpt(b.String(), 60)
}
