package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"interlude/results"
)

// commands shows how the server of each arm was started, and its configuration
// where that command reads one.
func (s *source) commands(p *page) {
	var unknown []string
	shown := map[string]string{} // command: the arms started by it
	var order []string
	for _, slot := range s.firstSlots() {
		switch text := template(slot.Argv); {
		case len(slot.Argv) == 0 && s.foreign(slot):
			unknown = append(unknown, fmt.Sprintf("%s (argv hash %s)", escape(slot.Arm), code(short(slot.ArgvHash))))
		case len(slot.Argv) == 0:
		case shown[text] == "":
			order = append(order, text)
			shown[text] = slot.Arm
		default:
			shown[text] += ", " + slot.Arm
		}
	}
	for _, text := range order {
		p.para("Server of arm %s: %s", escape(shown[text]), code(text))
	}
	if len(unknown) > 0 {
		p.para("The commands of these control arms were recorded as hashes alone: %s. They stand in the target %s of the revision above, together with the environment variables they read.", strings.Join(unknown, ", "), code(s.plan.Target))
	}
	for _, slot := range s.firstSlots() {
		if len(slot.Config) == 0 || s.foreign(slot) {
			continue
		}
		p.para("Configuration of arm %s, resolved:", escape(slot.Arm))
		var b bytes.Buffer
		if err := json.Indent(&b, slot.Config, "", "  "); err != nil {
			b.Reset()
			b.Write(slot.Config)
		}
		p.fence("json", b.String())
	}
}

// firstSlots is the first slot of each arm.
func (s *source) firstSlots() []results.SlotInfo {
	var list []results.SlotInfo
	for _, slot := range s.run.Slots {
		if !slices.ContainsFunc(list, func(x results.SlotInfo) bool { return x.Arm == slot.Arm }) {
			list = append(list, slot)
		}
	}
	return list
}

// foreign reports whether an arm is a control with a command of its own, which does
// not read the configuration that was made for the others.
func (s *source) foreign(slot results.SlotInfo) bool {
	if slot.Arm == results.Off || slot.Arm == results.On {
		return false
	}
	if len(slot.Argv) > 0 {
		return !strings.Contains(strings.Join(slot.Argv, " "), "{config}")
	}
	return slices.ContainsFunc(s.run.Slots, func(x results.SlotInfo) bool { return x.Arm == results.Off && x.ArgvHash != slot.ArgvHash })
}

// template writes a command with its placeholders as they stand; those for a variable
// of the environment as a shell has them.
func template(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		if out[i] = variable.ReplaceAllString(w, "$$$1"); !strings.Contains(w, "{") {
			out[i] = results.CommandLine([]string{w})
		}
	}
	return strings.Join(out, " ")
}

var variable = regexp.MustCompile(`\{env:([A-Za-z_][A-Za-z0-9_]*)\}`)

// environment sets, for a shell, the variables that the servers' commands read.
func (s *source) environment() string {
	var names []string
	text := ""
	for _, slot := range s.run.Slots {
		for _, m := range variable.FindAllStringSubmatch(strings.Join(slot.Argv, " "), -1) {
			if !slices.Contains(names, m[1]) {
				names = append(names, m[1])
				text += m[1] + "=/path/to/it "
			}
		}
	}
	return text
}

// again is the command that the run was started by, as a shell reads it, with the
// variables it needs.
func (s *source) again() string { return s.environment() + results.CommandLine(s.run.Command) }
