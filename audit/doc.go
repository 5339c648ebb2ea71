// Package audit reads a finished run directory and says what in it can be
// believed. It is pure over fs.FS: it runs on a copy, on another machine, years
// later, and gives the same answer.
//
// Judge asks in this order. Is the run admissible: does the plan hash to what
// run.json says, does each record line carry the hash of the line before it, was
// every planned request sent in every slot, do the arms differ only in the flag,
// are the stamps possible? Are the answers right: strict JSON, every field of an
// audit, tool calls, rule texts to the byte, canaries, foreign facts? Do counts
// and order agree: the server's ledger, its witness counters, what the engine's
// log says was kept, the journal replayed through a fresh machine? Recheck then
// computes every count, percentile and delta of summary.json again, with code
// that shares nothing with results/stats.
//
// Every check leaves a Finding, also when it passed and also when it could not
// run; a check that did not run is no pass. Zero-tolerance findings carry the raw
// bytes that prove them.
//
// Start reading at Judge in judge.go.
package audit
