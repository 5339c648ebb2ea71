// Package results is the run directory: what a run was, what each request did,
// what happened beside them, and the files that hold it.
//
// # Promises
//
// What has been written stays written: records.jsonl, events.jsonl and
// samples.jsonl only grow, one line a write, so that killing the harness loses at
// most the requests in flight. plan.json, run.json, summary.json and the other
// whole files are replaced atomically. Each line of records.jsonl carries the hash
// of the line before it. A half-written last line is left out and reported, never
// guessed at. No NaN and no infinity reaches a file: absent is absent, with why.
//
// # Definitions
//
// All stamps of one slot are offsets on one monotonic clock; they are taken when
// the bytes are read. For one request:
//
//	lateness   = sent − due
//	TTFT       = first token − due (the headline), where a token is the first
//	             non-empty piece of reasoning, content or tool text; a role chunk,
//	             a comment or an empty delta is none
//	service TTFT = first token − sent
//	ITL        = the time between two successive chunks that carry output; it
//	             never contains the TTFT, nor what follows the last output
//	TPOT       = (last token − first token) / (output tokens after the first
//	             chunk), the tokens taken from the server's usage and split by
//	             bytes; absent without usage
//	E2E        = last token − due; for an answer without output, end − due
//
// A request that did not complete has no value; it counts as +∞ where a
// percentile is taken. Throughput uses tokens that were produced and counted by
// the server, never those that were asked for.
//
// # Where to start
//
// types.go has what is recorded, writer.go and reader.go the directory, summary.go
// what a run says for machines, attempts.go the ledger of all starts.
package results
