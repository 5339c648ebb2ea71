package serve

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// access decides who may ask before anything looks at what is asked.
type access struct {
	cors    []string // origins that are answered with CORS headers; "*" is any
	trusted []string // origins that may call without them
	hosts   []string // names of ours, in any case
}

func newAccess(cfg *Config) access {
	return access{cors: cfg.CORS, trusted: cfg.Trusted, hosts: append(slices.Clone(cfg.Hosts), cfg.Host, "localhost", "127.0.0.1", "::1")}
}

// admit checks Host and Origin and sets the CORS headers, which belong on every
// answer: a preflight, an error, a stream. Without an API key the Host must be
// ours, so that a web page cannot reach the server under a name of its own.
func (a access) admit(w http.ResponseWriter, r *http.Request, keyed bool) *fault {
	if !keyed && !a.ours(r.Host) {
		return &fault{status: 403, kind: kindDenied, code: "host_not_allowed", message: "this Host is not served; set allowed_hosts, or an api_key"}
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	switch {
	case slices.Contains(a.cors, origin):
		h.Set("Access-Control-Allow-Origin", origin)
	case slices.Contains(a.cors, "*"):
		h.Set("Access-Control-Allow-Origin", "*")
	case slices.Contains(a.trusted, origin) || sameOrigin(origin, r.Host):
		return nil
	default:
		return &fault{status: 403, kind: kindDenied, code: "origin_not_allowed", message: "this Origin is not served; set cors_origins"}
	}
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After")
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Api-Key, X-Priority, X-Request-Id")
		if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" && len(asked) <= 1024 {
			h.Set("Access-Control-Allow-Headers", asked) // SDKs add headers of their own
		}
		h.Set("Access-Control-Max-Age", "600")
	}
	return nil
}

func (a access) ours(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	return slices.ContainsFunc(a.hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}

// presentedKey is the key of `Authorization: Bearer` (scheme in any case) or of
// x-api-key; "" is none.
func presentedKey(r *http.Request) string {
	if h := r.Header.Get("Authorization"); h != "" {
		scheme, key, _ := strings.Cut(h, " ")
		if !strings.EqualFold(scheme, "bearer") {
			return ""
		}
		return strings.TrimLeft(key, " ")
	}
	return r.Header.Get("X-Api-Key")
}

func (s *Server) digest(key string) (d [sha256.Size]byte) {
	h := hmac.New(sha256.New, s.hidden)
	h.Write([]byte(key))
	h.Sum(d[:0])
	return d
}

// authorised compares digests of equal length, all of them, in constant time.
func (s *Server) authorised(r *http.Request) bool {
	if len(s.keys) == 0 {
		return true
	}
	key := presentedKey(r)
	got, found := s.digest(key), 0
	for i := range s.keys {
		found |= subtle.ConstantTimeCompare(s.keys[i][:], got[:])
	}
	return key != "" && found == 1
}

// mapped is the priority that the config gives an API key or a model alias; the
// key is the more specific of the two.
func (s *Server) mapped(key, model string) (int, bool) {
	for _, name := range []string{key, model} {
		if name == "" {
			continue
		}
		if p, ok := s.byKey[s.digest(name)]; ok {
			return p, true
		}
	}
	return 0, false
}
