package cmd_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
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

// A daemon is a process whose log is read line by line.
type daemon struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *bufio.Scanner
	seen strings.Builder
}

func startDaemon(t *testing.T, program string, args ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, cmd: exec.Command(program, args...)}
	log, err := d.cmd.StderrPipe()
	if err == nil {
		err = d.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	d.log = bufio.NewScanner(log)
	t.Cleanup(func() { _ = d.cmd.Process.Kill() })
	return d
}

// await reads the log until a line matches, for a minute at most.
func (d *daemon) await(pattern string) {
	d.t.Helper()
	late := time.AfterFunc(time.Minute, func() { _ = d.cmd.Process.Kill() })
	defer late.Stop()
	re := regexp.MustCompile(pattern)
	for d.log.Scan() {
		d.seen.WriteString(d.log.Text() + "\n")
		if re.MatchString(d.log.Text()) {
			return
		}
	}
	d.t.Fatalf("nothing like %s in:\n%s", pattern, &d.seen)
}

func (d *daemon) stop() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		d.t.Fatal(err)
	}
	for d.log.Scan() {
		d.seen.WriteString(d.log.Text() + "\n")
	}
	if err := d.cmd.Wait(); err != nil {
		d.t.Fatalf("%v\n%s", err, &d.seen)
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
	o := master.Options{ID: "m1", DataDir: dir + "/master", Port: port, TLS: true, REST: master.REST{Listen: "127.0.0.1:" + web}}
	stop := startMaster(t, o)
	z := cli{t, bin + "zester", []string{"ZESTER_DATA_DIR=" + dir + "/master"}}
	token := z.must("enroll", "token", "create", "--peel", "web-*", "--ttl", "1h")
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

	if out := z.must("enroll", "list", "-o", "json"); !strings.Contains(out, `"state":"accepted"`) && !strings.Contains(out, `"state": "accepted"`) {
		t.Errorf("the list says %s", out)
	}
	z.until("peel web-01 is revoked", "enroll", "revoke", "web-01") // the keys were made anew a moment ago
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
