package cmd_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// TestPeelsOfASiteComeThroughALeafNode has two processes of nats-server with the configurations that zester prints: the
// hub, and a server of a site, to which the site's peels connect. Each link is encrypted.
func TestPeelsOfASiteComeThroughALeafNode(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs four commands")
	}
	s := newLeafSite(t)
	hub := s.server("hub.conf")
	site := s.server("site.conf") // which may reach the hub before it says that it is ready
	if nc, err := nats.Connect("tls://"+s.hub, nats.UserCredentials(s.creds("site", "bonn", "--peels", "Web.01")), nats.RootCAs(s.cert)); !errors.Is(err, nats.ErrAuthorization) {
		nc.Close()
		t.Errorf("the hub lets in a client with the credential of the site: %v", err)
	}
	m := startDaemon(t, s.bin+"zester-master", "--data-dir", s.dir+"/master", "--nats", "tls://"+s.hub, "--ca", s.cert, "--creds", s.creds("master", "m1"), "--repo", s.dir+"/fleet")
	m.await(`master is ready`)
	peel := s.peel("Web.01")
	peel.await(`settings applied`)
	if out := s.z.must("Web.01", "test.echo", "hello"); !strings.Contains(out, "hello") {
		t.Errorf("the job says %s", out)
	}
	if out := s.z.must("--creds", s.creds("direct", "dan"), "Web.01", "test.echo", "hello", "--direct"); !strings.Contains(out, "hello") {
		t.Errorf("asked directly, the peel says %s", out)
	}
	s.asksForTheInterval("Web.01")
	// The hub goes away. The peel is still connected to the server of its site, runs its schedule, and keeps what it owes.
	hub.stop()
	away := time.Now()
	peel.await(`outbox waits`)
	s.grows(filepath.Join(s.dir, "Web.01", "outbox"))
	back := time.Now()
	s.server("hub.conf")
	m.await(`bus is back`)
	s.ranBetween(away, back)
	s.z.must("Web.01", "test.ping")

	// A peel that the site's credential does not name is let in by the server of the site, and gets no further.
	s.peel("db-01").await(`report not confirmed`)
	if out, _ := s.z.run("peel", "list"); !strings.Contains(out, "Web.01") || strings.Contains(out, "db-01") {
		t.Errorf("the fleet is %s", out)
	}
	// The site's credential is revoked: the hub cuts its connection, and takes the site back with another one.
	s.z.must("auth", "site", "revoke", "berlin")
	site.await(`User Authentication Revoked`)
	if out, err := s.z.run("Web.01", "test.ping", "--timeout", "1s"); err == nil {
		t.Errorf("the peel of a site that was revoked answers: %s", out)
	}
	s.creds("site", "berlin", "--peels", "Web.01", "--again")
	site.await(`Leafnode connection created`)
	s.z.until("true", "Web.01", "test.ping", "--timeout", "5s")
}

// asksForTheInterval sends a heartbeat as a peel of the site, which a master has to answer with the interval of heartbeats.
func (s *leafSite) asksForTheInterval(id target.PeelID) {
	s.t.Helper()
	nc, err := nats.Connect("tls://"+s.own, nats.UserCredentials(filepath.Join(s.dir, "peel-"+string(id)+".creds")), nats.RootCAs(s.cert), nats.CustomInboxPrefix(wire.Inbox(id.Wire())))
	if err != nil {
		s.t.Fatal(err)
	}
	defer nc.Close()
	msg, err := nc.Request(wire.Heartbeat(id.Wire()), nil, time.Minute)
	if err != nil {
		s.t.Fatal(err)
	}
	if every, err := wire.DecodeInterval(msg); err != nil || every != wire.MinHeartbeat {
		s.t.Errorf("the interval of heartbeats is %v, %v", every, err)
	}
}

// A leafSite is a directory with all that the processes read.
type leafSite struct {
	t                    *testing.T
	bin, dir, cert       string
	hub, leafs, own, key string
	z                    cli
}

func newLeafSite(t *testing.T) *leafSite {
	t.Helper()
	s := &leafSite{t: t, bin: programs(t), dir: t.TempDir(), hub: "127.0.0.1:" + freePort(t), leafs: "127.0.0.1:" + freePort(t), own: "127.0.0.1:" + freePort(t)}
	s.cert, s.key = s.dir+"/bus.crt", s.dir+"/bus.key"
	certify(t, s.cert, s.key)
	s.z = cli{t, s.bin + "zester", []string{"ZESTER_DATA_DIR=" + s.dir + "/master", "ZESTER_URL=tls://" + s.hub, "ZESTER_CA=" + s.cert}}
	files := []string{"--tls-cert", s.cert, "--tls-key", s.key}
	s.write("hub.conf", s.z.must(append(files, "auth", "export", "--nats-conf", "--listen", s.hub, "--store", s.dir+"/nats", "--leafnodes", s.leafs)...))
	var peels strings.Builder
	peels.WriteString("Web.01") // and as many as a credential can have
	for n := range grants.MaxSitePeels - 1 {
		peels.WriteString(fmt.Sprintf(",web-%d.berlin.example.com", n))
	}
	site := s.creds("site", "berlin", "--peels", peels.String())
	s.write("site.conf", s.z.must(append(files, "auth", "export", "--nats-conf", "--listen", s.own, "--hub", "tls://"+s.leafs, "--hub-ca", s.cert, "--hub-creds", site)...))
	s.z.env = append(s.z.env, "ZESTER_CREDS="+s.creds("operator", "ada"))
	s.write("top.yaml", "base:\n  '*': [beat]\n")
	s.write("settings.yaml", "schedule:\n  beat: {module: test.ping, interval: 1s, return_job: true}\n")
	git := exec.Command("bash", "-e", "-c", `mkdir -p fleet/settings; mv top.yaml fleet; mv settings.yaml fleet/settings/beat.yaml; cd fleet
git init -qb main; git add .; git -c user.name=Ada -c user.email=ada@example.com commit -qm "the fleet as it is"`)
	git.Dir = s.dir
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return s
}

func (s *leafSite) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// creds makes a credential and returns its file.
func (s *leafSite) creds(role, name string, more ...string) string {
	s.t.Helper()
	file := filepath.Join(s.dir, role+"-"+name+".creds")
	s.z.must(append([]string{"auth", "issue", role, name, "--out", file}, more...)...)
	return file
}

func (s *leafSite) server(conf string) *daemon {
	s.t.Helper()
	d := startDaemon(s.t, s.bin+"nats-server", "-c", filepath.Join(s.dir, conf))
	d.await(`Server is ready`)
	return d
}

// peel starts one that connects to the server of the site.
func (s *leafSite) peel(id string) *daemon {
	s.t.Helper()
	return startDaemon(s.t, s.bin+"zester-peel", "--id", id, "--data-dir", filepath.Join(s.dir, id), "--url", "tls://"+s.own, "--ca", s.cert, "--creds", s.creds("peel", id))
}

// grows returns when what is in the folder has grown by the report of at least one run.
func (s *leafSite) grows(dir string) {
	s.t.Helper()
	size := func() (bytes int64) {
		files, err := os.ReadDir(dir)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, f := range files {
			if info, err := f.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return bytes
	}
	for before, began := size(), time.Now(); size() < before+1000; {
		if time.Since(began) > time.Minute {
			s.t.Fatal("the peel stores no reports")
		}
		<-time.After(50 * time.Millisecond)
	}
}

// ranBetween returns when masters know of a run of the schedule between two moments.
func (s *leafSite) ranBetween(from, to time.Time) {
	s.t.Helper()
	for began := time.Now(); ; {
		var runs []struct {
			Created time.Time `json:"created"`
		}
		out := s.z.must("job", "list", "--schedule", "beat", "--limit", "1000", "-o", "json")
		if err := json.Unmarshal([]byte(out), &runs); err != nil {
			s.t.Fatalf("%v: %s", err, out)
		}
		for _, r := range runs {
			if r.Created.After(from) && r.Created.Before(to) {
				return
			}
		}
		if time.Since(began) > time.Minute {
			s.t.Fatalf("no run between %v and %v is known: %s", from, to, out)
		}
		<-time.After(200 * time.Millisecond)
	}
}
