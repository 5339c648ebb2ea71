// Package audittest fabricates run directories for the tests of audit and
// results/report: a correct two-arm run as the harness would have written it,
// made from a real plan and from nothing else, and whatever lie a test plants in
// it before or after it is written.
//
// Nothing but tests imports it.
package audittest
