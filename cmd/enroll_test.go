package cmd_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master"
)

// startMaster runs a master in this process until stop is called.
func startMaster(t *testing.T, o master.Options) (stop func()) {
	t.Helper()
	ready := make(chan struct{})
	o.Ready = func(master.Info) { close(ready) }
	m, err := master.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		ended <- nil
	}
	t.Cleanup(stop)
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal("never ready")
	}
	return stop
}

// A daemon is a process whose log is read line by line. A test that fails shows all of it.
type daemon struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{} // the log has ended
	news  chan struct{} // holds a token after something was written

	mu     sync.Mutex
	log    []string
	looked int // lines that await has looked at
}

func startDaemon(t *testing.T, program string, args ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, cmd: exec.Command(program, args...), ended: make(chan struct{}), news: make(chan struct{}, 1)}
	log, err := d.cmd.StderrPipe()
	if err == nil {
		err = d.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go d.read(log)
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		if <-d.ended; t.Failed() {
			t.Logf("%s %s:\n%s", filepath.Base(program), strings.Join(args, " "), d.written())
		}
	})
	return d
}

func (d *daemon) read(log io.Reader) {
	defer close(d.ended)
	for lines := bufio.NewScanner(log); lines.Scan(); {
		d.mu.Lock()
		d.log = append(d.log, lines.Text())
		d.mu.Unlock()
		select {
		case d.news <- struct{}{}:
		default:
		}
	}
}

// await looks at the log until a line matches, for a minute at most, and goes on behind that line the next time.
func (d *daemon) await(pattern string) {
	d.t.Helper()
	re := regexp.MustCompile(pattern)
	late := time.After(time.Minute)
	for ended := false; !d.saw(re); {
		if ended {
			d.t.Fatalf("%s has ended, and wrote nothing like %s", filepath.Base(d.cmd.Path), pattern)
		}
		select {
		case <-d.news:
		case <-d.ended:
			ended = true
		case <-late:
			d.t.Fatalf("%s wrote nothing like %s", filepath.Base(d.cmd.Path), pattern)
		}
	}
}

func (d *daemon) saw(re *regexp.Regexp) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.looked < len(d.log) {
		if d.looked++; re.MatchString(d.log[d.looked-1]) {
			return true
		}
	}
	return false
}

func (d *daemon) written() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.log, "\n")
}

func (d *daemon) stop() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		d.t.Fatal(err)
	}
	<-d.ended
	if err := d.cmd.Wait(); err != nil {
		d.t.Fatalf("%s: %v", filepath.Base(d.cmd.Path), err)
	}
}

// A cli runs zester as one operator.
type cli struct {
	t       *testing.T
	program string
	env     []string
}

func (c cli) run(args ...string) (string, error) {
	cmd := exec.CommandContext(c.t.Context(), c.program, args...)
	cmd.Env = append(os.Environ(), c.env...)
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// until asks until the answer has a pattern: what is asked as a server takes new accounts may not be answered.
func (c cli) until(pattern string, args ...string) {
	c.t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(2 * time.Minute); ; {
		cmd := exec.CommandContext(c.t.Context(), c.program, args...)
		cmd.Env = append(os.Environ(), c.env...)
		out, _ := cmd.CombinedOutput()
		if re.Match(out) {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("zester %s: %s", strings.Join(args, " "), out)
		}
	}
}

func (c cli) must(args ...string) string {
	c.t.Helper()
	out, err := c.run(args...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		c.t.Fatalf("zester %s: %v\n%s%s", strings.Join(args, " "), err, out, exit.Stderr)
	} else if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// TestAHostJoinsByATokenAloneAndIsRevoked goes the whole way over TLS: all that the host is given is a token, which
// carries the pin of the master's authority.
func TestAHostJoinsByATokenAloneAndIsRevoked(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs two commands")
	}
	bin := programs(t)
	dir := t.TempDir()
	bus, web := freePort(t), freePort(t)
	port, err := strconv.Atoi(bus)
	if err != nil {
		t.Fatal(err)
	}
	o := master.Options{ID: "m1", DataDir: dir + "/master", Port: port, REST: master.REST{Listen: "127.0.0.1:" + web}}
	stop := startMaster(t, o)
	z := cli{t, bin + "zester", []string{"ZESTER_DATA_DIR=" + dir + "/master"}}
	token := z.must("auth", "join-token", "create", "--peel", "web-*", "--ttl", "1h")
	join := func() *daemon {
		return startDaemon(t, bin+"zester-peel", "--id", "web-01", "--data-dir", dir+"/peel", "--url", "tls://127.0.0.1:"+bus, "--join", token+"@127.0.0.1:"+web)
	}
	peel := join()
	peel.await(`credential received`)
	peel.await(`bus is reached`)
	if out := z.must("web-01", "test.ping"); !strings.Contains(out, "web-01") {
		t.Errorf("the job says %s", out)
	}
	peel.stop()

	// A credential of yesterday is renewed, and the token, which was for one host, not asked for again.
	creds := filepath.Join(dir, "peel", "peel.creds")
	old := age(t, creds)
	peel = join()
	peel.await(`credential received`)
	if renewed, err := os.ReadFile(creds); err != nil || string(renewed) == old {
		t.Errorf("it was not renewed: %v", err)
	}
	peel.stop()
	peel = join()
	peel.await(`bus is reached`)
	z.until("web-01", "web-01", "test.ping")

	// What signs credentials and certificates is made anew, and the fleet goes on.
	z.must("auth", "rotate", "ca")
	z.must("auth", "rotate", "keys")
	z.until("in use: 1, of peel web-01", "auth", "retire", "keys")
	peel.stop()
	age(t, creds)
	peel = join()
	peel.await(`credential received`)
	z.until("are at their end|no former", "auth", "retire", "keys")
	z.until("are at their end|no former", "auth", "retire", "ca")
	peel.stop()
	peel = join()
	peel.await(`bus is reached`)
	z.until("web-01", "web-01", "test.ping")

	if out := z.must("auth", "peel", "list", "-o", "json"); !strings.Contains(out, `"state":"accepted"`) && !strings.Contains(out, `"state": "accepted"`) {
		t.Errorf("the list says %s", out)
	}
	z.until("peel web-01 is revoked", "auth", "peel", "revoke", "web-01") // because the keys were rotated a moment ago
	peel.await(`bus is away`)
	peel.await(`authorization violation`)
	if out, err := z.run("web-01", "test.ping", "--timeout", "2s"); err == nil {
		t.Errorf("it goes on working: %s", out)
	}
	stop()
	peel.await(`connection refused`)
	startMaster(t, o)
	peel.await(`authorization violation`)
	if out := z.must("audit", "list"); !strings.Contains(out, "enroll.ask") || !strings.Contains(out, "enroll.revoke") || !strings.Contains(out, "join.create") {
		t.Errorf("the audit log says %s", out)
	}
	peel.stop()
}

// age makes a credential look a day older, and returns the file.
func age(t *testing.T, creds string) string {
	t.Helper()
	text, err := os.ReadFile(creds)
	if err != nil {
		t.Fatal(err)
	}
	old := regexp.MustCompile(`\.[\w-]+\.`).ReplaceAllStringFunc(string(text), func(part string) string {
		claims, err := base64.RawURLEncoding.DecodeString(strings.Trim(part, "."))
		if err != nil {
			t.Fatal(err)
		}
		claims = regexp.MustCompile(`"iat":\d+`).ReplaceAll(claims, []byte(`"iat":`+strconv.FormatInt(time.Now().Add(-25*time.Hour).Unix(), 10)))
		return "." + base64.RawURLEncoding.EncodeToString(claims) + "."
	})
	if err := os.WriteFile(creds, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	return old
}

// A shell in which somebody works with a fleet has variables of the command line. A peel that is started there reads none.
func TestAPeelReadsNoVariableOfTheCommandLine(t *testing.T) {
	t.Parallel()
	for variable, taken := range map[string]bool{"ZESTER_WORKERS": false, "ZESTER_PEEL_WORKERS": true} {
		cmd := exec.Command(programs(t)+"zester-peel", "--id", "web-01", "--check")
		cmd.Env = []string{variable + "=0"}
		out, err := cmd.CombinedOutput()
		if refused := err != nil && strings.Contains(string(out), "cannot run 0 workers"); refused != taken {
			t.Errorf("%s is read: %v, want %v: %v, %s", variable, refused, taken, err, out)
		}
	}
}
