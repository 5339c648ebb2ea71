package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"interlude/engine"
	"interlude/sched"
)

// Config is a strata.json, checked.
type Config struct {
	Argv []string // the engine's program and all its arguments, --serve included
	Dir  string
	Env  []string // NAME=value, on top of ours
	Log  string   // the engine's stderr is appended here; "" discards it

	Tokenizer string // "builtin", or the path of a folder with a tokenizer.json or of a GGUF file
	Model     string
	Aliases   []string
	Host      string

	Sampling  engine.Params // defaults of a request
	Thinking  bool          // default of a request
	FitTokens bool          // a budget beyond the context is lowered, not refused
	Context   int           // tokens, before an engine has told its own

	Keys    []string // API keys; none: no key is asked for
	CORS    []string
	Trusted []string // origins that may call without being answered with CORS headers
	Hosts   []string // values of Host that are ours beside the loopback names

	Vision *Vision
	Idle   time.Duration
	Load   time.Duration // until the engine is ready; 0: engine/process's limit
	Lazy   bool

	Solo     bool
	Machine  sched.Config
	Priority map[string]int // API key or model alias → priority
	Journal  string

	Warnings []string
}

// Vision is the command that encodes one image: `exe args… IN OUT` reads an image
// file and writes GENI records.
type Vision struct {
	Argv []string
}

// ParseConfig checks a whole config. dir is where its relative paths start from;
// the error joins every fault, each naming its key and the cure.
func ParseConfig(data []byte, dir string) (*Config, error) {
	f, fault := decodeObject(data)
	if fault != nil {
		return nil, unreadable(data, fault)
	}
	warnings, errs := checkKeys(f.obj)
	errs = append(errs, keysTwice(data)...)
	c := &Config{Warnings: warnings, Dir: dir, Host: "127.0.0.1", Model: "qwen3.8-flash-next", Context: 4096}
	c.engine(f, dir)
	c.identity(f)
	c.sampling(f)
	c.solo(f, dir)
	for _, fault := range *f.faults {
		errs = append(errs, fault)
	}
	errs = append(errs, c.conflicts(f)...)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return c, nil
}

// unreadable is why a config file holds no object, in the words of who saved it.
func unreadable(data []byte, fault *fault) error {
	var grammar *json.SyntaxError
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return errors.New("config: the file begins with a byte order mark: save it as UTF-8 without one")
	case !utf8.Valid(data):
		return errors.New("config: the file is not UTF-8: save it as UTF-8")
	case errors.As(json.Unmarshal(data, new(any)), &grammar):
		return fmt.Errorf("config: the file is not JSON: line %d: %w", 1+bytes.Count(data[:min(int(grammar.Offset), len(data))], []byte("\n")), grammar)
	}
	return fmt.Errorf("config: %s", strings.Replace(fault.Error(), "the body", "the file", 1))
}

// keysTwice refuses a key that is given twice: nobody can tell which of its values is
// meant, and a decoder takes the last.
func keysTwice(data []byte) (errs []error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	_, _ = dec.Token() // the object's brace: data was decoded before
	seen := map[string]int{}
	for dec.More() {
		key, _ := dec.Token()
		name, _ := key.(string)
		if seen[name]++; seen[name] == 2 && !strings.HasPrefix(name, "//") && !strings.HasPrefix(name, "_") {
			errs = append(errs, fmt.Errorf("%s: is given twice: keep one", name))
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			break
		}
	}
	return errs
}

// selfWord in exe stands for the binary that serves: it brings engines of its own.
const selfWord = "{self}"

// engine reads what starts the engine.
func (c *Config) engine(f fields, dir string) {
	words := f.words("exe")
	if len(words) == 0 {
		f.refuse("exe", `is missing or empty: name the engine's program, such as ["{self}","engine","emulate","--serve"]`)
	}
	for i, w := range words {
		if w == selfWord {
			if self, err := os.Executable(); err == nil {
				words[i] = self
			}
		}
	}
	args, _ := f.strings("args")
	c.Argv = engineArgv(words, args)
	if len(c.Argv) > 0 && strings.ContainsAny(c.Argv[0], `/\`) {
		c.Argv[0] = under(dir, c.Argv[0])
	}
	if cwd, ok := f.str("cwd"); ok {
		c.Dir = under(dir, cwd)
	}
	if log, ok := f.str("log"); ok {
		c.Log = under(dir, log)
	}
	c.environment(f, dir)
	if n := flagValue(args, "--max-context"); n != "" {
		c.Context, _ = strconv.Atoi(n)
	}
	tok, given := f.str("tokenizer")
	if model := flagValue(args, "--model"); !given && strings.HasSuffix(model, ".gguf") {
		tok = model // the file that the engine loads has its vocabulary in it
	}
	if tok != "" && tok != builtin {
		tok = under(dir, tok)
	}
	c.Tokenizer = cmp.Or(tok, builtin)
	if v, ok := f.object("vision"); ok {
		args, _ := v.strings("args")
		if c.Vision = (&Vision{Argv: append(v.words("exe"), args...)}); len(c.Vision.Argv) == 0 {
			v.refuse("exe", "is missing: name the program that encodes an image")
		}
	}
	if s, ok := f.number("idle_unload_s", 0, 1e9); ok {
		c.Idle = seconds(s)
	}
	c.Lazy, _ = f.boolean("lazy_load")
}

// environment gathers what the native server gives its engine.
func (c *Config) environment(f fields, dir string) {
	backend, _ := f.str("backend")
	if raw, ok := f.raw("gpu"); ok {
		gpu := strings.Trim(string(raw), "\"[] ")
		if _, err := strconv.Atoi(gpu); err != nil {
			f.refuse("gpu", "must be the number of one device; a split over several is not available here")
		}
		if backend == "hip" {
			c.Env = append(c.Env, "HIP_VISIBLE_DEVICES="+gpu)
		} else {
			c.Env = append(c.Env, "CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES="+gpu)
		}
	}
	if n, ok := f.integer("hip_ordinal", 0, 1<<20); ok && backend == "hip" {
		c.Env = append(c.Env, "HIP_VISIBLE_DEVICES="+strconv.FormatInt(n, 10))
	}
	if dirs, ok := f.strings("lib_dirs"); ok && len(dirs) > 0 {
		for i := range dirs {
			dirs[i] = under(dir, dirs[i])
		}
		c.Env = append(c.Env, libraryPath(dirs))
	}
	env, ok := f.object("env")
	if !ok {
		return
	}
	names := make([]string, 0, len(env.obj))
	for name := range env.obj {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if v, ok := env.str(name); ok {
			c.Env = append(c.Env, name+"="+v)
		}
	}
}

// identity reads who the server is and whom it answers.
func (c *Config) identity(f fields) {
	if s, ok := f.str("model_name"); ok && s != "" {
		c.Model = s
	}
	if s, ok := f.str("host"); ok && s != "" {
		c.Host = s
	}
	c.Aliases = f.words("aliases")
	c.Keys = slices.DeleteFunc(f.words("api_key"), func(s string) bool { return s == "" })
	c.CORS = f.words("cors_origins")
	c.Trusted = f.words("trusted_origins")
	c.Hosts = f.words("allowed_hosts")
}

// sampling reads the defaults of a request.
func (c *Config) sampling(f fields) {
	if s, ok := f.object("sampling"); ok {
		c.Sampling = samplingParams(s, engine.Params{})
	}
	c.FitTokens, _ = f.boolean("fit_max_tokens")
	if effort, ok := f.str("reasoning_effort"); ok {
		c.Thinking = thinks(effort)
	}
}

// words is a member that may be one string or a list of them.
func (f fields) words(name string) []string {
	raw, ok := f.raw(name)
	if !ok {
		return nil
	}
	if raw[0] == '"' {
		s, _ := f.str(name)
		return []string{s}
	}
	all, _ := f.strings(name)
	return all
}

// engineArgv puts --serve behind the program, or leaves it where the list has it.
func engineArgv(exe, args []string) []string {
	argv := slices.Clone(exe)
	if len(argv) > 0 && !slices.Contains(exe, "--serve") {
		argv = slices.Insert(argv, 1, "--serve")
	}
	return append(argv, args...)
}

// under is a path of the config as seen from its folder. One that begins at a root
// without naming its drive, as Windows has them, is no path below the folder.
func under(dir, path string) string {
	if path == "" || filepath.IsAbs(path) || os.IsPathSeparator(path[0]) {
		return path
	}
	return filepath.Join(dir, path)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// flagValue is the value of `--flag v` or `--flag=v`; "" is absent.
func flagValue(args []string, flag string) string {
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, flag+"="); ok {
			return v
		}
		if a == flag && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}
