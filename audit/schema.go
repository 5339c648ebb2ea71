package audit

import (
	"encoding/json"
	"strings"

	"github.com/xeipuuv/gojsonschema"
)

// schemaFaults validates text under a draft-7 schema. It runs only on text that
// strictJSON has accepted: the library's loader takes duplicate keys and
// trailing data, and follows references to anywhere, so a schema that points
// outside itself is refused here.
func schemaFaults(prefix string, schema json.RawMessage, text string) []string {
	if len(schema) == 0 {
		return nil
	}
	s, bad := strictJSON(string(schema))
	if len(bad) > 0 || foreignRef(s) {
		return []string{prefix + "schema:unusable"}
	}
	loader := gojsonschema.NewSchemaLoader()
	loader.AutoDetect = false
	loader.Draft = gojsonschema.Draft7
	compiled, err := loader.Compile(gojsonschema.NewBytesLoader(schema))
	if err != nil {
		return []string{prefix + "schema:unusable"}
	}
	result, err := compiled.Validate(gojsonschema.NewStringLoader(text))
	if err != nil {
		return []string{prefix + "schema:unreadable"}
	}
	var faults []string
	for _, e := range result.Errors() {
		faults = append(faults, prefix+"schema:"+e.Type()+"@"+strings.TrimPrefix(e.Context().String(), "(root)"))
	}
	return faults
}

// foreignRef reports a $ref or $schema-relative pointer that leaves the document.
func foreignRef(v any) bool {
	switch x := v.(type) {
	case []any:
		for _, e := range x {
			if foreignRef(e) {
				return true
			}
		}
	case *object:
		if ref, ok := x.members["$ref"].(string); ok && !strings.HasPrefix(ref, "#") {
			return true
		}
		for _, e := range x.members {
			if foreignRef(e) {
				return true
			}
		}
	}
	return false
}
