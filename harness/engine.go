package harness

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"interlude/results"
)

// Engine is the engine of --engine as a program and its arguments.
type Engine struct {
	Name    string   // emulate, llama, or the program's base name
	Program []string // up to and including --serve where the words have it
	Args    []string

	given map[string]string // words that were made absolute → as they were typed
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
// word, or any command line, split as a shell splits words. --serve follows its
// first word, or stands where the words already have it. self is the binary that
// holds the reserved engines; speed divides the stand-in's times.
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
		return Engine{Name: name, Program: []string{self, "engine", "emulate", "--serve"}, Args: args}, nil
	case "llama":
		return realTime(Engine{Name: name, Program: []string{self, "engine", "llama", "--serve"}, Args: args}, speed)
	}
	if home, ok := strings.CutPrefix(name, "~/"); ok {
		u, err := user.Current()
		if err != nil {
			return Engine{}, fmt.Errorf("--engine %q: %w", text, err)
		}
		words[0] = filepath.Join(u.HomeDir, home)
	}
	e := Engine{Name: filepath.Base(name)}
	if err := e.fromHere(words); err != nil {
		return Engine{}, fmt.Errorf("--engine %q: %w", text, err)
	}
	// Up to --serve, or the first word alone: the server puts --serve behind it then.
	n := 1 + max(0, slices.Index(words, serveFlag))
	e.Program, e.Args = words[:n:n], words[n:]
	return realTime(e, speed)
}

const serveFlag = "--serve"

// behind is the engine's program behind the relay, which gets a fault file.
func (e Engine) behind(self, faults string) []string {
	program := e.Program
	if !slices.Contains(program, serveFlag) { // the server would put it behind our first word
		program = slices.Concat(program[:1], []string{serveFlag}, program[1:])
	}
	return slices.Concat([]string{self, "engine", "relay", "--fault-file", faults, "--"}, program)
}

// fromHere makes the words that name files from our own folder absolute, since an
// engine runs in the folder of its slot. A bare first word is looked up in PATH.
func (e *Engine) fromHere(words []string) error {
	e.given = map[string]string{}
	for i, w := range words {
		if filepath.IsAbs(w) || i == 0 && !strings.ContainsRune(filepath.ToSlash(w), '/') {
			continue
		}
		if info, err := os.Stat(w); err != nil || !info.Mode().IsRegular() && !strings.HasPrefix(filepath.ToSlash(w), "./") && !strings.HasPrefix(filepath.ToSlash(w), "../") {
			continue // a folder is meant only where it is written as one
		}
		path, err := filepath.Abs(w)
		if err != nil {
			return err
		}
		e.given[path], words[i] = w, path
	}
	return nil
}

// advice tells how a command line without --serve was run: behind an interpreter
// or a wrapper the flag belongs elsewhere.
func (e Engine) advice() string {
	if e.given == nil || slices.Contains(e.Program, serveFlag) {
		return ""
	}
	argv := slices.Concat(e.Program, []string{serveFlag}, e.Args)
	return fmt.Sprintf("\n  the engine was run as: %s\n  --serve is put behind the first word of --engine unless it stands in it; where it belongs elsewhere write it yourself, as in --engine \"python3 my_engine.py --serve\"", results.CommandLine(argv))
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
