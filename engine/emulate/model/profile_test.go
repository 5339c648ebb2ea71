package model

import (
	"math"
	"testing"
	"time"
)

// The published points of the machine, and the check values of engine-protocol §9.
func TestReadLaw(t *testing.T) {
	p := RTX3090()
	for _, c := range []struct {
		n         int
		low, high float64 // seconds
	}{
		{4, 0.064, 0.064}, {19, 0.28, 0.31}, {64, 1.024, 1.024}, {65, 0.325, 0.33},
		{230, 0.395, 0.405}, {627, 0.555, 0.565}, {4096, 2.00, 2.14}, {32_768, 12.53, 12.63}, {128_000, 52.0, 52.2},
	} {
		if got := p.ReadTime(0, c.n).Seconds(); got < c.low-1e-9 || got > c.high+1e-9 {
			t.Errorf("reading %d tokens takes %.3f s, want %.3f to %.3f", c.n, got, c.low, c.high)
		}
	}
	if near, far := p.ReadTime(0, 8192), p.ReadTime(100_000, 8192); far-near < 300*time.Millisecond {
		t.Errorf("8,192 tokens from 0 take %v, from 100,000 %v: the far rate is missing", near, far)
	}
	if a, b := p.ReadTime(0, 4096), p.ReadTime(0, 4097); b < a-5*time.Millisecond {
		t.Errorf("the law jumps at 4,096: %v, then %v", a, b)
	}
}

func TestReadLawChunksAddUp(t *testing.T) {
	p := RTX3090()
	for _, n := range []int{100, 4096, 5000, 40_000, 132_000} {
		sum := p.lend(n) + p.refill(n)
		for at := 0; at < n; {
			to := min(n, at+2048)
			sum += p.readChunk(at, to, n)
			at = to
		}
		if d := sum - p.ReadTime(0, n); d.Abs() > time.Microsecond {
			t.Errorf("%d tokens in chunks take %v more than at once", n, d)
		}
	}
}

func TestParkLaw(t *testing.T) {
	p := RTX3090()
	for _, c := range []struct {
		n    int
		park float64 // ms
	}{{12_015, 167}, {65_000, 373.5}} {
		if got := millis(p.ParkTime(c.n)); math.Abs(got-c.park) > 1 {
			t.Errorf("parking %d tokens takes %.1f ms, want %.1f", c.n, got, c.park)
		}
	}
	if got := millis(p.RestoreTime(65_000)); math.Abs(got-188.5) > 1 {
		t.Errorf("restoring 65,000 tokens takes %.1f ms, want 188.5", got)
	}
	if got := p.parkedBytes(12_015, 0); got < 400e6 || got > 440e6 {
		t.Errorf("12,015 tokens take %d bytes, want about 420 MB", got)
	}
}

func TestWindows(t *testing.T) {
	p := RTX3090()
	if p.MeanWindow() != 2.1 {
		t.Errorf("a window accepts %v tokens in the mean, want 2.1", p.MeanWindow())
	}
	accepted, offered := 0, 0
	for i, n := range p.WindowSizes {
		if n < 1 || n > 4 || p.Offered[i] < n-1 {
			t.Errorf("window %d accepts %d tokens of %d drafts", i, n, p.Offered[i])
		}
		accepted += int(n) - 1
		offered += int(p.Offered[i])
	}
	if r := float64(accepted) / float64(offered); r < 0.73 || r > 0.82 {
		t.Errorf("%.2f of the drafts are accepted, want 0.73 to 0.82", r)
	}
}
