package master_test

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/master/outbound"
)

// A pinged is an HTTP server, reached without sockets, that keeps the paths of requests.
type pinged struct {
	conns chan net.Conn

	mu    sync.Mutex
	paths []string
}

func (p *pinged) Accept() (net.Conn, error) {
	if c, open := <-p.conns; open {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p *pinged) Close() error   { return nil }
func (p *pinged) Addr() net.Addr { return &net.UnixAddr{Name: "pinged"} }

func (p *pinged) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	p.conns <- far
	return near, nil
}

func (p *pinged) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paths = append(p.paths, r.URL.Path)
}

// take returns the paths since the last call, sorted.
func (p *pinged) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	paths := p.paths
	p.paths = nil
	slices.Sort(paths)
	return paths
}

// Real peels run their schedules; the master that leads the alerts pings each run, and the next one goes on after it has died.
func TestRunsOfPeelsArePinged(t *testing.T) {
	atSite(t, func(t *testing.T, s *site) {
		service := &pinged{conns: make(chan net.Conn)}
		server := &http.Server{Handler: service}
		go func() { _ = server.Serve(service) }()
		t.Cleanup(func() { close(service.conns); _ = server.Close() })
		checks, err := notify.NewPinger(notify.PingOptions{
			Name: "checks", To: outbound.Address{URL: "http://checks.example/key"}, Entries: "backup*",
			Transport: &http.Transport{DialContext: service.dial, DisableKeepAlives: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		with := func(o *master.Options) { o.Alerts.Pings = []*notify.PingService{checks} }
		first := s.master("m1", with)
		time.Sleep(time.Second) // it takes the lease of the alerts
		s.master("m2", with)
		s.peels("db-1", "web-1")
		entry := func(minute, function string, args map[string]any) map[string]any {
			return map[string]any{"module": function, "args": args, "cron": minute + " * * * *", "timezone": "UTC"}
		}
		bad, good := entry("10", "test.fail", map[string]any{"message": "exit status 3"}), entry("10", "test.ping", nil)
		s.give("db-1", map[string]any{"schedule": map[string]any{
			"backup": good, "backup-bad": bad, "backup-long": entry("5", "test.sleep", map[string]any{"duration": "40m"}), "report": good,
		}})
		s.give("web-1", map[string]any{"schedule": map[string]any{"backup": good, "backup-often": entry("1,2,3", "test.ping", nil)}})
		want := func(after time.Duration, paths ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := service.take(); !slices.Equal(got, paths) {
				t.Errorf("%s: pinged %q, want %q", time.Now().UTC().Format("15:04"), got, paths)
			}
		}
		want(35*time.Minute, "/key/backup-bad-db-1/3", "/key/backup-db-1/0", "/key/backup-long-db-1/start",
			"/key/backup-often-web-1/0", "/key/backup-often-web-1/0", "/key/backup-often-web-1/0", "/key/backup-web-1/0")
		first.kill()
		want(25*time.Minute, "/key/backup-long-db-1/0")
		want(35*time.Minute, "/key/backup-bad-db-1/3", "/key/backup-db-1/0", "/key/backup-long-db-1/start",
			"/key/backup-often-web-1/0", "/key/backup-often-web-1/0", "/key/backup-often-web-1/0", "/key/backup-web-1/0")
	})
}
