// Package simulate runs the production Machine against the stand-in's cost model
// in virtual time: an hour in a few hundredths of a second, any policy, any
// engine capability, any named load, manifest or recorded run.
//
// It is pure. Start reading at traffic.go (what will be asked, when), hour.go (one
// machine and one engine under it), found.go (what a probe found), then cells.go
// (the table over policies and capabilities, pooled over seeds), recorded.go (a
// run's arrivals, and how well its TTFT is predicted).
package simulate
