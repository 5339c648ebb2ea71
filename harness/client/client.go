package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"interlude/results"
)

// Causes for which a request is ended by us rather than by the server. A caller
// cancels its context with one of them (context.WithCancelCause).
var (
	ErrPlanned = errors.New("the plan ends this request here") // outcome cancelled
	ErrCutOff  = errors.New("the run ended first")             // outcome cut_off
	errSilent  = errors.New("no byte within the silence limit")
	errLate    = errors.New("not finished within the deadline")
	errDrained = errors.New("the server kept the connection open after the terminal marker")
)

// MaxEvent is the default limit of one event: 64 MiB.
const MaxEvent = 64 << 20

// Options describe one server. The zero value of each field but BaseURL has a meaning.
type Options struct {
	BaseURL  string    // such as http://127.0.0.1:8095, without /v1
	APIKey   string    // sent as a Bearer token, written nowhere
	Base     time.Time // zero of every stamp; zero means now
	MaxEvent int       // bytes; 0 means MaxEvent
	NoDone   bool      // the server ends a chat stream with its finish_reason and no [DONE]
	Dial     func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Client sends requests to one server. It is safe for concurrent use.
type Client struct {
	opt       Options
	base      time.Time
	transport *http.Transport
	bearer    string
	urls      map[string]*url.URL // by API; empty where BaseURL is none
	tapes     sync.Pool           // of *tape
	decoding  sync.Mutex          // of ended streams, one after the other: the other cores go on stamping
}

// New makes a client. Nothing is dialled yet.
func New(opt Options) *Client {
	if opt.Base.IsZero() {
		opt.Base = time.Now()
	}
	if opt.MaxEvent == 0 {
		opt.MaxEvent = MaxEvent
	}
	opt.BaseURL = strings.TrimSuffix(opt.BaseURL, "/")
	c := &Client{opt: opt, base: opt.Base, transport: newTransport(opt.Dial), urls: map[string]*url.URL{}, tapes: sync.Pool{New: newTape}}
	if opt.APIKey != "" {
		c.bearer = "Bearer " + opt.APIKey
	}
	for api, path := range map[string]string{"chat": "/v1/chat/completions", "responses": "/v1/responses"} {
		if u, err := url.Parse(opt.BaseURL + path); err == nil { // else every request says so
			c.urls[api] = u
		}
	}
	return c
}

// newTransport switches off everything that would stand between a write of the
// server and our read: proxies, compression, HTTP/2, and a read buffer that
// needs many calls for one burst. Idle connections are dropped well before
// common servers drop them, since a request that meets a closing connection
// fails and is not sent again.
func newTransport(dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	if dial == nil {
		d := &net.Dialer{Timeout: 5 * time.Second}
		dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return d.DialContext(ctx, network, loopback(addr))
		}
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:         dial,
		DisableCompression:  true,
		Protocols:           protocols,
		ReadBufferSize:      64 << 10,
		WriteBufferSize:     64 << 10,
		MaxIdleConns:        4096,
		MaxIdleConnsPerHost: 4096,
		IdleConnTimeout:     2 * time.Second,
	}
}

// loopback dials 127.0.0.1 where the name is localhost: resolving it costs up to
// two seconds where IPv6 is tried first and nobody listens there.
func loopback(addr string) string {
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "localhost" {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// Close drops idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Now is the present as a stamp of this client.
func (c *Client) Now() results.Stamp { return c.Stamp(time.Now()) }

// Stamp is t on the client's base; at least 1, since 0 means "did not happen".
func (c *Client) Stamp(t time.Time) results.Stamp {
	return max(1, results.Stamp(t.Sub(c.base)))
}

// Call is one request. Body is sent as it is.
type Call struct {
	API      string // chat (default), responses
	Stream   bool
	Body     []byte
	Header   map[string]string
	Deadline time.Duration // from sending to the last byte; 0: none
	Silence  time.Duration // longest time without a byte; 0: none
	Watch    func(Moment)  // called in order, from one goroutine at a time; must not block
}

// Moment is something seen of a request while it runs, in the words of
// workloads' triggers: sent, token (N counts chunks with output), queued,
// reading, decoding, parked, resumed, end.
type Moment struct {
	Event string
	N     int
	At    results.Stamp
}

// Do sends one request and returns its timeline when it has ended, whatever way
// it ended. It fills the stamps, the outcome and the answer; who the request is
// stays with the caller.
func (c *Client) Do(ctx context.Context, call Call) *results.Record {
	if call.API == "" {
		call.API = "chat"
	}
	rec := &results.Record{Schema: results.Schema, API: call.API, Stream: call.Stream}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x := &exchange{c: c, call: call, rec: rec, ctx: ctx, cancel: cancel}
	if call.Deadline > 0 {
		t := time.AfterFunc(call.Deadline, func() { cancel(errLate) })
		defer t.Stop()
	}
	if call.Silence > 0 {
		x.limit(call.Silence, errSilent)
	}
	if call.Stream {
		x.stream()
	} else {
		x.plain()
	}
	if x.timer != nil {
		x.timer.Stop()
	}
	if rec.End == 0 {
		rec.End = c.Now()
	}
	x.tell(Moment{Event: "end", At: rec.End})
	return rec
}
