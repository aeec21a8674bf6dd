//go:build ui

package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

// measured is for how long the use of the processor is measured.
const measured = 20 * time.Second

// viewers is what the process that has the browsers is told.
type viewers struct {
	Address, CA string
	Cookies     []string // of sessions, each of which has perSession browsers
}

// Browsers of the test of what they cost: as many as one master lets in.
const (
	people     = 5
	sessions   = 20 // of a person
	perSession = 4
	browsers   = people * sessions * perSession
)

// lookOn names the variable by which the test binary is told to be the process that has the browsers.
const lookOn = "ZESTER_TEST_LOOK_ON"

// TestLookOn is the process that has the browsers. Each has a connection of HTTP/2, follows the events of its master and
// fetches parts of Now after each. For each line that it reads it prints how many events and parts have come.
func TestLookOn(t *testing.T) {
	if os.Getenv(lookOn) == "" {
		t.Skip("it is a process of TestBrowsersAreCheap")
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	var o viewers
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &o) != nil {
		t.Fatal("no order")
	}
	var events, parts atomic.Int64
	for i, cookie := range o.Cookies {
		for range perSession {
			client := natstest.HTTPS(t, o.CA)
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i+1))}} // an address has few connections
			transport := client.Transport.(*http.Transport)
			transport.DialContext, transport.ForceAttemptHTTP2 = dialer.DialContext, true
			b := viewer{client, "https://" + o.Address, cookie}
			due := make(chan struct{}, 1)
			go b.listen(t, &events, due)
			go b.refresh(t, &parts, due)
		}
	}
	for lines.Scan() {
		fmt.Println(events.Load(), parts.Load())
	}
	os.Exit(0) // with all streams
}

// A viewer is a browser of a session.
type viewer struct {
	client *http.Client
	origin string
	cookie string
}

// listen follows the events.
func (b viewer) listen(t *testing.T, events *atomic.Int64, due chan<- struct{}) {
	stream := b.get(t, "/events")
	defer stream.Close()
	for lines := bufio.NewScanner(stream); lines.Scan(); {
		if lines.Text() != "event: parts" {
			continue
		}
		events.Add(1)
		select {
		case due <- struct{}{}:
		default:
		}
	}
}

// refresh fetches parts once they are due, at most each 2 s as the script of the pages does.
func (b viewer) refresh(t *testing.T, parts *atomic.Int64, due <-chan struct{}) {
	for range due {
		text := b.get(t, "/?part=title,verdict,audit,nav")
		_, _ = io.Copy(io.Discard, text)
		_ = text.Close()
		parts.Add(1)
		<-time.After(2 * time.Second)
	}
}

func (b viewer) get(t *testing.T, path string) io.ReadCloser {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.origin+path, nil)
	if err != nil {
		panic(err)
	}
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Cookie", "__Host-zester="+b.cookie)
	resp, err := b.client.Do(r)
	if err != nil {
		panic(err)
	}
	if resp.StatusCode != http.StatusOK {
		panic(path + ": " + resp.Status)
	}
	return resp.Body
}

// onlookers are the process that has the browsers.
type onlookers struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
}

// lookOn starts the process, which ends with the test.
func (f *fleet) lookOn(t *testing.T, cookies []string) onlookers {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	process := exec.Command(self, "-test.run", "^TestLookOn$")
	process.Env = append(os.Environ(), lookOn+"=1")
	process.Stderr = os.Stderr
	in, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = process.Wait() })
	if err := json.NewEncoder(in).Encode(viewers{f.address, f.ca(), cookies}); err != nil {
		t.Fatal(err)
	}
	return onlookers{t, in, bufio.NewScanner(out)}
}

// count returns how many events and parts have come.
func (l onlookers) count() (events, parts int) {
	l.t.Helper()
	if _, err := fmt.Fprintln(l.in); err != nil {
		l.t.Fatal(err)
	}
	if !l.out.Scan() {
		l.t.Fatal("the process that has the browsers has ended")
	}
	if _, err := fmt.Sscan(l.out.Text(), &events, &parts); err != nil {
		l.t.Fatalf("%q: %v", l.out.Text(), err)
	}
	return events, parts
}

// calm returns how much of a core this process uses while no event comes, and whether there was such a time: a fleet
// that has just begun has events.
func (l onlookers) calm() (used float64, found bool) {
	l.t.Helper()
	for range 6 {
		before, _ := l.count()
		used = spent(l.t, measured, nil)
		if now, _ := l.count(); now == before {
			return used, true
		}
	}
	return used, false
}

// TestBrowsersAreCheap measures what 400 browsers cost their master that look at Now: while nothing changes, and while
// something changes each 2 s, which each browser hears and fetches four parts after. They are in a process of their own.
// -v prints the figures.
func TestBrowsersAreCheap(t *testing.T) {
	f := theFleet(t)
	cookies := f.manyLogins(t)
	alone, memory := spent(t, measured, nil), heap()

	l := f.lookOn(t, cookies)
	f.until(t, "the first parts of each browser", func(context.Context) bool { _, parts := l.count(); return parts >= browsers })
	rest, found := l.calm()
	if !found {
		t.Error("events came all the time")
	}
	began, beganParts := l.count()
	busy := spent(t, measured, func() { order(t, f, api.SyncNow) })
	ended, endedParts := l.count()
	kib := (heap() - memory) / browsers >> 10
	t.Logf("%d browsers: %.1f %% of a core without them, %.1f %% at rest, %.1f %% with an event each 2 s (%d events, %d requests); %d KiB each",
		browsers, alone, rest, busy, ended-began, endedParts-beganParts, kib)
	if got := ended - began; got < browsers*4 {
		t.Errorf("%d events came", got)
	}
	// Twice what the budget says, because other tests run beside this one.
	if found && rest-alone > 1 || busy-alone > 20 || kib > 256 {
		t.Error("browsers are dear: the budget is 0.5 % at rest and 10 % with an event each 2 s, and 100 MB in all")
	}
}

// manyLogins returns the cookies of as many sessions as the browsers need.
func (f *fleet) manyLogins(t *testing.T) (cookies []string) {
	t.Helper()
	for i := range people {
		name := fmt.Sprintf("u%d", i)
		creds, _, err := f.local.UserAdd(t.Context(), credential.UserRequest{Name: name, Role: grants.RoleAuditor})
		if err != nil {
			t.Fatal(err)
		}
		f.people[name] = f.connect(t, creds)
		for range sessions {
			b := f.browse(t)
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(len(cookies)+1))}} // an address has few logins
			b.client.Transport.(*http.Transport).DialContext = dialer.DialContext
			got := b.post("/login", url.Values{"code": {f.code(t, f.people[name]).Code}})
			if got.status != http.StatusSeeOther {
				t.Fatalf("the login of %s: %d", name, got.status)
			}
			cookie, err := http.ParseSetCookie(got.header.Get("Set-Cookie"))
			if err != nil {
				t.Fatal(err)
			}
			cookies = append(cookies, cookie.Value)
			b.client.CloseIdleConnections()
		}
	}
	return cookies
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
