package harness

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"interlude/results"
	"interlude/workloads"
)

// Target says how one kind of server is started, asked and stopped. It is read
// from JSON, strictly; targets/interlude.json is the annotated example.
type Target struct {
	Schema int    `json:"schema"`
	Name   string `json:"name"`
	About  string `json:"about,omitempty"`

	Command     []string          `json:"command,omitempty"`     // absent: URL is used as it is and nothing is started
	Environment map[string]string `json:"environment,omitempty"` // on top of ours
	ConfigFrom  string            `json:"config_from,omitempty"` // a JSON file to start from; only ever read
	Config      json.RawMessage   `json:"config,omitempty"`      // merged over it; written to {config}
	State       map[string]string `json:"state,omitempty"`       // name below {slot} → file or folder copied there for each slot
	Arms        map[string]Arm    `json:"arms,omitempty"`

	Ready    Ready             `json:"ready"`
	Instance *Where            `json:"instance,omitempty"` // echoes $INTERLUDE_INSTANCE
	Flag     *Where            `json:"flag,omitempty"`     // the effective flag
	Info     *Where            `json:"info,omitempty"`     // the engine's INFO map
	Context  *Where            `json:"context,omitempty"`  // the engine's context in tokens
	Metrics  string            `json:"metrics,omitempty"`  // path
	Witness  map[string]string `json:"witness,omitempty"`  // counter's short name → metric's name; absent: all kept metrics
	Keep     []string          `json:"keep,omitempty"`     // prefixes of the metrics worth keeping; absent: all

	Model    string             `json:"model,omitempty"` // absent: the first of /v1/models
	NoDone   bool               `json:"no_done,omitempty"`
	Omit     []string           `json:"omit,omitempty"` // request members the server cannot take
	Silence  workloads.Duration `json:"silence,omitempty"`
	Deadline workloads.Duration `json:"deadline,omitempty"`
	Stop     workloads.Duration `json:"stop_within,omitempty"`

	Versions  map[string][]string `json:"version_commands,omitempty"`
	Files     []TargetFile        `json:"files,omitempty"`
	APIKeyEnv string              `json:"api_key_env,omitempty"` // the variable that holds the key; its value reaches no file

	URL string `json:"url,omitempty"`
	key string // made for one run, written nowhere

	SharedCache bool `json:"shared_cache,omitempty"` // of a server that is not restarted between the arms
}

// Arm is what differs from the base.
type Arm struct {
	Patch       json.RawMessage   `json:"patch,omitempty"`   // JSON merge patch of the config
	Args        []string          `json:"args,omitempty"`    // appended to the command
	Command     []string          `json:"command,omitempty"` // instead of the target's, for a control
	Environment map[string]string `json:"environment,omitempty"`
	Flag        *bool             `json:"flag,omitempty"`  // what Flag must read; absent: not checked
	Ready       *Ready            `json:"ready,omitempty"` // of a control with a command of its own
}

// Where is a value of a JSON document that the server answers to a GET.
type Where struct {
	Path    string `json:"path"`
	Pointer string `json:"pointer"`
}

// Ready is when a server can be asked.
type Ready struct {
	Where
	Want   any                `json:"want"`
	Within workloads.Duration `json:"within,omitempty"`
}

// TargetFile is a file to be hashed into run.json.
type TargetFile struct {
	Role string `json:"role"`
	Path string `json:"path"`
	Note string `json:"note,omitempty"`
}

//go:embed targets/*.json
var embeddedTargets embed.FS

// Targets are the names of the built-in targets.
func Targets() []string {
	list, err := embeddedTargets.ReadDir("targets")
	if err != nil {
		panic(err) // embedded
	}
	var names []string
	for _, e := range list {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	return names
}

// LoadTarget reads a built-in target by name, else a file.
func LoadTarget(name string) (*Target, error) {
	if slices.Contains(Targets(), name) {
		data, err := embeddedTargets.ReadFile(path.Join("targets", name+".json"))
		if err != nil {
			return nil, err
		}
		return ParseTarget(data)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("target %q is neither one of %v nor a file that can be read: %w", name, Targets(), err)
	}
	t, err := ParseTarget(data)
	if err != nil {
		return nil, fmt.Errorf("target file %s: %w", name, err)
	}
	return t, nil
}

// ParseTarget decodes a target strictly: an unknown key is an error, and all
// faults of known ones are reported at once.
func ParseTarget(data []byte) (*Target, error) {
	clean, err := dropComments(data)
	if err != nil {
		return nil, err
	}
	t := &Target{}
	dec := json.NewDecoder(bytes.NewReader(clean))
	dec.DisallowUnknownFields()
	if err := dec.Decode(t); err != nil {
		return nil, fmt.Errorf("%w; targets/interlude.json shows every key", err)
	}
	t.defaults()
	return t, t.Validate()
}

// dropComments removes members whose name begins with //, at any depth.
func dropComments(data []byte) ([]byte, error) {
	if err := workloads.StrictJSON(data); err != nil {
		return nil, err
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	var clean func(any) any
	clean = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				if strings.HasPrefix(k, "//") {
					delete(v, k)
					continue
				}
				v[k] = clean(e)
			}
		case []any:
			for i := range v {
				v[i] = clean(v[i])
			}
		}
		return v
	}
	return encodeJSON(clean(v))
}

// defaults are what an absent limit means.
func (t *Target) defaults() {
	set := func(d *workloads.Duration, v time.Duration) {
		if *d == 0 {
			*d = workloads.Duration(v)
		}
	}
	set(&t.Silence, 5*time.Minute)
	set(&t.Deadline, 30*time.Minute)
	set(&t.Stop, 20*time.Second)
	set(&t.Ready.Within, 3*time.Minute)
	for _, arm := range t.Arms {
		if arm.Ready != nil {
			set(&arm.Ready.Within, 3*time.Minute)
		}
	}
	if t.Ready.Path == "" {
		t.Ready.Path = "/health"
	}
}

// Validate reports every fault, each with its key and the cure.
func (t *Target) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if t.Schema != 1 {
		fault("schema %d: this program knows 1", t.Schema)
	}
	if t.Name == "" || strings.ContainsAny(t.Name, `/\ `) {
		fault("name %q: must be a word without blanks and slashes; it becomes part of reports", t.Name)
	}
	switch {
	case len(t.Command) == 0 && t.URL == "":
		fault("command: is missing; say how the server is started, or give the url of one that runs")
	case len(t.Command) > 0 && t.URL != "":
		fault("url %q: cannot stand beside command; a started server gets a port of its own", t.URL)
	case t.URL != "" && len(t.Arms) > 0:
		fault("arms: a server that is not started here has no arms; remove them or give its command")
	case t.URL != "" && !t.SharedCache:
		fault("shared_cache: must be true for a url: nothing resets that server's caches between requests")
	case len(t.Command) > 0:
		for _, name := range []string{results.Off, results.On} {
			if _, ok := t.Arms[name]; !ok {
				fault("arms.%s: is missing; a comparison needs off and on", name)
			}
		}
	}
	for what, raw := range map[string]json.RawMessage{"config": t.Config, "arms.off.patch": t.Arms[results.Off].Patch, "arms.on.patch": t.Arms[results.On].Patch} {
		if len(raw) > 0 && raw[0] != '{' {
			fault("%s %.40s: must be an object of config keys", what, raw)
		}
	}
	for name, arm := range t.Arms {
		if len(arm.Command) > 0 && (name == results.Off || name == results.On) {
			fault("arms.%s.command: the compared arms must run the same command; only a control may have its own", name)
		}
		if len(arm.Patch) > 0 && len(t.Config) == 0 && t.ConfigFrom == "" {
			fault("arms.%s.patch: there is no config to patch; give config or config_from", name)
		}
	}
	for name, arm := range t.Arms {
		if arm.Ready != nil && len(arm.Command) == 0 {
			fault("arms.%s.ready: only a control with a command of its own is asked otherwise; remove it", name)
		}
	}
	for _, w := range []*Where{&t.Ready.Where, t.Instance, t.Flag, t.Info, t.Context} {
		if w != nil && (!strings.HasPrefix(w.Path, "/") || w.Pointer != "" && !strings.HasPrefix(w.Pointer, "/")) {
			fault("path %q pointer %q: both must begin with /", w.Path, w.Pointer)
		}
	}
	for what, d := range map[string]workloads.Duration{"silence": t.Silence, "deadline": t.Deadline, "stop_within": t.Stop, "ready.within": t.Ready.Within} {
		if d < 0 {
			fault("%s %v: must be above 0", what, time.Duration(d))
		}
	}
	return errors.Join(errs...)
}

// of is the target as one arm is asked. A control with a command of its own is
// another program: what is read from ours for proof is not asked of it.
func (t *Target) of(arm string) *Target {
	a := t.Arms[arm]
	if len(a.Command) == 0 {
		return t
	}
	other := *t
	other.Instance, other.Flag, other.Info, other.Context, other.Metrics, other.Witness, other.Model = nil, nil, nil, nil, "", nil, ""
	if a.Ready != nil {
		other.Ready = *a.Ready
	}
	return &other
}

// Controls are the arms beside off and on, sorted.
func (t *Target) Controls() []string {
	var names []string
	for name := range t.Arms {
		if name != results.Off && name != results.On {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// StartsEngine tells whether the target's server starts the engine that it is given
// as {engine}, and not one of its own.
func (t *Target) StartsEngine() bool {
	const word = "{engine}"
	return slices.Contains(t.Command, word) || bytes.Contains(t.Config, []byte(`"`+word+`"`))
}

// APIKey is the value of the variable that holds the key, "" for none.
func (t *Target) APIKey() string {
	if t.key != "" {
		return t.key
	}
	if t.APIKeyEnv == "" {
		return ""
	}
	return os.Getenv(t.APIKeyEnv)
}

// keeps says whether a metric is worth keeping.
func (t *Target) keeps(name string) bool {
	if len(t.Keep) == 0 {
		return true
	}
	return slices.ContainsFunc(t.Keep, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// witness picks the counters of the end of a slot.
func (t *Target) witness(all map[string]float64) map[string]float64 {
	out := map[string]float64{}
	if len(t.Witness) > 0 {
		for short, name := range t.Witness {
			if v, ok := all[name]; ok {
				out[short] = v
			}
		}
		return out
	}
	for name, v := range all {
		if t.keeps(name) && !ofProcess(name) {
			out[name] = v
		}
	}
	return out
}

// ofProcess are numbers about the server's process, which never stand still and
// count nothing that happened to a request.
func ofProcess(name string) bool {
	return strings.HasPrefix(name, "process_") || strings.HasPrefix(name, "go_")
}
