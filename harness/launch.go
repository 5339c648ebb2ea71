package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"interlude/results"
)

// launch is one server start, resolved from the target: what will be run, with
// which environment and config, and what of it must be the same in both arms.
type launch struct {
	argv   []string
	typed  []string // argv as the target gives it, without secrets
	env    []string
	config []byte // nil: the target has none
	shown  json.RawMessage
	hashes struct{ argv, env, config string }

	variables map[string]string // name → the beginning of a hash of what env hashes
}

// values of the placeholders of one slot.
type values struct {
	words map[string]string // {name} inside a string
	lists map[string]any    // a string that is exactly {name}
	files []string          // empty ones, made in the slot's folder before the start
	given map[string]string // paths inside lists → as they were typed

	relayed bool // the relay stands before the engine; its fault file is in the slot's folder
}

// perSlot are the placeholders whose values differ from slot to slot, or, for
// self and tokenizer, from machine to machine; hashes are taken with them left as
// they are. What the tokenizer is, the plan's counter says.
var perSlot = []string{"self", "port", "config", "slot", "logs", "nonce", "tokenizer"}

// plain is the same values without those of perSlot.
func (v values) plain() values {
	out := values{words: maps.Clone(v.words), lists: map[string]any{}}
	for _, name := range perSlot {
		delete(out.words, name)
	}
	for name, list := range v.lists {
		words, ok := list.([]string)
		if !ok {
			out.lists[name] = list
			continue
		}
		words = slices.Clone(words)
		for i := range words {
			if words[i] == v.words["self"] {
				words[i] = "{self}"
			} else if typed, ok := v.given[words[i]]; ok {
				words[i] = typed
			}
		}
		out.lists[name] = words
	}
	return out
}

// text fills the placeholders of one string. A name that is not known stays.
func (v values) text(s string) (string, error) {
	for {
		i := strings.Index(s, "{env:")
		if i < 0 {
			break
		}
		j := strings.IndexByte(s[i:], '}')
		if j < 0 {
			return "", fmt.Errorf("%q: {env: is not closed by }", s)
		}
		name := s[i+len("{env:") : i+j]
		value, ok := os.LookupEnv(name)
		if !ok {
			return "", fmt.Errorf("%q needs the environment variable %s; set it", s, name)
		}
		s = s[:i] + value + s[i+j+1:]
	}
	for name, value := range v.words {
		s = strings.ReplaceAll(s, "{"+name+"}", value)
	}
	return s, nil
}

func (v values) texts(list []string) ([]string, error) {
	var out []string
	for _, s := range list {
		t, err := v.text(s)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// tree fills the placeholders of a JSON value.
func (v values) tree(x any) (any, error) {
	switch x := x.(type) {
	case string:
		switch list := v.lists[x].(type) {
		case nil:
		case []string:
			return v.texts(list)
		default:
			return list, nil
		}
		return v.text(x)
	case []any:
		for i := range x {
			e, err := v.tree(x[i])
			if err != nil {
				return nil, err
			}
			x[i] = e
		}
	case map[string]any:
		for k, e := range x {
			e, err := v.tree(e)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", k, err)
			}
			x[k] = e
		}
	}
	return x, nil
}

// resolve makes the launch of one arm.
func (t *Target) resolve(armName string, v values) (*launch, error) {
	arm, ok := t.Arms[armName]
	if !ok {
		return nil, fmt.Errorf("target %s has no arm %q", t.Name, armName)
	}
	command := t.Command
	if len(arm.Command) > 0 {
		command = arm.Command
	}
	command = slices.Concat(command, arm.Args)
	l := &launch{typed: maskWords(command), variables: map[string]string{}}
	var err error
	if l.argv, err = v.texts(command); err != nil {
		return nil, fmt.Errorf("target %s: command: %w", t.Name, err)
	}
	plainArgv, err := v.plain().texts(slices.Concat(t.Command, []string{"\x00"}, arm.Command))
	if err != nil {
		return nil, fmt.Errorf("target %s: command: %w", t.Name, err)
	}
	l.hashes.argv = results.HashLine([]byte(strings.Join(plainArgv, "\x00")))
	if err := l.environment(t, arm, v); err != nil {
		return nil, fmt.Errorf("target %s: environment: %w", t.Name, err)
	}
	if err := l.configure(t, arm, v); err != nil {
		return nil, fmt.Errorf("target %s: config: %w", t.Name, err)
	}
	return l, nil
}

// bookkeeping are variables in which a shell, a terminal or a session keeps its own
// state; they say nothing about a server and would make a run look different that is
// resumed from another window.
var bookkeeping = []string{"_", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES", "WINDOWID", "TERM_SESSION_ID", "INVOCATION_ID", "JOURNAL_STREAM",
	"SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "SSH_AUTH_SOCK", "XDG_SESSION_ID", "TMUX", "TMUX_PANE", "STY", "WINDOW", "GPG_TTY", "GNOME_TERMINAL_SCREEN", "ITERM_SESSION_ID"}

// nonceVariable is how a server of ours learns the nonce that it must echo.
const nonceVariable = "INTERLUDE_INSTANCE"

func (l *launch) environment(t *Target, arm Arm, v values) error {
	all := map[string]string{}
	for _, kv := range os.Environ() {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
			all[name] = value
		}
	}
	for name, value := range t.Environment {
		all[name] = value
	}
	hashed := maps.Clone(all)
	for name, value := range arm.Environment {
		all[name] = value
		delete(hashed, name) // what differs between the arms on purpose
	}
	for _, name := range append(slices.Clone(bookkeeping), t.APIKeyEnv, nonceVariable) {
		delete(hashed, name)
	}
	plain := v.plain()
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(hashed)) {
		value, err := plain.text(hashed[name])
		if _, given := t.Environment[name]; !given {
			value, err = hashed[name], nil // only the target's own have placeholders
		}
		if err != nil {
			return err
		}
		lines = append(lines, name+"="+value)
		l.variables[name] = results.HashLine([]byte(name + "=" + value))[:8]
	}
	l.hashes.env = results.HashLine([]byte(strings.Join(lines, "\n")))
	all[nonceVariable] = v.words["nonce"]
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value := all[name]
		_, ofTarget := t.Environment[name]
		_, ofArm := arm.Environment[name]
		if ofTarget || ofArm {
			filled, err := v.text(value)
			if err != nil {
				return err
			}
			value = filled
		}
		l.env = append(l.env, name+"="+value)
	}
	return nil
}

// configure makes the slot's config: the user's file, the target's config over
// it, the arm's patch over both. The hash leaves out the members that the patches
// of off and on set, and secrets are masked in what is shown.
func (l *launch) configure(t *Target, arm Arm, v values) error {
	if len(t.Config) == 0 && t.ConfigFrom == "" {
		return nil
	}
	var base any = map[string]any{}
	if t.ConfigFrom != "" {
		path, err := v.text(t.ConfigFrom)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := decodeExact(data, &base); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
	}
	for _, patch := range []json.RawMessage{t.Config, arm.Patch} {
		if len(patch) == 0 {
			continue
		}
		var p any
		if err := decodeExact(patch, &p); err != nil {
			return err
		}
		base = mergePatch(base, p)
	}
	shown, err := v.plain().tree(clone(base))
	if err != nil {
		return err
	}
	maskSecrets(shown)
	if l.shown, err = encodeJSON(shown); err != nil {
		return err
	}
	full, err := v.tree(base)
	if err != nil {
		return err
	}
	if l.config, err = json.MarshalIndent(full, "", "  "); err != nil {
		return err
	}
	for _, name := range []string{results.Off, results.On} {
		var p any
		if patch := t.Arms[name].Patch; len(patch) > 0 && decodeExact(patch, &p) == nil {
			dropMembers(shown, p)
		}
	}
	same, err := encodeJSON(shown)
	l.hashes.config = results.HashLine(same)
	return err
}

// decodeExact keeps numbers as they are written.
func decodeExact(data []byte, v *any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return dec.Decode(v)
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[k] = clone(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = clone(e)
		}
		return out
	}
	return v
}

// mergePatch applies a JSON merge patch (RFC 7386).
func mergePatch(base, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	b, ok := base.(map[string]any)
	if !ok {
		b = map[string]any{}
	}
	for k, e := range p {
		if e == nil {
			delete(b, k)
			continue
		}
		b[k] = mergePatch(b[k], e)
	}
	return b
}

// dropMembers removes from v every member that patch sets.
func dropMembers(v, patch any) {
	object, ok := v.(map[string]any)
	p, okPatch := patch.(map[string]any)
	if !ok || !okPatch {
		return
	}
	for k, e := range p {
		if _, deeper := e.(map[string]any); deeper {
			dropMembers(object[k], e)
			continue
		}
		delete(object, k)
	}
}

// maskSecrets replaces values whose name says that they are secret.
func maskSecrets(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			low := strings.ToLower(k)
			if low == "solo_priority_map" { // its member names are API keys
				v[k] = "(not recorded)"
				continue
			}
			if _, text := e.(string); text && secret(low) {
				v[k] = "(not recorded)"
				continue
			}
			maskSecrets(e)
		}
	case []any:
		for _, e := range v {
			maskSecrets(e)
		}
	}
}

// secret reports whether a name in lower case is that of a secret.
func secret(low string) bool {
	return strings.Contains(low, "key") || strings.Contains(low, "token") && !strings.Contains(low, "tokenizer") || strings.Contains(low, "secret") || strings.Contains(low, "password")
}

// maskWords is a command without the values of flags and variables whose name says
// that they are secret. A placeholder is none.
func maskWords(words []string) []string {
	out := slices.Clone(words)
	hide := false
	for i, w := range out {
		name, value, given := strings.Cut(w, "=")
		named := secret(strings.ToLower(name))
		flag := named && strings.HasPrefix(w, "-")
		switch {
		case named && given && !strings.HasPrefix(value, "{"): // --key=… or, behind env, KEY=…
			out[i] = name + "=(not recorded)"
		case hide && !strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "{"):
			out[i] = "(not recorded)"
		}
		hide = flag && !given
	}
	return out
}

// copyState copies what the server keeps on disk, so that each slot starts from
// the same and the user's own is never written.
func copyState(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, info.Mode()&fs.ModePerm)
}
