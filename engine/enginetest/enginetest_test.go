package enginetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"interlude/engine/emulate"

	"go.uber.org/goleak"
)

// engineWord makes the test binary the engine under test; the lie it tells is
// the next word. An argument and not the environment, so that subtests with
// different lies can run side by side.
const engineWord = "engine"

// The test binary is also the engine under test: the stand-in, or the stand-in
// behind somebody who spoils what it says.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == engineWord {
		os.Exit(lies[os.Args[2]](os.Args[3:]))
	}
	goleak.VerifyTestMain(m)
}

// standIn returns the command line of the stand-in with its extensions, fast.
func standIn(t *testing.T, lie string, flags ...string) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{exe, engineWord, lie, "--serve", "--load", "0s", "--speed", "500"}, flags...)
}

var extended = []string{"--conversation-cache-mib", "8192", "--resume-prefill", "--prefill-chunk", "256", "--sequences", "3", "--token-mask", "--logprobs"}

func TestTheStandInConforms(t *testing.T) {
	for name, tt := range map[string]struct {
		flags  []string
		rounds int
	}{
		"extended": {extended, 100},
		"native":   {[]string{"--conversation-cache-mib", "8192"}, 30},
		"no cache": {nil, 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Seed: 7, Rounds: tt.rounds, Fuzz: 100, Restarts: 2, Timeout: 30 * time.Second, Told: func(c Check) { t.Log(c) }}
			r := Run(t.Context(), standIn(t, "", tt.flags...), o)
			if !r.Passed() || len(r.Checks) != len(Names()) {
				t.Errorf("%d of %d checks ran, passed: %v", len(r.Checks), len(Names()), r.Passed())
			}
			for _, c := range r.Checks {
				announced := name == "extended" || c.Name != "sequences" && c.Name != "logprobs" && c.Name != "token_mask" &&
					(name == "native" || c.Name != "reuse_after_park" && c.Name != "branches")
				if want := map[bool]Status{true: Pass, false: NotRun}[announced]; c.Status != want {
					t.Errorf("%s is %s, want %s", c.Name, c.Status, want)
				}
				if strings.HasPrefix(c.Name, "exact_resume") && c.Counts["continued"] < tt.rounds {
					t.Errorf("%s continued %d GENs", c.Name, c.Counts["continued"])
				}
			}
		})
	}
}

// edit returns an engine whose every line on stdout goes through a function; an
// empty result drops the line.
func edit(change func(line string) string) func(args []string) int {
	return func(args []string) int {
		r, w := io.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			lines := bufio.NewScanner(r)
			for lines.Scan() {
				if out := change(lines.Text()); out != "" {
					fmt.Println(out)
				}
			}
		}()
		code := emulate.Main(args, os.Stdin, w, os.Stderr)
		w.Close()
		<-done
		return code
	}
}

// swap replaces what a pattern matches.
func swap(pattern, with string) func([]string) int {
	re := regexp.MustCompile(pattern)
	return edit(func(line string) string { return re.ReplaceAllString(line, with) })
}

// deafTo drops lines of stdin before the engine sees them.
func deafTo(word string) func([]string) int {
	return func(args []string) int {
		r, w := io.Pipe()
		go func() {
			in := bufio.NewReader(os.Stdin)
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					w.Close()
					return
				}
				if !strings.HasPrefix(line, word) {
					io.WriteString(w, line)
				}
			}
		}()
		return emulate.Main(args, r, os.Stdout, os.Stderr)
	}
}

var lies = map[string]func([]string) int{
	"":               func(args []string) int { return emulate.Main(args, os.Stdin, os.Stdout, os.Stderr) },
	"double token":   swap(`^T 5..$`, "$0\n$0"),
	"late reused":    swap(`^REUSED .*$`, "T 300\n$0"),
	"wrong count":    swap(`^DONE (\d+) (\d+)`, "DONE ${1}1 $2"),
	"done after err": swap(`^ERR .*$`, "$0\nDONE 0 0 0 0 error"),
	"short resume":   swap(`^(RESUME|REUSED) (\d+)\d$`, "$1 ${2}0"),
	"cache is a lie": swap(`conversation_cache_mib=\d+`, "conversation_cache_mib=9"),
	"keeps no read":  swap(`^INFO `, "INFO resume_prefill=1 prefill_chunk=8192 "),
	"no slices":      swap(`^RESUME [1-9]\d\d$`, "RESUME 7"),
	"deaf to STOP":   deafTo("STOP"),
	"deaf to QUIT":   deafTo("QUIT"),
	"drifts": func() func([]string) int {
		resumed := false
		return edit(func(line string) string {
			if strings.HasPrefix(line, "RESUME ") {
				resumed = line != "RESUME 0"
			}
			if resumed && strings.HasPrefix(line, "T ") {
				return "T 301"
			}
			return line
		})
	}(),
	"mask ignored": swap(`^T \d+$`, "T 300"),
	"no LP":        swap(`^LP \d+ raw (\d+) .*$`, "T $1"),
	"bad scores":   swap(`^(LP \d+ raw \d+) \S+ `, "$1 -9 "),
	"dies at garbage": edit(func(line string) string {
		if strings.HasPrefix(line, "ERR bad request") {
			os.Exit(9)
		}
		return line
	}),
	"outlives its input": func(args []string) int {
		code := emulate.Main(args, os.Stdin, os.Stdout, os.Stderr)
		forever()
		return code
	},
	"ends badly": func(args []string) int { return 5 + emulate.Main(args, os.Stdin, os.Stdout, os.Stderr) },
}

// Every check must be able to fail.
func TestLiesAreFound(t *testing.T) {
	for _, tt := range []struct {
		lie, check string
		flags      []string
	}{
		{"double token", "order_of_lines", nil},
		{"late reused", "order_of_lines", nil},
		{"wrong count", "order_of_lines", nil},
		{"short resume", "next_turn", nil},
		{"done after err", "refusals", nil},
		{"cache is a lie", "reuse_after_park", nil},
		{"keeps no read", "exact_resume_greedy", nil},
		{"no slices", "read_slices", nil},
		{"deaf to STOP", "stop_decode", nil},
		{"deaf to STOP", "stop_read", extended},
		{"deaf to QUIT", "quit", nil},
		{"drifts", "exact_resume_greedy", nil},
		{"drifts", "exact_resume_seeded", nil},
		{"drifts", "read_slices", nil},
		{"mask ignored", "token_mask", extended},
		{"no LP", "logprobs", extended},
		{"bad scores", "logprobs", extended},
		{"dies at garbage", "refusals", nil},
		{"dies at garbage", "fuzz", nil},
		{"outlives its input", "end_of_input", nil},
		{"ends badly", "quit", nil},
	} {
		t.Run(tt.lie+" in "+tt.check, func(t *testing.T) {
			t.Parallel()
			o := Options{Seed: 3, Rounds: 40, Timeout: 500 * time.Millisecond, Grace: 500 * time.Millisecond, Only: []string{tt.check}}
			if tt.check == "order_of_lines" {
				o.Only = []string{"next_turn", "order_of_lines"}
			}
			r := Run(t.Context(), standIn(t, tt.lie, tt.flags...), o)
			i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Name == tt.check })
			if i < 0 || r.Checks[i].Status != Fail || r.Passed() {
				t.Errorf("not found: %v", r.Checks)
			} else {
				t.Log(r.Checks[i])
			}
		})
	}
}

func TestWhatDoesNotStartFailsOnce(t *testing.T) {
	r := Run(t.Context(), []string{"/does/not/exist"}, Options{Only: []string{"start", "quit"}})
	if len(r.Checks) != 2 || r.Checks[0].Status != Fail || r.Checks[1].Status != NotRun || r.Passed() {
		t.Errorf("%v", r.Checks)
	}
}

// forever blocks until the process is killed.
func forever() {
	if r, _, err := os.Pipe(); err == nil {
		r.Read(make([]byte, 1)) // nobody writes to it
	}
}

// A check that we broke off ourselves says nothing about the engine.
func TestWhatIsBrokenOffIsNotRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Only: []string{"stop_read", "read_slices"}, Prompt: func(_ *rand.Rand, n int) []int32 {
		cancel() // Ctrl-C in the middle of a check
		return make([]int32, n)
	}}
	for _, c := range Run(ctx, standIn(t, ""), o).Checks {
		if c.Status != NotRun || !strings.Contains(c.Text, "the run was ended") {
			t.Errorf("%s", c)
		}
	}
}
