// Package observe looks at a server and at processes while they are measured: on
// connections of its own, so that it neither waits behind a measured request nor
// makes one wait, and without changing anything.
//
// Start reading at Observer (observe.go), then metrics.go (what a number of the
// server is called here) and procs.go (processes).
package observe
