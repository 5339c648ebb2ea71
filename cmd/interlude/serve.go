package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/spf13/cobra"

	"interlude/sched/serve"
)

// instanceVariable carries the nonce by which a harness knows its own child.
const instanceVariable = "INTERLUDE_INSTANCE"

func newServe() *cobra.Command {
	var o serve.Options
	var verbose bool
	cmd := &cobra.Command{
		Use:     "serve --config strata.json",
		GroupID: "serve",
		Short:   "The server with the scheduler under test: OpenAI's API in front of one engine",
		Long: `Serves Chat Completions and Responses on one engine process, as the config names
it. Without solo_priority in the config it is first come, first served; with
"solo_priority": true a sooner request interrupts a running one. Taking the key out
and restarting takes everything back.`,
		Example: `  interlude serve --config strata.json --port 8095
  curl -s 127.0.0.1:8095/v1/status
  curl -sN 127.0.0.1:8095/v1/chat/completions -H 'Content-Type: application/json' \
    -d '{"stream":true,"priority":1,"messages":[{"role":"user","content":"Quote: hello"}]}'`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Path == "" {
				return usage("--config is missing: name a strata.json (sched/serve/strata.example.json is an annotated one)")
			}
			level := slog.LevelInfo
			if verbose {
				level = slog.LevelDebug
			}
			o.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
			o.Instance = os.Getenv(instanceVariable)
			o.Ready = func(addr net.Addr) { fmt.Fprintf(cmd.OutOrStdout(), "listening on http://%s\n", addr) }
			return serve.Main(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Path, "config", "", "the strata.json `FILE`")
	f.StringVar(&o.Host, "host", "", "address to listen on (default: the config's, else 127.0.0.1)")
	f.IntVar(&o.Port, "port", 8095, "port to listen on; 0 lets the system choose")
	f.StringVar(&o.APIKey, "api-key", os.Getenv("STRATA_API_KEY"), "key that clients must send (default $STRATA_API_KEY)")
	f.Lookup("api-key").DefValue = "" // help must not show a secret
	f.BoolVar(&o.Lazy, "lazy", false, "load the engine with the first request")
	f.BoolVar(&verbose, "verbose", false, "log each request")
	return cmd
}
