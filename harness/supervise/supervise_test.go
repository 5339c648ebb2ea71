package supervise

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is every child that these tests need: HELPER says which.
func TestMain(m *testing.M) {
	if role := os.Getenv("SUPERVISE_TEST_HELPER"); role != "" {
		os.Exit(help(role))
	}
	goleak.VerifyTestMain(m)
}

// sigterm is what Terminate sends, or on Windows looks like.
const sigterm = syscall.SIGTERM

func help(role string) int {
	switch role {
	case "polite": // ends well at TERM
		ctx, stop := signal.NotifyContext(Asked(context.Background()), sigterm, os.Interrupt)
		defer stop()
		fmt.Println("here")
		<-ctx.Done()
	case "deaf": // has a deaf child in a group of its own, and does not end at TERM
		signal.Ignore(sigterm)
		c, err := Start(helper("deafchild"))
		if err != nil {
			return 1
		}
		fmt.Println(c.Pid())
		c.Wait()
	case "deafchild":
		signal.Ignore(sigterm)
		forever()
	case "listen":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 1
		}
		fmt.Println(l.Addr().(*net.TCPAddr).Port)
		io.Copy(io.Discard, os.Stdin)
	case "echo":
		io.Copy(os.Stdout, os.Stdin)
		fmt.Fprint(os.Stderr, "one\ntwo\nlast words\n")
		return 7
	}
	return 0
}

func helper(role string) Spec {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Spec{Argv: []string{exe}, Env: append(os.Environ(), "SUPERVISE_TEST_HELPER="+role), Pipes: true}
}

func start(t *testing.T, spec Spec) *Child {
	t.Helper()
	c, err := Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Kill(); err != nil {
			t.Error(err)
		}
		if c.Stdout != nil {
			c.Stdout.Close()
		}
	})
	return c
}

func line(t *testing.T, c *Child) string {
	t.Helper()
	text, err := bufio.NewReader(c.Stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the child said %q: %v", text, err)
	}
	return strings.TrimSpace(text)
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestPipesCarryTheLastWords(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("somebody else's line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", log} {
		spec := helper("echo")
		spec.LogPath = path
		c := start(t, spec)
		big := bytes.Repeat([]byte("x"), 1<<20)
		go func() {
			c.Stdin.Write(big)
			c.Stdin.Close()
		}()
		if got, err := io.ReadAll(c.Stdout); err != nil || len(got) != len(big) {
			t.Errorf("%d of %d bytes came back: %v", len(got), len(big), err)
		}
		if err := c.Wait(); err == nil || !strings.Contains(err.Error(), "exit status 7") {
			t.Errorf("ended with %v, want exit status 7", err)
		}
		if got := c.LastLines(2); !slices.Equal(got, []string{"two", "last words"}) {
			t.Errorf("last lines %q", got)
		}
		if got := c.LastLines(20); len(got) != 3 {
			t.Errorf("last lines %q reach back beyond this child", got)
		}
	}
}

func TestTerminateIsPoliteFirst(t *testing.T) {
	c := start(t, helper("polite"))
	line(t, c)
	began := time.Now()
	if err := c.Terminate(within(t, 20*time.Second), 15*time.Second); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("Terminate took %v, the whole grace", took)
	}
	if err := c.Err(); err != nil {
		t.Errorf("a child that ends at TERM was killed: %v", err)
	}
}

// A child that has nothing to hear us by gets no time to answer: on Windows one that
// does not listen, without a console.
func TestWhoCannotBeAskedIsNotWaitedFor(t *testing.T) {
	if runtime.GOOS != "windows" {
		t.Skip("everybody hears a signal")
	}
	if console, err := os.OpenFile("CONIN$", os.O_RDWR, 0); err == nil {
		console.Close()
		t.Skip("there is a console, through which a break may be heard")
	}
	c := start(t, helper("deaf"))
	line(t, c)
	began := time.Now()
	if err := c.Terminate(within(t, 20*time.Second), 15*time.Second); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("Terminate took %v, the whole grace", took)
	}
}

func TestTerminateKillsTheWholeTree(t *testing.T) {
	c := start(t, helper("deaf"))
	grandchild, err := strconv.Atoi(line(t, c))
	if err != nil {
		t.Fatal(err)
	}
	below, err := c.Descendants()
	if err != nil || len(below) != 1 || below[0].Pid != grandchild {
		t.Fatalf("descendants %v, %v; want pid %d", below, err, grandchild)
	}
	if err := c.Terminate(within(t, 20*time.Second), 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if below[0].running() {
		t.Error("a grandchild in a group of its own outlived Terminate")
	}
	if c.Err() == nil {
		t.Error("a deaf child ended without being killed")
	}
}

// The one in the middle is killed without a chance to clean up.
func TestChildrenEndWithUs(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("there is no death signal: a child notices the end of its input")
	}
	c := start(t, helper("deaf"))
	pid, err := strconv.Atoi(line(t, c))
	if err != nil {
		t.Fatal(err)
	}
	c.record(pid)
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.Gone(within(t, 5*time.Second)); err != nil {
		t.Error(err)
	}
}

func TestOwnsTellsOurListenerFromAForeignOne(t *testing.T) {
	foreign, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	c := start(t, helper("listen"))
	port, err := strconv.Atoi(line(t, c))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		port, root int
		want       bool
	}{
		{port, c.Pid(), true},
		{port, os.Getpid(), true}, // it runs below us
		{foreign.Addr().(*net.TCPAddr).Port, c.Pid(), false},
		{foreign.Addr().(*net.TCPAddr).Port, os.Getpid(), true},
	} {
		if got, err := Owns(tt.port, tt.root); err != nil || got != tt.want {
			t.Errorf("Owns(%d, %d) = %v, %v, want %v", tt.port, tt.root, got, err, tt.want)
		}
	}
	free, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(free)))
	if err != nil {
		t.Fatalf("a free port is taken: %v", err)
	}
	l.Close()
}

func TestARecycledPidIsSomebodyElse(t *testing.T) {
	other := Proc{Pid: os.Getpid(), Start: time.Now().Add(-time.Hour).UnixMilli()}
	if other.running() {
		t.Error("a pid with another start time passes as ours")
	}
	other.kill() // would be the end of this test
}

// The number of a parent that has ended is somebody else's; its children still name it.
func TestAChildIsYoungerThanItsParent(t *testing.T) {
	const began = 1_000_000
	starts := map[int]int64{1: began, 2: began + 5, 3: began - startTolerance - 1, 4: began - startTolerance, 5: began + 9}
	children := map[int][]int{1: {2, 3, 4}, 2: {5, 1}, 3: {6}, 5: {7}}
	start := func(pid int) (int64, error) {
		if at, ok := starts[pid]; ok {
			return at, nil
		}
		return 0, os.ErrNotExist
	}
	if got := walk([]int{1}, children, start); !slices.Equal(got, []int{2, 4, 5}) {
		t.Errorf("below 1: %v, want 2, 4 and 5: 3 is older, 6 is a child of 3, 7 has ended", got)
	}
}

func TestStartErrorsNameTheProgram(t *testing.T) {
	for name, spec := range map[string]Spec{
		"missing program": {Argv: []string{"/does/not/exist"}, Pipes: true},
		"missing folder":  {Argv: []string{"sh"}, Dir: "/does/not/exist"},
		"missing log":     {Argv: []string{"/does/not/exist"}, LogPath: "/does/not/exist/log"},
		"no argv":         {},
	} {
		c, err := Start(spec)
		if err == nil {
			c.Kill()
			t.Errorf("%s: no error", name)
		} else if len(spec.Argv) > 0 && !strings.Contains(err.Error(), spec.Argv[0]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCyclesLeaveNothingBehind(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("counts descriptors in /proc")
	}
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	cycle := func() {
		c, err := Start(Spec{Argv: []string{"sleep", "600"}, Pipes: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Kill(); err != nil {
			t.Fatal(err)
		}
		c.Stdout.Close()
	}
	cycle()
	before := open()
	for range 30 {
		cycle()
	}
	if after := open(); after > before {
		t.Errorf("%d open files before, %d after 30 cycles", before, after)
	}
}

// forever blocks until the process is killed.
func forever() {
	if r, _, err := os.Pipe(); err == nil {
		r.Read(make([]byte, 1)) // nobody writes to it
	}
}
