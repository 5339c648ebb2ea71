package serve

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Who may ask, from where and with what: content types, origins, hosts, keys, the
// port, statuses, slow bodies. Numbers are those of part 2 F of the field reports.

func TestS92ContentTypes(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		body := string(encoded(ask("Quote: ok")))
		for kind, want := range map[string]int{
			"application/json": 200, "application/json; charset=utf-8": 200, "Application/JSON;charset=UTF-8": 200, `application/json; charset="utf-8"; x=y`: 200,
			"application/json; charset=latin1": 415, "text/plain": 415, "text/json": 415, "application/x-www-form-urlencoded": 415, "": 415, ";;": 415,
		} {
			if status, o := r.json("POST", chatPath, body, "Content-Type", kind); status != want {
				t.Errorf("Content-Type %q: %d %v, want %d", kind, status, o, want)
			}
		}
		for coding, want := range map[string]int{"": 200, "identity": 200, "Identity": 200, "gzip": 415, "deflate, br": 415} {
			if status, o := r.json("POST", chatPath, body, "Content-Encoding", coding); status != want {
				t.Errorf("Content-Encoding %q: %d %v, want %d", coding, status, o, want)
			}
		}
		if status, o := r.json("POST", chatPath, "\ufeff"+body); status != 200 {
			t.Errorf("a BOM in front: %d %v", status, o)
		}
		for _, bad := range []string{"", " ", "x", "{", body + "x", body + body, "[]", "null", "3", `"x"`, "{'a':1}", "\ufeff\ufeff{}"} {
			r.refused(chatPath, bad, "")
		}
	})
}

func TestS93CORS(t *testing.T) {
	const site = "https://app.example"
	inBubble(t, `"cors_origins":["`+site+`"],"trusted_origins":["https://quiet.example"],"api_key":"k"`, "", func(r *rig) {
		resp := r.do("OPTIONS", chatPath, nil, "Origin", site, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type,x-stainless-os")
		h := resp.Header
		if resp.StatusCode != 204 || h.Get("Access-Control-Allow-Origin") != site || !strings.Contains(h.Get("Access-Control-Allow-Headers"), "x-stainless-os") {
			t.Errorf("preflight: %d %v", resp.StatusCode, h)
		}
		for name, send := range map[string]func() *http.Response{
			"answer": func() *http.Response {
				return r.do("POST", chatPath, ask("Quote: ok"), "Origin", site, "Authorization", "Bearer k")
			},
			"stream": func() *http.Response {
				return r.do("POST", chatPath, ask("Quote: ok", "stream", true), "Origin", site, "Authorization", "Bearer k")
			},
			"refusal":   func() *http.Response { return r.do("POST", chatPath, "x", "Origin", site, "Authorization", "Bearer k") },
			"wrong key": func() *http.Response { return r.do("POST", chatPath, ask("x"), "Origin", site) },
			"not found": func() *http.Response { return r.do("GET", "/nope", nil, "Origin", site) },
		} {
			resp := send()
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.Header.Get("Access-Control-Allow-Origin") != site || !strings.Contains(resp.Header.Get("Vary"), "Origin") {
				t.Errorf("%s: %v", name, resp.Header)
			}
		}
		for origin, want := range map[string]int{"https://evil.example": 403, "null": 403, "https://quiet.example": 200, "http://127.0.0.1": 200} {
			resp := r.do("GET", "/health", nil, "Origin", origin)
			resp.Body.Close()
			if resp.StatusCode != want || resp.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("Origin %s: %d %v, want %d", origin, resp.StatusCode, resp.Header, want)
			}
		}
	})
}

func TestHostCheckWithoutKey(t *testing.T) {
	hosts := map[string]int{"127.0.0.1:8095": 200, "localhost": 200, "[::1]:1": 200, "box.lan": 200, "BOX.LAN:80": 200, "Shed.Lan": 200, "shed.lan": 200, "evil.example": 403, "127.0.0.1.evil.example": 403}
	inBubble(t, `"allowed_hosts":["box.lan","Shed.Lan"]`, "", func(r *rig) {
		for host, want := range hosts {
			if status, o := r.json("GET", "/health", nil, "Host", host); status != want {
				t.Errorf("Host %s: %d %v, want %d", host, status, o, want)
			}
		}
	})
	inBubble(t, `"api_key":"k"`, "", func(r *rig) {
		if status, _ := r.json("GET", "/health", nil, "Host", "evil.example"); status != 200 {
			t.Errorf("with a key the Host does not matter: %d", status)
		}
	})
}

func TestS94Keys(t *testing.T) {
	inBubble(t, `"api_key":["key-one","key-two"]`, "", func(r *rig) {
		for header, want := range map[string]int{
			"Bearer key-one": 200, "bearer key-one": 200, "BEARER key-two": 200, "Bearer  key-one": 200,
			"": 401, "Bearer": 401, "Bearer key-on": 401, "Bearer KEY-ONE": 401, "Basic key-one": 401, "key-one": 401,
		} {
			var headers []string
			if header != "" {
				headers = []string{"Authorization", header}
			}
			status, o := r.json("GET", "/v1/models", nil, headers...)
			if status != want || want == 401 && o.str("error.type") != kindKey {
				t.Errorf("Authorization %q: %d %v, want %d", header, status, o, want)
			}
		}
		if status, _ := r.json("GET", "/v1/models", nil, "X-Api-Key", "key-two"); status != 200 {
			t.Errorf("x-api-key: %d", status)
		}
		if status, _ := r.json("GET", "/health", nil); status != 200 {
			t.Errorf("health needs no key: %d", status)
		}
		for _, path := range []string{"/v1/status", "/metrics"} {
			resp := r.do("GET", path, nil)
			resp.Body.Close()
			if resp.StatusCode != 401 {
				t.Errorf("%s without a key: %d", path, resp.StatusCode)
			}
		}
	})
}

// TestS96PortInUse: known within a second, before any engine is started.
func TestS96PortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	path := writeConfig(t, `{"exe":"/nonexistent/engine"}`)
	err = Main(t.Context(), Options{Path: path, Port: taken.Addr().(*net.TCPAddr).Port})
	if err == nil || !strings.Contains(err.Error(), "bind") || strings.Contains(err.Error(), "nonexistent") {
		t.Errorf("got %v, want an error about the port alone", err)
	}
}

func TestStatuses(t *testing.T) {
	inBubble(t, "", "", func(r *rig) {
		r.s.limits.body = 1000
		check := func(want int, typ, method, path string, body any) {
			t.Helper()
			status, o := r.json(method, path, body)
			if status != want || o.str("error.type") != typ || o.str("error.message") == "" {
				t.Errorf("%s %s: %d %v, want %d %s", method, path, status, o, want, typ)
			}
		}
		check(404, kindInvalid, "GET", "/nope", nil)
		check(404, kindInvalid, "POST", "/v1/responses/x", ask("x"))
		check(405, kindInvalid, "GET", chatPath, nil)
		check(405, kindInvalid, "POST", "/v1/models", ask("x"))
		check(405, kindInvalid, "DELETE", chatPath, nil)
		check(413, kindInvalid, "POST", chatPath, ask(strings.Repeat("x", 2000)))
		check(404, kindInvalid, "POST", chatPath, ask("x", "model", "SECRET"))
		for _, alias := range []string{"m", "fast"} {
			if o := r.whole(ask("Quote: ok", "model", alias)); o.str("model") != alias {
				t.Errorf("model %s answered as %v", alias, o.str("model"))
			}
		}
		// A body of unknown length is cut off at the limit, too.
		req, _ := http.NewRequest("POST", "http://127.0.0.1"+chatPath, io.MultiReader(strings.NewReader(strings.Repeat(" ", 2000)), strings.NewReader("{}")))
		req.Header.Set("Content-Type", "application/json")
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 413 {
			t.Errorf("chunked body over the limit: %d", resp.StatusCode)
		}
	})
}

// TestSlowBody: a client that does not send its body is told so or refused in time,
// whoever it is, whatever it asks for and however it says how long the body is.
func TestSlowBody(t *testing.T) {
	const chunked, counted = "Transfer-Encoding: chunked\r\n\r\nb\r\n{\"messages\"\r\n", "Content-Length: 100\r\n\r\n{"
	const key, json = "Authorization: Bearer k\r\n", "Content-Type: application/json\r\n"
	for request, want := range map[string]int{
		"POST " + chatPath + " HTTP/1.1\r\n" + key + json + chunked: 400,
		"POST " + chatPath + " HTTP/1.1\r\n" + key + json + counted: 400,
		"POST " + chatPath + " HTTP/1.0\r\n" + key + json + counted: 400,
		"POST " + chatPath + " HTTP/1.1\r\n" + json + counted:       401,
		"POST " + chatPath + " HTTP/1.1\r\n" + key + counted:        415,
		"GET " + chatPath + " HTTP/1.1\r\n" + key + counted:         405,
		"POST /nope HTTP/1.1\r\n" + key + counted:                   404,
		"POST /load HTTP/1.1\r\n" + key + counted:                   200,
		"GET /health HTTP/1.1\r\n" + chunked:                        200,
	} {
		inBubble(t, `"api_key":"k"`, "", func(r *rig) {
			c := r.raw(strings.Replace(request, "\r\n", "\r\nHost: localhost\r\n", 1))
			start := time.Now()
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Errorf("%q: %v after %v", request, err, time.Since(start))
				return
			}
			limit := unreadTime
			if want == 400 {
				limit = r.s.limits.bodyTime
			}
			if took := time.Since(start); resp.StatusCode != want || took != limit || !resp.Close {
				t.Errorf("%q: status %d after %v, connection closed %v; want %d after %v", request, resp.StatusCode, took, resp.Close, want, limit)
			}
		})
	}
}

// TestAnswersNobodyReads: whatever was asked for, a client that does not take the
// answer is given up in time.
func TestAnswersNobodyReads(t *testing.T) {
	for _, path := range []string{"/metrics", "/v1/status", "/nope"} {
		inBubble(t, "", "", func(r *rig) {
			c := r.raw("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n")
			pass(writeTime + time.Second)
			if b, err := io.ReadAll(c); err != nil || len(b) > 0 {
				t.Errorf("%s: after %v there is still an answer of %d bytes: %v", path, writeTime, len(b), err)
			}
		})
	}
}

// raw sends bytes over a connection of its own, which gives up after five minutes.
func (r *rig) raw(request string) net.Conn {
	r.t.Helper()
	c, err := r.net.dial(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	r.open = append(r.open, c)
	c.SetDeadline(time.Now().Add(5 * time.Minute))
	if _, err := io.WriteString(c, request); err != nil {
		r.t.Fatal(err)
	}
	return c
}
