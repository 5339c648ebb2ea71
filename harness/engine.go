package harness

import (
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Engine is the engine of --engine as a program and its arguments.
type Engine struct {
	Name    string   // emulate, llama, or the program's base name
	Program []string // up to and including --serve where it is one of ours
	Args    []string
}

// What the stand-in's conversation cache gets unless the user says otherwise:
// upstream's default of 0 would really lose every parked state. Three contexts of
// 132K tokens need the room; every short request with an explicit priority is kept
// too, and would push the long ones out of upstream's four slots.
const (
	cacheMiB   = "24576"
	cacheSlots = "32"
)

// ParseEngine reads --engine: emulate or llama with flags of theirs after the
// word, or any command line, split as a shell splits words. self is the binary
// that holds the reserved engines; speed divides the stand-in's times.
func ParseEngine(text, self string, speed float64) (Engine, error) {
	words, err := splitWords(text)
	if err != nil {
		return Engine{}, fmt.Errorf("--engine %q: %w", text, err)
	}
	if len(words) == 0 {
		return Engine{}, errors.New(`--engine is empty: say emulate, llama, or a command line`)
	}
	name, args := words[0], words[1:]
	switch name {
	case "emulate":
		if !hasFlag(args, "--conversation-cache-mib") {
			args = append([]string{"--conversation-cache-mib", cacheMiB}, args...)
		}
		if !hasFlag(args, "--conversation-cache-slots") {
			args = append([]string{"--conversation-cache-slots", cacheSlots}, args...)
		}
		if speed != 1 && !hasFlag(args, "--speed") {
			args = append(args, "--speed", strconv.FormatFloat(speed, 'g', -1, 64))
		}
		return Engine{name, []string{self, "engine", "emulate", "--serve"}, args}, nil
	case "llama":
		return realTime(Engine{name, []string{self, "engine", "llama", "--serve"}, args}, speed)
	}
	if home, ok := strings.CutPrefix(name, "~/"); ok {
		u, err := user.Current()
		if err != nil {
			return Engine{}, fmt.Errorf("--engine %q: %w", text, err)
		}
		name = filepath.Join(u.HomeDir, home)
	}
	return realTime(Engine{filepath.Base(name), []string{name}, args}, speed)
}

// realTime refuses a time scale on an engine that has a real one.
func realTime(e Engine, speed float64) (Engine, error) {
	if speed != 1 {
		return e, fmt.Errorf("--speed %g: only the stand-in's time can be scaled, and the engine is %s", speed, e.Name)
	}
	return e, nil
}

func hasFlag(args []string, flag string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return a == flag || strings.HasPrefix(a, flag+"=") })
}

// splitWords splits a command line as a shell splits words: blanks part them,
// quotes of either kind and backslashes keep them together. Nothing is expanded.
func splitWords(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	open, quote := false, rune(0)
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, open = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, open = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if open {
				words = append(words, word.String())
				word.Reset()
				open = false
			}
		default:
			word.WriteRune(r)
			open = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("the quote %c is not closed", quote)
	}
	if escaped {
		return nil, errors.New("a backslash at the end escapes nothing")
	}
	if open {
		words = append(words, word.String())
	}
	return words, nil
}
