package cmd_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gopkg.in/yaml.v3"
)

// forge is the part of a forge that keeps the comments of one pull request, as the others see it on loopback.
type forge struct {
	t    *testing.T
	kind string

	mu       sync.Mutex
	comments []map[string]any
	edits    int
}

// The routes of the comments of pull request 7 and of one comment, by kind of forge, and how a token is sent.
var forges = map[string]struct{ list, one, update, header, value string }{
	"github":  {"/repos/o/fleet/issues/7/comments", "/repos/o/fleet/issues/comments/", "PATCH", "Authorization", "Bearer sesame"},
	"forgejo": {"/api/v1/repos/o/fleet/issues/7/comments", "/api/v1/repos/o/fleet/issues/comments/", "PATCH", "Authorization", "token sesame"},
	"gitlab":  {"/projects/12/merge_requests/7/notes", "/projects/12/merge_requests/7/notes/", "PUT", "Private-Token", "sesame"},
}

// me is who a comment of the job is by, stranger who else comments.
var (
	me       = map[string]any{"id": 5, "login": "planner", "type": "Bot"}
	stranger = map[string]any{"id": 6, "login": "mallory", "type": "User"}
)

func newForge(t *testing.T, kind string) (*forge, string) {
	f := &forge{t: t, kind: kind}
	for i := range 120 { // more than a page, one of them with the marker
		f.add(stranger, fmt.Sprintf("<!-- zester plan -->\nNice, %d", i))
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, server.URL
}

func (f *forge) add(by map[string]any, body string) {
	f.comments = append(f.comments, map[string]any{"id": 100 + len(f.comments), "body": body, "user": by, "author": by})
}

func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	is := forges[f.kind]
	if r.Header.Get(is.header) != is.value {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	var posted struct{ Body string }
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&posted); err != nil || posted.Body == "" || len(posted.Body) > 65_536 {
			http.Error(w, "no comment", http.StatusUnprocessableEntity)
			return
		}
	}
	id, isOne := strings.CutPrefix(r.URL.Path, is.one)
	switch {
	case f.kind == "gitlab" && r.Method == http.MethodGet && r.URL.Path == "/user":
		f.answer(w, me)
	case r.Method == http.MethodGet && r.URL.Path == is.list:
		f.answer(w, f.page(r))
	case r.Method == http.MethodPost && r.URL.Path == is.list:
		f.add(me, posted.Body)
		w.WriteHeader(http.StatusCreated)
	case r.Method == is.update && isOne:
		n, err := strconv.Atoi(id)
		if n -= 100; err != nil || n < 0 || n >= len(f.comments) || f.comments[n]["user"].(map[string]any)["login"] != me["login"] {
			http.Error(w, "not yours", http.StatusForbidden)
			return
		}
		f.comments[n]["body"], f.edits = posted.Body, f.edits+1
	default:
		http.NotFound(w, r)
	}
}

// page cuts the comments as the forge does: Forgejo gives all.
func (f *forge) page(r *http.Request) []map[string]any {
	if f.kind == "forgejo" {
		return f.comments
	}
	size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	from := min(len(f.comments), size*(page-1))
	return f.comments[from:min(len(f.comments), from+size)]
}

func (f *forge) answer(w http.ResponseWriter, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		f.t.Error(err)
	}
}

// own are the comments of the job.
func (f *forge) own() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var own []string
	for _, c := range f.comments {
		if c["user"].(map[string]any)["login"] == me["login"] {
			own = append(own, c["body"].(string))
		}
	}
	return own
}

// A step is one shell part of a recipe, with the variables that it adds.
type step struct {
	name, run string
	env       map[string]string
	always    bool // it runs after a step that failed too
}

// workflow reads a recipe of GitHub's kind and puts values in place of its expressions.
func workflow(t *testing.T, file string, expressions map[string]string) []step {
	t.Helper()
	var doc struct {
		On   map[string]any `yaml:"on"`
		Jobs map[string]struct {
			Steps []struct {
				Name, Uses, Run, If string
				Env                 map[string]string
				With                map[string]any
			}
		}
	}
	read(t, file, &doc)
	if _, ok := doc.On["pull_request"]; !ok || len(doc.Jobs) != 1 {
		t.Fatalf("%s runs on %v", file, doc.On)
	}
	var steps []step
	for _, s := range doc.Jobs["plan"].Steps {
		if strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["fetch-depth"] != 0 {
			t.Errorf("%s: the history is not fetched", file)
		}
		if s.Uses != "" || strings.HasPrefix(s.Run, "go install ") {
			continue
		}
		env := map[string]string{}
		for name, value := range s.Env {
			given, ok := expressions[value]
			if !ok {
				t.Errorf("%s: nobody knows %s", file, value)
			}
			env[name] = given
		}
		if strings.Contains(s.Run, "${{") {
			t.Errorf("%s: step %s has an expression in its shell, where a pull request could write what runs", file, s.Name)
		}
		steps = append(steps, step{s.Name, s.Run, env, strings.Contains(s.If, "!cancelled()")})
	}
	return steps
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// pipeline reads GitLab's recipe, whose script runs in one shell.
func pipeline(t *testing.T, file string) []step {
	t.Helper()
	var doc map[string]struct {
		Rules     []map[string]string
		Variables map[string]string
		Script    []string
	}
	read(t, file, &doc)
	job := doc["zester"]
	if len(job.Rules) != 1 || job.Rules[0]["if"] != `$CI_PIPELINE_SOURCE == "merge_request_event"` || job.Variables["GIT_DEPTH"] != "0" {
		t.Errorf("%s: %v, %v", file, job.Rules, job.Variables)
	}
	return []step{{name: "script", run: strings.Join(job.Script, "\n")}}
}

// A job runs the shell parts of a recipe in a clone, and asks a forge.
type job struct {
	dir   string
	env   []string
	steps []step
}

// run is a run of the job for the commit that is checked out: it tells whether all steps passed.
func (j *job) run(t *testing.T) (passed bool, out string) {
	t.Helper()
	passed = true
	for _, s := range j.steps {
		if !passed && !s.always {
			continue
		}
		bash := exec.CommandContext(t.Context(), "bash", "-eo", "pipefail", "-c", s.run)
		bash.Dir, bash.Env = j.dir, slices.Clone(j.env)
		for name, value := range s.env {
			bash.Env = append(bash.Env, name+"="+value)
		}
		text, err := bash.CombinedOutput()
		out += string(text)
		if err != nil {
			passed, out = false, out+fmt.Sprintf("step %s: %v\n", s.name, err)
		}
	}
	return passed, out
}

// newJob makes a config repo with a branch main, and a clone of it with the branch topic.
func newJob(t *testing.T, bin, kind, url string) *job {
	t.Helper()
	origin := filepath.Join(t.TempDir(), "origin")
	if err := os.CopyFS(origin, os.DirFS("../examples/fleet")); err != nil {
		t.Fatal(err)
	}
	peels := "peels: {web-01: {facts: {kernel: linux}}, web-02: {facts: {kernel: linux}}, db-01: {facts: {role: database}}, db-02: {}}\n"
	if err := os.WriteFile(filepath.Join(origin, "peels.yaml"), []byte(peels), 0o644); err != nil {
		t.Fatal(err)
	}
	fleets := "."
	if kind != "forgejo" { // two fleets: the whole repo, and a folder of it
		prod := filepath.Join(origin, "prod")
		if err := os.CopyFS(prod, os.DirFS("../examples/fleet")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(prod, "peels.yaml"), []byte(peels), 0o644); err != nil {
			t.Fatal(err)
		}
		fleets = ". prod"
	}
	j := cloneJob(t, bin, kind, url, origin, "../examples/ci/"+kind+".yaml")
	j.env = append(j.env, "FLEETS="+fleets)
	return j
}

// cloneJob commits the files of a config repo as its branch main, and makes a clone with the branch topic, in which it runs
// a recipe.
func cloneJob(t *testing.T, bin, kind, url, origin, recipe string) *job {
	t.Helper()
	dir := filepath.Dir(origin)
	j := &job{dir: filepath.Join(dir, "clone"), env: append(os.Environ(),
		"PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "RUNNER_TEMP="+dir, "GITHUB_STEP_SUMMARY="+filepath.Join(dir, "summary"),
		"GITHUB_BASE_REF=main", "GITHUB_REPOSITORY=o/fleet", "GITHUB_API_URL="+url, "GITHUB_SERVER_URL="+url,
		"CI_API_V4_URL="+url, "CI_PROJECT_ID=12", "CI_MERGE_REQUEST_IID=7", "COMMENT_TOKEN=sesame",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")}
	j.git(t, origin, "init", "-q", "-b", "main")
	j.git(t, origin, "add", ".")
	j.git(t, origin, "commit", "-q", "-m", "The fleet as it is")
	j.git(t, dir, "clone", "-q", origin, "clone")
	j.git(t, j.dir, "checkout", "-q", "-b", "topic")
	base := strings.TrimSpace(j.git(t, j.dir, "rev-parse", "HEAD"))
	j.env = append(j.env, "CI_MERGE_REQUEST_DIFF_BASE_SHA="+base)
	if kind == "gitlab" {
		j.steps = pipeline(t, recipe)
		return j
	}
	j.steps = workflow(t, recipe, map[string]string{
		"${{ github.token }}": "sesame", "${{ secrets.COMMENT_TOKEN }}": "sesame", "${{ vars.COMMENT_USER }}": "planner",
		"${{ github.event.pull_request.number }}": "7",
	})
	return j
}

func (j *job) git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Env = dir, j.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// commit puts a file into the branch, which is what the next run is for.
func (j *job) commit(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(j.dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	j.git(t, j.dir, "add", ".")
	j.git(t, j.dir, "commit", "-q", "-m", "Change "+name)
	j.env = append(j.env, "CI_COMMIT_SHA="+strings.TrimSpace(j.git(t, j.dir, "rev-parse", "HEAD")))
}

// TestTheCIRecipesKeepOneComment runs what a job of each forge would: a first commit is commented, a second one changes
// that comment, and what the fleet would refuse fails the job and says why.
func TestTheCIRecipesKeepOneComment(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the command and runs shells")
	}
	for _, tool := range []string{"curl", "jq", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	bin := programs(t)
	const health = "schedule:\n  health: {module: test.ping, interval: 2m, splay: 10s}\n"
	for kind := range forges {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f, url := newForge(t, kind)
			j := newJob(t, bin, kind, url)
			for _, c := range []struct {
				name, text string
				passes     bool
				want       string // in the comment
			}{
				{"settings/db/backup.yaml", "schedule:\n  backup: {module: test.ping, cron: '30 4 * * *', timezone: Europe/London, splay: 20m}\n", true, "2 of 4 peels change (50 %)"},
				{"settings/web/health.yaml", health, true, "2 of 4 peels change (50 %)"},
				{"settings/web/schedule.yaml", "schedule:\n  log_size: {module: test.ping, intervall: 5m}\n", false, `settings/web/schedule.yaml:2:33: schedule.log_size.intervall: unknown field; did you mean "interval"?`},
			} {
				j.commit(t, c.name, c.text)
				passed, out := j.run(t)
				if passed != c.passes {
					t.Fatalf("passed is %v\n%s", passed, out)
				}
				own := f.own()
				if len(own) != 1 || !strings.HasPrefix(own[0], "<!-- zester plan -->\n") || !strings.Contains(own[0], c.want) {
					t.Fatalf("no %q in the comments %q\n%s", c.want, own, out)
				}
				if kind != "forgejo" && !strings.Contains(own[0], "### zester plan of prod: nothing changes on any of 4 peels") {
					t.Errorf("nothing of the second fleet in the comment %q", own)
				}
			}
			if f.edits != 2 {
				t.Errorf("%d edits, want 2", f.edits)
			}
		})
	}
}

// TestThePreCommitHookNamesTheLinter holds the hook against the command and the files that it reads.
func TestThePreCommitHookNamesTheLinter(t *testing.T) {
	var hooks []map[string]any
	read(t, "../.pre-commit-hooks.yaml", &hooks)
	want := []struct{ id, language string }{{"zester-lint-system", "system"}, {"zester-lint", "golang"}}
	if len(hooks) != len(want) {
		t.Fatalf("%v", hooks)
	}
	for i, w := range want {
		h := hooks[i]
		if h["id"] != w.id || h["language"] != w.language || h["entry"] != "zester lint" || h["pass_filenames"] != false || h["files"] != hooks[0]["files"] {
			t.Errorf("%v", h)
		}
	}
}

// TestTheRecipeOfANewRepoPassesBeforeAnyHostJoins runs the recipe that zester init has written, on the files that it has
// written and on the first changes of them.
func TestTheRecipeOfANewRepoPassesBeforeAnyHostJoins(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the command and runs shells")
	}
	for _, tool := range []string{"curl", "jq", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	bin := programs(t)
	for kind, recipe := range map[string]string{
		"github": ".github/workflows/zester.yaml", "gitlab": ".gitlab-ci.yml", "forgejo": ".forgejo/workflows/zester.yaml",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f, url := newForge(t, kind)
			origin := filepath.Join(t.TempDir(), "origin")
			cli{t, bin + "zester", nil}.must("init", origin, "--forge", kind)
			j := cloneJob(t, bin, kind, url, origin, filepath.Join(origin, recipe))
			for _, c := range []struct {
				name, text string
				passes     bool
				want       string // in the comment
			}{
				{"settings/common/base.yaml", "schedule:\n  disk-check: {module: test.ping, interval: 2h}\n", true, "no peels are known: which hosts get what was not checked"},
				{"settings/common/base.yaml", "schedule:\n  disk-check: {module: test.ping, intervall: 2h}\n", false, `did you mean "interval"?`},
				{"settings/common/base.yaml", "schedule:\n  disk-check: {module: test.ping, interval: 3h}\n", true, "no peels are known"},
				{"peels.yaml", "peels: {web-01: {}}\n", true, "1 of 1 peels changes"},
			} {
				j.commit(t, c.name, c.text)
				passed, out := j.run(t)
				own := f.own()
				if passed != c.passes || len(own) != 1 || !strings.Contains(own[0], c.want) {
					t.Fatalf("%s: passed is %v, and the comments are %q\n%s", c.text, passed, own, out)
				}
			}
		})
	}
}
