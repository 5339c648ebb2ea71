//go:build race

package harness

// raceOn shortens what would take minutes under the race detector.
const raceOn = true
