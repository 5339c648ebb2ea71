package llama_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	gopsutil "github.com/shirou/gopsutil/v4/process"

	"interlude/engine"
	"interlude/engine/process"
)

// TestMemoryStands sends random conversations, half of them stopped, far beyond
// what the sequences and the snapshot budget hold, and demands that the process
// stops growing. INTERLUDE_SOAK=1h is the long form.
func TestMemoryStands(t *testing.T) {
	const budgetMiB = 4
	whole, pause := time.Duration(0), time.Duration(0)
	if s := os.Getenv("INTERLUDE_SOAK"); s != "" {
		var err error
		if whole, err = time.ParseDuration(s); err != nil {
			t.Fatalf("INTERLUDE_SOAK: %v", err)
		}
		pause = 300 * time.Millisecond
	}
	p, err := process.Start(t.Context(), process.Options{Argv: []string{program(t), "--serve", "--lib", libraries(t), "--model", micro(t),
		"--threads", "1", "--max-context", "1024", "--sequences", "2", "--conversation-cache-mib", fmt.Sprint(budgetMiB)}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Kill() }()
	watched, err := gopsutil.NewProcess(int32(p.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	session, draw := process.NewSession(p.Conn), rand.New(rand.NewPCG(3, 3))
	var sizes []uint64
	gens, stopped := 0, 0
	began := time.Now()
	for ; gens < 160 || time.Since(began) < whole; gens++ {
		after := draw.IntN(40)
		n := 0
		ids := make([]int32, 20+draw.IntN(700))
		for i := range ids {
			ids[i] = 300 + draw.Int32N(200)
		}
		a, err := session.Generate(t.Context(), process.Request{Gen: engine.Gen{MaxNew: 60, IDs: ids}, Each: func(r *engine.Reply) bool {
			n++
			return gens%2 == 0 || n < after
		}})
		if err != nil {
			t.Fatal(err)
		}
		if a.Stopped {
			stopped++
		}
		m, err := watched.MemoryInfo()
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, m.RSS)
		if pause > 0 {
			<-time.After(pause)
		}
	}
	quarter := len(sizes) / 4
	early, late := slices.Max(sizes[quarter:2*quarter]), slices.Max(sizes[3*quarter:])
	t.Logf("%d GENs, %d stopped, in %v: at most %.1f MiB in the second quarter, %.1f MiB in the last", gens, stopped, time.Since(began).Round(time.Second), mib(early), mib(late))
	// A collector lets the heap breathe by some snapshots; a leak goes on for ever.
	if late > early+early/20+budgetMiB<<20 {
		t.Errorf("the process grew from %.1f to %.1f MiB", mib(early), mib(late))
	}
}

func mib(n uint64) float64 { return float64(n) / (1 << 20) }
