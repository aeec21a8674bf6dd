//go:build ui

package console_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// fetch asks for parts of a page, as the script of a page does.
func (b *browser) fetch(ctx context.Context, path string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+b.f.address+path, nil)
	if err != nil {
		return
	}
	r.Header.Set("Accept", "text/html")
	if resp, err := b.client.Do(r); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

// TestBrowsersAreCheap has 400 streams of 100 sessions on one master, in one process with the clients that read them and
// fetch four parts after each event. It logs what a second costs with and without them.
func TestBrowsersAreCheap(t *testing.T) {
	f := theFleet(t)
	const people, sessions, each = 5, 20, 4
	names := []string{"u1", "u2", "u3", "u4", "u5"}[:people]
	var all []*browser
	for _, name := range names {
		creds, _, err := f.local.UserAdd(t.Context(), credential.UserRequest{Name: name, Role: grants.RoleAuditor})
		if err != nil {
			t.Fatal(err)
		}
		f.people[name] = f.connect(t, creds)
		for range sessions {
			b := f.browse(t)
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(len(all)+1))}} // an address has few connections
			b.client.Transport.(*http.Transport).DialContext = dialer.DialContext
			if got := b.post("/login", url.Values{"code": {f.code(t, f.people[name]).Code}}); got.status != http.StatusSeeOther {
				t.Fatalf("the login of %s: %d", name, got.status)
			}
			all = append(all, b)
		}
	}
	alone, memory := spent(t, 5*time.Second, nil), heap()

	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	var events atomic.Int64
	for _, b := range all {
		for range each {
			resp := b.listen()
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("a stream: %s", resp.Status)
			}
			wait.Go(func() {
				defer context.AfterFunc(ctx, func() { _ = resp.Body.Close() })()
				for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
					if strings.HasPrefix(lines.Text(), "event: parts") {
						events.Add(1)
						b.fetch(ctx, "/?part=title,verdict,audit,nav")
					}
				}
			})
		}
	}
	f.until(t, "the first event of each stream", func(context.Context) bool { return events.Load() >= people*sessions*each })
	spent(t, 4*time.Second, nil) // what begins with the first stream is over
	quiet := spent(t, 5*time.Second, nil)
	before := events.Load()
	busy := spent(t, 6*time.Second, func() { f.order(t, api.SyncNow) })
	t.Logf("%d streams: %.1f %% of a core alone, %.1f %% with streams, %.1f %% with an event each 2 s (%d events); %d KiB a stream with its client",
		people*sessions*each, alone, quiet, busy, events.Load()-before, (heap()-memory)/(people*sessions*each)>>10)
	if got := events.Load() - before; got < people*sessions*each {
		t.Errorf("%d events came", got)
	}
}

// spent returns how much of a core this process used, in percent, while something is done each 2 s.
func spent(t *testing.T, d time.Duration, each func()) float64 {
	t.Helper()
	began, used := time.Now(), processor(t)
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for end := time.After(d); ; {
		select {
		case <-tick.C:
			if each != nil {
				each()
			}
		case <-end:
			return float64(processor(t)-used) / float64(time.Since(began)) * 100
		}
	}
}

func processor(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
