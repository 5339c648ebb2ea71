//go:build unix

package serve

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// The cost of one token in CPU time of the server's process, from the engine's
// line to the client's socket: process, loop and serve together. Engine and
// client are processes of their own, so that nothing of them is counted.
//
//	go test -run xxx -bench CPUPerToken/saturated -benchtime 200000x ./sched/serve   # ≤ 15 µs
//	go test -run xxx -bench CPUPerToken/paced -benchtime 500x ./sched/serve          # ≤ 250 µs

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkCPUPerToken(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for name, pause := range map[string]string{"saturated": "1ns", "bulk": "0s", "paced": "20ms"} { // 100 tokens a second
		for _, solo := range []string{"false", "true"} {
			b.Run(name+"/solo="+solo, func(b *testing.B) {
				r := startReal(b, `"solo_priority":`+solo+`,"env":{"`+asFirehose+`":"`+pause+`"}`, "", nil)
				body := string(encoded(object{"messages": user("go"), "stream": true, "max_tokens": b.N}))
				cmd := exec.Command(self)
				cmd.Env = append(os.Environ(), asClient+"="+r.addr+" "+body)
				cmd.Stderr = os.Stderr
				b.ResetTimer()
				before := cpuTime(b)
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
				used := cpuTime(b) - before
				b.StopTimer()
				b.ReportMetric(float64(used.Nanoseconds())/1000/float64(b.N), "cpu-µs/token")
			})
		}
	}
}
