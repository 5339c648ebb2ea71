//go:build !race

package harness

// standInSpeed is how much faster than its profile the stand-in runs in tests with
// real processes.
const standInSpeed = 64
