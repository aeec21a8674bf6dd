package grants_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/dial"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/push"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/reconciler/propose"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// TestEveryRoleMayDoExactlyItsShare has a whole master, once with a server of its own and once on one that runs elsewhere,
// and tries on it as every role all that the bus says there is: each subject, bucket and stream, each call of the
// streams' API and each that masters serve.
func TestEveryRoleMayDoExactlyItsShare(t *testing.T) {
	grants.LetSitesBeClients(t)
	t.Run("embedded", func(t *testing.T) {
		dir := t.TempDir()
		l := live{keys: open(t, keystore.Dir(dir)), dir: dir}
		l.url = l.startMaster(t, "")
		l.try(t)
	})
	t.Run("elsewhere", func(t *testing.T) {
		if testing.Short() {
			t.Skip("builds and runs nats-server")
		}
		dir := t.TempDir()
		l := live{keys: open(t, keystore.Dir(dir)), dir: dir}
		l.url, _ = startServer(t, l.keys.Trust(), dir)
		l.startMaster(t, l.url)
		l.try(t)
	})
}

// live is a bus in real time, and the keys that it trusts. Its certificate is signed by the authority below dir.
type live struct {
	keys     *keystore.Keys
	dir, url string
}

// startServer runs nats-server itself, built from the module that go.mod names, with the configuration that zester prints.
func startServer(t *testing.T, trust keystore.Trust, dir string) (clients, leafs string) {
	t.Helper()
	program := dir + "/nats-server"
	// What go run has linked stays in the build cache, from which tests of other packages have it as well.
	if out, err := exec.CommandContext(t.Context(), "go", "run", "-exec", "cp", "github.com/nats-io/nats-server/v2", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cert, key, _ := natstest.Certify(t, dir)
	text, err := keystore.NATSConf{Trust: trust, Listen: "127.0.0.1:-1", LeafNodes: "127.0.0.1:-1", Dir: dir + "/nats", Cert: cert, Key: key}.Text()
	if err != nil {
		t.Fatal(err)
	}
	clients, leafs = runServer(t, program, dir+"/nats.conf", text, "Server is ready")
	return "tls://" + clients, "tls://" + leafs
}

// runServer starts nats-server with a configuration, and returns where it listens for clients and leaf nodes once its log
// has the text ready and, before or after it, the address for clients.
func runServer(t *testing.T, program, file, text, ready string) (clients, leafs string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-c", file)
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = cmd.Wait()
	})
	found := make(chan [2]string, 1)
	go func() {
		defer close(ended)
		var at [2]string
		isReady := false
		address := regexp.MustCompile(`Listening for (client|leafnode) connections on (\S+)`)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			switch m := address.FindStringSubmatch(lines.Text()); {
			case m != nil && m[1] == "client":
				at[0] = m[2]
			case m != nil:
				at[1] = m[2]
			}
			isReady = isReady || strings.Contains(lines.Text(), ready)
			if isReady && at[0] != "" && len(found) == 0 {
				found <- at
			}
		}
	}()
	select {
	case at := <-found:
		return at[0], at[1]
	case <-ended:
		t.Fatal("nats-server ended at once")
	case <-time.After(time.Minute):
		t.Fatalf("the log of nats-server has no %q after a minute", ready)
	}
	return "", ""
}

// startMaster runs a whole master with its reconciler until the test ends; without a URL it has a server of its own.
func (l live) startMaster(t *testing.T, url string) string {
	t.Helper()
	work, err := worktree.Init(filepath.Join(l.dir, "work"), fstest.MapFS{"top.yaml": {Data: []byte("base: {}\n")}}, "The fleet", worktree.Author{Name: "Ada", Email: "ada@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := reconciler.New(reconciler.Options{Repo: gitrepo.Options{URL: work.Dir(), Dir: filepath.Join(l.dir, "repo")}, Owner: "first"})
	if err != nil {
		t.Fatal(err)
	}
	writes, err := propose.New(propose.Options{Write: push.Options{Repo: gitrepo.Options{URL: work.Dir(), Dir: filepath.Join(l.dir, "write")}}})
	if err != nil {
		t.Fatal(err)
	}
	o := master.Options{ID: "first", DataDir: l.dir, NATS: url, Services: []master.Service{r.Run, writes.Run}}
	if url != "" {
		o.Connect = l.options(t, grants.RoleMaster, "first")
	}
	ready := make(chan master.Info, 1)
	o.Ready = func(i master.Info) { ready <- i }
	m, err := master.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	select {
	case info := <-ready:
		return info.URL
	case err := <-ended:
		ended <- nil
		t.Fatalf("the master ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the master is not ready after a minute")
	}
	return ""
}

func (l live) options(t *testing.T, role grants.Role, name string) []nats.Option {
	t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	token, inbox := "", role.Inbox(name)
	if role == grants.RoleSite {
		token, err = l.keys.IssueSite("lab", key.Public(), []target.PeelID{target.PeelID(name)}, 0)
		inbox = grants.RolePeel.Inbox(name)
	} else {
		token, err = l.keys.Issue(role, name, key.Public(), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	creds, err := key.Creds(token)
	if err != nil {
		t.Fatal(err)
	}
	return []nats.Option{
		nats.Name(name), nats.UserCredentialBytes(creds), nats.CustomInboxPrefix(inbox), l.roots(),
		nats.ErrorHandler(notViolation(t, name)), nats.SyncQueueLen(256), nats.Timeout(time.Minute),
	}
}

func (l live) roots() nats.Option { return dial.CheckedBy(l.dir + "/tls/ca.crt") }

func (l live) connect(t *testing.T, role grants.Role, name string) *party {
	t.Helper()
	nc, err := nats.Connect(l.url, l.options(t, role, name)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return &party{nc}
}

func (l live) try(t *testing.T) {
	lead := l.connect(t, grants.RoleMaster, actors[grants.RoleMaster])
	s := l.look(t, lead)
	s.say, s.hear = s.publishes(t), s.subscriptions(t)
	s.checkDecided(t)
	s.checkGrants(t)
	for _, role := range []grants.Role{grants.RolePeel, grants.RoleSite, grants.RoleOperator, grants.RoleDirect, grants.RoleLimited, grants.RoleAuditor, grants.RoleObserver} {
		s.try(t, l.connect(t, role, actors[role]), role)
	}
	s.try(t, lead, grants.RoleMaster)
	if after := streams(t, lead); len(after) != len(s.streams) {
		t.Errorf("there are %d streams; there were %d", len(after), len(s.streams))
	}
}

// try holds what the server does against what is decided, for one role.
func (s *system) try(t *testing.T, p *party, role grants.Role) {
	// What is allowed reaches a master, from whatever account, and its answer comes back.
	for _, call := range s.calls {
		if role != grants.RoleMaster && !slices.Contains(calls[call], role) {
			continue
		}
		if _, err := p.Request(call+"."+actors[role], []byte("probe"), time.Minute); err != nil {
			t.Errorf("%s asks %s: %v", role, call, err)
		}
	}
	for subject, may := range s.say {
		if got, want := p.allowsPublish(t, subject), slices.Contains(may, role); got != want {
			t.Errorf("%s publishes to %s: allowed %v, want %v", role, subject, got, want)
		}
	}
	for subject, may := range s.hear {
		for _, queue := range []string{"", wire.MastersQueue} {
			if got, want := p.allowsSubscribe(t, subject, queue), slices.Contains(may, role); got != want {
				t.Errorf("%s subscribes to %s (queue %q): allowed %v, want %v", role, subject, queue, got, want)
			}
		}
	}
}

// look asks the bus what there is on it, once the reconciler serves all that it does. Masters serve their part from the
// moment at which they are ready.
func (l live) look(t *testing.T, lead *party) *system {
	t.Helper()
	for limit := time.After(time.Minute); ; {
		s := &system{}
		l.listening(t, s)
		missing := slices.DeleteFunc(slices.Collect(maps.Keys(calls)), func(call string) bool { return slices.Contains(s.calls, call) })
		if len(missing) == 0 {
			s.streams = streams(t, lead)
			return s
		}
		select {
		case <-limit:
			t.Fatalf("it is decided who may ask %v, which nobody answers after a minute", missing)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func streams(t *testing.T, lead *party) (all []jetstream.StreamConfig) {
	t.Helper()
	js, err := jetstream.New(lead.Conn, jetstream.WithDefaultTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	list := js.ListStreams(t.Context())
	for info := range list.Info() {
		all = append(all, info.Config)
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// listening asks the server who listens to what.
func (l live) listening(t *testing.T, s *system) {
	t.Helper()
	creds, err := l.keys.SystemCreds(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(l.url, nats.UserCredentialBytes(creds), l.roots(), nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	answer, err := nc.Request("$SYS.REQ.SERVER.PING.SUBSZ", []byte(`{"subscriptions":true,"limit":10000}`), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var seen struct {
		Data struct {
			Subs []struct {
				Subject string `json:"subject"`
				Queue   string `json:"qgroup"`
			} `json:"subscriptions_list"`
		} `json:"data"`
	}
	if err := json.Unmarshal(answer.Data, &seen); err != nil {
		t.Fatal(err)
	}
	for _, sub := range seen.Data.Subs {
		if strings.HasPrefix(sub.Subject, "zester.") || strings.HasPrefix(sub.Subject, "$KV.") {
			s.heard = append(s.heard, sub.Subject)
		}
		if sub.Queue == wire.MastersQueue {
			s.calls = append(s.calls, strings.TrimSuffix(sub.Subject, ".*"))
		}
	}
	slices.Sort(s.calls)
	s.calls = slices.Compact(s.calls)
}

// checkDecided fails unless all that somebody listens to is tried, and all streams are there that are decided.
func (s *system) checkDecided(t *testing.T) {
	for _, subject := range s.heard {
		if s.hear[subject] == nil {
			t.Errorf("somebody listens to %s, and nobody has decided who may", subject)
		}
	}
	for name := range stores {
		if !slices.ContainsFunc(s.streams, func(c jetstream.StreamConfig) bool { return c.Name == name }) {
			t.Errorf("it is decided of the stream %s, which is not there", name)
		}
	}
}

func TestWithoutACredentialOfThisBusNobodyConnects(t *testing.T) {
	other, err := keystore.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := other.Creds(grants.RoleMaster, "m1", 0)
	if err != nil {
		t.Fatal(err)
	}
	b := natstest.Listen(t)
	for what, opt := range map[string]nats.Option{
		"no credential":          nats.Name("anybody"),
		"a password":             nats.UserInfo("zester", "zester"),
		"another bus's operator": nats.UserCredentialBytes(stranger),
	} {
		nc, err := nats.Connect(b.URL(), opt, nats.RootCAs(b.CA()), nats.Timeout(time.Minute))
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil {
			nc.Close()
		}
	}
}
