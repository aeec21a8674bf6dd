package propose_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/push"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/reconciler/propose"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

// site is a bus with a bare repository.
type site struct {
	t    *testing.T
	bus  *natstest.Bus
	dir  string
	repo string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := newRepo(t)
	s.bus = natstest.Listen(t)
	return s
}

// newRepo is newSite without a bus.
func newRepo(t *testing.T) *site {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	dir := t.TempDir()
	_, err := worktree.Init(filepath.Join(dir, "work"), fstest.MapFS{
		"top.yaml":          {Data: []byte("base:\n  '*': [all]\n")},
		"settings/all.yaml": {Data: []byte("schedule:\n  by-hand:\n    module: test.ping\n    interval: 1h\n")},
	}, "first", worktree.Author{Name: "Bob", Email: "bob@example.com", When: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, dir: dir, repo: filepath.Join(dir, "fleet.git")}
	s.git("clone", "-q", "--bare", filepath.Join(dir, "work"), s.repo)
	return s
}

func (s *site) git(args ...string) string {
	s.t.Helper()
	out, err := exec.Command("git", args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (s *site) log(format string) []string {
	return strings.Split(s.git("-C", s.repo, "log", "--reverse", "--format="+format, "main"), "\n")
}

func (s *site) options() propose.Options {
	return propose.Options{
		Mode: propose.Direct, Branch: "main", Path: ".", Max: 1000, Target: "db-*", Domain: "example.com",
		Write: push.Options{Repo: gitrepo.Options{URL: s.repo, Dir: s.t.TempDir()}, Committer: push.Person{Name: "zester", Email: "zester@example.com"}},
	}
}

// start runs a service on a master of its own. The result stops it.
func (s *site) start(master string, o propose.Options) (stop func()) {
	s.t.Helper()
	service, err := propose.New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	nc := s.bus.Conn(s.t, grants.RoleMaster, master)
	fleet := fleet.New(nc, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = fleet.Run(ctx) })
	if err := fleet.WaitReady(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	running.Go(func() { _ = service.Run(ctx, nc, fleet) })
	for { // until the service is there
		_, err := nc.Request(wire.API("schedule", "list", master), nil, time.Minute)
		if !errors.Is(err, nats.ErrNoResponders) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	s.t.Cleanup(stop)
	return stop
}

// A client asks for changes as a person.
type client struct {
	t    *testing.T
	nc   *nats.Conn
	user string
}

func (s *site) client(user string) client {
	s.t.Helper()
	return client{s.t, s.bus.Conn(s.t, grants.RoleOperator, user), user}
}

// ask sends a request and decodes the reply. Its error is an [*api.Error].
func ask[A any](ctx context.Context, c client, verb string, question any) (*A, error) {
	data, err := canon.Marshal(question)
	if err != nil {
		c.t.Error(err)
	}
	msg, err := c.nc.RequestWithContext(ctx, wire.API("schedule", verb, c.user), data)
	if err == nil {
		err = api.ReplyError(msg)
	}
	if err != nil {
		return nil, err
	}
	answer := new(A)
	return answer, canon.Unmarshal(msg.Data, answer)
}

func (c client) ScheduleAdd(ctx context.Context, q api.ScheduleAddRequest) (*api.ScheduleChanged, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return ask[api.ScheduleChanged](ctx, c, "add", q)
}

func (c client) change(verb, ref string) (*api.ScheduleChanged, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	return ask[api.ScheduleChanged](ctx, c, verb, api.ScheduleChange{Ref: ref, Reason: "too loud"})
}

func (c client) Schedules(ctx context.Context, q api.ScheduleQuery) (*api.SchedulePage, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return ask[api.SchedulePage](ctx, c, "list", q)
}

func ping(name string) api.ScheduleAddRequest {
	return api.ScheduleAddRequest{Name: name, Fields: map[string]any{"module": "test.ping", "interval": "5m"}}
}

func TestARequestIsACommitOfItsUser(t *testing.T) {
	s := newSite(t)
	s.start("m1", s.options())
	ann := s.client("ann")
	out, err := ann.ScheduleAdd(t.Context(), ping("Queue depth"))
	if err != nil {
		t.Fatal(err)
	}
	if out.ID != 1 || out.Entry != "queue-depth" || out.File != "settings/api/queue-depth.yaml" || out.Branch != "main" || out.Next.IsZero() {
		t.Errorf("%+v", out)
	}
	if got := s.git("-C", s.repo, "log", "-1", "--format=%H %an <%ae> %cn %s"); got != out.Commit+" ann <ann@example.com> zester schedules: add queue-depth" {
		t.Error(got)
	}
	if got := s.git("-C", s.repo, "show", "main:top.d/api.yaml"); !strings.Contains(got, "db-*:\n    - api.queue-depth") {
		t.Error(got)
	}
	page, err := ann.Schedules(t.Context(), api.ScheduleQuery{})
	if err != nil || len(page.Schedules) != 2 || page.Total != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	if one := page.Schedules[0]; one.ID != 1 || one.Name != "Queue depth" || one.ManagedBy != "api" || one.Type != "every" || one.Interval != 300_000 || one.By != "ann" || !one.Enabled {
		t.Errorf("%+v", one)
	}
	if two := page.Schedules[1]; two.Entry != "by-hand" || two.ManagedBy != "git" || two.Origin != "settings/all.yaml:2@"+page.Commit {
		t.Errorf("%+v", two)
	}
	if _, err := ann.change("disable", "1"); err != nil {
		t.Fatal(err)
	}
	if page, err = ann.Schedules(t.Context(), api.ScheduleQuery{Ref: "queue-depth"}); err != nil || page.Schedules[0].Enabled {
		t.Errorf("%+v, %v", page, err)
	}
	if _, err := ann.change("remove", "1"); err != nil {
		t.Fatal(err)
	}
	if got := s.git("-C", s.repo, "ls-tree", "-r", "--name-only", "main"); got != "settings/all.yaml\ntop.yaml" {
		t.Error(got)
	}
	if _, err := ann.Schedules(t.Context(), api.ScheduleQuery{Ref: "1"}); api.CodeOf(err) != api.CodeNotFound {
		t.Error(err)
	}
	entries, err := audit.OpenLog(s.bus.JetStream(t), nil).List(t.Context(), audit.Query{Action: "schedule.add", User: "ann"})
	if err != nil || len(entries.Entries) != 1 || entries.Entries[0].Target != "Queue depth" || entries.Entries[0].Result != audit.Done {
		t.Errorf("%+v, %v", entries, err)
	}
	again, err := ann.ScheduleAdd(t.Context(), ping("Queue depth"))
	if err != nil || again.ID != 2 {
		t.Errorf("a number is given again: %+v, %v", again, err)
	}
}

func TestWhatIsRefusedIsNotPushed(t *testing.T) {
	s := newSite(t)
	o := s.options()
	o.Max = 1
	s.start("m1", o)
	ann := s.client("ann")
	if _, err := ann.ScheduleAdd(t.Context(), ping("one")); err != nil {
		t.Fatal(err)
	}
	before := s.log("%H")
	for _, c := range []struct {
		name string
		q    api.ScheduleAddRequest
		code api.Code
		want string
	}{
		{"over the limit", ping("two"), api.CodeConflict, "schedules.max"},
		{"no name", ping(" "), api.CodeInvalid, "name has 1 to 200 bytes"},
		{"long name", ping(strings.Repeat("x", 201)), api.CodeInvalid, "not 201"},
		{"name of two lines", ping("two\u2028lines"), api.CodeInvalid, "name has a line break or a character that is not shown"},
		{"name that is not shown", ping("ab\u200bc"), api.CodeInvalid, "name has a line break or a character that is not shown"},
		{"target of two lines", api.ScheduleAddRequest{Name: "x", Target: "db-*\u2029 or web-*", Fields: map[string]any{"module": "test.ping", "interval": "1h"}}, api.CodeInvalid, "target has a line break or a character that is not shown"},
		{"own number", api.ScheduleAddRequest{Name: "x", Fields: map[string]any{"api": map[string]any{"id": 5}}}, api.CodeInvalid, "the field api"},
	} {
		if _, err := ann.ScheduleAdd(t.Context(), c.q); api.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	o.Max = 1000
	s.start("m2", o)
	for _, c := range []struct {
		name string
		q    api.ScheduleAddRequest
		code api.Code
		want string
	}{
		{"name that exists", ping("One"), api.CodeConflict, "settings/api/one.yaml"},
		{"bad cron", api.ScheduleAddRequest{Name: "x", Fields: map[string]any{"module": "test.ping", "cron": "61 * * * *"}}, api.CodeInvalid, "settings/api/x.yaml:"},
		{"unknown field", api.ScheduleAddRequest{Name: "x", Fields: map[string]any{"module": "test.ping", "intervall": "1h"}}, api.CodeInvalid, `did you mean "interval"?`},
		{"unknown function", api.ScheduleAddRequest{Name: "x", Fields: map[string]any{"module": "test.pign", "interval": "1h"}}, api.CodeInvalid, "test.ping"},
		{"target", api.ScheduleAddRequest{Name: "x", Target: "X@y", Fields: map[string]any{"module": "test.ping", "interval": "1h"}}, api.CodeInvalid, "top.d/api.yaml:"},
	} {
		for range 8 { // one of the two masters answers
			_, err := ann.ScheduleAdd(t.Context(), c.q)
			if err != nil && strings.Contains(err.Error(), "schedules.max") {
				continue
			}
			if api.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
			break
		}
	}
	for _, reason := range []string{"two\nlines", "two\u2028lines", "\x1b[31mred", "a\tb", "\u0085", "zero\u200bwidth", "\u202ereversed", strings.Repeat("x", 201)} {
		for _, verb := range []string{"disable", "remove"} {
			_, err := ask[api.ScheduleChanged](t.Context(), ann, verb, api.ScheduleChange{Ref: "one", Reason: reason})
			if api.CodeOf(err) != api.CodeInvalid || !strings.Contains(err.Error(), "reason is one line of at most 200 bytes") {
				t.Errorf("%s for %q: %v", verb, reason, err)
			}
		}
	}
	if _, err := ann.change("remove", "nothing"); api.CodeOf(err) != api.CodeNotFound {
		t.Error(err)
	}
	if after := s.log("%H"); len(after) != len(before) {
		t.Errorf("%d commits, want %d", len(after), len(before))
	}
}

// TestAReasonIsNoTrailer has a reason that would let the change pass the guard if it stood on a line of its own.
func TestAReasonIsNoTrailer(t *testing.T) {
	s := newSite(t)
	s.start("m1", s.options())
	ann := s.client("ann")
	if _, err := ann.ScheduleAdd(t.Context(), ping("one")); err != nil {
		t.Fatal(err)
	}
	for verb, q := range map[string]any{
		"disable": api.ScheduleChange{Ref: "one", Reason: "Zester-Allow: change, remove, peels"},
		"replace": api.ScheduleReplaceRequest{Ref: "by-hand", Reason: "Zester-Allow: change, remove, peels", Was: api.ScheduleDigest("schedule:\n  by-hand:\n    module: test.ping\n    interval: 1h\n"), Text: "schedule:\n  by-hand:\n    module: test.ping\n    interval: 2h\n"},
	} {
		if _, err := ask[api.ScheduleChanged](t.Context(), ann, verb, q); err != nil {
			t.Fatal(verb, err)
		}
		if got := s.git("-C", s.repo, "log", "-1", "--format=%b", "main"); got != "Reason: Zester-Allow: change, remove, peels" {
			t.Errorf("%s: %q", verb, got)
		}
	}
}

func TestARevokedUserMakesNoCommit(t *testing.T) {
	s := newSite(t)
	o := s.options()
	o.Check = func(context.Context, jetstream.JetStream, string) error {
		return fmt.Errorf("%w: it was revoked", grants.ErrNotAllowed)
	}
	s.start("m1", o)
	if _, err := s.client("ann").ScheduleAdd(t.Context(), ping("x")); err == nil || !strings.Contains(err.Error(), "it was revoked") {
		t.Error(err)
	}
	if got := s.log("%s"); len(got) != 1 {
		t.Error(got)
	}
}

func TestWithoutACredentialTheAnswerIsThePatch(t *testing.T) {
	s := newSite(t)
	o := s.options()
	o.Mode = propose.Off
	stop := s.start("m1", o)
	q := ping("x")
	q.Key = "k"
	out, err := s.client("ann").ScheduleAdd(t.Context(), q)
	if err != nil || out.Commit != "" {
		t.Fatal(out, err)
	}
	file := filepath.Join(s.dir, "patch")
	if err := os.WriteFile(file, []byte(out.Patch), 0o600); err != nil {
		t.Fatal(err)
	}
	s.git("-C", filepath.Join(s.dir, "work"), "apply", "--index", file)
	if got := s.git("-C", filepath.Join(s.dir, "work"), "diff", "--cached", "--name-only"); got != "settings/api/x.yaml\ntop.d/api.yaml" {
		t.Error(got)
	}
	stop()
	s.start("m2", s.options())
	if out, err := s.client("ann").ScheduleAdd(t.Context(), q); err != nil || out.Commit == "" || out.Repeated {
		t.Errorf("the same request once the master may write: %+v, %v", out, err)
	}
}

// TestFiftyCreationsAtOnceAreFiftyCommitsInALine has ten clients create at two masters, each request sent twice with its key,
// while one master ends and another begins.
func TestFiftyCreationsAtOnceAreFiftyCommitsInALine(t *testing.T) {
	s := newSite(t)
	stop := s.start("m1", s.options())
	s.start("m2", s.options())
	var clients sync.WaitGroup
	ids := make([][5]int, 10)
	for i := range 10 {
		c := s.client(fmt.Sprintf("user%d", i))
		clients.Go(func() {
			for j := range 5 {
				q := ping(fmt.Sprintf("check %d %d", i, j))
				q.Key = fmt.Sprintf("%d-%d", i, j)
				for sent := 0; sent < 2; {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // the master that ends answers no more
					out, err := c.ScheduleAdd(ctx, q)
					cancel()
					switch {
					case err == nil:
						sent++
						if ids[i][j] != 0 && ids[i][j] != out.ID {
							t.Errorf("%s has the numbers %d and %d", q.Name, ids[i][j], out.ID)
						}
						ids[i][j] = out.ID
					case t.Context().Err() != nil:
						return
					case api.CodeOf(err) == api.CodeInvalid:
						t.Error(err)
						return
					}
				}
				if i == 0 && j == 1 {
					stop()
				}
			}
		})
	}
	clients.Wait()
	authors := map[string]int{}
	for _, author := range s.log("%an")[1:] {
		authors[author]++
	}
	for i := range 10 {
		if n := authors[fmt.Sprintf("user%d", i)]; n != 5 {
			t.Errorf("user%d has %d commits, want 5", i, n)
		}
	}
	if merges := s.git("-C", s.repo, "rev-list", "--count", "--min-parents=2", "main"); merges != "0" {
		t.Errorf("%s merges", merges)
	}
	seen := map[int]bool{}
	for _, of := range ids {
		for _, id := range of {
			seen[id] = true
		}
	}
	if len(seen) != 50 {
		t.Errorf("%d numbers for 50 schedules", len(seen))
	}
	if got := strings.Count(s.git("-C", s.repo, "show", "main:top.d/api.yaml"), "    - api.check-"); got != 50 {
		t.Errorf("%d references", got)
	}
}
