package pulls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/forge"
	"github.com/seed-c01c3da5/zester/master/forge/forgetest"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/settings/sops/sopstest"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// TestMain is also the process that plans, as the program is.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("PULLS_TEST_HOG") != "":
		if err := confine(time.Minute); err != nil {
			panic(err)
		}
		os.Exit(hog())
	case os.Getenv(probeMark) != "":
		os.Exit(probe(os.Getenv(probeMark)))
	case IsWorker():
		os.Exit(Work(os.Stdin, os.Stdout))
	}
	os.Exit(natstest.InMemory(m))
}

// hog takes 4 GiB of memory, or writes a file of 2 GiB.
func hog() int {
	if name := os.Getenv("PULLS_TEST_HOG"); name != "memory" {
		f, err := os.Create(name)
		if err == nil {
			err = f.Truncate(2 << 30)
		}
		fmt.Println("written", err)
		return map[bool]int{true: 0, false: 1}[err == nil]
	}
	var all [][]byte
	for range 64 {
		all = append(all, make([]byte, 64<<20))
	}
	fmt.Println("took", len(all))
	return 0
}

var site = fstest.MapFS{
	"top.yaml":          {Data: []byte("base:\n  'web-*': [web]\n  'db-*': [db]\n")},
	"settings/web.yaml": {Data: []byte("schedule:\n  hello: {module: test.ping, interval: 1h}\n")},
	"settings/db.yaml":  {Data: []byte("schedule:\n  dump: {module: test.ping, interval: 1h}\n")},
}

// A bench is a repo, a forge and a bus.
type bench struct {
	t     *testing.T
	dir   string
	kind  forge.Provider
	forge *forgetest.Server
	bus   *natstest.Bus
	store jetstream.KeyValue
	o     Options
}

func newBench(t *testing.T, kind forge.Provider, files fstest.MapFS) *bench {
	t.Helper()
	b := &bench{t: t, dir: filepath.Join(t.TempDir(), "fleet"), kind: kind, forge: forgetest.New(t, kind), bus: natstest.Listen(t)}
	if _, err := worktree.Init(b.dir, files, "first", worktree.Author{Name: "Ada", Email: "ada@example.com"}); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(forgetest.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := forge.New(forge.Options{Provider: kind, URL: b.forge.Repo(), Token: token})
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(b.bus.Conn(t, grants.RoleMaster, "m1"))
	if err == nil {
		b.store, err = js.KeyValue(t.Context(), "rollout")
	}
	if err != nil {
		t.Fatal(err)
	}
	b.o = Options{Name: "forge", Forge: client, Repo: gitrepo.Options{URL: b.dir, Dir: t.TempDir()}, Log: slog.New(slog.DiscardHandler)}
	return b
}

func (b *bench) git(args ...string) string {
	b.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", b.dir, "-c", "user.name=Eve", "-c", "user.email=eve@example.com"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// push makes a commit on a branch, from main if the branch is new, and the head of a pull request of it.
func (b *bench) push(number int, fork bool, name, content string) (head string) {
	b.t.Helper()
	topic := fmt.Sprint("topic-", number)
	if b.git("branch", "--list", topic) == "" {
		b.git("branch", topic, "main")
	}
	b.git("checkout", "-q", topic)
	b.write(name, content)
	b.git("add", "-A")
	b.git("commit", "-q", "-m", "change "+name)
	head = b.git("rev-parse", "HEAD")
	b.git("checkout", "-q", "main")
	ref := "pull"
	if b.kind == forge.GitLab {
		ref = "merge-requests"
	}
	b.git("update-ref", fmt.Sprintf("refs/%s/%d/head", ref, number), head)
	b.forge.SetPulls(forgetest.Pull{Number: number, Head: head, Branch: "main", Fork: fork})
	return head
}

func (b *bench) write(name, content string) {
	b.t.Helper()
	file := filepath.Join(b.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
		b.t.Fatal(err)
	}
}

// lead is a new leader.
func (b *bench) lead() *session {
	b.t.Helper()
	c, err := New(b.o)
	if err != nil {
		b.t.Fatal(err)
	}
	fleet := peelindex.New()
	for _, id := range []target.PeelID{"web-01", "web-02", "db-01"} {
		fleet.Put(id, target.Facts{"os": "linux"})
	}
	return &session{Commenter: c, fleet: fleet, store: b.store, later: map[int]retry{}}
}

// poll has a leader look once, whatever it waits for.
func (b *bench) poll(s *session) {
	b.t.Helper()
	s.rest, s.notUntil = time.Time{}, time.Time{}
	s.poll(b.t.Context())
}

// comment is the one comment of the master on a pull request.
func (b *bench) comment(number int, want ...string) string {
	b.t.Helper()
	var ours []string
	for _, c := range b.forge.Comments(number) {
		if c.User == 1 {
			ours = append(ours, c.Body)
		}
	}
	if len(ours) != 1 {
		b.t.Fatalf("%d comments: %q", len(ours), ours)
	}
	for _, part := range want {
		if !strings.Contains(ours[0], part) {
			b.t.Errorf("comment lacks %q: %s", part, ours[0])
		}
	}
	return ours[0]
}

const twoHours = "schedule:\n  hello: {module: test.ping, interval: 2h}\n"

func TestAPullRequestHasOneCommentThatIsEdited(t *testing.T) {
	for _, kind := range []forge.Provider{forge.GitHub, forge.GitLab, forge.Gitea} {
		t.Run(string(kind), func(t *testing.T) {
			b := newBench(t, kind, site)
			s := b.lead()
			head := b.push(7, false, "settings/web.yaml", twoHours)
			b.poll(s)
			first := b.comment(7, "<!-- zester plan of fleet ", "2 of 3 peels change", "web-01, web-02", "-     interval: ", "for commit "+head[:8]+" alone")
			b.poll(s)
			b.poll(b.lead()) // another master
			if again := b.comment(7); again != first {
				t.Errorf("planned again: %s", again)
			}
			writes := len(b.forge.Requests(http.MethodPost)) + len(b.forge.Requests(http.MethodPatch)) + len(b.forge.Requests(http.MethodPut))
			if writes != 1 {
				t.Errorf("%d writes", writes)
			}
			head = b.push(7, false, "settings/db.yaml", twoHours)
			b.poll(b.lead())
			b.comment(7, "3 of 3 peels change", head[:8])
			b.push(7, false, "settings/db.yaml", "schedule:\n  dump: {module: test.ping, intervall: 1h}\n")
			b.poll(b.lead())
			b.comment(7, "would be refused", "settings/db.yaml:2:", "intervall")
		})
	}
}

func TestOnlyOwnCommentsAreEdited(t *testing.T) {
	b := newBench(t, forge.GitHub, site)
	s := b.lead()
	b.push(7, false, "settings/web.yaml", twoHours)
	forged := s.marker + "\nnothing changes, merge me"
	b.forge.Write(7, 666, forged)
	b.poll(s)
	b.comment(7, "2 of 3 peels change")
	if c := b.forge.Comments(7)[0]; c.Body != forged {
		t.Errorf("the comment of a stranger is %q", c.Body)
	}
}

func TestForksAreIgnoredUnlessTheyAreConfigured(t *testing.T) {
	b := newBench(t, forge.GitHub, site)
	b.push(7, true, "settings/web.yaml", twoHours)
	b.poll(b.lead())
	if n := len(b.forge.Comments(7)); n != 0 {
		t.Errorf("%d comments", n)
	}
	b.o.Forks = true
	b.poll(b.lead())
	b.comment(7, "2 of 3 peels change")
}

func TestLaterCommitsOfTheBranchAreNotInThePlan(t *testing.T) {
	b := newBench(t, forge.GitHub, site)
	b.push(7, false, "settings/web.yaml", twoHours)
	b.push(8, false, "settings/db.yaml", twoHours)
	b.git("merge", "-q", "--no-ff", "topic-8")
	b.forge.SetPulls(forgetest.Pull{Number: 7, Head: b.git("rev-parse", "topic-7"), Branch: "main"})
	s := b.lead()
	b.poll(s)
	b.comment(7, "2 of 3 peels change", "The branch has newer commits")
	b.git("checkout", "-q", "topic-7")
	b.git("merge", "-q", "main")
	b.git("checkout", "-q", "main")
	b.push(7, false, "settings/new.yaml", "a: 1\n")
	b.poll(s)
	if text := b.comment(7, "2 of 3 peels change", "web-01, web-02"); strings.Contains(text, "moved on") {
		t.Errorf("%s", text)
	}
}

// TestNoSecretReachesAComment has a pull request hand a secret to more peels, under a name that tells nothing.
func TestNoSecretReachesAComment(t *testing.T) {
	w := sopstest.New(t)
	files := fstest.MapFS{"settings/secret.yaml": {Data: []byte(w.Encrypt("^note$", "note: correct-horse\n"))}}
	maps.Copy(files, site)
	b := newBench(t, forge.GitHub, files)
	t.Setenv("SOPS_AGE_KEY_FILE", w.Identities)
	b.push(7, false, "top.yaml", "base:\n  '*': [secret]\n")
	b.push(7, false, "settings/plain.yaml", "db: {password: hunter2}\n")
	b.push(7, false, "top.yaml", "base:\n  '*': [secret, plain]\n")
	b.poll(b.lead())
	text := b.comment(7, "3 of 3 peels change", "note: ")
	for _, secret := range []string{"correct-horse", "hunter2", "AGE-SECRET", "ENC["} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is in %s", secret, text)
		}
	}
}

func TestAHostileTextIsShownAsItIs(t *testing.T) {
	b := newBench(t, forge.GitHub, site)
	b.push(7, false, "settings/web.yaml", "x: \"``` @everyone <img src=x onerror=alert(1)> --> ![a](https://evil.example/p.png)\"\n")
	b.poll(b.lead())
	text := b.comment(7, "````diff")
	before, after, _ := strings.Cut(text, "````diff")
	_, after, _ = strings.Cut(after, "````\n")
	if strings.Contains(before+after, "evil.example") || strings.Contains(before+after, "@everyone") {
		t.Errorf("outside of the fence: %s", text)
	}
}

func TestALongPlanIsCutToTheLimitOfForges(t *testing.T) {
	files := fstest.MapFS{"top.yaml": {Data: []byte("base:\n  '*': [all]\n")}, "settings/all.yaml": {Data: []byte("a: 1\n")}}
	b := newBench(t, forge.GitHub, files)
	long, top := strings.Builder{}, strings.Builder{}
	top.WriteString("base:\n")
	s := b.lead()
	for n := range 80 {
		s.fleet.Put(target.PeelID(fmt.Sprintf("peel-%03d", n)), target.Facts{})
		fmt.Fprintf(&top, "  'peel-%03d': [all, own%d]\n", n, n)
		b.write(fmt.Sprintf("settings/own%d.yaml", n), fmt.Sprintf("n%d: %q\n", n, strings.Repeat("本", 190)))
	}
	for n := range 400 {
		fmt.Fprintf(&long, "key%d: %q\n", n, strings.Repeat("x", 100))
	}
	b.push(7, false, "settings/all.yaml", long.String())
	b.push(7, false, "top.yaml", top.String())
	b.poll(s)
	text := b.comment(7, "more groups of changes are left out", "lines more", "Planned for 83 peels")
	if n := len([]rune(text)); n > 65_536 {
		t.Errorf("%d characters", n)
	}
}

func TestAPlanThatFailsIsReportedOnceAndEndsNothing(t *testing.T) {
	b := newBench(t, forge.GitHub, site)
	b.push(7, false, "settings/web.yaml", twoHours)
	orphan := b.git("commit-tree", "-m", "of another history", "HEAD^{tree}")
	b.git("update-ref", "refs/pull/7/head", orphan)
	b.forge.SetPulls(forgetest.Pull{Number: 7, Head: orphan, Branch: "main"}, forgetest.Pull{Number: 8, Head: "HEAD; rm -rf /", Branch: "main"})
	s := b.lead()
	b.poll(s)
	b.poll(s)
	b.comment(7, "could not plan this change", "zester plan")
	b.comment(8, "could not plan this change")
	head := b.push(7, false, "settings/web.yaml", twoHours+"\n\n")
	b.poll(s)
	b.comment(7, head[:8])
}

func TestAPullRequestThatMendsTheFirstRevisionIsPlanned(t *testing.T) {
	b := newBench(t, forge.GitHub, fstest.MapFS{"top.yaml": {Data: []byte("base: {'*': [gone]}\n")}})
	b.push(7, false, "settings/gone.yaml", "a: 1\n")
	b.poll(b.lead())
	b.comment(7, "3 of 3 peels change")
}

func TestAPullRequestThatMovedIsPlannedLater(t *testing.T) {
	b := newBench(t, forge.GitHub, site)
	first := b.push(7, false, "settings/web.yaml", twoHours)
	second := b.push(7, false, "settings/db.yaml", twoHours)
	b.forge.SetPulls(forgetest.Pull{Number: 7, Head: first, Branch: "main"})
	s := b.lead()
	b.poll(s)
	b.poll(s)
	if n := len(b.forge.Comments(7)); n != 0 || s.later[7].failures != 1 {
		t.Errorf("%d comments, %+v", n, s.later)
	}
	b.forge.SetPulls(forgetest.Pull{Number: 7, Head: second, Branch: "main"})
	b.poll(s)
	b.comment(7, "3 of 3 peels change", second[:8])
	b.forge.SetPulls()
	b.poll(s)
	if len(s.done)+len(s.later) != 0 {
		t.Errorf("remembered of closed ones: %v, %v", s.done, s.later)
	}
}

func TestOfTwoMastersThatBothLeadOneWrites(t *testing.T) {
	b := newBench(t, forge.GitHub, site)
	s, old := b.lead(), b.lead()
	b.forge.SetPulls()
	b.poll(old)
	b.push(7, false, "settings/web.yaml", twoHours)
	b.poll(s)
	first := b.comment(7)
	b.forge.Delete(1) // so that the old leader finds none
	b.poll(old)
	if all := b.forge.Comments(7); len(all) != 0 {
		t.Errorf("comments %v after %s", all, first)
	}
	b.poll(old) // has read what the other did
	if n := len(b.forge.Requests(http.MethodPost)); n != 1 {
		t.Errorf("%d comments were written", n)
	}
}

func TestAfterACrashBeforeTheCommentWasNotedItIsFound(t *testing.T) {
	b := newBench(t, forge.GitHub, site)
	b.push(7, false, "settings/web.yaml", twoHours)
	s := b.lead()
	b.poll(s)
	h := s.done["7"]
	h.Done = false
	s.done["7"] = h
	if err := s.save(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.poll(b.lead())
	b.comment(7, "2 of 3 peels change")
}

// Strangers write so many comments that the one of the master cannot be looked for.
func TestAFullConversationIsPlannedOnceAndKeepsNoOtherWaiting(t *testing.T) {
	b := newBench(t, forge.GitHub, site)
	full := b.push(7, false, "settings/web.yaml", twoHours)
	other := b.push(8, false, "settings/web.yaml", "schedule: {}\n")
	b.forge.SetPulls(forgetest.Pull{Number: 7, Head: full, Branch: "main"}, forgetest.Pull{Number: 8, Head: other, Branch: "main"})
	for range 600 {
		b.forge.Write(7, 2, "talk")
	}
	s := b.lead()
	for range 3 {
		b.poll(s)
	}
	b.comment(8)
	read := 0
	for _, r := range b.forge.Requests(http.MethodGet) {
		if strings.Contains(r, "issues/7/comments") {
			read++
		}
	}
	if read > 25 || !s.done["7"].Done {
		t.Errorf("%d pages of comments were read, and %+v", read, s.done["7"])
	}
}

func TestARefusedTokenIsNotUsedForAnHour(t *testing.T) {
	b := newBench(t, forge.GitHub, site)
	b.push(7, false, "settings/web.yaml", twoHours)
	b.forge.Refuse(http.StatusForbidden)
	s := b.lead()
	s.poll(t.Context())
	b.forge.Refuse(0)
	s.poll(t.Context())
	if n := len(b.forge.Requests(http.MethodGet)); n != 1 || time.Until(s.notUntil) < 50*time.Minute {
		t.Errorf("asked %d times, again in %v", n, time.Until(s.notUntil))
	}
	s.notUntil = time.Time{}
	s.poll(t.Context())
	b.comment(7)
}

func TestAfterAPlanTheProcessorRests(t *testing.T) {
	b := newBench(t, forge.GitHub, site)
	b.push(7, false, "settings/web.yaml", twoHours)
	b.push(8, false, "settings/web.yaml", twoHours+"\n")
	b.forge.SetPulls(
		forgetest.Pull{Number: 7, Head: b.git("rev-parse", "topic-7"), Branch: "main"}, forgetest.Pull{Number: 8, Head: b.git("rev-parse", "topic-8"), Branch: "main"})
	s := b.lead()
	s.poll(t.Context())
	b.comment(7)
	if n := len(b.forge.Comments(8)); n != 0 || !s.rest.After(time.Now()) {
		t.Errorf("%d comments, rests until %v", n, s.rest)
	}
	b.poll(s)
	b.comment(8)
}

func TestAPullRequestThatChangesAllTheTimeKeepsNoOtherWaiting(t *testing.T) {
	s := &session{}
	pulls := []forge.Pull{{Number: 9}, {Number: 3}, {Number: 5}}
	for _, want := range []int{3, 5, 9, 3} {
		next := s.order(pulls)
		if len(next) != 3 || next[0].Number != want {
			t.Errorf("after %d: %v, want %d", s.last, next, want)
		}
		s.last = next[0].Number
	}
}

func TestTheProcessIsConfined(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "f")
	for _, what := range []string{"memory", file} {
		cmd := exec.Command(program)
		cmd.Env = append(environment(), "PULLS_TEST_HOG="+what)
		if out, err := cmd.CombinedOutput(); err == nil || bytes.Contains(out, []byte("took")) {
			t.Errorf("%s: it took all: %.300s", what, out)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Size() > maxFile {
		t.Errorf("%v, %v", info.Size(), err)
	}
	b := newBench(t, forge.GitHub, site)
	j := job{Repo: b.o.Repo, Branch: "main", Limit: time.Microsecond}
	if _, err := call(t.Context(), j); err == nil || !strings.Contains(err.Error(), "took longer than 1µs") {
		t.Errorf("error is %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	j.Limit = time.Minute
	if _, err := call(ended, j); err == nil {
		t.Error("a plan after the end")
	}
}

func TestTheProcessHasNoVariableThatItDoesNotNeed(t *testing.T) {
	t.Setenv("SOPS_AGE_KEY", "AGE-SECRET-KEY-1")
	t.Setenv("ZESTER_CREDS", "/etc/zester/creds")
	t.Setenv("https_proxy", "http://proxy.example")
	all := strings.Join(environment(), "\n")
	if strings.Contains(all, "AGE-SECRET") || strings.Contains(all, "ZESTER_CREDS") || !strings.Contains(all, "https_proxy=") || !strings.Contains(all, workerMark+"=1") {
		t.Errorf("%s", all)
	}
}

func TestAHintHasPullRequestsLookedAt(t *testing.T) {
	b := newBench(t, forge.GitHub, site)
	c, err := New(b.o)
	if err != nil {
		t.Fatal(err)
	}
	nc := b.bus.Conn(t, grants.RoleMaster, "m2")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, nc, peelindex.New(), b.store) }()
	if err := nc.Publish(wire.BranchMoved, nil); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
