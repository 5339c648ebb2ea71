package main

import (
	"bytes"
	"encoding/json"

	"github.com/spf13/cobra"
)

// defaultManifest is what ab drives when nobody says otherwise.
const defaultManifest = "paired-short"

// verbs is the whole tree, in the order of --help.
func verbs() []*cobra.Command {
	return []*cobra.Command{newPlan(), newEngine(), newVersion()}
}

func indentJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}
