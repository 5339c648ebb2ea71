//go:build unix

package supervise

import "context"

// Asked returns a context that ends when the one who started this process with Start
// asks it to end. Here that is a signal, and ctx itself.
func Asked(ctx context.Context) context.Context { return ctx }
