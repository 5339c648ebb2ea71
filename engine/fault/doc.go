// Package fault is the language in which an engine is told to fail: lines
// "how@when" in a file, and the moments of a GEN that they name. It has two
// readers, the stand-in, which fails so itself, and the relay, which stands in
// front of any other engine.
//
// It promises that a line is removed from the file before its fault strikes, so
// that a reload does not meet it again, and that somebody else may add lines at
// any time (by renaming a new file over it). A fault takes the place of the line
// that its moment names: half@token:40 writes half of the 40th T line of a GEN.
// The words are in Usage. What a fault does is its reader's.
//
// Start reading at Parse, then Moments.
package fault
