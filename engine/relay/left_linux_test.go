package relay

import (
	"io"
	"syscall"
	"testing"
)

// outliving takes the death signal from the engine, as on a system that has none.
func outliving(yes bool) {
	const setDeathSignal = 1 // PR_SET_PDEATHSIG
	if !yes {
		return
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setDeathSignal, 0, 0); errno != 0 {
		panic(errno)
	}
}

// TestTheEndOfItsInput: where no death signal reaches it, the engine of a killed
// relay sees the end of its input and goes, and one that was frozen is freed and
// ended by the system, whose group has lost its parent.
func TestTheEndOfItsInput(t *testing.T) {
	for _, fault := range []string{"", "silence@token:4"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			p := start(t, fault, "--outliving")
			p.until("READY")
			io.WriteString(p.in, "GEN 200 "+prompt()+"\n")
			p.until("T ")
			if fault != "" {
				p.silently("")
			}
			p.cmd.Process.Kill()
			p.end()
			p.gone()
		})
	}
}
