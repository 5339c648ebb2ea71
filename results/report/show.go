package report

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"interlude/results"
)

// Show tells one request from its due time to its end, as plain text. id is a
// record ("3/P1") or a request of the plan ("P1": all its records). The error
// for an unknown id lists what there is.
func Show(fsys fs.FS, id string) ([]byte, error) {
	data, err := results.Open(fsys)
	if err != nil {
		return nil, fmt.Errorf("show: %w", err)
	}
	judged := map[string]results.Judgement{}
	if s, err := load(fsys); err == nil { // a run not yet judged can still be shown
		judged = s.judgements
	}
	var b strings.Builder
	known := map[string][]int{} // slots
	for i := range data.Records {
		r := &data.Records[i]
		known[r.Request] = append(known[r.Request], r.Slot)
		if r.ID == id || r.Request == id {
			showOne(&b, r, judged)
		}
	}
	if _, request, ok := strings.Cut(id, "/"); b.Len() == 0 && ok && known[request] != nil {
		slots := known[request]
		return nil, fmt.Errorf("show: no request %q in this run: %s was sent in slots %d to %d", id, request, slices.Min(slots), slices.Max(slots))
	}
	if b.Len() == 0 {
		return nil, fmt.Errorf("show: no request %q in this run: it has %s, each as SLOT/REQUEST or REQUEST", id, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	return []byte(b.String()), nil
}

func showOne(b *strings.Builder, r *results.Record, judged map[string]results.Judgement) {
	fmt.Fprintf(b, "%s  class %s, conversation %s, turn %d, arm %s, pair %d, %s%s\n", r.ID, r.Class, r.Conversation, r.Turn, r.Arm, r.Pair, r.API, streamed(r.Stream))
	fmt.Fprintf(b, "outcome %s", r.Outcome)
	if r.Status != 0 {
		fmt.Fprintf(b, ", HTTP %d", r.Status)
	}
	if r.FinishReason != "" {
		fmt.Fprintf(b, ", finish_reason %s (%d times)", oneLine(r.FinishReason), r.Finishes)
	}
	if r.Error != "" {
		fmt.Fprintf(b, ", error %q", r.Error)
	}
	b.WriteString("\n\n")
	for _, e := range moments(r) {
		fmt.Fprintf(b, "  %+12.6f s  %s\n", results.Seconds(r.Due, e.at), e.what)
	}
	showPauses(b, r)
	if r.Usage != nil {
		fmt.Fprintf(b, "\nusage: %d prompt + %d completion tokens", r.Usage.Prompt, r.Usage.Completion)
		if r.Usage.Cached != nil {
			fmt.Fprintf(b, ", %d cached", *r.Usage.Cached)
		}
		b.WriteString("\n")
	}
	if len(r.Timings) > 0 {
		b.WriteString("timings:")
		for _, k := range slices.Sorted(maps.Keys(r.Timings)) {
			fmt.Fprintf(b, " %s=%g", k, r.Timings[k])
		}
		b.WriteString("\n")
	}
	if j, ok := judged[r.ID]; ok {
		verdict := "right"
		if !j.Right {
			verdict = "WRONG: " + strings.Join(j.Faults, ", ")
		}
		fmt.Fprintf(b, "judged: %s\n", verdict)
	}
	if len(r.Faults) > 0 {
		fmt.Fprintf(b, "stream faults: %s\n", strings.Join(r.Faults, ", "))
	}
	for _, t := range r.Tools {
		index := "missing"
		if t.Index != nil {
			index = fmt.Sprint(*t.Index)
		}
		fmt.Fprintf(b, "tool call: index %s, id %q, %s(%s) %s\n", index, t.ID, t.Name, t.Arguments, t.Unstable)
	}
	if r.Reasoning != "" {
		fmt.Fprintf(b, "reasoning, %d bytes:\n%s\n", len(r.Reasoning), r.Reasoning)
	}
	fmt.Fprintf(b, "answer, %d bytes:\n%s\n\n", len(r.Text), r.Text)
}

func streamed(stream bool) string {
	if stream {
		return ", streamed"
	}
	return ", not streamed"
}

type moment struct {
	at   results.Stamp
	what string
}

// moments are the stamps and the server's state comments in order of time.
func moments(r *results.Record) []moment {
	var list []moment
	for _, m := range []moment{{r.Due, "due"}, {r.Sent, "sent"}, {r.Headers, "headers"}, {r.FirstByte, "first byte"}, {r.FirstEvent, "first event"},
		{r.FirstToken, "first token"}, {r.FirstContent, "first content"}, {r.FirstTool, "first tool text"}, {r.LastToken, "last token"}, {r.Terminal, "terminal marker"}, {r.End, "end"}} {
		if m.at > 0 {
			list = append(list, m)
		}
	}
	for _, s := range r.States {
		list = append(list, moment{s.At, "server says: " + oneLine(s.Text)})
	}
	slices.SortStableFunc(list, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return list
}

// showPauses lists the gaps of a stream that stand out.
func showPauses(b *strings.Builder, r *results.Record) {
	spans := flows(r, r.Due)
	if len(r.Chunks) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%d chunks with output, median gap %s\n", len(r.Chunks), secs(nearestRank(r.ITL(), 0.5)))
	for i := 1; i < len(spans); i++ {
		fmt.Fprintf(b, "  no output for %s after %.3f s\n", secs(spans[i][0]-spans[i-1][1]), spans[i-1][1])
	}
}
