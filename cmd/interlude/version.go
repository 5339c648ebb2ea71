package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says what this binary is: its revision where the toolchain stamped one,
// and the hash of its own bytes, which the run directory keeps.
type build struct {
	Revision string
	Dirty    bool
	SHA256   string
}

func thisBuild() (build, error) {
	var b build
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.modified":
				b.Dirty = s.Value == "true"
			}
		}
	}
	path, err := os.Executable()
	if err != nil {
		return b, fmt.Errorf("find own binary: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return b, fmt.Errorf("hash own binary: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return b, fmt.Errorf("hash own binary: %w", err)
	}
	b.SHA256 = hex.EncodeToString(h.Sum(nil))
	return b, nil
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		GroupID: "serve",
		Short:   "Print revision, toolchain and the hash of this binary",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := thisBuild()
			if err != nil {
				return err
			}
			revision := b.Revision
			if revision == "" {
				revision = "unknown revision"
			}
			if b.Dirty {
				revision += " with local changes"
			}
			fmt.Fprintf(cmd.OutOrStdout(), "interlude %s\n%s %s/%s\nsha256 %s\n", revision, runtime.Version(), runtime.GOOS, runtime.GOARCH, b.SHA256)
			return nil
		},
	}
}
