//go:build race

package simulate

// raceOn halves what takes long under the race detector.
const raceOn = true
