package harness

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"interlude/results"
)

// progress tells people how far a run is: a bar on a terminal, one plain line a
// slot anywhere else. What cannot be written is not written: progress never fails
// a run, and no escape code reaches a pipe.
type progress struct {
	w        io.Writer
	terminal bool

	mu       sync.Mutex
	bar      *progressbar.ProgressBar
	start    time.Time
	expected time.Duration
	slots    int    // of the plan
	todo     int    // of them, to be run now: a resumed run has done the others
	done     int    // of those to do
	now      string // what the bar says
	ttft     string
	stopped  chan struct{}
}

func newProgress(w io.Writer, terminal bool) *progress {
	if w == nil {
		w = io.Discard
	}
	return &progress{w: w, terminal: terminal}
}

// say writes one plain line, above the bar where there is one.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	_, _ = io.WriteString(p.w, results.Printable(fmt.Sprintf(format, args...))+"\n")
}

// begin starts the bar over what is to be run of so many slots.
func (p *progress) begin(slots, todo int, expected time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start, p.expected, p.slots, p.todo = time.Now(), expected, slots, todo
	if !p.terminal || slots == 0 {
		return
	}
	p.bar = progressbar.NewOptions(1000, progressbar.OptionSetWriter(p.w), progressbar.OptionSetWidth(24),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionClearOnFinish())
	p.stopped = make(chan struct{})
	go p.tick(p.stopped)
}

func (p *progress) tick(stop <-chan struct{}) {
	every := time.NewTicker(250 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			p.draw()
		case <-stop:
			return
		}
	}
}

// remaining is the expected rest, corrected by how long the finished slots took.
func (p *progress) remaining() time.Duration {
	elapsed := time.Since(p.start)
	left := p.expected - elapsed
	if p.done > 0 {
		left = time.Duration(float64(elapsed)/float64(p.done)*float64(p.todo)) - elapsed
	}
	return max(0, left.Round(time.Second))
}

func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil {
		return
	}
	elapsed, left := time.Since(p.start), p.remaining()
	p.bar.Describe(p.fitting(left, width(p.w)))
	_ = p.bar.Set(min(999, int(1000*elapsed.Seconds()/max(1, (elapsed+left).Seconds()))))
}

// percent is what the bar puts behind its description at the least.
const percent = len("  99% ||  ")

// fitting is the longest description that leaves a line of so many columns whole: a
// line that wraps is drawn below the last one, again and again.
func (p *progress) fitting(left time.Duration, columns int) string {
	text := ""
	for _, text = range []string{
		fmt.Sprintf("%s%s, %v left ", p.now, p.ttft, left), fmt.Sprintf("%s, %v left ", p.now, left), fmt.Sprintf("%v left ", left),
	} {
		if len(text)+percent <= columns {
			break
		}
	}
	return text
}

// width is that of the terminal; 80 where it does not tell.
func width(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return 80
}

func (p *progress) slotStarts(s *results.SlotInfo, place int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = fmt.Sprintf("slot %d/%d, %s", place, p.slots, slotName(s))
	p.ttft = ""
}

func slotName(s *results.SlotInfo) string {
	switch {
	case s.AA:
		return fmt.Sprintf("A/A pair %d", s.Pair)
	case s.Pair == 0:
		return "control " + s.Arm
	}
	return fmt.Sprintf("pair %d %s", s.Pair, s.Arm)
}

// sawToken shows the live TTFT of a request.
func (p *progress) sawToken(class string, seconds float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ttft = fmt.Sprintf(", %s TTFT %.2f s", class, seconds)
}

func (p *progress) slotEnds(s *results.SlotInfo, took time.Duration, requests, completed int, rest string) {
	p.mu.Lock()
	p.done++
	left := p.remaining()
	p.mu.Unlock()
	line := fmt.Sprintf("slot %d/%d  %-10s  %d of %d requests completed%s, %v", s.Slot, p.slots, slotName(s), completed, requests, rest, took.Round(100*time.Millisecond))
	if s.Why != "" {
		first, _, _ := strings.Cut(s.Why, "\n") // the rest is a log, and ends the run's own error
		line += ": " + strings.TrimSuffix(first, "; its last words:")
	}
	if p.done < p.todo {
		line += fmt.Sprintf(", about %v left", left)
	}
	p.say("%s", line)
}

// end takes the bar away.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil {
		return
	}
	close(p.stopped)
	_ = p.bar.Clear()
	p.bar = nil
}
