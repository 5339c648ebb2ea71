package loop

import "sync"

// inbox is how other goroutines reach the loop: functions that run on its
// goroutine, in order. Putting never blocks and never fails; what comes after
// the loop has ended is dropped, and whoever waits for an answer watches
// Loop.ended as well.
type inbox struct {
	mu    sync.Mutex
	queue []func(*Loop)
	wake  chan struct{} // one token: the queue may have something
}

func (b *inbox) put(f func(*Loop)) {
	b.mu.Lock()
	b.queue = append(b.queue, f)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns all that waits and leaves spare as the next queue.
func (b *inbox) take(spare []func(*Loop)) []func(*Loop) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.queue
	b.queue = spare[:0]
	return all
}
