package rest_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/enroll"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/rest"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// enrollment is the request of a new host.
func enrollment(t *testing.T, id target.PeelID) string {
	t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	proof, err := key.Sign(enroll.Proof(id, key.Public()))
	if err != nil {
		t.Fatal(err)
	}
	q, err := json.Marshal(enroll.Request{ID: id, Public: key.Public(), Proof: base64.RawURLEncoding.EncodeToString(proof)})
	if err != nil {
		t.Fatal(err)
	}
	return string(q)
}

// Who is turned away because too many ask must not be able to push the past out of the audit log.
func TestAFloodOfStrangersIsLeftOutOfTheAuditLog(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.stop()
		authority, err := auth.NewAuthority(t.Context(), auth.AuthorityOptions{Keys: s.bus.Keys, JetStream: s.js, Update: s.bus.Update})
		if err != nil {
			t.Fatal(err)
		}
		log := audit.OpenLog(s.js, quiet)
		s.backend.Authority, s.backend.Audit = authority, log
		s.serve()
		answers := map[int]int{}
		for i := range 560 {
			if i%40 == 0 {
				s.client.CloseIdleConnections()
				s.from = fmt.Sprintf("192.0.2.%d:40000", 1+i/40)
			}
			resp, err := s.client.Post("http://localhost/api/v1/enroll", "application/json", strings.NewReader(enrollment(t, target.PeelID(fmt.Sprintf("h%d", i)))))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			answers[resp.StatusCode]++
		}
		if answers[http.StatusAccepted] != 500 || answers[http.StatusServiceUnavailable] != 60 {
			t.Fatalf("answers: %v", answers)
		}
		page, err := log.List(t.Context(), audit.Query{Limit: 500, Follow: true, After: 20, Action: "enroll.ask"})
		if err != nil {
			t.Fatal(err)
		}
		waiting, away := 0, 0
		for _, e := range page.Entries {
			switch e.Result {
			case audit.Done:
				waiting++
			case audit.Refused:
				away++
			default:
				t.Errorf("%+v", e)
			}
		}
		if waiting != 480 || away != 20 {
			t.Errorf("%d who wait and %d who were turned away are in the log", waiting, away)
		}
	})
}

// A page in a browser on the master's host may send what a form sends, or reach the listener under a name of its own.
func TestAPageInABrowserEnrollsNobody(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.stop()
		authority, err := auth.NewAuthority(t.Context(), auth.AuthorityOptions{Keys: s.bus.Keys, JetStream: s.js, Update: s.bus.Update})
		if err != nil {
			t.Fatal(err)
		}
		s.backend.Authority, s.backend.Audit = authority, audit.OpenLog(s.js, quiet)
		s.serve()
		for i, q := range []struct {
			kind, host string
			want       int
		}{
			{"application/json", "localhost", 202},
			{"application/json; charset=utf-8", "localhost:8440", 202},
			{"application/json", "127.0.0.1:8440", 202},
			{"application/json", "[::1]:8440", 202},
			{"text/plain", "localhost", 415},
			{"application/x-www-form-urlencoded", "localhost", 415},
			{"multipart/form-data; boundary=x", "localhost", 415},
			{"", "localhost", 415},
			{"text/plain; application/json", "localhost", 415},
			{"application/json", "page.example", 421},
			{"application/json", "page.example:8440", 421},
			{"application/json", "localhost.page.example", 421},
			{"application/json", "192.0.2.77", 421},
		} {
			id := target.PeelID(fmt.Sprint("h", i))
			req, err := http.NewRequestWithContext(t.Context(), "POST", "http://localhost/api/v1/enroll", strings.NewReader(enrollment(t, id)))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = q.host
			if q.kind != "" {
				req.Header.Set("Content-Type", q.kind)
			}
			if a := s.do(req); a.status != q.want {
				t.Errorf("%q for %s: %d %s", q.kind, q.host, a.status, a.body)
			}
		}
		if all, err := authority.Hosts.List(t.Context()); err != nil || len(all) != 4 {
			t.Errorf("%d peels wait, want 4, %v", len(all), err)
		}
	})
}

func TestTheListenersNamesAreThoseOfItsCertificate(t *testing.T) {
	ca, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	config := ca.Config("bus.example.com", "192.0.2.7")
	for header, want := range map[string]bool{
		"bus.example.com": true, "bus.example.com:8440": true, "BUS.example.com": true, "192.0.2.7:8440": true, "localhost": true, "[::1]:1": true,
		"example.com": false, "x.bus.example.com": false, "192.0.2.8": false, "": false, ":8440": false,
	} {
		if got := rest.IsListener(config, header); got != want {
			t.Errorf("%q: %v", header, got)
		}
	}
}

// FuzzIsListener has any Host header.
func FuzzIsListener(f *testing.F) {
	ca, err := pki.Open(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	config := ca.Config("bus.example.com")
	shown, err := config.GetCertificate(&tls.ClientHelloInfo{ServerName: "bus.example.com"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("bus.example.com:8440")
	f.Add("[::1]:8440")
	f.Add("[::ffff:127.0.0.1]")
	f.Fuzz(func(t *testing.T, header string) {
		if !rest.IsListener(config, header) {
			return
		}
		for _, name := range shown.Leaf.DNSNames {
			if strings.Contains(strings.ToLower(header), name) {
				return
			}
		}
		for _, ip := range shown.Leaf.IPAddresses {
			host, _, err := net.SplitHostPort(header)
			if err != nil {
				host = strings.Trim(header, "[]")
			}
			if ip.Equal(net.ParseIP(host)) {
				return
			}
		}
		t.Errorf("%q is a name of the listener", header)
	})
}

// A flood of one address keeps out neither a host there that has a join token, nor the hosts of other addresses.
func TestAFloodOfStrangersKeepsNobodyElseOut(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.stop()
		authority, err := auth.NewAuthority(t.Context(), auth.AuthorityOptions{Keys: s.bus.Keys, JetStream: s.js, Update: s.bus.Update})
		if err != nil {
			t.Fatal(err)
		}
		s.backend.Authority = authority
		s.serve()
		ask := func(body string) int {
			resp, err := s.client.Post("http://localhost/api/v1/enroll", "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			return resp.StatusCode
		}
		answers := map[int]int{}
		for i := range 400 {
			answers[ask(enrollment(t, target.PeelID(fmt.Sprintf("h%d", i))))]++
		}
		if answers[http.StatusAccepted] != 50 || answers[http.StatusTooManyRequests] != 350 {
			t.Errorf("the flood: %v", answers)
		}
		text, hash := credential.NewSecret("rack")
		if _, _, err := authority.Hosts.AddJoinToken(t.Context(), credential.JoinRequest{Name: "rack", Hash: hash, Peel: "*", Uses: 5, TTL: time.Hour}, "ann"); err != nil {
			t.Fatal(err)
		}
		var q map[string]any
		if err := json.Unmarshal([]byte(enrollment(t, "wanted")), &q); err != nil {
			t.Fatal(err)
		}
		q["token"] = text
		data, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		if got := ask(string(data)); got != http.StatusOK {
			t.Errorf("a host with a join token: %d", got)
		}
		s.client.CloseIdleConnections()
		s.from = "192.0.2.99:40000"
		if got := ask(enrollment(t, "elsewhere")); got != http.StatusAccepted {
			t.Errorf("a host of another address: %d", got)
		}
	})
}
