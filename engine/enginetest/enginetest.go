package enginetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"interlude/engine"
	"interlude/engine/process"
)

// Options bound a run of the suite. The zero value checks everything.
type Options struct {
	Seed     uint64        // of prompts, stops and fuzzed lines
	Rounds   int           // GENs of the exact resume check in each mode; 0: 100, so 200 in all
	Fuzz     int           // fuzzed command lines; 0: 200
	Restarts int           // SIGKILLs; 0: 3
	Timeout  time.Duration // of one GEN; 0: 2 min
	Ready    time.Duration // from start to READY; 0: process.DefaultReadyTimeout
	Grace    time.Duration // for QUIT and the end of input; 0: process.DefaultGrace
	Only     []string      // names of checks; empty: all
	LogPath  string        // the engine's stderr; empty: its tail is kept in memory
	// Prompt makes a prompt of at least n tokens that is answered at some length; nil:
	// random ids from 300 to 499, which every vocabulary has.
	Prompt func(r *rand.Rand, n int) []int32
	// Told hears of each check when it ends; nil: nobody.
	Told func(Check)
}

// Status is how a check ended. The zero value is no status.
type Status string

// A check passes, fails, or was not run because the engine does not announce what
// it checks or because an earlier failure is in its way.
const (
	Pass   Status = "pass"
	Fail   Status = "fail"
	NotRun Status = "not_run"
)

// Check is the result of one check.
type Check struct {
	Name   string         `json:"name"`
	Status Status         `json:"status"`
	Text   string         `json:"text,omitempty"`   // why it failed or was not run
	Counts map[string]int `json:"counts,omitempty"` // what was seen, by name; names ending in _ms are milliseconds
	Took   time.Duration  `json:"took_ns"`
}

func (c *Check) count(name string, n int) {
	if c.Counts == nil {
		c.Counts = map[string]int{}
	}
	c.Counts[name] += n
}

// most keeps the greatest value seen under a name.
func (c *Check) most(name string, n int) {
	c.count(name, max(0, n-c.Counts[name]))
}

// Report is what a run of the suite found.
type Report struct {
	Info    engine.Info `json:"info"`
	Context int         `json:"context"` // tokens
	Checks  []Check     `json:"checks"`
}

// Passed tells whether no check failed and at least one passed.
func (r *Report) Passed() bool {
	passed := false
	for _, c := range r.Checks {
		if c.Status == Fail {
			return false
		}
		passed = passed || c.Status == Pass
	}
	return passed
}

// String lists one check a line, with its counts by name.
func (c Check) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s %-22s %8.2fs ", c.Status, c.Name, c.Took.Seconds())
	for _, k := range slices.Sorted(maps.Keys(c.Counts)) {
		fmt.Fprintf(&b, " %s=%d", k, c.Counts[k])
	}
	if c.Text != "" {
		b.WriteString("  " + c.Text)
	}
	return b.String()
}

// notRun is the error of a check that has nothing to check.
type notRun string

func (e notRun) Error() string { return string(e) }

// suite is one run. Checks share an engine; one that leaves it in doubt kills it,
// and the next one gets a fresh one.
type suite struct {
	ctx     context.Context
	argv    []string
	o       Options
	rng     *rand.Rand
	engine  *process.Process // nil: to be started
	session *process.Session
	info    engine.Info
	context int
	longest int      // tokens; see long
	served  int      // GENs that ran to their DONE
	faults  []string // of the order of lines, in any GEN
}

// Run starts argv (program and arguments, --serve included) and runs the checks.
// The report always names every check that was asked for.
func Run(ctx context.Context, argv []string, o Options) Report {
	o.defaults()
	s := &suite{ctx: ctx, argv: argv, o: o, rng: rand.New(rand.NewPCG(o.Seed, 0x656e67696e65))}
	var report Report
	for _, check := range checks {
		if len(o.Only) > 0 && !slices.Contains(o.Only, check.name) {
			continue
		}
		c := Check{Name: check.name}
		began := time.Now()
		if len(report.Checks) > 0 && s.context == 0 {
			c.Status, c.Text = NotRun, "the engine never got ready" // once is enough
		} else {
			s.judge(&c, check.run)
		}
		c.Took = time.Since(began)
		report.Checks = append(report.Checks, c)
		if o.Told != nil {
			o.Told(c)
		}
	}
	report.Info, report.Context = s.info, s.context
	s.stop()
	return report
}

func (o *Options) defaults() {
	for _, d := range []struct {
		to    *int
		value int
	}{{&o.Rounds, 100}, {&o.Fuzz, 200}, {&o.Restarts, 3}} {
		if *d.to <= 0 {
			*d.to = d.value
		}
	}
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.Prompt == nil {
		o.Prompt = func(r *rand.Rand, n int) []int32 {
			ids := make([]int32, n)
			for i := range ids {
				ids[i] = 300 + r.Int32N(200)
			}
			return ids
		}
	}
}

// judge runs one check and turns its error into a status.
func (s *suite) judge(c *Check, run func(*suite, *Check) error) {
	err := s.ctx.Err()
	if err == nil {
		err = s.start()
	}
	if err == nil {
		err = run(s, c)
	}
	if ended := s.ctx.Err(); err != nil && ended != nil { // whatever went wrong is our doing
		err = notRun("the run was ended: " + ended.Error())
	}
	var skipped notRun
	switch {
	case err == nil:
		c.Status = Pass
	case errors.As(err, &skipped):
		c.Status, c.Text = NotRun, err.Error()
	default:
		c.Status, c.Text = Fail, err.Error()
		s.stop() // whatever it may still say belongs to no later check
	}
}

// start makes sure that an engine runs.
func (s *suite) start() error {
	if s.engine != nil {
		return nil
	}
	p, err := process.Start(s.ctx, process.Options{Argv: s.argv, LogPath: s.o.LogPath, ReadyTimeout: s.o.Ready, Grace: s.o.Grace})
	if err != nil {
		return err
	}
	s.engine, s.session = p, process.NewSession(p.Conn)
	s.session.Drain = s.o.Timeout
	s.info, s.context = p.Info(), p.Context()
	return nil
}

// stop ends the engine; one that will not go is a fault of its own.
func (s *suite) stop() {
	if s.engine == nil {
		return
	}
	if err := s.engine.Kill(); err != nil {
		s.fault("kill: %v", err)
	}
	s.engine = nil
}

func (s *suite) fault(format string, args ...any) {
	if len(s.faults) < 20 {
		s.faults = append(s.faults, fmt.Sprintf(format, args...))
	}
}
