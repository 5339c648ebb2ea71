// Package simulate runs the production Machine against the stand-in's cost model
// in virtual time: an hour in a few hundredths of a second, any policy, any
// engine capability, any named load.
//
// It is pure. Start reading at hour.go (one machine, one engine, one load), then
// found.go (what a probe found), then cells.go (the table over policies and
// capabilities, pooled over seeds).
package simulate
