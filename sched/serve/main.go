package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"interlude/sched/loop"
)

// Options are what the command line says; they win over the config.
type Options struct {
	Path     string // of the strata.json
	Host     string // "" is the config's
	Port     int    // 0 lets the system choose
	APIKey   string // "" is the config's
	Lazy     bool   // load with the first request
	Instance string // a nonce that health and status repeat, so that a harness knows its own child
	Logger   *slog.Logger
	Ready    func(addr net.Addr) // called when the port is bound, before the engine loads; may be nil
}

// closeTime is how long an open answer may take to end after its error event.
const closeTime = 5 * time.Second

// Main serves until ctx ends; then nothing of it is left running. The error names
// what could not be done: the config, the port, the engine's first start with its
// last words.
func Main(ctx context.Context, o Options) error {
	cfg, err := LoadConfig(o)
	if err != nil {
		return err
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	for _, w := range cfg.Warnings {
		log.Warn("config: " + w)
	}
	// The port first: an engine takes minutes, a port in use is known at once.
	listener, err := net.Listen("tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(o.Port)))
	if err != nil {
		return fmt.Errorf("bind %s port %d: %w; choose others with --host and --port", cfg.Host, o.Port, err)
	}
	if len(cfg.Keys) == 0 && !isLoopback(listener.Addr()) {
		log.Warn("everyone who can reach this address can use the server: set api_key", "address", listener.Addr().String())
	}
	if o.Ready != nil {
		o.Ready(listener.Addr())
	}
	if !cfg.Lazy {
		log.Info("the engine starts; requests wait for its READY", "argv", strings.Join(cfg.Argv, " "))
	}
	told := context.AfterFunc(ctx, func() { log.Info("stopping: open requests are told, the engine is asked to end") })
	defer told()
	return Serve(ctx, cfg, listener, nil, log, o.Instance)
}

// Serve is Main for who brings the listener, and perhaps the way in which engines
// are started (nil: as child processes). It closes the listener.
func Serve(ctx context.Context, cfg *Config, listener net.Listener, start loop.Starter, log *slog.Logger, instance string) error {
	tok, err := OpenTokenizer(cfg.Tokenizer)
	if err != nil {
		return errors.Join(fmt.Errorf("config: %w", err), listener.Close())
	}
	c := cfg.loop(log)
	if start != nil {
		c.Start = start
	}
	l := loop.New(c)
	s := newServer(cfg, l, log, instance)
	s.tok = tok
	return run(ctx, l, s, listener)
}

// run holds the loop and the listener together: where one ends, the other is
// ended.
func run(ctx context.Context, l *loop.Loop, s *Server, listener net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	web := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	served := make(chan error, 1)
	go func() {
		err := web.Serve(listener)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		cancel(err)
		served <- err
	}()
	// The loop ends with ctx: it fails what is live, which lets the handlers end.
	err := l.Run(ctx)
	bye, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer stop()
	if web.Shutdown(bye) != nil {
		web.Close() // a client that does not read its last event
	}
	return errors.Join(err, <-served)
}

// LoadConfig reads the config that the options name and lets them win.
func LoadConfig(o Options) (*Config, error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w; sched/serve/strata.example.json is one to start from", err)
	}
	cfg, err := ParseConfig(data, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Path, err)
	}
	if o.Host != "" {
		cfg.Host = o.Host
	}
	if o.APIKey != "" {
		cfg.Keys = []string{o.APIKey}
	}
	cfg.Lazy = cfg.Lazy || o.Lazy
	return cfg, nil
}

// loop is the loop's part of the config.
func (c *Config) loop(log *slog.Logger) loop.Config {
	p := loop.Process{Argv: c.Argv, Dir: c.Dir, LogPath: c.Log, ReadyTimeout: c.Load}
	if scale := c.Machine.TimeScale; scale > 0 {
		p.ReadyTimeout = time.Duration(float64(c.Load) / scale)
	}
	if len(c.Env) > 0 {
		p.Env = append(os.Environ(), c.Env...)
	}
	return loop.Config{Machine: c.Machine, Start: loop.StartProcess(p), Journal: c.Journal, Idle: c.Idle, Lazy: c.Lazy, Retries: 2, Logger: log}
}

// libraryPath puts the engine's library folders in front of the system's.
func libraryPath(dirs []string) string {
	name := "LD_LIBRARY_PATH"
	switch runtime.GOOS {
	case "windows":
		name = "PATH"
	case "darwin":
		name = "DYLD_LIBRARY_PATH"
	}
	all := slices.Clone(dirs)
	if old := os.Getenv(name); old != "" {
		all = append(all, old)
	}
	return name + "=" + strings.Join(all, string(os.PathListSeparator))
}

func isLoopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}
