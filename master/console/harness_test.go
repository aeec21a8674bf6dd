package console_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/login"
	"github.com/seed-c01c3da5/zester/master/mcp"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/reconciler"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/push"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/reconciler/propose"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

// patience is how long a test waits for what has to come.
const patience = time.Minute

// repo is what the config repo of the tests has.
var repo = fstest.MapFS{
	"top.yaml": {Data: []byte("base:\n  '*': [all]\n")},
	"settings/all.yaml": {Data: []byte("schedule:\n  hello:\n    module: test.echo\n    args: {text: hello}\n" +
		"    interval: 1h\n    run_on_start: true\n    return_job: true\n")},
}

// guidePages are what assistants read of the guide.
var guidePages = fstest.MapFS{"repo.md": {Data: []byte("# Repo")}}

var ada = worktree.Author{Name: "Ada", Email: "ada@example.com"}

// A fleet is a master with its bus and reconciler, two peels, and people. It uses real sockets.
type fleet struct {
	dir     string
	address string // of REST
	bus     string
	work    *worktree.Work
	repo    string       // that the fleet follows
	mode    propose.Mode // of changes that masters make in it
	keys    *keystore.Keys
	local   *api.Client // as the operator of the master's host
	people  map[string]*api.Client
	token   string // of the scope dispatch
	at      *login.Provider
	// authority is the file by which browsers check the master; empty: that of the master with the bus.
	authority string
	hosts     []target.PeelID
	// dial is the address of the bus for a peel, beside that of the master; absent: the same.
	dial map[target.PeelID]string
	plug func(bus string) // is told the address of the bus before peels begin; nil: nobody asks for it
}

// named is a name by which browsers open the console, beside its address.
const named = "zester.example.com"

// theFleet is shared by the tests that leave it as it is. Its masters may not write to its repo.
func theFleet(t testing.TB) *fleet {
	t.Helper()
	f := newFleet(t)
	f.repo = f.work.Dir()
	f.start(t)
	return f
}

// aWritableFleet follows a bare repo, to which its masters push.
func aWritableFleet(t testing.TB) *fleet {
	t.Helper()
	f := newFleet(t)
	f.bare(t)
	f.mode = propose.Direct
	f.start(t)
	return f
}

// bare makes the bare repo of a fleet.
func (f *fleet) bare(t testing.TB) {
	t.Helper()
	f.repo = filepath.Join(f.dir, "fleet.git")
	if out, err := exec.Command("git", "clone", "-q", "--bare", f.work.Dir(), f.repo).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// git runs git in that repo.
func (f *fleet) git(args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", f.repo}, args...)...).CombinedOutput()
	return string(out), err
}

func newFleet(t testing.TB) *fleet {
	t.Helper()
	return newFleetOf(t, repo, "web-01", "web-02")
}

// newFleetOf returns a fleet of some hosts, which does not run yet.
func newFleetOf(t testing.TB, files fstest.MapFS, hosts ...target.PeelID) *fleet {
	t.Helper()
	f := &fleet{dir: t.TempDir(), people: map[string]*api.Client{}, hosts: hosts, dial: map[target.PeelID]string{}}
	var err error
	if f.work, err = worktree.Init(filepath.Join(f.dir, "repo"), files, "The beginning", ada); err != nil {
		t.Fatal(err)
	}
	return f
}

// start runs the master and the peels until the test ends.
func (f *fleet) start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	f.master(t, ctx, g)
	if f.plug != nil {
		f.plug(f.bus)
	}
	for _, id := range f.hosts {
		f.peel(t, ctx, g, id)
	}
	f.settle(t)
	f.enter(t)
}

func (f *fleet) master(t testing.TB, ctx context.Context, g *errgroup.Group) {
	t.Helper()
	data := filepath.Join(f.dir, "master")
	o := gitrepo.Options{URL: f.repo, Dir: filepath.Join(data, "repo")}
	r, err := reconciler.New(reconciler.Options{Repo: o, Owner: "m1"})
	if err != nil {
		t.Fatal(err)
	}
	writes, err := propose.New(propose.Options{
		Mode: f.mode, Branch: "main", Path: ".", Max: 10, Domain: "example.com",
		Write: push.Options{
			Repo:      gitrepo.Options{URL: f.repo, Dir: filepath.Join(data, "write")},
			Committer: push.Person{Name: "zester", Email: "zester@example.com"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan master.Info, 1)
	m, err := master.New(master.Options{
		ID: "m1", DataDir: data, Services: []master.Service{r.Run, writes.Run},
		REST: master.REST{
			Listen: "127.0.0.1:0", Console: master.Console{Host: named, Login: f.at},
			MCP: &mcp.Options{Act: true, Limit: 1, Guide: guidePages},
		},
		Ready: func(i master.Info) { ready <- i },
	})
	if err != nil {
		t.Fatal(err)
	}
	g.Go(func() error { return m.Run(ctx) })
	select {
	case <-ctx.Done():
		t.Fatal(context.Cause(ctx))
	case info := <-ready:
		f.bus = info.URL
	}
	if f.keys, err = keystore.Open(keystore.Dir(data)); err != nil {
		t.Fatal(err)
	}
	info, err := api.ReadRunInfo(data)
	if err != nil {
		t.Fatal(err)
	}
	f.local = f.connect(t, []byte(info.Creds))
	code := f.code(t, f.local)
	f.address = code.Address
}

func (f *fleet) ca() string { return filepath.Join(f.dir, "master", "tls", "ca.crt") }

func (f *fleet) connect(t testing.TB, creds []byte) *api.Client {
	t.Helper()
	c, err := api.Connect(api.ClientOptions{URL: f.bus, Creds: creds, CA: f.ca()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (f *fleet) peel(t testing.TB, ctx context.Context, g *errgroup.Group, id target.PeelID) {
	t.Helper()
	creds, err := f.keys.Creds(grants.RolePeel, id.Wire(), 0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := peel.New(peel.Options{
		ID: id, DataDir: filepath.Join(f.dir, string(id)), URL: cmp.Or(f.dial[id], f.bus), CA: f.ca(), Facts: target.Facts{"owner": markedBy("fact")},
		Connect: []nats.Option{nats.UserCredentialBytes(creds)},
	})
	if err != nil {
		t.Fatal(err)
	}
	g.Go(func() error {
		err := p.Run(ctx)
		if removed := (*peel.RemovedError)(nil); errors.As(err, &removed) {
			return peel.DeleteData(removed.Dir) // as the process of a peel does
		}
		return err
	})
}

// settle waits until all peels run what Git says.
func (f *fleet) settle(t testing.TB) {
	t.Helper()
	f.until(t, "peels with their settings", func(ctx context.Context) bool {
		page, err := api.SyncPeels.Ask(ctx, f.local, status.PeelsRequest{})
		applied := 0
		if err == nil {
			for _, p := range page.Peels {
				if p.State == status.Applied {
					applied++
				}
			}
		}
		return applied == len(f.hosts)
	})
}

// until asks again until ok returns true.
func (f *fleet) until(t testing.TB, what string, ok func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !ok(ctx) {
		select {
		case <-ctx.Done():
			t.Fatalf("never came: %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// enter makes the people: ann is an operator, lee is limited to web-01 and test.*, eve is an auditor.
func (f *fleet) enter(t testing.TB) {
	t.Helper()
	for _, q := range []credential.UserRequest{
		{Name: "ann", Role: grants.RoleOperator},
		{Name: "lee", Role: grants.RoleOperator, Limits: grants.Limits{Target: "web-01", Functions: []string{"test.*"}}},
		{Name: "eve", Role: grants.RoleAuditor},
	} {
		creds, _, err := f.local.UserAdd(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		f.people[q.Name] = f.connect(t, creds)
	}
	var err error
	f.token, _, err = f.local.TokenCreate(t.Context(), credential.TokenRequest{
		Name: "ci", Scopes: []credential.Scope{credential.ScopeRead, credential.ScopeDispatch},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) code(t testing.TB, c *api.Client) *api.SessionCode {
	t.Helper()
	code, err := api.SessionCreate.Ask(t.Context(), c, api.None{})
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// A browser has cookies, and sends what browsers send.
type browser struct {
	t      testing.TB
	f      *fleet
	client *http.Client
}

// browse returns a browser without a session.
func (f *fleet) browse(t testing.TB) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := natstest.HTTPS(t, cmp.Or(f.authority, f.ca()))
	client.Jar = jar
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &browser{t, f, client}
}

// login returns a browser in which a person is logged in.
func (f *fleet) login(t testing.TB, name string) *browser {
	t.Helper()
	b := f.browse(t)
	form := url.Values{"token": {f.token}}
	if name != "ci" {
		form = url.Values{"code": {f.code(t, f.people[name]).Code}}
	}
	if got := b.post("/login", form); got.status != http.StatusSeeOther {
		t.Fatalf("the login of %s: %d\n%s", name, got.status, got.body)
	}
	return b
}

// An answer is what a browser got.
type answer struct {
	status int
	header http.Header
	body   string
}

func (b *browser) get(path string) answer { return b.send(http.MethodGet, path, nil, nil) }

func (b *browser) post(path string, form url.Values) answer {
	return b.send(http.MethodPost, path, form, map[string]string{"Origin": "https://" + b.f.address, "Sec-Fetch-Site": "same-origin"})
}

// send sends a request with the headers that a browser adds. A header that is empty here is left out.
func (b *browser) send(method, path string, form url.Values, header map[string]string) answer {
	b.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, "https://"+b.f.address+path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range header {
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	resp, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		b.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, text.String()}
}

// has checks that an answer has all of some texts.
func (a answer) has(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			t.Errorf("the answer lacks %q:\n%s", text, a.body)
		}
	}
}

// field returns the value of a field of the form in an answer.
func (a answer) field(t *testing.T, name string) string {
	t.Helper()
	m := regexp.MustCompile(fmt.Sprintf(`name="%s" value="([^"]*)"`, regexp.QuoteMeta(name))).FindStringSubmatch(a.body)
	if m == nil {
		t.Fatalf("the form has no field %s:\n%s", name, a.body)
	}
	return m[1]
}
