// Package enginetest is the conformance suite of the line protocol: Run starts any
// command line that claims to be an engine and tells, check by check, what it
// keeps of the protocol.
//
// It promises that
//
//   - every check can fail, and says what it saw;
//   - what an engine does not announce is not_run, never pass;
//   - exact resume means: every RESUME stands at n-1 after a stop in decode and at
//     the last whole chunk after a stop in the read, and the ids are those of the
//     unsplit run; every other case is counted under a name of its own;
//   - nothing that it started is left when Run returns.
//
// It knows no vocabulary: prompts are random ids unless Options.Prompt makes
// better ones. Start reading at Run, then checks.go for the list.
package enginetest
