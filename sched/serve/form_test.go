package serve

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/xeipuuv/gojsonschema"
)

func schemaFormat(schema object) object {
	return object{"type": "json_schema", "json_schema": object{"name": "answer", "strict": true, "schema": schema}}
}

// TestFormsAreEnforced: an engine with masks answers in the form, whatever it is
// asked, with and without parks, after a thought too.
func TestFormsAreEnforced(t *testing.T) {
	schema := object{"type": "object", "additionalProperties": false, "required": []string{"a", "b"},
		"properties": object{"a": object{"type": "integer"}, "b": object{"type": "string", "maxLength": 30}, "c": object{"type": []string{"array", "null"}, "items": object{"type": "boolean"}, "maxItems": 3}}}
	judge, err := gojsonschema.NewSchema(gojsonschema.NewGoLoader(schema))
	if err != nil {
		t.Fatal(err)
	}
	facts := "Fact: a = 12\nFact: b = \"größe 🌍\"\nFact: c = [true, false]\n"
	bodies := map[string]object{
		"audit":   ask(facts+"Audit: b, a, c", "response_format", schemaFormat(schema)),
		"thought": ask(facts+"Audit: a, b", "response_format", schemaFormat(schema), "reasoning_effort", "low"),
		"chatty":  ask(words+"Write 20 lines by rule n.", "response_format", schemaFormat(schema), "max_tokens", 400),
		"object":  ask(facts+"Audit: a, b", "response_format", object{"type": "json_object"}),
	}
	seen := map[string]string{}
	for _, config := range []string{"", parkEach} {
		inBubble(t, config, "--token-mask", func(r *rig) {
			for name, body := range bodies {
				s := r.chat(body)
				whole := r.whole(body)
				if whole.str("choices.0.message.content") != s.content {
					t.Errorf("%s: whole %q, stream %q", name, whole.str("choices.0.message.content"), s.content)
				}
				if before, ok := seen[name]; ok && before != s.content {
					t.Errorf("%s: parks changed %q to %q", name, before, s.content)
				}
				seen[name] = s.content
				if !slices.Equal(s.finish, []string{"stop"}) {
					t.Errorf("%s: finish %v of %q", name, s.finish, s.content)
					continue
				}
				if name == "object" {
					if !json.Valid([]byte(s.content)) || !strings.HasPrefix(s.content, "{") {
						t.Errorf("%s: %q", name, s.content)
					}
				} else if res, err := judge.Validate(gojsonschema.NewStringLoader(s.content)); err != nil || !res.Valid() {
					t.Errorf("%s: %q: %v %v", name, s.content, err, res)
				}
			}
			if want := `{"b": "größe 🌍", "a": 12, "c": [true, false]}`; seen["audit"] != want {
				t.Errorf("audit %q, want %q: the mask must not bend a right answer", seen["audit"], want)
			}
			h := r.respond(object{"input": facts + "Audit: a, b", "text": object{"format": object{"type": "json_schema", "name": "x", "schema": schema}}})
			if h.text != `{"a": 12, "b": "größe 🌍"}` {
				t.Errorf("responses: %q", h.text)
			}
		})
	}
}

// TestRequiredCalls: S65 with tool_choice required and a chatty prompt.
func TestRequiredCalls(t *testing.T) {
	for _, config := range []string{"", parkEach} {
		inBubble(t, config, "--token-mask", func(r *rig) {
			named := object{"type": "function", "function": object{"name": "other"}}
			for name, body := range map[string]object{
				"asked":  ask("Call: weather {\"city\":\"Köln\"}\nCall: other {}", "tools", cityTools(), "tool_choice", "required"),
				"chatty": ask("hello", "tools", cityTools(), "tool_choice", "required", "max_tokens", 2000),
				"named":  ask("hello", "tools", cityTools(), "tool_choice", named, "max_tokens", 2000),
			} {
				s := r.chat(body)
				if !slices.Equal(s.finish, []string{"tool_calls"}) || len(s.calls) == 0 || s.content != "" {
					t.Errorf("%s: %v %+v %q", name, s.finish, s.calls, s.content)
					continue
				}
				for _, c := range s.calls {
					if !json.Valid([]byte(c.args)) {
						t.Errorf("%s: arguments %q", name, c.args)
					}
				}
				switch {
				case name == "asked" && (len(s.calls) != 2 || s.calls[0].args != `{"city":"Köln"}`):
					t.Errorf("asked: %+v", s.calls)
				case name == "named" && (len(s.calls) != 1 || s.calls[0].name != "other"):
					t.Errorf("named: %+v", s.calls)
				}
			}
			r.refused(chatPath, ask("x", "tools", cityTools(), "response_format", object{"type": "json_object"}), "response_format")
		})
	}
}
