package serve

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// fault is an error as clients see it. Messages are ours alone: nothing that a
// client sent is repeated in one, so none exceeds a few hundred bytes.
type fault struct {
	status     int
	kind       string // error.type
	code       string
	param      string
	message    string
	retryAfter time.Duration
}

// Values of error.type.
const (
	kindInvalid  = "invalid_request_error"
	kindKey      = "authentication_error"
	kindDenied   = "permission_error"
	kindBusy     = "rate_limit_error"
	kindConflict = "conflict_error"
	kindServer   = "server_error"
)

func (f *fault) Error() string {
	if f.param != "" {
		return f.param + ": " + f.message
	}
	return f.message
}

// invalid refuses one parameter of a request.
func invalid(param, format string, args ...any) *fault {
	return &fault{status: http.StatusBadRequest, kind: kindInvalid, code: "invalid_value", param: param, message: fmt.Sprintf(format, args...)}
}

// body is the error object: {"message","type","param","code"}. Many clients show the
// message alone, so that it names the parameter too.
func (f *fault) body() json.RawMessage {
	null := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	b, err := json.Marshal(struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Param   any    `json:"param"`
		Code    any    `json:"code"`
	}{f.Error(), f.kind, null(f.param), null(f.code)})
	if err != nil {
		panic("serve: an error object cannot be encoded: " + err.Error())
	}
	return b
}

// retryLater is the Retry-After of what will pass by itself, nobody knows when.
const retryLater = 2 * time.Second

// write answers a request with the fault, if no header was sent yet. A 503 always
// says when to come again.
func (f *fault) write(w http.ResponseWriter) {
	after := f.retryAfter
	if f.status == http.StatusServiceUnavailable {
		after = cmp.Or(after, retryLater)
	}
	if after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	if f.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeJSON(w, f.status, map[string]json.RawMessage{"error": f.body()})
}

// writeTime is how long a client may take to read what is written at once.
const writeTime = 30 * time.Second

// writeJSON answers with one JSON object. What came before it may have taken long:
// the time to read it begins here.
func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic("serve: an answer cannot be encoded: " + err.Error())
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime)) // not every writer has one
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)+1))
	w.WriteHeader(status)
	w.Write(append(b, '\n'))
}
