//go:build !race

package simulate

const raceOn = false
