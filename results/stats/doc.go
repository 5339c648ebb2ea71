// Package stats turns the records of a run into numbers, intervals and a verdict.
//
// It is pure: the same directory gives the same summary everywhere. A number never
// travels without its n, nor without the reason why a part of it is absent.
//
// # Values of a slot
//
// The unit is a pair of adjacent server slots, one of each arm; a request is never
// the unit. Per slot:
//
//	ttft_short    median TTFT of class probe, failures as +∞
//	block_s       latest last token of the classes long and probe − earliest sent of class long
//	output_tok_s  Σ completion tokens of these requests / block_s
//	total_tok_s   Σ prompt and completion tokens of these requests / block_s
//	long_excess   Σ over class long of (E2E − the service of the probes that overtook it)
//	longest pause the longest time from the last sign of work before a park (output,
//	              progress of a read; in a decode the park itself) to the first after it
//
// In a run of one arm block_s reaches from the first request sent to the last one
// ended, and all its requests count. Requests that the plan cancels, warm-ups and
// canaries enter no number. A slot in which a request of the block did not complete
// has no such value: the pair has none either, and the metric is UNSURE.
//
// The figures of an arm leave out A/A slots, whose answers the audit tells apart.
// "requests" counts every other slot, complete or not, so that no failure leaves the
// sample; everything else is taken over the complete slots:
// distributions over all their requests (failures as +∞), output_tok_s, total_tok_s
// and block_s as the median of the slots (nearest rank by ceiling), counters as sums.
//
// # Effects
//
// d = ln(B/A) per pair, turned so that more is better. Where to start: Analyse
// (analyse.go), then Decide (decide.go). The statistics stand alone in quantile.go,
// effect.go, rank.go, counts.go and slope.go; each names its source.
package stats
