package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"

	"interlude/results"
)

// checkChain walks records.jsonl as bytes: each line must carry the hash of the
// line before it, the first the hash of the plan, and run.json the hash of the
// last. An edited, deleted, inserted or moved record breaks a link; the link
// names the place.
func (e *evidence) checkChain() {
	const check = "record_chain"
	raw, err := fs.ReadFile(e.fsys, results.RecordsFile)
	if err != nil {
		e.fail(check, results.Invalid, nil, "", "records.jsonl cannot be read: %v", err)
		return
	}
	prev, count, before := e.data.Run.PlanHash, 0, "the plan"
	for line := range bytes.Lines(raw) {
		if line[len(line)-1] != '\n' {
			e.fail("half_written", results.Note, nil, excerpt(string(line), 0), "the last line of records.jsonl was not finished and is left out")
			break
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		var head struct {
			ID   string `json:"id"`
			Prev string `json:"prev"`
		}
		if err := json.Unmarshal(line, &head); err != nil {
			e.fail(check, results.Invalid, nil, excerpt(string(line), 0), "line %d of records.jsonl is not a record: %v", count+1, err)
			return
		}
		if head.Prev != prev {
			e.fail(check, results.Invalid, []string{head.ID}, "prev "+head.Prev+" want "+prev,
				"the chain breaks between %s and %s (line %d): one of them was edited, or a record between them was deleted or inserted", before, head.ID, count+1)
			return
		}
		sum := sha256.Sum256(line)
		prev, before = hex.EncodeToString(sum[:]), head.ID
		count++
	}
	e.checkChainEnd(check, prev, count, before)
}

// checkChainEnd compares the end of the chain with what run.json and
// summary.json say: nothing after the last line can vouch for it.
func (e *evidence) checkChainEnd(check, last string, count int, before string) {
	run := e.data.Run
	if run.Chain == "" {
		e.notRun("record_chain_end", "run.json holds no end of the chain (the harness was killed); the last record vouches for itself")
		e.pass(check, "%d records, each with the hash of the one before", count)
		return
	}
	if run.Records != count {
		e.fail(check, results.Invalid, []string{before}, fmt.Sprintf("%d lines, run.json says %d", count, run.Records),
			"records.jsonl has %d records where run.json counted %d", count, run.Records)
		return
	}
	if run.Chain != last {
		e.fail(check, results.Invalid, []string{before}, "hash "+last+" want "+run.Chain, "the last record, %s, was edited: its hash is not the one run.json closed with", before)
		return
	}
	e.pass(check, "%d records, each with the hash of the one before, closed by %s", count, last)
}
