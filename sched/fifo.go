package sched

// fifo runs requests in order of arrival. It is what solo_priority false runs:
// no classes, no boost, no ckpt=0, no stop but a request's own.
type fifo struct{}

func (fifo) preempts() bool { return false }
func (fifo) slices() bool   { return false }

func (fifo) judge(*Machine, *request, bool) verdict { return verdict{why: HoldProtection} }
