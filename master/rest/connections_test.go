package rest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
)

// open opens a connection from an address, writes text and reads an answer if there is to be one. The connection stays
// open until the test ends.
func (s *system) open(from, text string, answered bool) net.Conn {
	conn, err := s.pipes.dial(from)
	if err != nil {
		s.t.Error(err)
		return nil
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	_, _ = io.WriteString(conn, text)
	if answered {
		if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
		}
	}
	return conn
}

// crowd opens n connections that write a text. It returns when all have done so or wait for the server.
func (s *system) crowd(n int, from func(i int) string, text string, answered bool) {
	for i := range n {
		go s.open(from(i), text, answered)
	}
	synctest.Wait()
}

const (
	askAlive   = "GET /healthz HTTP/1.1\r\nHost: master\r\n\r\n"
	halfHeader = "GET /healthz HTTP/1.1\r\nHost: mas"
	halfBody   = "POST /api/v1/enroll HTTP/1.1\r\nHost: master\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
)

// TestManyConnectionsKeepNoValidRequestOut has more connections than the server takes come from one address, and then a
// valid token from that address and from another, over new connections.
func TestManyConnectionsKeepNoValidRequestOut(t *testing.T) {
	for name, c := range map[string]struct {
		text     string
		answered bool
	}{
		"that asked whether the master is alive": {askAlive, true}, "that send nothing": {"", false},
		"with half a header": {halfHeader, false}, "with half a body": {halfBody, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				reader := s.reader()
				s.crowd(1100, func(i int) string { return fmt.Sprintf("192.0.2.1:%d", 10000+i) }, c.text, c.answered)
				for _, from := range []string{"192.0.2.1:40000", "192.0.2.2:40000"} {
					s.from = from
					s.client.CloseIdleConnections()
					began := time.Now()
					for _, path := range []string{"/api/v1/peels", "/readyz"} {
						if a := s.ask(reader, "GET", path, nil); a.status != 200 {
							t.Errorf("%s from %s: %d %s", path, from, a.status, a.body)
						}
					}
					if took := time.Since(began); took > 0 { // time is fake: nothing was waited for
						t.Errorf("from %s: it took %v", from, took)
					}
				}
			})
		})
	}
}

// TestManyAddressesKeepNoValidRequestOut has the bound of all connections reached from many addresses.
func TestManyAddressesKeepNoValidRequestOut(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		reader := s.reader()
		s.crowd(1100, func(i int) string { return fmt.Sprintf("198.51.%d.%d:1", i/100, i%100) }, halfHeader, false)
		began := time.Now()
		if a := s.ask(reader, "GET", "/api/v1/peels", nil); a.status != 200 || time.Since(began) > 0 {
			t.Errorf("%d after %v", a.status, time.Since(began))
		}
	})
}

// TestAConnectionWithAValidTokenIsNotReplaced also holds that such connections are bounded for each address.
func TestAConnectionWithAValidTokenIsNotReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		valid := "GET /api/v1/peels HTTP/1.1\r\nHost: master\r\nAuthorization: Bearer %s\r\n\r\n"
		var tested []net.Conn
		for i := range 128 {
			token := s.token(credential.TokenRequest{Name: fmt.Sprintf("t%d", i), Scopes: []credential.Scope{credential.ScopeRead}})
			tested = append(tested, s.open(fmt.Sprintf("192.0.2.1:%d", 10000+i), fmt.Sprintf(valid, token), true))
		}
		s.crowd(100, func(i int) string { return fmt.Sprintf("192.0.2.1:%d", 20000+i) }, askAlive, true)
		s.crowd(1100, func(i int) string { return fmt.Sprintf("198.51.%d.%d:1", i/100, i%100) }, askAlive, true)
		time.Sleep(time.Minute)
		for i, conn := range tested {
			if !isOpen(conn) {
				t.Fatalf("connection %d of 128 was closed", i)
			}
		}
		s.from = "192.0.2.1:40000"
		s.client.CloseIdleConnections()
		if resp, err := s.client.Get("http://master/healthz"); err == nil {
			_ = resp.Body.Close()
			t.Error("there is room for a 129th connection from an address whose others all have a valid token")
		}
		_ = tested[0].Close()
		synctest.Wait()
		if a := s.ask("", "GET", "/healthz", nil); a.status != 200 {
			t.Errorf("after one has left: %d", a.status)
		}
	})
}

// isOpen reports whether a connection that is sent nothing has not been closed by the server.
func isOpen(conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := conn.Read(make([]byte, 1))
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

// TestAConnectionWithoutAValidTokenIsIdleForSecondsOnly compares how long connections stay open that do nothing.
func TestAConnectionWithoutAValidTokenIsIdleForSecondsOnly(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		reader := s.reader()
		head := "GET /api/v1/peels HTTP/1.1\r\nHost: master\r\n"
		var waiting sync.WaitGroup
		for name, c := range map[string]struct {
			text     string
			answered bool
			after    time.Duration
		}{
			"nothing": {"", false, 5 * time.Second}, "alive": {askAlive, true, 5 * time.Second}, "half a header": {halfHeader, false, 5 * time.Second},
			"no token": {head + "\r\n", true, 5 * time.Second}, "half a body": {halfBody, true, 10 * time.Second},
			"a valid token": {head + "Authorization: Bearer " + reader + "\r\n\r\n", true, 2 * time.Minute},
		} {
			waiting.Go(func() {
				began := time.Now()
				conn := s.open("192.0.2.9:1", c.text, c.answered)
				_, _ = io.Copy(io.Discard, conn)
				if took := time.Since(began); took < c.after || took > c.after+time.Second {
					t.Errorf("%s: closed after %v, want %v", name, took, c.after)
				}
			})
		}
		waiting.Wait()
	})
}
