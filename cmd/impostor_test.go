package cmd_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// An impostor listens on the ports of a master that is down, as any user of its host can.
type impostor struct {
	t         *testing.T
	bus       *daemon
	nc        *nats.Conn
	heard     *nats.Subscription // all that anybody sends to bus
	l         net.Listener
	web       *http.Server
	mu        sync.Mutex
	requests  int          // to web
	connected bytes.Buffer // what came to web, byte for byte
}

// A tap keeps what a connection is sent.
type tap struct {
	net.Conn
	i *impostor
}

func (c tap) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.i.mu.Lock()
	defer c.i.mu.Unlock()
	c.i.connected.Write(p[:n])
	return n, err
}

type tapped struct {
	net.Listener
	i *impostor
}

func (l tapped) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return tap{c, l.i}, err
}

// startImpostor has a server of NATS that lets everybody in on one port, and an HTTP server on the other. With a certificate
// both show it, else neither encrypts.
func startImpostor(t *testing.T, bus, web, cert, key string) *impostor {
	t.Helper()
	i := &impostor{t: t}
	args, way := []string{"-a", "127.0.0.1", "-p", bus}, "nats://"
	if cert != "" {
		args, way = append(args, "--tls", "--tlscert", cert, "--tlskey", key), "tls://"
	}
	i.bus = startDaemon(t, programs(t)+"nats-server", args...)
	i.bus.await(`Server is ready`)
	var err error
	if i.nc, err = nats.Connect(way+"127.0.0.1:"+bus, nats.Secure(&tls.Config{InsecureSkipVerify: true}), func(o *nats.Options) error { o.Secure = cert != ""; return nil }, nats.Timeout(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if i.heard, err = i.nc.SubscribeSync(">"); err != nil {
		t.Fatal(err)
	}
	if i.l, err = net.Listen("tcp", "127.0.0.1:"+web); err != nil {
		t.Fatal(err)
	}
	i.web = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		i.requests++
		i.mu.Unlock()
		http.Error(w, `{"detail": "not now"}`, http.StatusServiceUnavailable)
	})}
	go func() {
		if cert != "" {
			_ = i.web.ServeTLS(tapped{i.l, i}, cert, key)
		} else {
			_ = i.web.Serve(tapped{i.l, i})
		}
	}()
	t.Cleanup(i.leave)
	return i
}

// command tells each peel to make a file, and returns when the server has passed that on to all who listen.
func (i *impostor) command(file string, peels ...string) {
	i.t.Helper()
	for _, p := range peels {
		data, err := canon.Marshal(wire.Request{
			JID: wire.NewJID(), Function: "cmd.run", Args: map[string]any{"command": "touch " + file}, Epoch: 1, TimeLeft: time.Minute, V: wire.Version,
		})
		if err == nil {
			err = i.nc.Publish(wire.Cmd(p), data)
		}
		if err != nil {
			i.t.Fatal(err)
		}
	}
	if err := i.nc.Flush(); err != nil {
		i.t.Fatal(err)
	}
}

// others returns the subjects of what others than the impostor have sent to its bus.
func (i *impostor) others() (subjects string) {
	i.t.Helper()
	for n, _, err := i.heard.Pending(); n > 0; n, _, err = i.heard.Pending() {
		m, next := i.heard.NextMsg(time.Minute)
		if err := errors.Join(err, next); err != nil {
			i.t.Fatal(err)
		}
		if !strings.HasPrefix(m.Subject, wire.Cmd("")) {
			subjects += m.Subject + " "
		}
	}
	return subjects
}

// fails returns all that a command writes, and whether it ended with an error.
func (c cli) fails(args ...string) (said string, failed bool) {
	cmd := exec.CommandContext(c.t.Context(), c.program, args...)
	cmd.Env = append(os.Environ(), c.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err != nil
}

func (i *impostor) leave() {
	i.nc.Close()
	_ = i.web.Close()
	_ = i.bus.cmd.Process.Kill()
	<-i.bus.ended
}

// TestAnImpostorOnThePortsOfAMasterThatIsDownCommandsNobody has one that does not encrypt, and one with a certificate of
// another authority. Peels, hosts that join, and people refuse both, and come back to the master.
func TestAnImpostorOnThePortsOfAMasterThatIsDownCommandsNobody(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs three commands")
	}
	bin, dir := programs(t), t.TempDir()
	bus, web := freePort(t), freePort(t)
	port, err := strconv.Atoi(bus)
	if err != nil {
		t.Fatal(err)
	}
	o := master.Options{ID: "m1", DataDir: dir + "/master", Port: port, REST: master.REST{Listen: "127.0.0.1:" + web}}
	stop := startMaster(t, o)
	local := cli{t, bin + "zester", []string{"ZESTER_DATA_DIR=" + dir + "/master"}}
	local.must("auth", "issue", "operator", "ada", "--out", dir+"/ada.creds")
	local.must("auth", "issue", "peel", "db-01", "--out", dir+"/db-01.creds")
	ada := cli{t, bin + "zester", []string{"ZESTER_CREDS=" + dir + "/ada.creds", "ZESTER_URL=tls://127.0.0.1:" + bus}}
	token, late := local.must("auth", "join-token", "create", "--peel", "web-*"), local.must("auth", "join-token", "create", "--peel", "late-*")
	peel := func(id string, args ...string) *daemon {
		return startDaemon(t, bin+"zester-peel", append([]string{"--id", id, "--data-dir", filepath.Join(dir, id), "--url", "tls://127.0.0.1:" + bus}, args...)...)
	}
	peels := []*daemon{peel("web-01", "--join", token+"@127.0.0.1:"+web), peel("db-01", "--creds", dir+"/db-01.creds")}
	for _, p := range peels {
		p.await(`bus is reached`)
	}
	ada.must("L@web-01,db-01", "test.ping")
	run, err := os.ReadFile(dir + "/master/run.json") // which stays where a master is killed
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if err := os.WriteFile(dir+"/master/run.json", run, 0o600); err != nil {
		t.Fatal(err)
	}

	owned := dir + "/owned"
	cert, key := dir+"/other.crt", dir+"/other.key"
	certify(t, cert, key)
	for _, way := range []struct{ name, cert, key, says string }{
		{"in the clear", "", "", "does not use TLS"},
		{"with another authority", cert, key, "is not signed by an authority in "},
	} {
		i := startImpostor(t, bus, web, way.cert, way.key)
		for _, p := range peels {
			p.await(`waiting for the bus.*` + way.says + `.*"hint"`)
		}
		i.command(owned, "web-01", "db-01")
		for id, join := range map[string][]string{
			"late-01": {"--join", late + "@127.0.0.1:" + web},
			"late-02": {"--join", "127.0.0.1:" + web, "--ca", dir + "/master/tls/ca.crt"},
			"late-03": {"--join", "127.0.0.1:" + web},
		} {
			d := peel(id, join...)
			d.await(`no new credential`)
			d.stop()
		}
		for _, c := range []cli{local, ada} {
			said, failed := c.fails("peel", "list")
			if !failed || !strings.Contains(said, way.says) || !strings.Contains(said, "hint: ") || strings.Contains(said, "is the master running") {
				t.Errorf("%s: zester says %s", way.name, said)
			}
		}
		i.mu.Lock()
		if i.requests != 0 || bytes.Contains(i.connected.Bytes(), []byte(late)) || bytes.Contains(i.connected.Bytes(), []byte("late-0")) {
			t.Errorf("%s: %d requests came, and this: %q", way.name, i.requests, i.connected.Bytes())
		}
		i.mu.Unlock()
		if said := i.others(); said != "" {
			t.Errorf("%s: the impostor's bus is sent %s", way.name, said)
		}
		i.leave()
	}
	startMaster(t, o)
	for _, p := range peels {
		p.await(`bus is back`)
	}
	ada.must("L@web-01,db-01", "test.ping")
	if _, err := os.Stat(owned); err == nil {
		t.Error("a peel has run the impostor's command")
	}
	for _, p := range peels {
		p.stop()
	}
}
