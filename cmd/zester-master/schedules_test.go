package main_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

// A model is a server that prompts are sent to. The test hears each prompt and says what is answered.
type model struct {
	t       *testing.T
	prompts chan string
	answers chan int      // status codes
	relaxed chan struct{} // closed when every call is answered at once
	url     string
}

func newModel(t *testing.T) *model {
	t.Helper()
	m := &model{t: t, prompts: make(chan string), answers: make(chan int), relaxed: make(chan struct{})}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	m.url = server.URL + "/v1/chat/completions"
	return m
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Model    string
		Messages []struct{ Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || len(q.Messages) == 0 {
		http.Error(w, "no chat", http.StatusTeapot)
		return
	}
	select {
	case m.prompts <- q.Model + ": " + q.Messages[len(q.Messages)-1].Content:
	case <-m.relaxed:
	case <-r.Context().Done():
	}
	var code int
	select {
	case code = <-m.answers:
	case <-m.relaxed:
		code = http.StatusOK
	case <-r.Context().Done():
		return
	}
	if w.WriteHeader(code); code == http.StatusOK {
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": "Empty."}, "finish_reason": "stop"}}})
	}
}

// hear waits for the next prompt.
func (m *model) hear(want string) {
	m.t.Helper()
	select {
	case got := <-m.prompts:
		if got != want {
			m.t.Fatalf("the model is sent %q, want %q", got, want)
		}
	case <-time.After(patience):
		m.t.Fatal("no prompt is sent to the model")
	}
}

// answer ends the call that was heard last.
func (m *model) answer(code int) {
	m.t.Helper()
	select {
	case m.answers <- code:
	case <-time.After(patience):
		m.t.Fatal("no call waits for an answer")
	}
}

// writer starts a master that serves REST, follows the repo of a forge, and makes commits there in the names of tokens.
func (s *site) writer(f *forge) (master *process, base string) {
	s.t.Helper()
	s.write("password", forgePassword+"\n")
	s.write("secret", hookSecret+"\n")
	s.write("master.yaml", fmt.Sprintf(`
data_dir: master
repo: %s
poll: 100h
listen: 127.0.0.1:0
rest: {listen: "127.0.0.1:0"}
git: {password: password}
write: {mode: direct, password: password, mail_domain: example.com}
schedules: {target: "G@prompt_models:*"}
hooks: [{name: fleet, provider: github, secrets: [secret]}]
`, f.url))
	master = s.daemon("zester-master", "--config", "master.yaml")
	base = "https://" + regexp.MustCompile(`"listen":"([^"]*)"`).FindStringSubmatch(master.waitFor("REST is served"))[1]
	master.waitFor("master is ready")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook, f.web = base+"/hooks/fleet", natstest.HTTPS(s.t, s.path("master/tls/ca.crt"))
	return master, base
}

// A listed is a schedule as the API shows it.
type listed struct {
	ID       int
	Name     string
	Type     string `json:"schedule_type"`
	Cron     string `json:"cron_expr"`
	Interval int64  `json:"interval_ms"`
	Prompt   string
	Model    string
	Enabled  bool
	Next     int64  `json:"next_run"`
	Last     int64  `json:"last_run"`
	Result   string `json:"last_result"`
	Errors   int    `json:"consecutive_errors"`
	User     string `json:"user_uuid"`
	Created  int64  `json:"created_at"`
	Running  int
	By       string `json:"managed_by"`
}

// schedules asks for a route of schedules. The answer has to have the code, and contain the text.
func (w web) schedules(code int, method, path string, body any, contains string) []byte {
	w.t.Helper()
	got, answer := w.do(method, "/api/v1/schedules"+path, body)
	if got != code || !strings.Contains(string(answer), contains) {
		w.t.Fatalf("%s /schedules%s: %d %s, want %d and %s", method, path, got, answer, code, contains)
	}
	return answer
}

// until asks for a schedule until it is as is wanted.
func (w web) until(path string, wanted func(listed) bool) listed {
	w.t.Helper()
	var one listed
	for limit := time.Now().Add(patience); time.Now().Before(limit); <-time.After(lookAgain) {
		one = listed{}
		if err := json.Unmarshal(w.schedules(200, "GET", path, nil, ""), &one); err != nil {
			w.t.Fatal(err)
		}
		if wanted(one) {
			return one
		}
	}
	w.t.Fatalf("the schedule stays %+v", one)
	return one
}

// TestAScheduleOfTheAPIIsACommitThatRunsAndPausesAndGoes follows a schedule from its request to its removal, with a repository that
// Git serves and a model that prompts are sent to. The requests are those that the document of the API prints.
func TestAScheduleOfTheAPIIsACommitThatRunsAndPausesAndGoes(t *testing.T) {
	s := newSite(t, fstest.MapFS{"top.yaml": {Data: []byte("base:\n  '*': [all]\n")}, "settings/all.yaml": {Data: []byte("schedule:\n  by-hand: {module: test.ping, interval: 1h}\n")}})
	f, m := newForge(s), newModel(t)
	_, base := s.writer(f)
	s.write("peel.yaml", fmt.Sprintf("id: web-01\ndata_dir: peel\nurl: %s\ncreds: %s\nprompt: {url: %q, model: glm-5.1}\n", s.url(), s.issue(grants.RolePeel, "web-01"), m.url))
	peel := s.daemon("zester-peel", "--config", "peel.yaml")
	peel.waitFor("settings applied")
	s.awaitPeel(s.client())
	admin := web{t, natstest.HTTPS(t, s.path("master/tls/ca.crt")), base, strings.TrimSpace(s.zester(0, "auth", "token", "create", "ops", "--scope", "admin"))}
	reader := admin
	reader.token = strings.TrimSpace(s.zester(0, "auth", "token", "create", "eve", "--scope", "read"))

	due := time.Now().Add(time.Hour).UnixMilli()
	for i, body := range []map[string]any{
		{"name": "Daily health check", "prompt": "Check system health and report any issues", "cron": "0 9 * * *", "model": "glm-5.1", "opts": map[string]any{}},
		{"name": "Monitor queue depth", "prompt": "Check ZMQ queue depth and alert if > 100", "every": 300000, "model": "glm-5.1"},
		{"name": "Deploy notification", "prompt": "Announce deployment completion", "at": due, "delete_after_run": true},
		{"name": "Weekly report", "prompt": "Generate weekly system report", "schedule": "every monday at 9am"},
	} {
		var added struct {
			Status, Commit string
			ID             int
			Next           int64 `json:"next_run"`
		}
		if err := json.Unmarshal(admin.schedules(200, "POST", "", body, ""), &added); err != nil || added.Status != "ok" || added.ID != i+1 || added.Next < time.Now().UnixMilli() {
			t.Errorf("%+v, %v", added, err)
		}
		if got := run(t, s.path("served/ops/fleet.git"), "git", "log", "-1", "--format=%H %an <%ae> %cn", "main"); got != added.Commit+" token:ops <token+ops@example.com> zester" {
			t.Error(got)
		}
	}
	admin.schedules(400, "POST", "", map[string]any{"name": "x", "cron": "0 9 * * *"}, "prompt is missing")
	admin.schedules(400, "POST", "", map[string]any{"prompt": "x", "cron": "61 9 * * *"}, "settings/api/x.yaml:")
	reader.schedules(403, "POST", "", map[string]any{"prompt": "x", "every": 300000}, "the token lacks the scope admin")
	if got := string(reader.schedules(200, "GET", "", nil, "")); !strings.Contains(got, `"items":[]`) {
		t.Errorf("who may not sees %s", got)
	}
	var page struct {
		Items                []listed
		Total, Page, PerPage int
	}
	if err := json.Unmarshal(admin.schedules(200, "GET", "?page=1&per_page=50", nil, `"per_page":50`), &page); err != nil || page.Total != 5 || page.Page != 1 || len(page.Items) != 5 {
		t.Fatalf("%+v, %v", page, err)
	}
	if i := page.Items[0]; i.ID != 1 || i.Name != "Daily health check" || i.Type != "cron" || i.Cron != "0 9 * * *" || !i.Enabled || i.Next == 0 || i.Created == 0 {
		t.Errorf("%+v", i)
	}
	if i := page.Items[1]; i.Type != "every" || i.Interval != 300000 || i.Prompt != "Check ZMQ queue depth and alert if > 100" || i.Model != "glm-5.1" || i.User != "token:ops" {
		t.Errorf("%+v", i)
	}
	if by := []string{page.Items[3].By, page.Items[4].By}; !slices.Equal(by, []string{"api", "git"}) {
		t.Errorf("managed by %q", by)
	}
	admin.schedules(400, "GET", "/0", nil, "")
	admin.schedules(404, "GET", "/99", nil, "")

	const prompt = "glm-5.1: How deep is the queue?"
	created := time.Now()
	added := admin.schedules(200, "POST", "?wait=1m", map[string]any{"name": "Queue", "prompt": "How deep is the queue?", "every": 1000}, `"entry":"queue"`)
	peel.waitFor("settings applied", regexp.MustCompile(`[0-9a-f]{40}`).FindString(string(added)))
	m.hear(prompt)
	admin.schedules(409, "POST", "/queue/run", nil, "web-01: cannot run \\\"queue\\\": the entry runs already")
	admin.until("/queue", func(l listed) bool { return l.Running == 1 })
	admin.schedules(409, "DELETE", "/queue", nil, "queue is running on web-01")
	for failed := 1; ; failed++ {
		m.answer(http.StatusBadRequest)
		if failed == 10 {
			break
		}
		admin.do("POST", "/api/v1/schedules/queue/run", nil) // if it is too early, the next run begins by itself
		m.hear(prompt)
	}
	one := admin.until("/queue", func(l listed) bool { return !l.Enabled })
	if one.Errors != 10 || one.Last < created.UnixMilli() || one.Last > time.Now().UnixMilli() || !strings.Contains(one.Result, strconv.Itoa(http.StatusBadRequest)) || one.Next != 0 {
		t.Errorf("%+v", one)
	}
	admin.schedules(400, "POST", "/queue/run", nil, "unpause it first")
	admin.schedules(200, "POST", "/queue/unpause", nil, `"status":"active"`)
	m.hear(prompt)
	close(m.relaxed)
	admin.until("/queue", func(l listed) bool { return l.Enabled && l.Running == 0 && l.Result == "ok" && l.Errors == 0 })

	removed := admin.schedules(200, "DELETE", "/queue", nil, `"status":"deleted"`)
	peel.waitFor("settings applied", regexp.MustCompile(`[0-9a-f]{40}`).FindString(string(removed)), `"stopped":1`)
	if out := s.zester(0, "web-01", "schedule.list"); strings.Contains(out, " queue ") || !strings.Contains(out, " monitor-queue-depth ") {
		t.Errorf("the peel has\n%s", out)
	}
	if got := run(t, s.path("served/ops/fleet.git"), "git", "ls-tree", "--name-only", "main", "settings/api/"); strings.Contains(got, "/queue.yaml") || !strings.Contains(got, "/weekly-report.yaml") {
		t.Errorf("the repo has\n%s", got)
	}
	admin.schedules(404, "GET", "/queue", nil, "")
	admin.schedules(404, "DELETE", "/queue", nil, "")
	if merges := run(t, s.path("served/ops/fleet.git"), "git", "rev-list", "--count", "main"); merges != "7" {
		t.Errorf("%s commits, want 7", merges)
	}
}

var killSeed = flag.Uint64("kill.seed", 0, "kill masters at the pushes that this number chooses; 0: a random one")

// A reaper serves a repository and kills masters that push to it, before or after Git has the commit.
type reaper struct {
	git    http.Handler
	kills  map[int]bool // by the number of the push: whether Git gets it before
	deaths chan string  // names of masters that were killed

	mu      sync.Mutex
	pushes  int
	masters map[string]*process // that run
}

// ServeHTTP passes requests on to Git. The user of a push names the master.
func (r *reaper) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	name, password, _ := q.BasicAuth()
	switch {
	case password != forgePassword:
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
		return
	case q.Method != http.MethodPost || path.Base(q.URL.Path) != "git-receive-pack":
		r.git.ServeHTTP(w, q)
		return
	}
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	q.Body = io.NopCloser(bytes.NewReader(body))
	r.mu.Lock()
	r.pushes++
	after, kills := r.kills[r.pushes]
	r.mu.Unlock()
	switch {
	case !kills:
		r.git.ServeHTTP(w, q)
	case after:
		r.git.ServeHTTP(httptest.NewRecorder(), q.WithContext(context.Background()))
		r.kill(name)
	default:
		r.kill(name)
	}
}

// kill ends a master as a loss of power would.
func (r *reaper) kill(name string) {
	r.mu.Lock()
	p := r.masters[name]
	delete(r.masters, name)
	r.mu.Unlock()
	if p != nil {
		_ = p.cmd.Process.Kill()
		r.deaths <- name
	}
}

const (
	clients = 10
	each    = 5 // schedules of a client
)

// create adds schedules as one token, at one master or the other, and repeats each request with its key until it is answered. It
// returns the numbers.
func create(masters []web, client int) (ids [each]int, err error) {
	for n := range each {
		body := fmt.Sprintf(`{"name": "check %d %d", "function": "test.ping", "every": 3600000, "target": "*"}`, client, n)
		for try := 0; ids[n] == 0; try++ {
			w := masters[(client+n+try)%len(masters)]
			ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second) // a master that died does not answer
			req, err := http.NewRequestWithContext(ctx, "POST", w.base+"/api/v1/schedules", strings.NewReader(body))
			if err != nil {
				cancel()
				return ids, err
			}
			req.Header = http.Header{"Authorization": {"Bearer " + w.token}, "Content-Type": {"application/json"}, "Idempotency-Key": {strconv.Itoa(n)}}
			code, answer := 0, []byte(nil)
			if resp, err := w.client.Do(req); err == nil {
				code = resp.StatusCode
				answer, _ = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			cancel()
			var added struct{ ID int }
			switch {
			case code == http.StatusOK && json.Unmarshal(answer, &added) == nil:
				ids[n] = added.ID
			case w.t.Context().Err() != nil || try > 200:
				return ids, fmt.Errorf("%s: %d %s", body, code, answer)
			case code != 0 && code != http.StatusServiceUnavailable && code != http.StatusTooManyRequests && !strings.Contains(string(answer), "ask again"):
				return ids, fmt.Errorf("%s: %d %s", body, code, answer)
			default:
				<-time.After(lookAgain)
			}
		}
	}
	return ids, nil
}

// TestMastersThatAreKilledLoseAndDoubleNoCommit has ten clients create fifty schedules at once, through two masters. Some pushes kill
// their master.
func TestMastersThatAreKilledLoseAndDoubleNoCommit(t *testing.T) {
	s := newSite(t, fstest.MapFS{"top.yaml": {Data: []byte("base:\n  '*': [all]\n")}, "settings/all.yaml": {Data: []byte("schedule:\n  by-hand: {module: test.ping, interval: 1h}\n")}})
	f := newForge(s)
	seed := cmp.Or(*killSeed, rand.Uint64())
	t.Logf("-kill.seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	r := &reaper{git: f.git, kills: map[int]bool{}, deaths: make(chan string, clients*each), masters: map[string]*process{}}
	for len(r.kills) < 6 {
		r.kills[1+random.IntN(40)] = random.IntN(2) == 0
	}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	s.write("password", forgePassword+"\n")
	s.daemon("zester-master", "--id", "bus", "--data-dir", "master", "--listen", "127.0.0.1:0").waitFor("master is ready")

	ports := natstest.Reserve(t, 2)
	address := map[string]string{"m1": fmt.Sprintf("127.0.0.1:%d", ports[0]), "m2": fmt.Sprintf("127.0.0.1:%d", ports[1])}
	start := func(name string) *process {
		p := s.daemon("zester-master", "--nats", s.url(), "--creds", s.path(name+".creds"), "--data-dir", name, "--repo", server.URL+"/ops/fleet.git", "--poll", "1h",
			"--rest-listen", address[name], "--git-user", name, "--git-password", "password", "--write-mode", "direct", "--write-user", name, "--write-password", "password")
		r.mu.Lock()
		defer r.mu.Unlock()
		r.masters[name] = p
		return p
	}
	var masters []web
	for _, name := range []string{"m1", "m2"} {
		s.issue(grants.RoleMaster, name)
		start(name).waitFor("master is ready")
		masters = append(masters, web{t: t, client: natstest.HTTPS(t, s.path(name+"/tls/ca.crt")), base: "https://" + address[name]})
	}

	var group errgroup.Group
	ids := make([][each]int, clients)
	for i := range clients {
		text, _, err := s.client().TokenCreate(s.ctx(), credential.TokenRequest{Name: fmt.Sprintf("c%d", i), Scopes: []credential.Scope{credential.ScopeAdmin}})
		if err != nil {
			t.Fatal(err)
		}
		own := slices.Clone(masters)
		for n := range own {
			own[n].token = text
		}
		group.Go(func() (err error) {
			ids[i], err = create(own, i)
			return err
		})
	}
	done := make(chan error, 1)
	go func() { done <- group.Wait() }()
	for deaths, ended := 0, false; !ended; {
		select {
		case name := <-r.deaths:
			start(name)
			deaths++
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			if ended = true; deaths < 6 {
				t.Errorf("%d masters were killed, want 6", deaths)
			}
		}
	}

	git := func(args ...string) string { return run(t, s.path("served/ops/fleet.git"), "git", args...) }
	git("fsck", "--strict")
	if all, merges := git("rev-list", "--count", "main"), git("rev-list", "--count", "--min-parents=2", "main"); all != "51" || merges != "0" {
		t.Errorf("%s commits and %s merges, want 51 and 0", all, merges)
	}
	authors := git("log", "--format=%an", "main")
	seen := map[int]bool{}
	for i := range clients {
		if n := strings.Count(authors+"\n", fmt.Sprintf("token:c%d\n", i)); n != each {
			t.Errorf("client %d has %d commits, want %d", i, n, each)
		}
		for n, id := range ids[i] {
			seen[id] = true
			if file := git("show", fmt.Sprintf("main:settings/api/check-%d-%d.yaml", i, n)); !strings.Contains(file, fmt.Sprintf("id: %d\n", id)) {
				t.Errorf("schedule %d of client %d is answered with number %d, and is\n%s", n, i, id, file)
			}
		}
	}
	if len(seen) != clients*each {
		t.Errorf("%d numbers for %d schedules", len(seen), clients*each)
	}
	if n := strings.Count(git("show", "main:top.d/api.yaml"), "    - api.check-"); n != clients*each {
		t.Errorf("%d references", n)
	}
}

// TestACommitOutlivesTheTokenThatAskedForIt revokes a token after its commit and before the fleet applies that.
func TestACommitOutlivesTheTokenThatAskedForIt(t *testing.T) {
	s := newSite(t, fstest.MapFS{"top.yaml": {Data: []byte("base:\n  '*': [all]\n")}, "settings/all.yaml": {Data: []byte("a: 1\n")}})
	master, base := s.writer(newForge(s))
	master.waitFor("revision in force")
	peel := s.daemon("zester-peel", "--id", "web-01", "--data-dir", "peel", "--url", s.url(), "--creds", s.issue(grants.RolePeel, "web-01"))
	peel.waitFor("settings applied")
	token := web{t, natstest.HTTPS(t, s.path("master/tls/ca.crt")), base, strings.TrimSpace(s.zester(0, "auth", "token", "create", "gone", "--scope", "admin"))}
	body := map[string]any{"name": "queue", "function": "test.ping", "every": 3600000, "target": "*"}

	s.zester(0, "sync", "pause")
	commit := regexp.MustCompile(`[0-9a-f]{40}`).FindString(string(token.schedules(200, "POST", "", body, "")))
	s.zester(0, "auth", "token", "revoke", "gone")
	for code := 0; code != http.StatusUnauthorized; <-time.After(lookAgain) { // masters know within a second
		code, _ = token.do("GET", "/api/v1/schedules/queue", nil)
	}
	if peel.wrote(commit) {
		t.Fatal("a paused reconciler sends settings")
	}
	s.zester(0, "sync", "resume")
	peel.waitFor("settings applied", commit)
	if out := s.zester(0, "web-01", "schedule.list"); !strings.Contains(out, "token:gone <token+gone@example.com>") {
		t.Errorf("the peel has\n%s", out)
	}
}
