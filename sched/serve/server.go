package serve

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"interlude/sched"
	"interlude/sched/chat"
	"interlude/sched/constrain"
	"interlude/sched/loop"
)

// limits are the times and sizes that clients are held to.
type limits struct {
	body      int64         // bytes of a request
	bodyTime  time.Duration // to send them
	write     time.Duration // for one write to be taken: a slower reader has left
	keepAlive time.Duration // a silent stream repeats its state this often
}

// unreadTime is how long the rest of a body is waited for that nobody wants.
const unreadTime = 5 * time.Second

func defaultLimits() limits {
	return limits{body: 256 << 20, bodyTime: time.Minute, write: writeTime, keepAlive: 5 * time.Second}
}

// Server answers requests. It owns no engine: the loop does.
type Server struct {
	cfg      *Config
	loop     *loop.Loop
	tok      chat.Tokenizer
	log      *slog.Logger
	instance string
	started  time.Time
	limits   limits
	metrics  *metrics
	hidden   []byte                    // key of the digests below, so that comparing takes constant time
	keys     [][sha256.Size]byte       // digests of the API keys
	byKey    map[[sha256.Size]byte]int // their priorities
	access   access

	encoder    chan struct{}                // holds one: who encodes images now
	vocabulary func() *constrain.Vocabulary // made when a form is first asked for
}

func newServer(cfg *Config, l *loop.Loop, log *slog.Logger, instance string) *Server {
	s := &Server{cfg: cfg, loop: l, tok: chat.Builtin(), log: log, instance: instance, started: time.Now(), limits: defaultLimits(), encoder: make(chan struct{}, 1)}
	s.metrics = newMetrics(s)
	s.hidden = randomBytes(32)
	s.byKey = map[[sha256.Size]byte]int{}
	for _, k := range cfg.Keys {
		s.keys = append(s.keys, s.digest(k))
	}
	for name, p := range cfg.Priority {
		s.byKey[s.digest(name)] = p
	}
	s.access = newAccess(cfg)
	s.vocabulary = sync.OnceValue(func() *constrain.Vocabulary {
		return constrain.NewVocabulary(s.tok.Size(), s.tok.Piece, s.tok.Special, s.tok.EndIDs())
	})
	return s
}

// route is one endpoint.
type route struct {
	method string
	open   bool // no key needed
	serve  http.HandlerFunc
}

func (s *Server) routes() map[string]route {
	r := map[string]route{}
	add := func(method string, open bool, h http.HandlerFunc, paths ...string) {
		for _, p := range paths {
			r[p] = route{method, open, h}
		}
	}
	add(http.MethodGet, true, s.serveHealth, "/health", "/api/health")
	add(http.MethodGet, false, s.serveModels, "/v1/models", "/models")
	add(http.MethodGet, false, s.serveStatus, "/v1/status", "/status")
	add(http.MethodGet, false, s.metrics.handler().ServeHTTP, "/metrics")
	add(http.MethodPost, false, s.serveGeneration(s.decodeChat), "/v1/chat/completions", "/chat/completions")
	add(http.MethodPost, false, s.serveGeneration(s.decodeResponses), "/v1/responses", "/responses")
	add(http.MethodPost, false, s.maintain(s.loop.Load), "/load", "/v1/load")
	add(http.MethodPost, false, s.maintain(s.loop.Unload), "/unload", "/v1/unload")
	add(http.MethodPost, false, s.maintain(s.loop.Restart), "/restart", "/v1/restart")
	return r
}

// Handler is the whole server.
func (s *Server) Handler() http.Handler {
	routes := s.routes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w) // not every writer has deadlines
		_ = rc.SetWriteDeadline(time.Now().Add(s.limits.write))
		if r.Body != http.NoBody { // what no handler reads is read before the answer goes out
			_ = rc.SetReadDeadline(time.Now().Add(unreadTime))
		}
		if fault := s.access.admit(w, r, len(s.keys) > 0); fault != nil {
			fault.write(w)
			return
		}
		route, ok := routes[r.URL.Path]
		switch {
		case r.Method == http.MethodOptions:
			w.WriteHeader(http.StatusNoContent)
		case !ok:
			(&fault{status: 404, kind: kindInvalid, code: "not_found", message: "no such path here"}).write(w)
		case !route.open && !s.authorised(r):
			(&fault{status: 401, kind: kindKey, code: "invalid_api_key", message: "a valid API key is needed: Authorization: Bearer <key>, or x-api-key"}).write(w)
		case r.Method != route.method && !(r.Method == http.MethodHead && route.method == http.MethodGet):
			w.Header().Set("Allow", route.method+", OPTIONS")
			(&fault{status: 405, kind: kindInvalid, code: "method_not_allowed", message: "use " + route.method}).write(w)
		default:
			route.serve(w, r)
		}
	})
}

// serveGeneration reads, refuses or answers one generation.
func (s *Server) serveGeneration(decode func(fields) (*call, *fault)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		arrived := time.Now()
		id := freshID()
		label := requestLabel(r, id)
		w.Header().Set("X-Request-Id", label)
		c, fault := s.readCall(w, r, decode)
		if fault == nil {
			defer c.release()
			fault = s.prepare(r, c)
		}
		var req *loop.Request
		if fault == nil {
			c.spec.Label = label
			var err error
			if req, err = s.loop.Submit(c.spec); err != nil {
				fault = s.refusal(err)
			}
		}
		if fault != nil {
			s.metrics.ended(outcomeRefused)
			s.log.Debug("refused", "id", label, "status", fault.status, "why", fault.Error())
			fault.write(w)
			return
		}
		c.forget()
		a := &answer{s: s, call: c, req: req, id: id, arrived: arrived, created: arrived.Unix()}
		s.metrics.ended(a.run(w, r))
	}
}

// readCall reads and decodes the body.
func (s *Server) readCall(w http.ResponseWriter, r *http.Request, decode func(fields) (*call, *fault)) (*call, *fault) {
	if fault := jsonBody(r); fault != nil {
		return nil, fault
	}
	tooLarge := &fault{status: 413, kind: kindInvalid, code: "request_too_large", message: "the body is larger than this server takes"}
	if r.ContentLength > s.limits.body {
		w.Header().Set("Connection", "close")
		return nil, tooLarge
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(s.limits.bodyTime))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.limits.body))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, tooLarge
	case err != nil:
		return nil, &fault{status: 400, kind: kindInvalid, code: "incomplete_body", message: "the body ended early or took too long"}
	}
	_ = rc.SetReadDeadline(time.Time{}) // from here on a read only waits for the client to leave
	f, fault := decodeObject(bytes.TrimPrefix(body, []byte("\ufeff")))
	if fault != nil {
		return nil, fault
	}
	return decode(f)
}

// jsonBody takes application/json with any parameters but a foreign charset, as it
// is: not compressed.
func jsonBody(r *http.Request) *fault {
	no := func(why string) *fault {
		return &fault{status: 415, kind: kindInvalid, code: "unsupported_media_type", message: why}
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return no("Content-Type must be application/json")
	}
	if c := strings.ToLower(params["charset"]); c != "" && c != "utf-8" && c != "utf8" {
		return no("the charset must be utf-8")
	}
	if c := r.Header.Get("Content-Encoding"); c != "" && !strings.EqualFold(c, "identity") {
		return no("Content-Encoding must be identity: send the body uncompressed")
	}
	return nil
}

// refusal is how the loop's error looks to a client that has no header yet.
func (s *Server) refusal(err error) *fault {
	var no *loop.Rejected
	f := &fault{status: 503, kind: kindServer, code: "engine_unavailable", message: err.Error()}
	if !errors.As(err, &no) {
		return f
	}
	f.status, f.message, f.retryAfter = no.Status, no.Message, no.RetryAfter
	switch {
	case no.Reason == sched.ReasonQueueFull || no.Status == 429:
		f.kind, f.code = kindBusy, "queue_full"
	case no.Status == 400:
		f.kind, f.code = kindInvalid, "context_length_exceeded"
	}
	return f
}

func (s *Server) knows(model string) bool {
	return model == s.cfg.Model || slices.Contains(s.cfg.Aliases, model)
}

// requestLabel is what the client calls its request, if it can stand in a header
// and a log; otherwise our own id. It is never used as a key.
func requestLabel(r *http.Request, id string) string {
	label := r.Header.Get("X-Request-Id")
	if label == "" || len(label) > 128 || strings.ContainsFunc(label, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "req_" + id
	}
	return label
}

// freshID is 24 hex digits that nobody chose.
func freshID() string { return hex.EncodeToString(randomBytes(12)) }

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return b
}
