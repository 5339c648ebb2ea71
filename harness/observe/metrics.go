package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// Metrics reads every number that the server shows at path: Prometheus text, its
// series named as they stand there, labels included, histogram buckets left out;
// or JSON, its numbers and booleans named by their JSON pointers. Values that are
// not finite are left out.
func (o *Observer) Metrics(ctx context.Context, path string) (map[string]float64, error) {
	status, body, err := o.Get(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", path, err)
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("ask %s: HTTP %d", path, status)
	}
	body = bytes.TrimSpace(body)
	if len(body) > 0 && (body[0] == '{' || body[0] == '[') {
		var v any
		if err := json.Unmarshal(body, &v); err != nil {
			return nil, fmt.Errorf("ask %s: not JSON: %w", path, err)
		}
		out := map[string]float64{}
		flatten(v, "", out)
		return out, nil
	}
	return parseProm(string(body))
}

func flatten(v any, at string, out map[string]float64) {
	switch v := v.(type) {
	case float64:
		out[at] = v
	case bool:
		out[at] = 0
		if v {
			out[at] = 1
		}
	case map[string]any:
		escape := strings.NewReplacer("~", "~0", "/", "~1")
		for k, e := range v {
			flatten(e, at+"/"+escape.Replace(k), out)
		}
	case []any:
		for i, e := range v {
			flatten(e, at+"/"+strconv.Itoa(i), out)
		}
	}
}

// parseProm reads the Prometheus text format.
func parseProm(text string) (map[string]float64, error) {
	out := map[string]float64{}
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest := series(line)
		fields := strings.Fields(rest)
		if name == "" || len(fields) == 0 {
			return nil, fmt.Errorf("metrics line %d is no sample: %q", n+1, line)
		}
		v, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics line %d: value %q is no number", n+1, fields[0])
		}
		base, _, _ := strings.Cut(name, "{")
		if math.IsNaN(v) || math.IsInf(v, 0) || strings.HasSuffix(base, "_bucket") {
			continue
		}
		out[name] = v
	}
	return out, nil
}

// series cuts a sample line behind its name and labels; a label's value may hold
// any character.
func series(line string) (name, rest string) {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return line[:i+1], line[i+1:]
		case (c == ' ' || c == '\t') && !quoted && !strings.Contains(line[:i], "{"):
			return line[:i], line[i:]
		}
	}
	return "", ""
}
