package main

import (
	"errors"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagFault says what is wrong with a flag and what it wants instead.
func flagFault(cmd *cobra.Command, err error) error {
	var missing *pflag.NotExistError
	var value *pflag.InvalidValueError
	switch {
	case errors.As(err, &missing):
		if near := nearFlag(cmd, missing.GetSpecifiedName()); near != "" {
			return usage("%w; did you mean --%s? (see %s --help)", err, near, cmd.CommandPath())
		}
	case errors.As(err, &value) && wants[value.GetFlag().Value.Type()] != "":
		f := value.GetFlag()
		return usage("--%s %q: give %s (see %s --help)", f.Name, value.GetValue(), wants[f.Value.Type()], cmd.CommandPath())
	}
	return usage("%w (see %s --help)", err, cmd.CommandPath())
}

// wants is what the flags of each type take.
var wants = map[string]string{
	"int":      "a whole number",
	"uint64":   "a whole number from 0 to 18446744073709551615",
	"float64":  "a number",
	"duration": "a time with its unit, such as 500ms, 30s or 1h30m",
	"bool":     "true or false, or the flag alone",
}

// nearFlag is the flag of cmd that takes the fewest edits to reach; "" where none is
// near.
func nearFlag(cmd *cobra.Command, name string) string {
	best, least := "", min(3, len(name)/2+1)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if d := levenshtein.ComputeDistance(name, f.Name); d < least {
			best, least = f.Name, d
		}
	})
	return best
}
