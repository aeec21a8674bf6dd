package propose_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/reconciler/propose"
)

// serve serves the repository over HTTP with Git's own program, and returns options that use it. onPush is called before each push; if
// it returns a status other than 0, the push is answered with that.
func (s *site) serve(onPush func() (status int)) propose.Options {
	s.t.Helper()
	backend := filepath.Join(s.git("--exec-path"), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		s.t.Skip("needs git-http-backend")
	}
	git := &cgi.Handler{Path: backend, Root: "/", Stderr: io.Discard, Env: []string{
		"GIT_PROJECT_ROOT=" + s.dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "GIT_CONFIG_KEY_1=http.receivepack", "GIT_CONFIG_VALUE_1=true",
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack") && onPush != nil {
			if status := onPush(); status != 0 {
				w.WriteHeader(status)
				return
			}
		}
		git.ServeHTTP(w, r)
	}))
	s.t.Cleanup(server.Close)
	o := s.options()
	o.Write.Repo.URL = server.URL + "/fleet.git"
	return o
}

// push commits files, by name and content, as another would.
func (s *site) push(files ...string) {
	s.t.Helper()
	clone := filepath.Join(s.t.TempDir(), "clone")
	s.git("clone", "-q", s.repo, clone)
	for pair := range slices.Chunk(files, 2) {
		file := filepath.Join(clone, pair[0])
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(pair[1]), 0o600)); err != nil {
			s.t.Fatal(err)
		}
	}
	s.git("-C", clone, "add", ".")
	s.git("-C", clone, "-c", "user.name=Bob", "-c", "user.email=bob@example.com", "commit", "-q", "-m", "change "+files[0])
	s.git("-C", clone, "push", "-q", "origin", "HEAD:main")
}

func TestWhatTheServerDoesNotAllowIsAConflictWithItsReason(t *testing.T) {
	for name, c := range map[string]struct {
		status int    // of a push
		hook   string // what the hook of the server writes
		want   string
	}{
		"a credential that may only read": {status: http.StatusForbidden, want: "403"},
		"a protected branch":              {hook: "GH006: Protected branch update failed", want: "pre-receive hook declined (GH006: Protected branch update failed)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			if c.hook != "" {
				hook := fmt.Sprintf("#!/bin/sh\necho '%s' >&2\nexit 1\n", c.hook)
				if err := os.WriteFile(filepath.Join(s.repo, "hooks", "pre-receive"), []byte(hook), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			s.start("m1", s.serve(func() int { return c.status }))
			if out, err := s.client("ann").ScheduleAdd(t.Context(), ping("x")); api.CodeOf(err) != api.CodeConflict || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, %v; want a conflict with %q", out, err, c.want)
			}
			if got := s.log("%s"); len(got) != 1 {
				t.Errorf("the branch has %q", got)
			}
		})
	}
}

func TestARaceThatIsLostTwiceIsWonAndThreeTimesIsAConflict(t *testing.T) {
	for lost, want := range map[int]api.Code{2: "", 3: api.CodeConflict} {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			s := newSite(t)
			pushes := 0
			s.start("m1", s.serve(func() int {
				if pushes++; pushes <= lost {
					s.push(fmt.Sprintf("docs/%d.md", pushes), "faster\n")
				}
				return 0
			}))
			out, err := s.client("ann").ScheduleAdd(t.Context(), ping("x"))
			if api.CodeOf(err) != want || err != nil && !strings.Contains(err.Error(), "others pushed to the branch 3 times in the meantime; ask again") {
				t.Errorf("%+v, %v", out, err)
			}
			commits := 1 + lost
			if err == nil {
				commits++
			}
			if got := s.log("%s"); len(got) != commits || pushes != 3 {
				t.Errorf("%d pushes, and the branch has %q", pushes, got)
			}
		})
	}
}

func TestAnEntryThatPeopleEditedMeanwhileKeepsTheirEdits(t *testing.T) {
	s := newSite(t)
	edited := false
	s.start("m1", s.serve(func() int {
		if len(s.log("%s")) == 2 && !edited { // the push of the second change
			edited = true
			text := s.git("-C", s.repo, "show", "main:settings/api/x.yaml")
			s.push("settings/api/x.yaml", strings.Replace(text, "interval: 5m", "interval: 7m # less often", 1)+"\n")
		}
		return 0
	}))
	ann := s.client("ann")
	if _, err := ann.ScheduleAdd(t.Context(), ping("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := ann.change("disable", "x"); err != nil {
		t.Fatal(err)
	}
	if got := s.git("-C", s.repo, "show", "main:settings/api/x.yaml"); !edited || !strings.Contains(got, "interval: 7m # less often") || !strings.Contains(got, "enabled: false") {
		t.Errorf("the file is\n%s", got)
	}
}

func TestANumberThatTwoEntriesHaveNamesNeither(t *testing.T) {
	s := newSite(t)
	s.start("m1", s.options())
	ann := s.client("ann")
	if _, err := ann.ScheduleAdd(t.Context(), ping("x")); err != nil {
		t.Fatal(err)
	}
	text := s.git("-C", s.repo, "show", "main:settings/api/x.yaml")
	s.push("top.d/copy.yaml", "base:\n  'db-*': [copy]\n", "settings/copy.yaml", strings.Replace(text, "  x:", "  copy:", 1)+"\n")
	for _, verb := range []string{"remove", "disable"} {
		const want = "settings/api/x.yaml:3:3 and settings/copy.yaml:3:3 both have an entry with the number 1: edit them by hand"
		if _, err := ann.change(verb, "1"); api.CodeOf(err) != api.CodeConflict || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", verb, err)
		}
	}
	page, err := ann.Schedules(t.Context(), api.ScheduleQuery{Limit: 1})
	if err != nil || len(page.Schedules) != 1 || page.Schedules[0].Entry != "x" {
		t.Fatalf("%+v, %v", page, err)
	}
	if page, err = ann.Schedules(t.Context(), api.ScheduleQuery{Limit: 1, Cursor: page.Next}); err != nil || page.Schedules[0].Entry != "copy" {
		t.Errorf("%+v, %v", page, err)
	}
	if _, err := ann.change("remove", "copy"); err != nil {
		t.Error(err)
	}
	if out, err := ann.ScheduleAdd(t.Context(), ping("y")); err != nil || out.ID != 2 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestTheScheduleAfterAThousandIsRefused(t *testing.T) {
	s := newSite(t)
	var b strings.Builder
	b.WriteString("schedule:\n")
	for id := range 999 {
		fmt.Fprintf(&b, "  many-%d:\n    api: {id: %d}\n    module: test.ping\n    interval: 1h\n", id, id+1)
	}
	s.push("top.d/many.yaml", "base:\n  'db-*': [many]\n", "settings/many.yaml", b.String())
	s.start("m1", s.options())
	ann := s.client("ann")
	if out, err := ann.ScheduleAdd(t.Context(), ping("thousand")); err != nil || out.ID != 1000 {
		t.Fatalf("%+v, %v", out, err)
	}
	if _, err := ann.ScheduleAdd(t.Context(), ping("one more")); api.CodeOf(err) != api.CodeConflict || !strings.Contains(err.Error(), "1000 schedules were made over the API") {
		t.Error(err)
	}
	if _, err := ann.change("remove", "7"); err != nil {
		t.Fatal(err)
	}
	if out, err := ann.ScheduleAdd(t.Context(), ping("one more")); err != nil || out.ID != 1001 && out.ID != 1002 {
		t.Errorf("%+v, %v", out, err)
	}
}
