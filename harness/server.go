package harness

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"interlude/harness/client"
	"interlude/harness/observe"
	"interlude/harness/supervise"
)

// server is one started server, or the foreign one of a URL.
type server struct {
	target   *Target
	child    *supervise.Child // nil: not started by us
	port     int
	nonce    string
	base     time.Time // zero of the slot's stamps
	temp     string    // the slot's own folder, removed at its end
	logs     string    // folder of its logs in the run directory
	relay    string    // end of the fault file's path, by which a command line is that of the relay before its engine; "": there is none
	url      string
	client   *client.Client
	observer *observe.Observer
	launch   *launch
	model    string
	flag     *bool
	info     map[string]string
	context  int // tokens; 0 unknown
	readyIn  time.Duration
}

// startServer starts the server of an arm with a fresh copy of its state, waits
// until it is ready and proves that it is ours and as the arm wants it. logs is
// the folder that its logs go to. Whatever fails, nothing is left running, and
// what was found out about the server until then is returned beside the error.
func startServer(ctx context.Context, t *Target, arm string, v values, logs string) (*server, error) {
	s := &server{target: t.of(arm), base: time.Now()}
	err := s.begin(ctx, arm, v, logs)
	if err != nil {
		err = errors.Join(err, s.stop(context.WithoutCancel(ctx)))
	}
	return s, err
}

func (s *server) begin(ctx context.Context, arm string, v values, logs string) (err error) {
	t, url := s.target, s.target.URL
	if len(t.Command) > 0 {
		if url, err = s.launchChild(arm, v, logs); err != nil {
			return err
		}
	}
	s.url = url
	s.client = client.New(client.Options{BaseURL: url, APIKey: t.APIKey(), Base: s.base, NoDone: t.NoDone})
	s.observer = observe.New(url, t.APIKey(), nil)
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	s.readyIn = time.Since(s.base)
	return s.prove(ctx, arm)
}

func (s *server) launchChild(arm string, v values, logs string) (url string, err error) {
	s.logs = logs
	if s.port, err = supervise.FreePort(); err != nil {
		return "", err
	}
	if s.temp, err = os.MkdirTemp("", slotPrefix(os.Getpid())); err != nil {
		return "", fmt.Errorf("make the slot's folder: %w", err)
	}
	if s.nonce = nonce(); v.relayed {
		s.relay = filepath.Base(s.temp) + "/" + faultFile // whatever a system writes or quotes before it
	}
	for _, name := range v.files {
		if err := os.WriteFile(filepath.Join(s.temp, name), nil, 0o600); err != nil {
			return "", fmt.Errorf("make the slot's %s: %w", name, err)
		}
	}
	v.words = maps.Clone(v.words)
	v.words["port"], v.words["nonce"] = strconv.Itoa(s.port), s.nonce
	v.words["slot"], v.words["logs"] = s.temp, logs
	v.words["config"] = filepath.Join(s.temp, "config.json")
	if s.launch, err = s.target.resolve(arm, v); err != nil {
		return "", err
	}
	for name, from := range s.target.State {
		if from, err = v.text(from); err == nil {
			err = copyState(from, filepath.Join(s.temp, filepath.FromSlash(name)))
		}
		if err != nil {
			return "", fmt.Errorf("copy the server's state %s: %w", name, err)
		}
	}
	if s.launch.config != nil {
		if err := os.WriteFile(v.words["config"], s.launch.config, 0o600); err != nil {
			return "", fmt.Errorf("write the slot's config: %w", err)
		}
	}
	s.child, err = supervise.Start(supervise.Spec{
		Argv: s.launch.argv, Dir: s.temp, Env: s.launch.env, LogPath: filepath.Join(logs, "server.log"),
	})
	if err != nil {
		return "", fmt.Errorf("start the server: %w", err)
	}
	return "http://127.0.0.1:" + strconv.Itoa(s.port), nil
}

func nonce() string {
	b := make([]byte, 12)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// lastWords is the end of the server's log, for an error message.
func (s *server) lastWords() string {
	if s.child == nil {
		return ""
	}
	words := " (it wrote nothing)"
	if lines := s.child.LastLines(20); len(lines) > 0 {
		words = "; its last words:\n  " + strings.Join(lines, "\n  ")
	}
	return words + s.engineWords()
}

// engineWords is the end of the engine's log, where there is one: a server that
// waits for its engine has nothing to tell.
func (s *server) engineWords() string {
	const name, most = "engine.log", 4 << 10
	raw, err := os.ReadFile(filepath.Join(s.logs, name))
	text := strings.TrimSpace(string(raw[max(0, len(raw)-most):]))
	if err != nil || text == "" {
		return ""
	}
	lines := strings.Split(text, "\n")
	return fmt.Sprintf("\n  %s ends:\n    %s", name, strings.Join(lines[max(0, len(lines)-5):], "\n    "))
}

// exited is closed when the child has ended; nil, which blocks for ever, for a
// server that is not ours.
func (s *server) exited() <-chan struct{} {
	if s.child == nil {
		return nil
	}
	return s.child.Done()
}

// hasEnded gives a child that just broke a connection a second to be seen dead.
func (s *server) hasEnded() bool {
	limit := time.NewTimer(time.Second)
	defer limit.Stop()
	select {
	case <-s.exited():
		return true
	case <-limit.C:
		return false
	}
}

// obituary says how a server that should be running ended.
func (s *server) obituary() error {
	return fmt.Errorf("%w: %w%s", errDied, orSuccess(s.child.Err()), s.lastWords())
}

// errDied is why a slot ends whose server did.
var errDied = errors.New("the server ended while it was measured")

// awaitReady polls until the server says it is ready, ends, or takes too long.
func (s *server) awaitReady(ctx context.Context) error {
	r := s.target.Ready
	within := time.Duration(r.Within)
	limit := time.NewTimer(within)
	defer limit.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	// What a server starts is recorded while it lives: once it is dead, nobody can
	// tell whose its children were.
	tree := time.NewTicker(time.Second)
	defer tree.Stop()
	var last error
	for {
		got, err := s.observer.Value(ctx, r.Path, r.Pointer)
		switch {
		case err != nil:
			last = err
		case r.Want == nil || reflect.DeepEqual(got, r.Want):
			return nil
		default:
			last = fmt.Errorf("%s of %s is %#v, not %#v", r.Pointer, r.Path, got, r.Want)
		}
		select {
		case <-poll.C:
		case <-tree.C:
			s.look()
		case <-s.exited():
			return fmt.Errorf("the server ended before it was ready: %w%s", orSuccess(s.child.Err()), s.lastWords())
		case <-limit.C:
			return fmt.Errorf("the server was not ready within %v: %w%s", within, last, s.lastWords())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// look records what runs below the server now.
func (s *server) look() {
	if s.child != nil {
		_, _ = s.child.Descendants() // what cannot be listed cannot be recorded
	}
}

// orSuccess makes "exit code 0" sayable.
func orSuccess(err error) error {
	if err == nil {
		return errors.New("exit code 0")
	}
	return err
}

// prove makes sure that who answers is our own child, in the state that the arm
// wants. A server that was there before us answers as well as ours would.
func (s *server) prove(ctx context.Context, arm string) error {
	t := s.target
	s.look()
	if s.child != nil {
		ours, err := supervise.Owns(s.port, s.child.Pid())
		if err != nil {
			return fmt.Errorf("find out who listens on port %d: %w", s.port, err)
		}
		if !ours {
			return fmt.Errorf("port %d is served by a process that is not ours; it is left alone", s.port)
		}
	}
	if t.Instance != nil && s.child != nil {
		got, err := s.observer.Value(ctx, t.Instance.Path, t.Instance.Pointer)
		if err != nil {
			return fmt.Errorf("read back the nonce of the server: %w", err)
		}
		if got != s.nonce {
			return fmt.Errorf("the server on port %d answers with the nonce %v, not with that of our child (%s)", s.port, got, s.nonce)
		}
	}
	if err := s.proveFlag(ctx, arm); err != nil {
		return err
	}
	if err := s.readInfo(ctx); err != nil {
		return err
	}
	return s.findModel(ctx)
}

func (s *server) proveFlag(ctx context.Context, arm string) error {
	t := s.target
	if t.Flag == nil {
		return nil
	}
	want := t.Arms[arm].Flag
	got, err := s.observer.Value(ctx, t.Flag.Path, t.Flag.Pointer)
	on, isBool := got.(bool)
	switch {
	case err != nil && want != nil && !*want:
		return nil // a server without the feature has no such value: unknown, not wrong
	case err != nil:
		return fmt.Errorf("read back the flag: %w", err)
	case !isBool:
		return fmt.Errorf("the flag reads %v (%s of %s), which is neither true nor false", got, t.Flag.Pointer, t.Flag.Path)
	}
	s.flag = &on
	if want != nil && on != *want {
		return fmt.Errorf("the server of arm %s reports the flag as %t, want %t", arm, on, *want)
	}
	return nil
}

// readInfo reads what the engine announced and how long its context is.
func (s *server) readInfo(ctx context.Context) error {
	t := s.target
	if t.Info != nil {
		got, err := s.observer.Value(ctx, t.Info.Path, t.Info.Pointer)
		if err != nil {
			return fmt.Errorf("read the engine's INFO: %w", err)
		}
		s.info = map[string]string{}
		if m, ok := got.(map[string]any); ok {
			for k, v := range m {
				s.info[k] = fmt.Sprint(v)
			}
		}
	}
	if t.Context != nil {
		got, err := s.observer.Value(ctx, t.Context.Path, t.Context.Pointer)
		if err != nil {
			return fmt.Errorf("read the context size: %w", err)
		}
		if n, ok := got.(float64); ok {
			s.context = int(n)
		}
	}
	return nil
}

// findModel is the target's model, or the first that the server lists.
func (s *server) findModel(ctx context.Context) error {
	if s.model = s.target.Model; s.model != "" {
		return nil
	}
	got, err := s.observer.Value(ctx, "/v1/models", "/data/0/id")
	name, ok := got.(string)
	if err != nil || !ok {
		return fmt.Errorf("the target names no model, and /v1/models lists none (%w): give the target a \"model\"", orSuccess(err))
	}
	s.model = name
	return nil
}

// settled reads the counters once nothing changes any more: a server may book a
// request just after its client has read the last byte.
func (s *server) settled(ctx context.Context) (map[string]float64, error) {
	if s.target.Metrics == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	var before map[string]float64
	for {
		all, err := s.observer.Metrics(ctx, s.target.Metrics)
		if err != nil {
			return nil, fmt.Errorf("read the server's counters: %w", err)
		}
		now := s.target.witness(all)
		if before != nil && maps.Equal(before, now) {
			return now, nil
		}
		before = now
		select {
		case <-poll.C:
		case <-ctx.Done():
			return now, nil // it never stands still: the last reading is what there is
		}
	}
}

// enginePid is the process below the server that eats the most memory, 0 if there
// is none: a server may have helpers, and the engine is the big one. The relay before
// it is none, nor what is about to become its engine.
func (s *server) enginePid() int {
	if s.child == nil {
		return 0
	}
	list, err := s.child.Descendants()
	if err != nil || len(list) == 0 {
		return 0
	}
	most, pid := uint64(0), 0
	for _, p := range list {
		if proc, err := observe.Process(p.Pid); err == nil && proc.RSS >= most && !s.isRelay(p.Pid) {
			most, pid = proc.RSS, p.Pid
		}
	}
	return pid
}

// isRelay tells whether a process is the relay before the engine.
func (s *server) isRelay(pid int) bool {
	if s.relay == "" {
		return false
	}
	command, err := observe.Command(pid)
	return err == nil && strings.Contains(command, s.relay)
}

// relayPids are the relays below the server: one, or more while one goes and another
// comes.
func (s *server) relayPids() (pids []int) {
	if s.relay == "" {
		return nil
	}
	list, _ := s.child.Descendants() // what cannot be listed cannot be missed
	for _, p := range list {
		if s.isRelay(p.Pid) {
			pids = append(pids, p.Pid)
		}
	}
	return pids
}

// stop ends the server and verifies that nothing of it is left: no process, no
// listener, no file.
func (s *server) stop(ctx context.Context) error {
	var errs []error
	if s.client != nil {
		s.client.Close()
		s.observer.Close()
	}
	if s.child != nil {
		if err := s.child.Terminate(ctx, time.Duration(s.target.Stop)); err != nil {
			errs = append(errs, fmt.Errorf("stop the server: %w", err))
		}
		if list, err := s.child.Descendants(); err == nil && len(list) > 0 {
			errs = append(errs, fmt.Errorf("the server left processes behind: %v", list))
		}
	}
	if s.temp != "" {
		if err := os.RemoveAll(s.temp); err != nil {
			errs = append(errs, fmt.Errorf("remove the slot's folder: %w", err))
		}
	}
	return errors.Join(errs...)
}
