//go:build slow

package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAFleetMovesToServersOfItsOwn restores the backup of an embedded bus on three empty servers, as the page of the guide
// says for somebody without nats.conf, and restores their backup on an embedded bus again.
func TestAFleetMovesToServersOfItsOwn(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs four commands")
	}
	f := newLostMaster(t)
	address, cert, key := "127.0.0.1:"+freePort(t), f.dir+"/bus.crt", f.dir+"/bus.key"
	certify(t, cert, key)
	s := f.newServers(cert, key)
	embedded := "id: m1\ndata_dir: $DATA\nlisten: " + address + "\nrepo: " + f.repo() + "\n"
	external := "id: m1\ndata_dir: $DATA\nnats: " + s.url + "\nreplicas: 3\nca: " + cert + "\ncreds: " + f.dir + "/m1.creds\nrepo: " + f.dir + "/fleet\n"

	f.config = embedded
	m := f.start(f.dir + "/first")
	f.z.env = []string{"ZESTER_DATA_DIR=" + f.dir + "/first"}
	f.join("tls://"+address, "")
	f.backUpUnderLoad(m)
	f.lose("first")

	f.config = external
	f.configure(f.dir + "/second")
	if out, err := f.restore(); err == nil || !strings.Contains(out, "cannot reach the bus at "+s.url) {
		t.Fatalf("without a bus restore says %v, %s", err, out)
	}
	f.z.env = []string{"ZESTER_DATA_DIR=" + f.dir + "/second"}
	s.start()
	f.write("m1.creds", f.z.must("auth", "issue", "master", "m1"))
	f.restored()
	m = f.start(f.dir + "/second")
	f.write("ada.creds", f.z.must("auth", "issue", "operator", "ada"))
	f.z.env = append(f.z.env, "ZESTER_URL="+s.url, "ZESTER_CA="+cert, "ZESTER_CREDS="+f.dir+"/ada.creds")
	f.startPeels(s.url, cert)
	f.checkBack()

	// And back: a bus of one copy that a master has in its process. The backup begins as a server is lost.
	kill := func(server *daemon) {
		_ = server.cmd.Process.Kill()
		<-server.ended
	}
	kill(s.running[0])
	f.backUpUnderLoad(m)
	for _, server := range s.running[1:] {
		kill(server)
	}
	f.lose("second", "s1", "s2", "s3")
	f.config = embedded
	f.configure(f.dir + "/third")
	f.restored()
	f.z.env = []string{"ZESTER_DATA_DIR=" + f.dir + "/third"}
	f.start(f.dir + "/third")
	f.startPeels("tls://"+address, "")
	f.checkBack()
}

// lose stops the peels and removes directories.
func (f *lostMaster) lose(dirs ...string) {
	f.t.Helper()
	for _, p := range f.peels {
		p.stop()
	}
	for _, dir := range dirs {
		if err := os.RemoveAll(filepath.Join(f.dir, dir)); err != nil {
			f.t.Fatal(err)
		}
	}
}

// restored restores the backup, and checks that it says how old it is and what it lacks.
func (f *lostMaster) restored() {
	f.t.Helper()
	began := time.Now()
	out, err := f.restore()
	if err != nil {
		f.t.Fatalf("restore says %v, %s", err, out)
	}
	for _, want := range []string{"has what the master knew at ", "revo", "zester auth rotate keys"} {
		if !strings.Contains(out, want) {
			f.t.Errorf("restore says nothing of %q: %s", want, out)
		}
	}
	f.t.Logf("restored in %v\n%s", time.Since(began).Round(time.Millisecond), out)
}

// servers are three servers of a bus.
type servers struct {
	f         *lostMaster
	cert, key string
	url       string
	addresses []string
	running   []*daemon
}

func (f *lostMaster) newServers(cert, key string) *servers {
	f.t.Helper()
	s := &servers{f: f, cert: cert, key: key}
	for range 3 {
		s.addresses = append(s.addresses, "127.0.0.1:"+freePort(f.t))
	}
	s.url = "tls://" + strings.Join(s.addresses, ",tls://")
	return s
}

// start starts the servers with the configuration that zester prints from the keys of the fleet.
func (s *servers) start() {
	s.f.t.Helper()
	var routes []string
	for range 3 {
		routes = append(routes, "127.0.0.1:"+freePort(s.f.t))
	}
	for i, address := range s.addresses {
		name := fmt.Sprintf("s%d", i+1)
		s.f.write(name+".conf", s.f.z.must("auth", "export", "--nats-conf", "--listen", address, "--store", s.f.dir+"/"+name,
			"--tls-cert", s.cert, "--tls-key", s.key, "--cluster", routes[i], "--server", name, "--routes", strings.Join(routes, ","),
			"--cluster-ca", s.cert))
		s.running = append(s.running, startDaemon(s.f.t, s.f.bin+"nats-server", "-c", s.f.dir+"/"+name+".conf"))
	}
	for _, server := range s.running {
		server.await(`Server is ready`)
	}
}
