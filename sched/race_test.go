//go:build race

package sched

// raceOn halves the bounds of the exploration under the race detector.
const raceOn = true
