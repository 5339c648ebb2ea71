package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"interlude/results"
)

var (
	errTooLong = errors.New("an event is longer than the limit")
	errTooMuch = errors.New("the answer is longer than 1 GiB")
)

// settleStream decides the outcome of a stream. What the server reported comes
// first, then what made the stream unreadable, then our own reasons to leave,
// then what is missing. A finished answer is not undone by anything after its
// terminal marker.
func (x *exchange) settleStream(d *decoder, t *tape, err error) {
	rec := x.rec
	rec.Text, rec.Reasoning, rec.Tools = d.text.String(), d.reasoning.String(), d.tools.record()
	if t.pending {
		d.fault("unterminated_event")
	}
	marked := rec.Terminal != 0
	if !marked && d.finished && (x.c.opt.NoDone || rec.API == "responses") {
		marked = true // the end was told inside the JSON only
		rec.Terminal = rec.End
	}
	if !marked && err == nil {
		d.fault("no_terminal_marker")
	}
	if !d.finished && err == nil && d.failure == "" {
		d.fault("no_finish_reason")
	}
	switch {
	case d.failure != "":
		rec.Outcome, rec.Error = results.StreamError, d.failure
	case d.broken != "":
		rec.Outcome, rec.Error = results.StreamError, d.broken
	case err != nil && (!marked || !d.finished):
		x.failed(err)
	case !marked || !d.finished:
		rec.Outcome = results.Truncated
		rec.Error = fmt.Sprintf("the stream ended after %d chunks: finish_reason %t, terminal marker %t", len(rec.Chunks), d.finished, marked)
	default:
		rec.Outcome = results.Completed
	}
	for _, f := range d.faults {
		x.fault(f)
	}
}

// failed is the outcome of a request that ended by an error of reading or sending.
func (x *exchange) failed(err error) {
	if cause := context.Cause(x.ctx); cause != nil {
		err = cause
	}
	x.rec.Error = err.Error()
	switch {
	case errors.Is(err, ErrPlanned):
		x.rec.Outcome = results.Cancelled
	case errors.Is(err, ErrCutOff), errors.Is(err, context.Canceled):
		x.rec.Outcome = results.CutOff
	case errors.Is(err, errSilent), errors.Is(err, errLate), errors.Is(err, context.DeadlineExceeded):
		x.rec.Outcome = results.Timeout
	case errors.Is(err, errTooLong), errors.Is(err, errTooMuch):
		x.rec.Outcome = results.StreamError
		x.fault("too_long")
	case errors.Is(err, io.ErrUnexpectedEOF):
		x.rec.Outcome = results.Truncated
	default:
		x.rec.Outcome = results.TransportError
	}
}

// maxRefusal bounds what is read of an answer that is not a stream.
const maxRefusal = 1 << 20

// refused is any status but 200. The body is read for its message.
func (x *exchange) refused(resp *http.Response) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	x.rec.End = x.c.Now()
	x.rec.Outcome = results.RefusedOutcome
	x.rec.Error = refusal(resp, body)
	if err != nil {
		x.rec.Error += "; its body was cut: " + err.Error()
	}
}

func refusal(resp *http.Response, body []byte) string {
	text := fmt.Sprintf("HTTP %d", resp.StatusCode)
	if after := resp.Header.Get("Retry-After"); after != "" {
		text += " (Retry-After " + after + ")"
	}
	if message := bodyError(body); message != "" {
		return text + ": " + message
	}
	if len(body) > 0 {
		text += ": " + excerpt(body)
	}
	return text
}

// bodyError is the message of an error object, "" where the body is none.
func bodyError(body []byte) string {
	var e struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &e) != nil {
		return ""
	}
	return errorText(e.Error)
}

// notAStream is a 200 with a JSON body where a stream was asked for: an error in
// a 200, or a server that does not stream. Neither is an answer to this request.
func (x *exchange) notAStream(resp *http.Response) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	x.rec.End = x.c.Now()
	if err != nil {
		x.failed(err)
		return
	}
	x.fault("not_a_stream")
	x.rec.Outcome = results.StreamError
	x.rec.Error = bodyError(body)
	if x.rec.Error == "" {
		x.rec.Error = strings.TrimSpace("answered " + resp.Header.Get("Content-Type") + " to a stream request: " + excerpt(body))
	}
}
