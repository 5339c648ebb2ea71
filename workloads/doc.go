// Package workloads holds manifests, the requests made from them, and the plan
// of a run.
//
// A manifest is strict JSON, checked by a schema and by Validate. Expand turns
// it, a seed and the number of a pair into the requests of that pair: the same
// input gives the same bytes, on every machine, so that the audit can make the
// requests again and judge the answers from a run directory alone. Every purpose
// (facts, words, filler, arguments, …) draws from a stream of its own; a draw
// added to one moves no other.
//
// The package is pure: it has no clock, no file and no tokenizer. Token counts
// reach it as a Counter, and files as bytes.
//
// Start reading at Manifest (manifest.go), then Expand (expand.go), then NewPlan
// (plan.go). The rules that long answers follow, and the checkers that name a
// lost, doubled or foreign token from one answer alone, are in rule.go and
// check.go.
package workloads
