//go:build cluster

package cmd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	jobpkg "github.com/seed-c01c3da5/zester/master/job"
)

var (
	clusterFaults = flag.Int("cluster.faults", 4, "inject N faults; each takes about half a minute")
	clusterSeed   = flag.Uint64("cluster.seed", 0, "choose the faults by this number; 0: by the time")
)

const (
	faultTime    = 15 * time.Second // how long a process is frozen, or a link down
	maxWithout   = 15 * time.Second // the longest time without a successful command, if a quorum is left
	settleTime   = time.Minute      // until all is recorded
	cancelEvery  = 4 * time.Second  // how often a job is canceled
	clusterPeels = 4
)

// TestClusterUnderFaults has a bus of three servers, two masters and some peels, each in a network namespace of its own.
// Random faults come one after another, each healed before the next, while commands are dispatched and a schedule runs.
func TestClusterUnderFaults(t *testing.T) {
	c := newCluster(t)
	seed := *clusterSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-cluster.seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	first := random.IntN(len(c.kinds(random))) // a short run has other kinds than the one before
	l := c.startLoad()
	var table strings.Builder
	for n := range *clusterFaults {
		c.awaitHealth()
		f := c.kinds(random)[(first+n)%len(c.kinds(random))]()
		from := time.Now()
		t.Logf("%s: %s", from.Format(time.TimeOnly), f.name)
		heal := f.inject()
		<-time.After(f.lasts)
		heal()
		c.awaitHealth()
		answered, complete, canceled := l.gaps(from)
		fmt.Fprintf(&table, "%-34s %7.1f %9.1f %6.1f\n", f.name,
			answered.Seconds(), complete.Seconds(), canceled.Seconds())
		if answered > maxWithout || complete > maxWithout+f.hides || canceled > maxWithout+cancelEvery {
			t.Errorf("%s: no command is answered for %v, by all peels for %v, and no job is canceled for %v", f.name,
				answered, complete, canceled)
		}
		c.checkCopies(f.name)
		c.checkLeader(f.name)
	}
	l.stop()
	t.Log("commands without success:\n" + strings.Join(l.troubles, "\n"))
	t.Logf("seconds without success\n%-34s  answer all peels cancel\n%s", "fault", table.String())
	c.checkJobs(l)
	c.checkAudit()
	c.checkTicks()
}

// A node is a process in a network namespace of its own.
type node struct {
	name    string
	program string
	args    []string
	ready   string // what it logs when it is ready
	d       *daemon
}

// A cluster is all processes, and a namespace with the bridge to which the links of the others lead.
type cluster struct {
	t                *testing.T
	bin, dir, prefix string
	ip               string // the program
	z                cli
	servers, masters []*node
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), prefix: fmt.Sprintf("zester-%d-", os.Getpid()), ip: "/usr/sbin/ip"}
	if path, err := exec.LookPath("ip"); err == nil {
		c.ip = path
	}
	if out, err := exec.Command(c.ip, "netns", "add", c.prefix+"hub").CombinedOutput(); err != nil {
		t.Skipf("needs root and iproute2: %v %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command(c.ip, "netns", "del", c.prefix+"hub").Run() })
	c.command("-n", c.prefix+"hub", "link", "add", "bridge", "type", "bridge")
	c.command("-n", c.prefix+"hub", "link", "set", "bridge", "up")
	c.command("-n", c.prefix+"hub", "addr", "add", "10.77.0.254/24", "dev", "bridge")
	c.bin = programs(t)
	addresses := []net.IP{net.IPv4(10, 77, 0, 1), net.IPv4(10, 77, 0, 2), net.IPv4(10, 77, 0, 3)}
	certify(t, c.dir+"/bus.crt", c.dir+"/bus.key", addresses...)
	urls, routes := "", ""
	for _, a := range addresses {
		urls += ",tls://" + a.String() + ":4222"
		routes += "," + a.String() + ":6222"
	}
	urls, routes = urls[1:], routes[1:]
	c.z = cli{t, c.ip, []string{"ZESTER_DATA_DIR=" + c.dir + "/m1", "ZESTER_URL=" + urls, "ZESTER_CA=" + c.dir + "/bus.crt"}}
	for n, a := range addresses {
		name := fmt.Sprintf("s%d", n+1)
		store := c.mount(name)
		conf := c.must("--tls-cert", c.dir+"/bus.crt", "--tls-key", c.dir+"/bus.key", "auth", "export", "--nats-conf", "--listen", a.String()+":4222", "--store", store,
			"--cluster", a.String()+":6222", "--server", name, "--routes", routes, "--cluster-ca", c.dir+"/bus.crt")
		conf += fmt.Sprintf("\nhttp: \"%s:8222\"\n", a)
		c.write(name+".conf", conf)
		c.servers = append(c.servers, c.node(name, n+1, `Server is ready`, "nats-server", "-c", c.dir+"/"+name+".conf"))
	}
	c.repo()
	for n := range 2 {
		name := fmt.Sprintf("m%d", n+1)
		c.masters = append(c.masters, c.node(name, 11+n, `master is ready`, "zester-master", "--data-dir", c.dir+"/"+name, "--nats", urls,
			"--ca", c.dir+"/bus.crt", "--creds", c.creds("master", name), "--replicas", "3", "--repo", c.dir+"/fleet"))
	}
	var peels []*node
	for n := range clusterPeels {
		name := fmt.Sprintf("p%d", n+1)
		peels = append(peels, c.node(name, 21+n, `settings applied`, "zester-peel", "--id", name, "--data-dir", c.dir+"/"+name, "--url", urls,
			"--ca", c.dir+"/bus.crt", "--creds", c.creds("peel", name)))
	}
	c.z.env = append(c.z.env, "ZESTER_CREDS="+c.creds("operator", "ada"))
	for _, group := range [][]*node{c.servers, c.masters, peels} {
		for _, n := range group {
			c.start(n)
		}
		for _, n := range group {
			n.d.await(n.ready)
		}
		c.awaitServers()
	}
	return c
}

// repo makes the config repo: each peel appends a line to a file of its own every 2 s.
func (c *cluster) repo() {
	c.t.Helper()
	c.write("top.yaml", "base:\n  'p*': [tick]\n")
	c.write("tick.yaml", "schedule:\n  tick: {module: cmd.run, args: {command: '"+c.mark("ticks", "tick")+"'}, interval: 2s, return_job: true}\n")
	git := exec.Command("bash", "-e", "-c", `mkdir -p fleet/settings; mv top.yaml fleet; mv tick.yaml fleet/settings; cd fleet
git init -qb main; git add .; git -c user.name=Ada -c user.email=ada@example.com commit -qm "the fleet as it is"`)
	git.Dir = c.dir
	if out, err := git.CombinedOutput(); err != nil {
		c.t.Fatalf("%v\n%s", err, out)
	}
}

// mark is a shell command that appends the peel's address and a word to a file of the cluster.
func (c *cluster) mark(file, word string) string {
	return "echo $(hostname -I) " + word + " >> " + filepath.Join(c.dir, file)
}

// marks are the lines that mark has written, by how often.
func (c *cluster) marks(file string) map[string]int {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.dir, file))
	if err != nil {
		c.t.Fatal(err)
	}
	n := map[string]int{}
	for line := range strings.Lines(string(data)) {
		n[strings.TrimSpace(line)]++
	}
	return n
}

func (c *cluster) command(args ...string) {
	c.t.Helper()
	if out, err := exec.Command(c.ip, args...).CombinedOutput(); err != nil {
		c.t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (c *cluster) write(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) creds(role, name string) string {
	c.t.Helper()
	file := filepath.Join(c.dir, role+"-"+name+".creds")
	c.must("auth", "issue", role, name, "--out", file)
	return file
}

// inHub are the words that run zester where the bridge is.
func (c *cluster) inHub(args []string) []string {
	return append([]string{"netns", "exec", c.prefix + "hub", c.bin + "zester"}, args...)
}

func (c *cluster) must(args ...string) string {
	c.t.Helper()
	return c.z.must(c.inHub(args)...)
}

// mount makes a file system for the streams of a server.
func (c *cluster) mount(server string) (dir string) {
	c.t.Helper()
	dir = filepath.Join(c.dir, server)
	if err := os.Mkdir(dir, 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16g"); err != nil {
		c.t.Skipf("cannot mount: %v", err)
	}
	c.t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// node makes the namespace of a process, with the last byte of its address.
func (c *cluster) node(name string, address int, ready, program string, args ...string) *node {
	c.t.Helper()
	ns, hub := c.prefix+name, c.prefix+"hub"
	c.command("netns", "add", ns)
	c.t.Cleanup(func() { _ = exec.Command(c.ip, "netns", "del", ns).Run() })
	c.command("link", "add", name, "netns", hub, "type", "veth", "peer", "name", "eth0", "netns", ns)
	c.command("-n", hub, "link", "set", name, "master", "bridge", "up")
	c.command("-n", ns, "addr", "add", fmt.Sprintf("10.77.0.%d/24", address), "dev", "eth0")
	c.command("-n", ns, "link", "set", "eth0", "up")
	c.command("-n", ns, "link", "set", "lo", "up")
	return &node{name: name, program: program, args: args, ready: ready}
}

func (c *cluster) start(n *node) {
	c.t.Helper()
	n.d = startDaemon(c.t, c.ip, append([]string{"netns", "exec", c.prefix + n.name, c.bin + n.program}, n.args...)...)
}

func (c *cluster) signal(n *node, s syscall.Signal) {
	c.t.Helper()
	if err := n.d.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) kill(n *node) {
	c.t.Helper()
	c.signal(n, syscall.SIGKILL)
	<-n.d.ended
	_ = n.d.cmd.Wait()
}

func (c *cluster) link(n *node, state string) {
	c.t.Helper()
	c.command("-n", c.prefix+"hub", "link", "set", n.name, state)
}

func (c *cluster) awaitServers() {
	c.t.Helper()
	for _, s := range c.servers {
		for began := time.Now(); !c.isHealthy(s); <-time.After(300 * time.Millisecond) {
			if time.Since(began) > time.Minute {
				c.t.Fatalf("%s is not healthy a minute after the fault", s.name)
			}
		}
	}
}

// awaitHealth returns when each server has all of its streams, and a command succeeds.
func (c *cluster) awaitHealth() {
	c.t.Helper()
	c.awaitServers()
	for began := time.Now(); ; {
		out, err := c.z.run(c.inHub([]string{"p*", "test.ping", "--timeout", "5s", "-o", "name"})...)
		if err == nil && len(strings.Fields(out)) == clusterPeels {
			return
		}
		if time.Since(began) > time.Minute {
			c.t.Fatalf("no command succeeds a minute after the fault: %v %s", err, out)
		}
	}
}

// A load dispatches commands until it is stopped.
type load struct {
	quit    chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	answered []time.Time         // each command that masters carried out
	complete []time.Time         // each of them that all peels answered
	canceled []time.Time         // each job that was canceled
	answers  map[string][]string // by JID: the peels in the answer
	troubles []string            // what commands say that do not succeed
}

func (c *cluster) startLoad() *load {
	l := &load{quit: make(chan struct{}), answers: map[string][]string{}}
	l.running.Go(func() { // one after another
		for i := 0; !l.ended(); i++ {
			c.send(l, "cmd.run", "command="+c.mark("runs", fmt.Sprint("run-", i)))
		}
	})
	l.running.Go(func() { // one a second, whatever became of those before
		for ; !l.ended(); <-time.After(time.Second) {
			l.running.Go(func() { c.send(l, "test.ping") })
		}
	})
	l.running.Go(func() {
		for ; !l.ended(); <-time.After(cancelEvery) {
			l.running.Go(func() { c.cancel(l) })
		}
	})
	return l
}

// send runs a command on all peels.
func (c *cluster) send(l *load, function string, args ...string) {
	began := time.Now()
	out, err := c.z.run(c.inHub(append([]string{"p*", function, "--timeout", "2s", "-o", "json"}, args...))...)
	l.add(out)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		l.trouble("%s: %s took %v: %v %s", began.Format(time.TimeOnly), function, time.Since(began), err, bytes.TrimSpace(exit.Stderr))
	}
}

// cancel runs a command that takes 15 s, and cancels it.
func (c *cluster) cancel(l *load) {
	jid, err := c.z.run(c.inHub([]string{"p*", "cmd.run", "command=sleep 15", "--async"})...)
	if err != nil {
		return // send tells of it
	}
	began := time.Now()
	if _, err := c.z.run(c.inHub([]string{"job", "cancel", strings.TrimSpace(jid)})...); err != nil {
		l.trouble("%s: job cancel took %v: %v", began.Format(time.TimeOnly), time.Since(began), err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.canceled = append(l.canceled, time.Now())
}

func (l *load) trouble(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.troubles = append(l.troubles, fmt.Sprintf(format, args...))
}

func (l *load) ended() bool {
	select {
	case <-l.quit:
		return true
	default:
		return false
	}
}

func (l *load) stop() {
	close(l.quit)
	l.running.Wait()
}

// rows are the peels that an answer, or a record, has a return of that was not late.
var rows = regexp.MustCompile(`"peel": "(p[0-9])",\s+"status": "ok",\s+"(data|duration_ns)"`)

func peelsOf(out string) (peels []string) {
	for _, m := range rows.FindAllStringSubmatch(out, -1) {
		peels = append(peels, m[1])
	}
	slices.Sort(peels)
	return slices.Compact(peels)
}

// add counts an answer, which is a success if the job has ended, and notes what it says.
func (l *load) add(out string) {
	var answer struct {
		JID    string `json:"jid"`
		Status string `json:"status"`
	}
	if json.Unmarshal([]byte(out), &answer) != nil || answer.JID == "" {
		return
	}
	peels := peelsOf(out)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[answer.JID] = peels
	l.answered = append(l.answered, time.Now())
	if len(peels) == clusterPeels {
		l.complete = append(l.complete, time.Now())
	}
}

// gaps are the longest times since a moment without a command that was answered, without one that all peels answered,
// and without a job that was canceled.
func (l *load) gaps(from time.Time) (answered, complete, canceled time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return longest(l.answered, from), longest(l.complete, from), longest(l.canceled, from)
}

func longest(times []time.Time, from time.Time) (gap time.Duration) {
	for _, at := range append(slices.Clone(times), time.Now()) {
		if at.After(from) {
			gap = max(gap, at.Sub(from))
			from = at
		}
	}
	return gap
}

// checkJobs fails if a job has not ended or ran twice on a peel, or if a command was told less than the record has.
func (c *cluster) checkJobs(l *load) {
	c.t.Helper()
	var jobs []jobpkg.Job
	for began := time.Now(); ; <-time.After(time.Second) {
		c.list(&jobs, "--asked")
		live := slices.DeleteFunc(slices.Clone(jobs), func(j jobpkg.Job) bool { return j.Status.Final() })
		if len(live) == 0 {
			break
		}
		if time.Since(began) > settleTime {
			c.t.Errorf("%d jobs do not end, such as %v", len(live), live[0])
			break
		}
	}
	for jid, answered := range l.answers {
		if recorded := peelsOf(c.must("job", "show", jid, "-o", "json")); !slices.Equal(recorded, answered) {
			c.t.Errorf("the command of job %s said that %v returned, and the record says %v", jid, answered, recorded)
		}
	}
	runs := c.marks("runs")
	for mark, n := range runs {
		if n != 1 {
			c.t.Errorf("%s ran %d times", mark, n)
		}
	}
	c.t.Logf("%d jobs, %d answered commands, %d runs of cmd.run", len(jobs), len(l.answers), len(runs))
}

// checkTicks fails if a run of the schedule has no record, or a fire two.
func (c *cluster) checkTicks() {
	c.t.Helper()
	c.must("schedule", "pause", "p*", "tick")
	var records []jobpkg.Job
	for began := time.Now(); ; <-time.After(time.Second) {
		c.list(&records, "--schedule", "tick")
		recorded := map[string]int{}
		for _, r := range records {
			recorded[strings.Replace(r.TargetExpr, "p", "10.77.0.2", 1)+" tick"]++
		}
		if ran := c.marks("ticks"); maps.Equal(ran, recorded) {
			break
		} else if time.Since(began) > settleTime {
			c.t.Errorf("the schedule ran %v, and records are of %v", ran, recorded)
			break
		}
	}
	fires := map[string]bool{}
	for _, r := range records {
		fire := r.TargetExpr + " " + r.Metadata[jobpkg.MetaNominal]
		if fires[fire] {
			c.t.Errorf("two records are of the fire %s", fire)
		}
		fires[fire] = true
	}
	c.t.Logf("%d runs of the schedule are recorded", len(records))
}

func (c *cluster) list(jobs *[]jobpkg.Job, which ...string) {
	c.t.Helper()
	*jobs = nil
	out := c.must(append([]string{"job", "list", "--limit", "1000", "-o", "json"}, which...)...)
	if err := json.Unmarshal([]byte(out), jobs); err != nil {
		c.t.Fatalf("%v: %s", err, out)
	}
}
