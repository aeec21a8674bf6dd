package cmd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	filippo "filippo.io/age"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
)

// A lostMaster is a fleet whose master is lost, and restored elsewhere by what the guide prints.
type lostMaster struct {
	t        *testing.T
	bin, dir string
	z        cli
	typed    *strings.Replacer // replaces names of the guide by names of the test
	config   string            // master.yaml, which names the data directory $DATA
	peels    []*daemon
	jobs     int
}

// TestALostMasterIsRestoredElsewhere loses the data directory of a master while jobs run, and types the page of the guide.
func TestALostMasterIsRestoredElsewhere(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs four commands")
	}
	f := newLostMaster(t)
	address := "127.0.0.1:" + freePort(t)
	f.config = "id: m1\ndata_dir: $DATA\nlisten: " + address + "\nrepo: " + f.repo() + "\n"
	m := f.start(f.dir + "/first")
	f.z.env = []string{"ZESTER_DATA_DIR=" + f.dir + "/first"}
	f.join("tls://"+address, "")
	f.backUpUnderLoad(m)
	if err := os.RemoveAll(f.dir + "/first"); err != nil {
		t.Fatal(err)
	}

	f.z.env = []string{"ZESTER_DATA_DIR=" + f.dir + "/second"}
	f.configure(f.dir + "/second")
	out := f.typeSection("Restore", `(?s)zester-master restore.*?\n`)
	if !strings.Contains(out, "has what the master knew at ") || !strings.Contains(out, "zester auth rotate keys") {
		t.Errorf("restore says %s", out)
	}
	f.start(f.dir + "/second")
	f.checkBack()
}

// TestALostBusIsRestored loses the store of an external server, and the data directory of the master that has the keys.
func TestALostBusIsRestored(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs four commands")
	}
	f := newLostMaster(t)
	address, cert, key := "127.0.0.1:"+freePort(t), f.dir+"/bus.crt", f.dir+"/bus.key"
	certify(t, cert, key)
	f.z.env = []string{"ZESTER_DATA_DIR=" + f.dir + "/first"}
	f.write("nats.conf", f.z.must("auth", "export", "--nats-conf", "--listen", address, "--store", f.dir+"/nats", "--tls-cert", cert, "--tls-key", key))
	f.write("m1.creds", f.z.must("auth", "issue", "master", "m1"))
	server := f.server()
	f.config = "data_dir: $DATA\nnats: tls://" + address + "\nca: " + cert + "\ncreds: " + f.dir + "/m1.creds\nrepo: " + f.repo() + "\n"
	m := f.start(f.dir + "/first")
	f.write("ada.creds", f.z.must("auth", "issue", "operator", "ada"))
	f.z.env = append(f.z.env, "ZESTER_URL=tls://"+address, "ZESTER_CA="+cert, "ZESTER_CREDS="+f.dir+"/ada.creds")
	f.join("tls://"+address, cert)
	if out := f.backUpUnderLoad(m); !strings.Contains(out, "It does not contain ") || !strings.Contains(out, cert+": keep copies") {
		t.Errorf("backup says %s", out)
	}
	server.stop()
	for _, lost := range []string{"/first", "/nats"} {
		if err := os.RemoveAll(f.dir + lost); err != nil {
			t.Fatal(err)
		}
	}

	f.z.env[0] = "ZESTER_DATA_DIR=" + f.dir + "/second"
	f.configure(f.dir + "/second")
	if out, err := f.restore(); err == nil || !strings.Contains(out, "cannot reach the bus at tls://"+address) {
		t.Fatalf("without a bus restore says %v, %s", err, out)
	}
	f.server()
	if out, err := f.restore(); err != nil {
		t.Fatalf("restore says %v, %s", err, out)
	}
	if out, err := f.restore(); err == nil || !strings.Contains(out, "it is not empty: it has keys; ") {
		t.Errorf("a second restore says %v, %s", err, out)
	}
	f.start(f.dir + "/second")
	f.checkBack()
}

func (f *lostMaster) restore() (string, error) {
	f.t.Helper()
	out, err := exec.CommandContext(f.t.Context(), f.bin+"zester-master", "restore", f.dir+"/backup/zester.age",
		"--identity", f.dir+"/backup.key", "--config", f.dir+"/master.yaml").CombinedOutput()
	return string(out), err
}

func newLostMaster(t *testing.T) *lostMaster {
	t.Helper()
	identity, err := filippo.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	f := &lostMaster{t: t, bin: programs(t), dir: t.TempDir()}
	f.z = cli{t: t, program: f.bin + "zester"}
	f.write("backup.key", identity.String()+"\n")
	if err := os.Mkdir(f.dir+"/backup", 0o700); err != nil {
		t.Fatal(err)
	}
	f.typed = strings.NewReplacer(
		"age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p", identity.Recipient().String(),
		"/backup/", f.dir+"/backup/", "backup.key", f.dir+"/backup.key", "/etc/zester/master.yaml", f.dir+"/master.yaml",
	)
	return f
}

func (f *lostMaster) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// repo makes a config repo whose entry appends a line to a file of its peel at each run.
func (f *lostMaster) repo() string {
	f.t.Helper()
	files := fstest.MapFS{
		"top.yaml": {Data: []byte("base:\n  '*': [all]\n")},
		"settings/all.yaml": {Data: []byte("schedule:\n  tick:\n    module: cmd.run\n    args: {command: 'echo tick >> " +
			f.dir + "/ticks'}\n    interval: 1s\n")},
	}
	if _, err := worktree.Init(f.dir+"/fleet", files, "the fleet", worktree.Author{Name: "Ada", Email: "ada@example.com"}); err != nil {
		f.t.Fatal(err)
	}
	return f.dir + "/fleet"
}

func (f *lostMaster) server() *daemon {
	f.t.Helper()
	d := startDaemon(f.t, f.bin+"nats-server", "-c", f.dir+"/nats.conf")
	d.await(`Server is ready`)
	return d
}

func (f *lostMaster) configure(dataDir string) {
	f.t.Helper()
	f.write("master.yaml", strings.ReplaceAll(f.config, "$DATA", dataDir))
}

func (f *lostMaster) start(dataDir string) *daemon {
	f.t.Helper()
	f.configure(dataDir)
	m := startDaemon(f.t, f.bin+"zester-master", "--config", f.dir+"/master.yaml")
	m.await(`master is ready`)
	return m
}

// join starts two peels.
func (f *lostMaster) join(url, ca string) {
	f.t.Helper()
	for _, id := range []string{"web-01", "web-02"} {
		f.write(id+".creds", f.z.must("auth", "issue", "peel", id))
	}
	f.startPeels(url, ca)
	for _, d := range f.peels {
		d.await(`settings applied`)
	}
}

// startPeels starts the two peels with the data and the credentials that they have.
func (f *lostMaster) startPeels(url, ca string) {
	f.t.Helper()
	f.peels = nil
	for _, id := range []string{"web-01", "web-02"} {
		d := startDaemon(f.t, f.bin+"zester-peel", "--id", id, "--data-dir", f.dir+"/"+id, "--url", url, "--ca", ca, "--creds", f.dir+"/"+id+".creds")
		f.peels = append(f.peels, d)
	}
}

// typeSection types the commands of a section of the page that match, and returns what they print.
func (f *lostMaster) typeSection(section, match string) string {
	f.t.Helper()
	script := strings.Join(regexp.MustCompile(match).FindAllString(typedBlocks(f.t, "zester/guide/backup.md", section), -1), "")
	if script == "" {
		f.t.Fatalf("the section %q has nothing like %s", section, match)
	}
	bash := exec.CommandContext(f.t.Context(), "bash", "-e", "-c", f.typed.Replace(script))
	bash.Env = append(append(os.Environ(), f.z.env...), "PATH="+f.bin+":"+os.Getenv("PATH"))
	out, err := bash.CombinedOutput()
	if err != nil {
		f.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// job starts a job that appends a line of its own to a file on each peel after a delay, and waits until it has begun there.
func (f *lostMaster) job(delay string) {
	f.t.Helper()
	f.jobs++
	done := f.dir + "/done"
	f.z.must("*", "cmd.run", fmt.Sprintf("echo begun-%d >> %s; sleep %s; echo job-%d >> %s", f.jobs, done, delay, f.jobs, done), "--async")
	f.await("begun", f.jobs)
}

// await waits until both peels have written a word of a job.
func (f *lostMaster) await(word string, job int) {
	f.t.Helper()
	f.z.until(fmt.Sprintf(`(%s-%d\n[\s\S]*){2}`, word, job), "web-01", "cmd.run", "cat "+f.dir+"/done")
}

// backUpUnderLoad makes a backup while jobs and entries run, and kills the master while a job runs.
func (f *lostMaster) backUpUnderLoad(m *daemon) string {
	f.t.Helper()
	for range 5 {
		f.job("0")
	}
	f.job("3") // ends after the backup
	out := f.typeSection("Back up", `(?s).*`)
	if !strings.Contains(out, "is complete: it was made by zester ") {
		f.t.Errorf("the page prints %s", out)
	}
	f.job("0")
	f.job("5") // ends while there is no master
	if err := m.cmd.Process.Kill(); err != nil {
		f.t.Fatal(err)
	}
	<-m.ended
	return out
}

// checkBack checks that the fleet is back without a hand, and that each job ran once on each peel.
func (f *lostMaster) checkBack() {
	f.t.Helper()
	for _, d := range f.peels {
		d.await(`bus is (back|reached)`)
	}
	f.z.until(`web-01 +yes[\s\S]*web-02 +yes`, "peel", "list")
	out := f.typeSection("Restore", `zester '\*'.*\n|zester peel.*\n`)
	if strings.Count(out, "web-0") < 4 {
		f.t.Errorf("the page prints %s", out)
	}
	f.z.until(`in force`, "sync", "status")
	f.job("0")
	for n := range f.jobs {
		f.await("job", n+1)
	}
	text, err := os.ReadFile(f.dir + "/done")
	if err != nil {
		f.t.Fatal(err)
	}
	for n := 1; n <= f.jobs; n++ {
		if times := strings.Count(string(text), fmt.Sprintf("job-%d\n", n)); times != 2 {
			f.t.Errorf("job %d of %d ran %d times on two peels", n, f.jobs, times)
		}
	}
}
