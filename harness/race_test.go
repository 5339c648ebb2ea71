//go:build race

package harness

// standInSpeed is how much faster than its profile the stand-in runs in tests with
// real processes: under the race detector a hiccup of the machine must not be
// seconds of the engine.
const standInSpeed = 32
