// Package report turns a finished run directory into pages: Markdown with SVG
// plots beside it, a block to paste into a pull request, and the formats of other
// tools. It is pure over files: it reads what harness, audit and stats have left
// in the directory, computes nothing that decides a verdict, and returns bytes.
//
// Every number on a page stands with its n, every failure stays in, the numbers of
// an INVALID run are withheld from the headline, and what was not run and what
// limits the result is generated from a catalogue, not typed.
//
// Before any table a page answers in words whether a short request runs inside a long
// answer, what that costs, who pays, and whether anything breaks; a page over several
// runs does the same and puts them side by side.
//
// Start reading at Render in render.go; short.go has the answers in words, together.go
// the runs side by side.
package report
