package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// askLimit is how long one question may take. Observation that hangs is worse
// than none.
const askLimit = 5 * time.Second

// maxAnswer bounds what is read of one answer.
const maxAnswer = 16 << 20

// Observer asks one server.
type Observer struct {
	base   string
	bearer string
	client *http.Client
}

// New makes an observer of the server at base, such as http://127.0.0.1:8095.
// dial may be nil.
func New(base, apiKey string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *Observer {
	if dial == nil {
		dial = (&net.Dialer{Timeout: 2 * time.Second}).DialContext
	}
	o := &Observer{base: strings.TrimSuffix(base, "/"), client: &http.Client{Transport: &http.Transport{
		DialContext: dial, DisableCompression: true, MaxIdleConnsPerHost: 2, IdleConnTimeout: 2 * time.Second,
	}}}
	if apiKey != "" {
		o.bearer = "Bearer " + apiKey
	}
	return o
}

// Close drops idle connections.
func (o *Observer) Close() { o.client.CloseIdleConnections() }

// Get asks for a path and returns the answer, whatever its status.
func (o *Observer) Get(ctx context.Context, path string) (status int, body []byte, err error) {
	return o.do(ctx, http.MethodGet, path, nil)
}

// Post sends a JSON body (nil: none) and returns the answer, whatever its status.
func (o *Observer) Post(ctx context.Context, path string, body []byte) (status int, answer []byte, err error) {
	return o.do(ctx, http.MethodPost, path, body)
}

func (o *Observer) do(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, o.base+path, strings.NewReader(string(body)))
	if err != nil {
		return 0, nil, err
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	if o.bearer != "" {
		req.Header.Set("Authorization", o.bearer)
	}
	resp, err := o.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, answer, err
}

// Value reads one value of a JSON document that the server answers with 200.
func (o *Observer) Value(ctx context.Context, path, pointer string) (any, error) {
	status, body, err := o.Get(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", path, err)
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("ask %s: HTTP %d", path, status)
	}
	v, err := Pointer(body, pointer)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", pointer, path, err)
	}
	return v, nil
}

// Pointer finds one value of a JSON document (RFC 6901; "" is the whole).
func Pointer(doc []byte, pointer string) (any, error) {
	var v any
	if err := json.Unmarshal(doc, &v); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if pointer == "" {
		return v, nil
	}
	rest, ok := strings.CutPrefix(pointer, "/")
	if !ok {
		return nil, fmt.Errorf("pointer %q must begin with /", pointer)
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for _, step := range strings.Split(rest, "/") {
		step = unescape.Replace(step)
		switch at := v.(type) {
		case map[string]any:
			v, ok = at[step]
		case []any:
			i, err := strconv.Atoi(step)
			ok = err == nil && i >= 0 && i < len(at)
			if ok {
				v = at[i]
			}
		default:
			ok = false
		}
		if !ok {
			return nil, fmt.Errorf("no %q in the document", step)
		}
	}
	return v, nil
}
