package rest_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/rest"
	"github.com/seed-c01c3da5/zester/peel/build"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

func TestWhatANewServerRefuses(t *testing.T) {
	for listen, want := range map[string]string{
		"": "HOST:PORT", "127.0.0.1": "HOST:PORT", "127.0.0.1:70000": "70000", ":8440": "without a certificate",
		"0.0.0.0:8440": "without a certificate", "[::]:8440": "without a certificate", "192.0.2.1:8440": "without a certificate",
		"master.example.com:8440": "without a certificate", "127.0.0.1:0": "without a certificate", "[::1]:0": "without a certificate",
		"localhost:8440": "without a certificate",
	} {
		if _, err := rest.New(rest.Options{Listen: listen}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", listen, err, want)
		}
		if want == "without a certificate" {
			if _, err := rest.New(rest.Options{Listen: listen, TLS: &tls.Config{}}); err != nil {
				t.Errorf("%q with a certificate: %v", listen, err)
			}
		}
	}
}

// TestBeforeItsBusAMasterIsAliveAndNoMore asks before there is a backend.
func TestBeforeItsBusAMasterIsAliveAndNoMore(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		admin := s.admin()
		s.stop()
		server, err := rest.New(rest.Options{Listen: "127.0.0.1:0", TLS: certificate(t)})
		if err != nil {
			t.Fatal(err)
		}
		s.run(server)
		if a := s.ask("", "GET", "/healthz", nil); a.status != 200 {
			t.Errorf("healthz: %d", a.status)
		}
		for _, path := range []string{"/readyz", "/metrics", "/api/v1/jobs", "/api/v1/openapi.json"} {
			refused(t, s.ask(admin, "GET", path, nil), 503, "has not reached its bus")
		}
		server.Open(s.backend)
		for _, path := range []string{"/healthz", "/readyz", "/metrics", "/api/v1/jobs"} {
			if a := s.ask(admin, "GET", path, nil); a.status != 200 {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
		}
	})
}

func TestReadyFollowsTheBusAndItsStreams(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		ready := func(status int, detail string) {
			t.Helper()
			time.Sleep(10 * time.Second)
			a := s.ask("", "GET", "/readyz", nil)
			if status == 200 && a.status == 200 {
				return
			}
			refused(t, a, status, detail)
		}
		ready(200, "")
		if err := s.js.DeleteConsumer(t.Context(), "job-events", "schedule-results"); err != nil {
			t.Fatal(err)
		}
		if a := s.ask("", "GET", "/readyz", nil); a.status != 200 {
			t.Errorf("asked at once: %d, what was found a moment ago is given again", a.status)
		}
		s.bus.Stop(t)
		ready(503, "bus is away")
		if a := s.ask("", "GET", "/healthz", nil); a.status != 200 {
			t.Errorf("healthz without the bus: %d", a.status)
		}
		s.bus.Start(t)
		time.Sleep(2 * time.Minute) // by then the consumer is made again
		ready(200, "")
		returns, err := s.js.Stream(t.Context(), "KV_job-returns")
		if err != nil {
			t.Fatal(err)
		}
		config := returns.CachedInfo().Config
		config.Discard, config.MaxMsgs = jetstream.DiscardNew, 20
		if _, err := s.js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		for n := range 20 {
			if n == 19 {
				ready(200, "")
			}
			if _, err := s.js.Publish(t.Context(), "$KV.job-returns."+string(wire.NewJID())+".p", nil); err != nil {
				t.Fatal(err)
			}
		}
		ready(503, "the stream KV_job-returns is 100 % full")
		if err := returns.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		ready(200, "")
		if err := s.js.DeleteStream(t.Context(), "KV_tokens"); err != nil {
			t.Fatal(err)
		}
		ready(503, "KV_tokens")
	})
}

// TestMetricsCountWhatHappened also holds that each metric of the list is there from the beginning.
func TestMetricsCountWhatHappened(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		web := s.peel("web-01", nil, func(nc *nats.Conn, r wire.Request) {
			ack(nc, "web-01", r)
			time.Sleep(10 * time.Millisecond) // or the return overtakes it, and nobody watches the job any more
			returns(nc, "web-01", r, "x")
		})
		s.peel("web-02", nil, nil)
		admin := s.admin()
		value := func(name string) string {
			t.Helper()
			a := s.ask(admin, "GET", "/metrics", nil)
			match := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindSubmatch(a.body)
			if a.status != 200 || match == nil {
				t.Errorf("%d: no %s in\n%s", a.status, name, a.body)
				return ""
			}
			return string(match[1])
		}
		for _, name := range []string{`zester_jobs_total{status="complete"}`, `zester_dispatch_unreachable_total`, `zester_schedule_results_total{result="stored"}`, `zester_facts_refused_total`, `zester_replies_dropped_total{reason="forged"}`, "go_goroutines", buildInfo()} {
			value(name)
		}
		s.dispatch(admin, object{"target": "web-01", "function": "test.ping"})
		s.dispatch(admin, object{"target": "*", "function": "test.ping", "timeout": "29s"})
		say(web, wire.Fact("web-01"), wire.Facts{Peel: "web-02"})
		unasked := wire.NewJID()
		say(web, wire.ReturnOf(unasked, "web-01"), wire.Return{JID: unasked, Peel: "web-01"})
		say(web, wire.ScheduledOf(unasked, "web-01"), wire.ScheduledResult{})
		if _, err := s.backend.Dispatcher.Submit(t.Context(), job.Spec{JID: "none"}, "admin"); err == nil {
			t.Error("a job without a JID was accepted")
		}
		time.Sleep(time.Minute)
		for name, want := range map[string]string{
			`zester_dispatch_resent_total`: "1", `zester_dispatch_returns_stored_total`: "2", `zester_dispatch_refused_total`: "1",
			`zester_dispatch_retried_total`: "0", `zester_dispatch_fenced_total`: "0",
			`zester_facts_refused_total`: "1", `zester_replies_dropped_total{reason="late"}`: "0",
			`zester_schedule_results_total{result="undecodable"}`: "1", `zester_schedule_results_total{result="surplus"}`: "0", `zester_surplus_removed_total`: "0",
			`zester_jobs_total{status="complete"}`: "1", `zester_jobs_total{status="partial"}`: "1", `zester_jobs_total{status="timeout"}`: "0",
			`zester_dispatch_unreachable_total`: "1", `zester_bus_connected`: "1", `zester_orphans_reclaimed_total`: "0",
			`zester_job_duration_seconds_bucket{le="0.05"}`: "1", `zester_job_duration_seconds_bucket{le="10"}`: "1",
			`zester_job_duration_seconds_bucket{le="30"}`: "2", `zester_job_duration_seconds_count`: "2",
			`zester_stream_messages{stream="KV_job-returns"}`: "3", `zester_stream_bytes{stream="KV_settings"}`: "0",
			`zester_stream_messages_limit{stream="KV_job-returns"}`: "4e+06", `zester_stream_bytes_limit{stream="KV_job-returns"}`: "4.294967296e+09",
		} {
			if got := value(name); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
		refused(t, s.ask("", "GET", "/metrics", nil), 401, "token")
	})
}

// buildInfo is the metric that has the versions of this program.
func buildInfo() string {
	this := build.Read()
	return fmt.Sprintf("zester_build_info{goversion=%q,version=%q}", this.Go, this.Version)
}

// writePair puts a new certificate for 127.0.0.1 and its key into two files and returns it.
func writePair(t *testing.T, cert, key string) *x509.Certificate {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path+".new", pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestTheCertificateIsReadAgain uses real sockets.
func TestTheCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	first := writePair(t, cert, key)
	config, err := pki.FromFiles(cert, key, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	server, err := rest.New(rest.Options{Listen: "127.0.0.1:0", TLS: config})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	shows := func(want *x509.Certificate) {
		t.Helper()
		roots := x509.NewCertPool()
		roots.AddCert(want)
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
		defer client.CloseIdleConnections()
		resp, err := client.Get("https://" + l.Addr().String() + "/healthz")
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "ok\n" || resp.ProtoMajor != 2 || resp.TLS.Version != tls.VersionTLS13 {
			t.Errorf("%q over %s, %v", body, resp.Proto, err)
		}
	}
	shows(first)
	if _, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("it speaks TLS 1.2")
	}
	second := writePair(t, cert, key)
	shows(second)
	if err := os.WriteFile(key, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	shows(second) // a pair that does not fit is not shown
	shows(writePair(t, cert, key))
}

func TestCertificatesThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	cert, key, other := filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "other")
	writePair(t, cert, other)
	writePair(t, filepath.Join(dir, "unused"), key)
	if _, err := pki.FromFiles(cert, key, nil); err == nil || !strings.Contains(err.Error(), "does not match") {
		t.Errorf("a key of another certificate: %v", err)
	}
	if _, err := pki.FromFiles(cert, filepath.Join(dir, "none"), nil); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("no key: %v", err)
	}
	if err := os.Chmod(other, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.FromFiles(cert, other, nil); err == nil || !strings.Contains(err.Error(), "0644") {
		t.Errorf("a key that others may read: %v", err)
	}
}

func TestHooksAreReachedWithoutATokenOnceTheBusIs(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.stop()
		hooks := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Path", r.Method+" "+r.URL.Path)
			w.WriteHeader(http.StatusAccepted)
		})
		server, err := rest.New(rest.Options{Listen: "127.0.0.1:0", TLS: certificate(t), Hooks: hooks})
		if err != nil {
			t.Fatal(err)
		}
		s.run(server)
		refused(t, s.ask("", "POST", "/hooks/fleet", nil), 503, "has not reached its bus")
		server.Open(s.backend)
		if a := s.ask("", "POST", "/hooks/fleet", nil); a.status != 202 || a.header.Get("X-Path") != "POST /hooks/fleet" {
			t.Errorf("%d %v", a.status, a.header)
		}
		refused(t, s.ask("", "POST", "/hooks/fleet/more", nil), 404, "no such route")
	})
}
