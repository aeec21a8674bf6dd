//go:build slow

package cmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAFleetMovesToServersOfItsOwn restores the backup of an embedded bus on an empty server, as the page of the guide
// says for somebody without nats.conf, and the backup of that server on an embedded bus again.
func TestAFleetMovesToServersOfItsOwn(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs four commands")
	}
	f := newLostMaster(t)
	address, cert, key := "127.0.0.1:"+freePort(t), f.dir+"/bus.crt", f.dir+"/bus.key"
	certify(t, cert, key)
	embedded := "id: m1\ndata_dir: $DATA\nlisten: " + address + "\nrepo: " + f.repo() + "\n"
	external := "id: m1\ndata_dir: $DATA\nnats: tls://" + address + "\nca: " + cert + "\ncreds: " + f.dir + "/m1.creds\nrepo: " + f.dir + "/fleet\n"

	f.config = embedded
	m := f.start(f.dir + "/first")
	f.z.env = []string{"ZESTER_DATA_DIR=" + f.dir + "/first"}
	f.join("tls://"+address, "")
	f.backUpUnderLoad(m)
	f.lose("first")

	f.config = external
	f.configure(f.dir + "/second")
	if out, err := f.restore(); err == nil || !strings.Contains(out, "cannot reach the bus at tls://"+address) {
		t.Fatalf("without a bus restore says %v, %s", err, out)
	}
	f.z.env = []string{"ZESTER_DATA_DIR=" + f.dir + "/second"}
	f.write("nats.conf", f.z.must("auth", "export", "--nats-conf", "--listen", address, "--store", f.dir+"/nats", "--tls-cert", cert, "--tls-key", key))
	f.write("m1.creds", f.z.must("auth", "issue", "master", "m1"))
	server := f.server()
	f.restored()
	m = f.start(f.dir + "/second")
	f.write("ada.creds", f.z.must("auth", "issue", "operator", "ada"))
	f.z.env = append(f.z.env, "ZESTER_URL=tls://"+address, "ZESTER_CA="+cert, "ZESTER_CREDS="+f.dir+"/ada.creds")
	f.startPeels("tls://"+address, cert)
	f.checkBack()

	// And back: a bus of one copy that a master has in its process.
	f.backUpUnderLoad(m)
	server.stop()
	f.lose("second", "nats")
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
