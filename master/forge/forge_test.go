package forge_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/forge"
	"github.com/seed-c01c3da5/zester/master/forge/forgetest"
	"github.com/seed-c01c3da5/zester/master/outbound"
)

var providers = []forge.Provider{forge.GitHub, forge.GitLab, forge.Gitea}

// onEach runs f with a client of each kind of forge.
func onEach(t *testing.T, f func(t *testing.T, c *forge.Client, s *forgetest.Server)) {
	for _, p := range providers {
		t.Run(string(p), func(t *testing.T) {
			s := forgetest.New(t, p)
			f(t, client(t, p, s.Repo(), forgetest.Token), s)
		})
	}
}

func client(t *testing.T, p forge.Provider, url, token string) *forge.Client {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := forge.New(forge.Options{Provider: p, URL: url, Token: file})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPullsAreThoseForTheBranch(t *testing.T) {
	onEach(t, func(t *testing.T, c *forge.Client, s *forgetest.Server) {
		pulls := []forgetest.Pull{{Number: 3, Head: "aa", Branch: "main"}, {Number: 4, Head: "bb", Branch: "other"}, {Number: 5, Head: "cc", Branch: "main", Fork: true}}
		for n := 10; n < 60; n++ {
			pulls = append(pulls, forgetest.Pull{Number: n, Head: "dd", Branch: "main"})
		}
		s.SetPulls(pulls...)
		var all []int
		found, err := c.Pulls(t.Context(), "main", 40, func(p forge.Pull) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range found {
			all = append(all, p.Number)
		}
		if len(all) != 40 || slices.Contains(all, 4) || all[0] != 3 || all[39] != 47 {
			t.Errorf("found %v", all)
		}
		if found[0].Fork || !found[1].Fork || found[0].Head != "aa" || !strings.HasSuffix(found[0].Ref, "/3/head") {
			t.Errorf("found %+v", found[:2])
		}
		if found, err = c.Pulls(t.Context(), "main", 2, func(p forge.Pull) bool { return !p.Fork }); err != nil || len(found) != 2 || found[1].Number != 10 {
			t.Errorf("without forks %+v, %v", found, err)
		}
	})
}

const marker = "<!-- m -->"

func TestACommentIsFoundByMarkerAndAuthor(t *testing.T) {
	onEach(t, func(t *testing.T, c *forge.Client, s *forgetest.Server) {
		s.Write(3, 2, marker+" of a stranger")
		s.Write(3, 1, "of the same user, about "+marker)
		s.Write(4, 1, marker+" on another pull request")
		for n := range 45 {
			s.Write(3, 2, fmt.Sprint("talk ", n))
		}
		user, err := c.User(t.Context())
		if err != nil || user != 1 {
			t.Fatal(user, err)
		}
		if found, err := c.FindComment(t.Context(), 3, user, marker); found != 0 || err != nil {
			t.Errorf("found %d, %v", found, err)
		}
		made, err := c.AddComment(t.Context(), 3, marker+" ours")
		if err != nil {
			t.Fatal(err)
		}
		found, err := c.FindComment(t.Context(), 3, user, marker)
		if err != nil || found != made || found == 0 {
			t.Errorf("found %d, want %d, %v", found, made, err)
		}
		if err := c.EditComment(t.Context(), 3, found, marker+" edited"); err != nil {
			t.Error(err)
		}
		all := s.Comments(3)
		if len(all) != 48 || all[47].Body != marker+" edited" || all[0].Body != marker+" of a stranger" {
			t.Errorf("%d comments, the last %+v", len(all), all[len(all)-1])
		}
	})
}

func TestOverTooManyCommentsNoneIsMissedSilently(t *testing.T) {
	s := forgetest.New(t, forge.GitHub)
	for n := range 600 {
		s.Write(3, 2, fmt.Sprint("talk ", n))
	}
	c := client(t, forge.GitHub, s.Repo(), forgetest.Token)
	if found, err := c.FindComment(t.Context(), 3, 1, marker); err == nil || found != 0 {
		t.Errorf("found %d, %v", found, err)
	}
	if n := len(s.Requests(http.MethodGet)); n > 25 {
		t.Errorf("%d pages were read", n)
	}
}

func TestAForgeThatAnswersTheSamePageForEverEndsTheList(t *testing.T) {
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_ = json.NewEncoder(w).Encode([]map[string]any{{"id": 5, "body": "x", "user": map[string]any{"id": 2}}})
	}))
	t.Cleanup(s.Close)
	c := client(t, forge.GitHub, s.URL+"/ops/fleet", "t")
	if found, err := c.FindComment(t.Context(), 3, 1, marker); found != 0 || err != nil || asked != 2 {
		t.Errorf("found %d, %v, asked %d times", found, err, asked)
	}
}

func TestAnAnswerOfCountlessEntriesIsNotHeld(t *testing.T) {
	body := []byte("[{}" + strings.Repeat(",{}", 2<<20) + "]")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	t.Cleanup(s.Close)
	c := client(t, forge.GitHub, s.URL+"/ops/fleet", "t")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found, err := c.Pulls(t.Context(), "main", 50, func(forge.Pull) bool { return true })
	runtime.ReadMemStats(&after)
	if found != nil || err == nil || !strings.Contains(err.Error(), "more than 10000 entries") {
		t.Errorf("found %v, %v", found, err)
	}
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 100 {
		t.Errorf("%d MiB were allocated", took)
	}
}

func TestACredentialThatIsRefusedIsNotShown(t *testing.T) {
	onEach(t, func(t *testing.T, _ *forge.Client, s *forgetest.Server) {
		c := client(t, map[string]forge.Provider{"github": forge.GitHub, "gitlab": forge.GitLab, "gitea": forge.Gitea}[filepath.Base(t.Name())], s.Repo(), "s3cret-of-another")
		_, err := c.User(t.Context())
		if !outbound.HasStatus(err, http.StatusUnauthorized) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("error is %v", err)
		}
	})
}

func FuzzPulls(f *testing.F) {
	f.Add([]byte(`[{"number":1,"head":{"sha":"a","repo":null},"base":{"ref":"main"}},{"iid":2,"sha":"b","target_branch":"main"}]`))
	f.Add([]byte(`[{"id":1,"body":"<!-- m -->","user":{"id":1}}]`))
	f.Add([]byte(`{"message":"no"}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		way := roundTrip(func(*http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			_, _ = w.Write(answer)
			return w.Result(), nil
		})
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte("t"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, p := range providers {
			c, err := forge.New(forge.Options{Provider: p, URL: "https://forge.example/ops/fleet", Token: file, Transport: way})
			if err != nil {
				t.Fatal(err)
			}
			pulls, _ := c.Pulls(t.Context(), "main", 5, func(forge.Pull) bool { return true })
			for _, one := range pulls {
				if want := fmt.Sprintf("/%d/head", one.Number); one.Number <= 0 || !strings.HasSuffix(one.Ref, want) {
					t.Errorf("%+v", one)
				}
			}
			_, _ = c.FindComment(t.Context(), 1, 1, marker)
			_, _ = c.User(t.Context())
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAPullRequestIsOpenedOnce(t *testing.T) {
	onEach(t, func(t *testing.T, c *forge.Client, s *forgetest.Server) {
		s.SetPulls(forgetest.Pull{Number: 1, Branch: "main", Source: "zester/x", Fork: true}, forgetest.Pull{Number: 2, Branch: "main"})
		p := forge.NewPull{Branch: "zester/a", Into: "main", Title: "add a", Body: "why"}
		first, err := c.OpenPull(t.Context(), p)
		if err != nil || first != s.Repo()+"/pulls/3" {
			t.Fatal(first, err)
		}
		if again, err := c.OpenPull(t.Context(), p); err != nil || again != first {
			t.Errorf("%s, %v, want %s", again, err, first)
		}
		if pulls := s.Pulls(); len(pulls) != 3 || pulls[2].Source != "zester/a" || pulls[2].Branch != "main" || pulls[2].Title != "add a" {
			t.Errorf("%+v", pulls)
		}
		if page, err := c.OpenPull(t.Context(), forge.NewPull{Branch: "zester/x", Into: "main", Title: "x"}); err == nil && !strings.HasSuffix(page, "/4") {
			t.Errorf("that of a fork: %s", page)
		}
		s.Refuse(http.StatusServiceUnavailable)
		if _, err := c.OpenPull(t.Context(), p); err == nil {
			t.Error("no error")
		}
	})
}
