package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"interlude/engine"

	"go.uber.org/goleak"
)

const roleKey = "PROCESS_TEST_ENGINE"

// The test binary is also the engine: its role is in the environment.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleKey); role != "" {
		os.Exit(fake(role, os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

func options(t testing.TB, role string) Options {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	grace := 20 * time.Second
	if role == "deaf" || role == "stubborn" {
		grace = 100 * time.Millisecond
	}
	return Options{Argv: []string{exe}, Env: append(os.Environ(), roleKey+"="+role), ReadyTimeout: 20 * time.Second, Grace: grace}
}

func fake(role string, stdin io.Reader, stdout, stderr io.Writer) int {
	switch role {
	case "broken-start":
		fmt.Fprint(stderr, "loading\nno such model\n")
		return 3
	case "mute":
		signal.Ignore(syscall.SIGTERM)
		io.Copy(io.Discard, stdin)
		return 0
	}
	fmt.Fprint(stderr, "a word on stderr\n")
	fmt.Fprint(stdout, "loading 50%\nINFO context=4096 conversation_cache_mib=7\nREADY 4096 stop\n")
	switch role {
	case "deaf": // reads nothing, ends at nothing
		signal.Ignore(syscall.SIGTERM)
		forever()
	case "stubborn": // ignores QUIT and the end of its input, but not TERM
		io.Copy(io.Discard, stdin)
		forever()
	case "half":
		bufio.NewReader(stdin).ReadString('\n')
		fmt.Fprint(stdout, "RESUME 0\nT 5\nT 12")
		fmt.Fprint(stderr, "CUDA error\n")
		return 4
	}
	return serve(role, stdin, stdout)
}

// serve answers as the native engine does: the reader sets a flag at STOP, and the
// main loop clears it when it takes a command, so that an early STOP is lost.
func serve(role string, stdin io.Reader, stdout io.Writer) int {
	var stop atomic.Bool
	lines := make(chan string, 16)
	go func() {
		defer close(lines)
		in := bufio.NewReaderSize(stdin, 1<<20)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if line = strings.TrimSpace(line); line == "STOP" {
				stop.Store(true)
			} else {
				lines <- line
			}
		}
	}()
	for line := range lines {
		stop.Store(false)
		var c engine.Command
		if err := engine.ParseCommand([]byte(line), &c); err != nil {
			fmt.Fprintf(stdout, "ERR bad request: %v\n", err)
			continue
		}
		if c.Kind == engine.CmdQuit {
			return 0
		}
		if text := c.Gen.Refuse(400_000, 1<<20); text != "" {
			fmt.Fprintf(stdout, "ERR %s\n", text)
			continue
		}
		answer(role, c.Gen, &stop, lines, stdout)
	}
	return 0
}

func answer(role string, g engine.Gen, stop *atomic.Bool, lines <-chan string, stdout io.Writer) {
	n := len(g.IDs)
	fmt.Fprintf(stdout, "RESUME 0\nPP %d %d 1.0 5\nREUSED 0\n", n-1, n)
	switch role {
	case "fatal":
		fmt.Fprint(stdout, "ERR verify window 1 timed out\nDONE 0 1 0 0 error\n")
		return
	case "garbage":
		fmt.Fprint(stdout, "T 1\nT x1\n")
	case "deaf-to-stop":
		stop = new(atomic.Bool)
		g.MaxNew = 1 << 30
	}
	finish, i := "length", 0
	for ; i < g.MaxNew; i++ {
		if stop.Load() {
			finish = "cancel"
			break
		}
		if g.Mask {
			fmt.Fprint(stdout, "MQ\n")
			fmt.Fprintf(stdout, "said %s\n", <-lines)
		}
		fmt.Fprintf(stdout, "T %d\n", n+i)
	}
	fmt.Fprintf(stdout, "DONE %d %d 1.0 2.0 %s\n", i, n, finish)
}

// forever blocks until the process is killed.
func forever() {
	if r, _, err := os.Pipe(); err == nil {
		r.Read(make([]byte, 1)) // nobody writes to it
	}
}
