//go:build !unix

package loop

import "time"

// cpuTime is not measured here.
func cpuTime() time.Duration { return 0 }
