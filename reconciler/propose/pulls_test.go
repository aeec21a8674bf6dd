package propose_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/forge"
	"github.com/seed-c01c3da5/zester/master/forge/forgetest"
	"github.com/seed-c01c3da5/zester/reconciler/propose"
)

// proposes starts a service that opens pull requests on a forge.
func (s *site) proposes() *forgetest.Server {
	s.t.Helper()
	f, token, o := forgetest.New(s.t, forge.GitHub), filepath.Join(s.dir, "token"), s.options()
	if err := os.WriteFile(token, []byte(forgetest.Token), 0o600); err != nil {
		s.t.Fatal(err)
	}
	var err error
	if o.Forge, err = forge.New(forge.Options{Provider: forge.GitHub, URL: f.Repo(), Token: token}); err != nil {
		s.t.Fatal(err)
	}
	o.Mode = propose.Propose
	s.start("m1", o)
	return f
}

// branches returns the branches that the service made.
func (s *site) branches() []string {
	return strings.Fields(s.git("-C", s.repo, "for-each-ref", "--format=%(refname:short)", "refs/heads/zester"))
}

// TestTheSameRequestOpensThePullRequestThatCouldNotBeOpened has a forge that is away when the branches are pushed.
func TestTheSameRequestOpensThePullRequestThatCouldNotBeOpened(t *testing.T) {
	s := newSite(t)
	f := s.proposes()
	ann := s.client("ann")
	keyed := ping("With a key")
	keyed.Key = "k"
	ask := map[string]func() (*api.ScheduleChanged, error){
		"keyed":   func() (*api.ScheduleChanged, error) { return ann.ScheduleAdd(t.Context(), keyed) },
		"unkeyed": func() (*api.ScheduleChanged, error) { return ann.ScheduleAdd(t.Context(), ping("Without a key")) },
		"disable": func() (*api.ScheduleChanged, error) { return ann.change("disable", "by-hand") },
		"remove":  func() (*api.ScheduleChanged, error) { return ann.change("remove", "by-hand") },
	}
	f.Refuse(503)
	for name, request := range ask {
		for range 2 {
			if _, err := request(); api.CodeOf(err) != api.CodeUnavailable || !strings.Contains(err.Error(), "the same request opens it") {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	branches := s.branches()
	if len(branches) != len(ask) {
		t.Errorf("%d requests, each sent twice, made the branches %q", len(ask), branches)
	}
	f.Refuse(0)
	pages := map[string]bool{}
	for name, request := range ask {
		for range 2 {
			out, err := request()
			if err != nil || !out.Repeated || !out.Proposed || !slices.Contains(branches, out.Branch) || out.Commit != s.git("-C", s.repo, "rev-parse", out.Branch) {
				t.Errorf("%s: %+v, %v", name, out, err)
				continue
			}
			if name == "keyed" && out.ID == 0 || name == "unkeyed" && out.ID != 0 {
				t.Errorf("%s has the number %d", name, out.ID)
			}
			pages[out.URL] = true
		}
	}
	if pulls := f.Pulls(); len(pulls) != len(ask) || len(pages) != len(ask) || len(s.branches()) != len(branches) {
		t.Errorf("pull requests %+v with pages %v of the branches %q", pulls, pages, s.branches())
	}
	if got := s.log("%s"); len(got) != 1 {
		t.Errorf("the branch of the fleet has %q", got)
	}
}

func TestARequestWhoseBranchWasMergedAndUndoneIsMadeAgain(t *testing.T) {
	s := newSite(t)
	s.proposes()
	ann := s.client("ann")
	first, err := ann.change("disable", "by-hand")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.git("-C", s.repo, "show", first.Branch+":settings/all.yaml"); !strings.Contains(got, "    enabled: false # too loud\n") {
		t.Error(got)
	}
	work := filepath.Join(s.dir, "work")
	s.git("-C", work, "remote", "add", "bare", s.repo)
	s.git("-C", work, "pull", "-q", "bare", first.Branch)
	s.git("-C", work, "push", "-q", "bare", "HEAD:main")
	if again, err := ann.change("disable", "by-hand"); err != nil || !again.Repeated || again.Proposed || again.Branch != "main" {
		t.Errorf("merged: %+v, %v", again, err)
	}
	s.git("-C", work, "-c", "user.name=Bob", "-c", "user.email=bob@example.com", "revert", "--no-edit", "HEAD")
	s.git("-C", work, "push", "-q", "bare", "HEAD:main")
	second, err := ann.change("disable", "by-hand")
	if err != nil || second.Repeated || second.Branch == first.Branch || second.Commit == first.Commit {
		t.Errorf("undone: %+v, %v", second, err)
	}
}

// The same change that two people propose is a branch and a commit of each.
func TestWhatTwoPeopleProposeIsOnTwoBranches(t *testing.T) {
	s := newSite(t)
	s.proposes()
	branches := map[string]string{}
	for _, user := range []string{"ann", "bob"} {
		out, err := s.client(user).change("remove", "by-hand")
		if err != nil || out.Repeated {
			t.Fatalf("%s: %+v, %v", user, out, err)
		}
		branches[out.Branch] = user
		if author := s.git("-C", s.repo, "log", "-1", "--format=%an", out.Branch); author != user {
			t.Errorf("the branch of %s has a commit of %s", user, author)
		}
	}
	if len(branches) != 2 {
		t.Errorf("the branches are %v, want one for each person", branches)
	}
}
