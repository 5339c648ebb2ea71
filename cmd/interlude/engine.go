package main

import (
	"os/signal"

	"github.com/spf13/cobra"

	"interlude/engine/emulate"
)

func newEngine() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "engine",
		GroupID: "serve",
		Short:   "Run an engine by hand: the stand-in, or llama.cpp on a real model",
		Example: `  interlude engine emulate --serve        # the stand-in, on stdin and stdout
  interlude engine emulate --help         # its profile, cache, extensions and faults
  interlude engine llama --serve --model my.gguf
  interlude engine relay --fault-file faults -- interlude engine llama --serve
  interlude engine check -- strata --serve --pack …`,
		Args: exactly(0, "a subcommand"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newEmulate(), newLlama(), newRelay(), newCheck())
	return cmd
}

func newEmulate() *cobra.Command {
	return &cobra.Command{
		Use:                "emulate --serve [flags]",
		Short:              "The stand-in engine: speaks the protocol at the pace of a profile, answers from the token ids alone",
		DisableFlagParsing: true, // an engine's flags are its own: an unknown one is usage and exit code 2
		RunE: func(cmd *cobra.Command, args []string) error {
			signal.Reset(endings()...) // no verb of ours that ends in good order: an engine, which a signal ends
			if code := emulate.Main(args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()); code != 0 {
				return exit{code: code}
			}
			return nil
		},
	}
}
