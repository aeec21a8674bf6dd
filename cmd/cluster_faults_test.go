//go:build cluster

package cmd_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A fault is injected, lasts, and is healed by what inject returns.
type fault struct {
	name   string
	lasts  time.Duration
	hides  time.Duration // for which peels may be out of reach of the masters
	inject func() (heal func())
}

// kinds are the faults, which take turns. Each chooses its process when it is called: at random, or the one that leads.
func (c *cluster) kinds(random *rand.Rand) []func() fault {
	server := func() *node { return c.servers[random.IntN(len(c.servers))] }
	process := func() *node {
		nodes := slices.Concat(c.servers, c.masters)
		return nodes[random.IntN(len(nodes))]
	}
	return []func() fault{
		func() fault { return c.freeze(process(), "") },
		func() fault { return c.crash(process(), "") },
		func() fault { return c.cutLink(process()) },
		func() fault { return c.fillDisk(server()) },
		func() fault { return c.crash(c.leaderOf(""), ", which leads the servers") },
		func() fault { return c.freeze(c.leaderOf(activeJobs), ", which leads the jobs") },
		func() fault { return c.cutRoutes(c.leaderOf(activeJobs)) },
		c.restartServers,
		c.intruder,
	}
}

const activeJobs = "KV_" + wire.BucketActive

func (c *cluster) freeze(on *node, why string) fault {
	return fault{"freeze " + on.name + why, faultTime, 0, func() func() {
		c.signal(on, syscall.SIGSTOP)
		return func() { c.signal(on, syscall.SIGCONT) }
	}}
}

func (c *cluster) crash(on *node, why string) fault {
	return fault{"kill " + on.name + why, 5 * time.Second, 0, func() func() {
		c.kill(on)
		return func() { c.startReady(on) }
	}}
}

func (c *cluster) startReady(n *node) {
	c.start(n)
	n.d.await(n.ready)
}

func (c *cluster) cutLink(on *node) fault {
	return fault{"cut the link of " + on.name, faultTime, 0, func() func() {
		c.link(on, "down")
		return func() { c.link(on, "up") }
	}}
}

// cutRoutes cuts a server off from the two others. Its clients stay connected: it answers them, without a quorum.
func (c *cluster) cutRoutes(on *node) fault {
	routes := func(verb string) {
		for _, s := range c.servers {
			if s != on {
				c.command("-n", c.prefix+on.name, "route", verb, "blackhole", "10.77.0."+s.name[1:]+"/32")
			}
		}
	}
	return fault{"cut the routes of " + on.name, faultTime, faultTime, func() func() {
		routes("add")
		return func() { routes("del") }
	}}
}

// restartServers stops one server after the other as an upgrade does, each when the one before has caught up.
func (c *cluster) restartServers() fault {
	return fault{"restart the servers in turn", 0, 0, func() func() {
		for _, s := range c.servers {
			c.signal(s, syscall.SIGTERM)
			<-s.d.ended
			_ = s.d.cmd.Wait()
			<-time.After(time.Second)
			c.startReady(s)
			c.awaitServers()
		}
		return func() {}
	}}
}

// intruder starts a master with another number of copies than the bus has. It must end by itself.
func (c *cluster) intruder() fault {
	return fault{"start a master with --replicas 1", 0, 0, func() func() {
		m := *c.masters[1]
		c.kill(c.masters[1]) // whose name it takes
		m.args = slices.Clone(m.args)
		m.args[slices.Index(m.args, "--replicas")+1] = "1"
		c.start(&m)
		select {
		case <-m.d.ended:
			if err := m.d.cmd.Wait(); err == nil {
				c.t.Error("a master with another number of copies ends without an error")
			}
		case <-time.After(faultTime):
			c.t.Error("a master with another number of copies goes on")
			c.kill(&m)
		}
		return func() { c.startReady(c.masters[1]) }
	}}
}

// fillDisk leaves a server eight blocks of disk. One that could not write goes on without its streams until it is started
// again.
func (c *cluster) fillDisk(on *node) fault {
	dir := filepath.Join(c.dir, on.name)
	resize := func(size string) {
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT, "size="+size); err != nil {
			c.t.Fatal(err)
		}
	}
	return fault{"fill the disk of " + on.name, faultTime, 0, func() func() {
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			c.t.Fatal(err)
		}
		resize(fmt.Sprint((int64(fs.Blocks-fs.Bfree) + 8) * fs.Bsize))
		return func() {
			resize("16g")
			c.kill(on)
			c.startReady(on)
		}
	}}
}

// isHealthy reports whether a server, and all of its streams, are as the rest of the bus has them.
func (c *cluster) isHealthy(n *node) bool {
	status, _ := c.ask(n, "/healthz")
	return status == http.StatusOK
}

// ask requests a page of a server in its namespace. The status is 0 if it does not answer.
func (c *cluster) ask(n *node, page string) (status int, body []byte) {
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		runtime.LockOSThread() // and the thread, which is in another namespace from here on, ends with the goroutine
		status, body = askIn("/run/netns/"+c.prefix+n.name, "10.77.0."+n.name[1:]+":8222", page)
	}()
	<-answered
	return status, body
}

func askIn(namespace, address, page string) (status int, body []byte) {
	ns, err := os.Open(namespace)
	if err != nil {
		return 0, nil
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return 0, nil
	}
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return 0, nil
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = io.WriteString(conn, "GET "+page+" HTTP/1.0\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, nil
	}
	defer answer.Body.Close()
	body, _ = io.ReadAll(answer.Body)
	return answer.StatusCode, body
}

// A busState is what a server says of the servers and streams.
type busState struct {
	Meta struct {
		Leader string `json:"leader"`
	} `json:"meta_cluster"`
	Accounts []struct {
		Streams []struct {
			Name    string `json:"name"`
			Cluster struct {
				Leader string `json:"leader"`
			} `json:"cluster"`
			Config struct {
				Replicas int `json:"num_replicas"`
			} `json:"config"`
		} `json:"stream_detail"`
	} `json:"account_details"`
}

func (c *cluster) busState() (state busState) {
	c.t.Helper()
	_, body := c.ask(c.servers[0], "/jsz?accounts=true&streams=true&config=true")
	if err := json.Unmarshal(body, &state); err != nil {
		c.t.Fatalf("%v: %s", err, body)
	}
	return state
}

// leaderOf returns the server that leads a stream, or all servers if the name is empty.
func (c *cluster) leaderOf(stream string) *node {
	c.t.Helper()
	state := c.busState()
	leader := state.Meta.Leader
	if stream != "" {
		leader = ""
	}
	for _, a := range state.Accounts {
		for _, s := range a.Streams {
			if s.Name == stream {
				leader = s.Cluster.Leader
			}
		}
	}
	i := slices.IndexFunc(c.servers, func(n *node) bool { return n.name == leader })
	if i < 0 {
		c.t.Fatalf("%q leads %q", leader, stream)
	}
	return c.servers[i]
}

// checkCopies fails if a stream has fewer copies than there are servers.
func (c *cluster) checkCopies(after string) {
	c.t.Helper()
	streams := 0
	for _, a := range c.busState().Accounts {
		for _, s := range a.Streams {
			if streams++; s.Config.Replicas != len(c.servers) {
				c.t.Errorf("after %s the stream %s has %d copies", after, s.Name, s.Config.Replicas)
			}
		}
	}
	if streams == 0 {
		c.t.Errorf("after %s there are no streams", after)
	}
}

// checkLeader fails if requests that only the leading master answers get lost. A client repeats a lost one after 3 s.
func (c *cluster) checkLeader(after string) {
	c.t.Helper()
	for began := time.Now(); ; { // the next leader waits until the lease of the last one has ended
		if _, err := c.z.run(c.inHub([]string{"sync", "status"})...); err == nil {
			break
		} else if time.Since(began) > time.Minute {
			c.t.Errorf("after %s no master leads: %v", after, err)
			return
		}
	}
	var slow []time.Duration
	for range 6 {
		began := time.Now()
		_, err := c.z.run(c.inHub([]string{"sync", "status"})...)
		if took := time.Since(began); err != nil || took > 3*time.Second {
			slow = append(slow, took)
		}
	}
	if len(slow) > 1 {
		c.t.Errorf("after %s, of six requests to the leading master these get lost: %v", after, slow)
	}
}

// checkAudit fails if the audit log says twice that a job was dispatched. Each request for it that failed has an entry, too.
func (c *cluster) checkAudit() {
	c.t.Helper()
	out := c.must("audit", "list", "--action", "job.dispatch", "--limit", "5000", "-o", "json")
	var entries []audit.Entry
	if err := json.Unmarshal([]byte(out), &entries); err != nil {
		c.t.Fatalf("%v: %.300s", err, out)
	}
	sent, done := map[wire.JID]int{}, map[wire.JID]int{}
	most := 0
	for _, e := range entries {
		sent[e.JID]++
		most = max(most, sent[e.JID])
		if e.Result != audit.Done {
			continue
		}
		if done[e.JID]++; done[e.JID] == 2 {
			c.t.Errorf("the audit log says twice that job %s was dispatched", e.JID)
		}
	}
	if len(done) == 0 {
		c.t.Error("the audit log has no dispatch")
	}
	c.t.Logf("%d entries of dispatches in the audit log, of %d jobs, at most %d of one", len(entries), len(sent), most)
}
