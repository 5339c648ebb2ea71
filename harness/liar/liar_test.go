package liar

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// ask opens a connection in memory and sends one request on it.
func ask(t *testing.T, m *Memory) net.Conn {
	t.Helper()
	c, err := m.Dial(context.Background(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		t.Fatal(err)
	}
	return c
}

// What a script says is what is read: one write is one read, a pause is as long
// as it says, and a step said twice says the same.
func TestScriptsSayWhatTheySay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		s := Serve(m, Always(Wire("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), Split("abcd", 1, 3), Pause(time.Minute), Bytewise("xy"), Cut()))
		defer s.Close()
		for range 2 {
			c := ask(t, m)
			start, buf := time.Now(), make([]byte, 100)
			for _, want := range []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "a", "bc", "d", "x", "y"} {
				n, err := c.Read(buf)
				if err != nil || string(buf[:n]) != want {
					t.Fatalf("read %q, %v; want %q", buf[:n], err, want)
				}
				if passed := time.Since(start); (passed >= time.Minute) != (want == "x" || want == "y") {
					t.Errorf("%q came after %v", want, passed)
				}
			}
			if _, err := c.Read(buf); err != io.EOF {
				t.Errorf("behind a cut: %v", err)
			}
		}
	})
}

func TestChunkedBodies(t *testing.T) {
	s, err := Listen(Always(Head(), Content("größe \"x\""), Rest(1)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 { // on one connection
		resp, err := http.Post(s.URL+"/v1/chat/completions", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(body), `"content":"größe \"x\""`) || !strings.HasSuffix(string(body), "data: [DONE]\n\n") {
			t.Errorf("%q, %v", body, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if n := len(s.Requests()); n != 2 || s.Dialled() != 1 {
		t.Errorf("%d requests on %d connections", n, s.Dialled())
	}
}

func TestItSeesClientsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		s := Serve(m, Always(Head(), Hold()))
		defer s.Close()
		c := ask(t, m)
		if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s.Open() != 1 {
			t.Errorf("%d requests run", s.Open())
		}
		<-time.After(time.Second)
		c.Close()
		left, err := s.AwaitLeft(t.Context(), 1)
		if err != nil || time.Since(left) != 0 {
			t.Errorf("left at %v, %v", left, err)
		}
	})
}
