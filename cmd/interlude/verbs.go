package main

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/spf13/cobra"
)

// defaultManifest is what ab drives when nobody says otherwise.
const defaultManifest = "paired-short"

// verbs is the whole tree, in the order of --help.
func verbs() []*cobra.Command {
	return []*cobra.Command{newAB(), newSoak(), newInject(), newLifecycle(), newPlan(), newEngine(), newServe(), newFetch(), newSimulate(), newCalibrate(), newAudit(), newReport(), newCompare(), newShow(), newNote(), newPublish(), newVersion()}
}

func indentJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}

// otherKeys are the keys of m beside those named, sorted.
func otherKeys[V any](m map[string]V, except ...string) []string {
	var out []string
	for k := range m {
		if !slices.Contains(except, k) {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}
