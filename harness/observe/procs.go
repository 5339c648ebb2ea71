package observe

import (
	"runtime"
	"runtime/metrics"

	"github.com/shirou/gopsutil/v4/process"

	"interlude/results"
)

// Process samples one process by its pid. What the system does not tell is 0.
func Process(pid int) (results.Proc, error) {
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return results.Proc{}, err
	}
	var out results.Proc
	if m, err := p.MemoryInfo(); err == nil && m != nil {
		out.RSS = m.RSS
	}
	if n, err := p.NumThreads(); err == nil {
		out.Threads = int(n)
	}
	if n, err := p.NumFDs(); err == nil {
		out.Handles = int(n)
	}
	if t, err := p.Times(); err == nil && t != nil {
		out.CPU = t.User + t.System
	}
	return out, nil
}

// Command is the command line of a process. One that was forked and has not become
// its program yet still has its parent's.
func Command(pid int) (string, error) {
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return "", err
	}
	return p.Cmdline()
}

// Self samples this process, its Go heap included. It collects first: collections
// of their own accord are minutes apart here, and what they find reachable depends
// on the moment, which blurs a slope of a megabyte an hour.
func Self(pid int) results.Proc {
	out, _ := Process(pid) // our own process is there; what it hides stays 0
	out.Goroutines = runtime.NumGoroutine()
	runtime.GC()
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() == metrics.KindUint64 {
		out.Heap = s[0].Value.Uint64()
	}
	return out
}
