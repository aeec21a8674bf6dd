package webhook_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/webhook"
)

const (
	secret  = "an old secret of ours"
	another = "the new secret of ours"
	repo    = "https://forge.example/ops/fleet.git"
	pushed  = `{"ref":"refs/heads/main","after":"ffffffffffffffffffffffffffffffffffffffff",
		"repository":{"clone_url":"https://forge.example/ops/fleet.git"}}`
)

// pushOf is the body of one of many pushes.
func pushOf(n int) string {
	return strings.Replace(pushed, strings.Repeat("f", 40), fmt.Sprintf("%040x", n), 1)
}

// desk is a handler and how often it asked for the branch.
type desk struct {
	*webhook.Handler
	asked int
	away  error // the bus, when a hook is to be passed on
	files []string
}

func newDesk(t *testing.T, p webhook.Provider, url string) *desk {
	t.Helper()
	d := &desk{files: []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}}
	write(t, d.files[0], secret+"\n")
	write(t, d.files[1], another)
	h, err := webhook.New(webhook.Options{
		Hooks:   []webhook.Hook{{Name: "fleet", Provider: p, Repo: url, Branch: "main", Secrets: d.files}},
		Trigger: func() error { d.asked++; return d.away },
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Handler = h
	return d
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

type headers map[string]string

func (d *desk) post(body string, hs ...headers) int { return d.postTo("/hooks/fleet", body, hs...) }

func (d *desk) postTo(path, body string, hs ...headers) int {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	for _, h := range hs {
		for k, v := range h {
			r.Header.Set(k, v)
		}
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Code
}

func mac(key, body string) string {
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(body))
	return hex.EncodeToString(m.Sum(nil))
}

func github(key, body, id string) headers {
	return headers{"X-GitHub-Event": "push", "X-GitHub-Delivery": id, "X-Hub-Signature-256": "sha256=" + mac(key, body)}
}

func (d *desk) want(t *testing.T, what string, got, status, asked int) {
	t.Helper()
	if got != status || d.asked != asked {
		t.Errorf("%s: status %d and %d times asked, want %d and %d", what, got, d.asked, status, asked)
	}
}

func TestEachForgeNeedsItsOwnFormOfSignature(t *testing.T) {
	standard := func(key, body string) headers {
		id, at := "msg-1", strconv.FormatInt(time.Now().Unix(), 10)
		m := hmac.New(sha256.New, []byte(key))
		fmt.Fprintf(m, "%s.%s.%s", id, at, body)
		return headers{
			"X-Gitlab-Event": "Push Hook", "webhook-id": id, "webhook-timestamp": at,
			"webhook-signature": "v1,AAAA v1," + base64.StdEncoding.EncodeToString(m.Sum(nil)),
		}
	}
	gitea := func(name string) func(key, body string) headers {
		return func(key, body string) headers {
			h := headers{"X-" + name + "-Event": "push", "X-" + name + "-Delivery": "1", "X-" + name + "-Signature": mac(key, body)}
			maps.Copy(h, headers{"X-GitHub-Event": "push"})
			return h
		}
	}
	bitbucket := func(event string) func(key, body string) headers {
		return func(key, body string) headers {
			return headers{"X-Event-Key": event, "X-Request-UUID": "1", "X-Hub-Signature": "sha256=" + mac(key, body)}
		}
	}
	const gitlab = `{"ref":"refs/heads/main","project":{"git_ssh_url":"git@forge.example:ops/fleet.git"}}`
	const pulled = `{"action":"opened","pull_request":{"head":{"ref":"topic"},"base":{"ref":"main"}},"repository":{"clone_url":"https://forge.example/ops/fleet.git"}}`
	tests := []struct {
		name     string
		provider webhook.Provider
		body     string
		sign     func(key, body string) headers
	}{
		{"github", webhook.GitHub, pushed, func(k, b string) headers { return github(k, b, "1") }},
		{"gitea", webhook.Gitea, pushed, gitea("Gitea")},
		{"forgejo", webhook.Gitea, pushed, gitea("Forgejo")},
		{"gogs", webhook.Gitea, pushed, gitea("Gogs")},
		{"gitlab token", webhook.GitLab, gitlab, func(k, _ string) headers {
			return headers{"X-Gitlab-Event": "Push Hook", "X-Gitlab-Token": k}
		}},
		{"gitlab signature", webhook.GitLab, gitlab, standard},
		{"gitlab merge request", webhook.GitLab, `{"object_attributes":{"target_branch":"main"},"changes":{},"project":{"git_http_url":"https://forge.example/ops/fleet"}}`, func(k, _ string) headers {
			return headers{"X-Gitlab-Event": "Merge Request Hook", "X-Gitlab-Token": k}
		}},
		{"github pull request", webhook.GitHub, pulled, func(k, b string) headers {
			return headers{"X-GitHub-Event": "pull_request", "X-GitHub-Delivery": "1", "X-Hub-Signature-256": "sha256=" + mac(k, b)}
		}},
		{"gitea pull request", webhook.Gitea, pulled, func(k, b string) headers {
			return headers{"X-Gitea-Event": "pull_request", "X-Gitea-Delivery": "1", "X-Gitea-Signature": mac(k, b)}
		}},
		{"bitbucket cloud", webhook.Bitbucket, `{"push":{"changes":[{"new":{"type":"branch","name":"main"},"old":null}]},
			"repository":{"links":{"html":{"href":"https://forge.example/ops/fleet"}}}}`, bitbucket("repo:push")},
		{"bitbucket server", webhook.Bitbucket, `{"changes":[{"ref":{"id":"refs/heads/main"}}],"repository":{"links":
			{"clone":[{"href":"ssh://git@forge.example:7999/ops/fleet.git"}]}}}`, bitbucket("repo:refs_changed")},
		{"azure devops", webhook.Azure, `{"id":"1","eventType":"git.push","resource":{"refUpdates":[{"name":"refs/heads/main"}],
			"repository":{"remoteUrl":"https://forge.example/ops/fleet"}}}`, func(k, _ string) headers {
			return headers{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte(k))}
		}},
		{
			"generic", webhook.Generic, `{"ref":"refs/heads/main","repository":{"url":"https://forge.example/ops/fleet"}}`,
			func(k, b string) headers { return headers{"X-Signature": "sha256=" + mac(k, b)} },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t, tt.provider, repo)
			d.want(t, "no signature", d.post(tt.body), http.StatusUnauthorized, 0)
			d.want(t, "wrong secret", d.post(tt.body, tt.sign("not a secret of ours", tt.body)), http.StatusUnauthorized, 0)
			d.want(t, "old secret", d.post(tt.body, tt.sign(secret, tt.body)), http.StatusAccepted, 1)
			d.want(t, "the same again", d.post(tt.body, tt.sign(secret, tt.body)), http.StatusAccepted, 1)
			d = newDesk(t, tt.provider, repo)
			d.want(t, "new secret", d.post(tt.body, tt.sign(another, tt.body)), http.StatusAccepted, 1)
		})
	}
}

func TestASignatureOfOtherBytesIsRefused(t *testing.T) {
	d := newDesk(t, webhook.GitHub, repo)
	d.want(t, "changed body", d.post(pushed+" ", github(secret, pushed, "1")), http.StatusUnauthorized, 0)
	old := hmac.New(sha1.New, []byte(secret))
	old.Write([]byte(pushed))
	h := headers{"X-GitHub-Event": "push", "X-Hub-Signature-256": "sha1=" + hex.EncodeToString(old.Sum(nil))}
	d.want(t, "sha1", d.post(pushed, h), http.StatusUnauthorized, 0)
	d.want(t, "not JSON, not signed", d.post("{"), http.StatusUnauthorized, 0)
	d.want(t, "not JSON, signed", d.post("{", github(secret, "{", "2")), http.StatusBadRequest, 0)
}

func TestOnlyTheFollowedBranchOfTheFollowedRepoIsAskedFor(t *testing.T) {
	tests := []struct {
		name, from, to string
		status, asked  int
	}{
		{"wrong branch", "refs/heads/main", "refs/heads/dev", 202, 0},
		{"tag with the same name", "refs/heads/main", "refs/tags/main", 202, 0},
		{"deleted branch", strings.Repeat("f", 40), strings.Repeat("0", 40), 202, 1},
		{"fake after", strings.Repeat("f", 40), "../../etc", 202, 1},
		{"other repo", "ops/fleet", "mallory/fleet", 404, 0},
		{"other host", "forge.example", "forge.example.org", 404, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t, webhook.GitHub, repo)
			body := strings.Replace(pushed, tt.from, tt.to, 1)
			if body == pushed {
				t.Fatal("the payload is not changed")
			}
			d.want(t, tt.name, d.post(body, github(secret, body, "1")), tt.status, tt.asked)
		})
	}
	d := newDesk(t, webhook.GitHub, repo)
	elsewhere := `{"pull_request":{"head":{"ref":"main"},"base":{"ref":"other"}},"repository":{"clone_url":"https://forge.example/ops/fleet.git"}}`
	d.want(t, "pull request for another branch", d.post(elsewhere, github(secret, elsewhere, "pull-1"), headers{"X-GitHub-Event": "pull_request"}), 202, 0)
	d.want(t, "ping", d.post(pushed, github(secret, pushed, "1"), headers{"X-GitHub-Event": "ping"}), 202, 0)
	d.want(t, "unknown hook", d.postTo("/hooks/other", pushed, github(secret, pushed, "1")), 404, 0)
	d.want(t, "form", d.post(pushed, github(secret, pushed, "1"), headers{"Content-Type": "application/x-www-form-urlencoded"}), 415, 0)
	large := strings.Repeat(" ", 2<<20)
	d.want(t, "2 MiB", d.post(large, github(secret, large, "1")), 413, 0)
	d.want(t, "after all these", d.post(pushed, github(secret, pushed, "1")), 202, 1)
}

func TestRealPayloadsOfGitHubAreUnderstood(t *testing.T) {
	for file, asked := range map[string]int{"github-branch.json": 1, "github-tag.json": 0} {
		b, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		body := strings.Replace(string(b), `"ref": "refs/heads/master"`, `"ref": "refs/heads/main"`, 1)
		d := newDesk(t, webhook.GitHub, "git@github.com:Codertocat/Hello-World.git")
		d.want(t, file, d.post(body, github(secret, body, "1")), http.StatusAccepted, asked)
	}
}

func TestASecretIsReplacedWithoutARestart(t *testing.T) {
	d := newDesk(t, webhook.GitHub, repo)
	write(t, d.files[0], "the third secret of ours")
	d.want(t, "old", d.post(pushed, github(secret, pushed, "1")), 401, 0)
	d.want(t, "third", d.post(pushed, github("the third secret of ours", pushed, "2")), 202, 1)
	if err := os.Remove(d.files[0]); err != nil {
		t.Fatal(err)
	}
	other := pushOf(3)
	d.want(t, "one file gone", d.post(other, github(another, other, "3")), 202, 2)
	write(t, d.files[1], "")
	d.want(t, "an empty secret signs nothing", d.post(pushed, github("", pushed, "4")), 503, 2)
}

func TestTimeBoundsReplaysSignaturesAndSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, webhook.GitHub, repo)
		d.post(pushed, github(secret, pushed, "1"))
		time.Sleep(10*time.Minute - time.Second)
		d.want(t, "known for ten minutes", d.post(pushed, github(secret, pushed, "1")), 202, 1)
		time.Sleep(time.Second)
		d.want(t, "then forgotten", d.post(pushed, github(secret, pushed, "1")), 202, 2)
		time.Sleep(time.Minute)
		for i := range 1200 {
			body := pushOf(i)
			d.want(t, "in a burst", d.post(body, github(secret, body, "b"+strconv.Itoa(i))), 202, 3+i)
		}
		last := pushOf(1200)
		d.want(t, "too often", d.post(last, github(secret, last, "c")), 429, 1202)
		time.Sleep(time.Minute)
		d.want(t, "a minute later", d.post(last, github(secret, last, "c")), 202, 1203)

		for _, off := range []time.Duration{-6 * time.Minute, -4 * time.Minute, 4 * time.Minute, 6 * time.Minute} {
			d := newDesk(t, webhook.GitLab, repo)
			at := strconv.FormatInt(time.Now().Add(off).Unix(), 10)
			m := hmac.New(sha256.New, []byte(secret))
			fmt.Fprintf(m, "x.%s.%s", at, pushed)
			status, asked := 202, 1
			if off.Abs() > 5*time.Minute {
				status, asked = 401, 0
			}
			d.want(t, off.String(), d.post(pushed, headers{
				"X-Gitlab-Event": "Push Hook", "webhook-id": "x", "webhook-timestamp": at,
				"webhook-signature": "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil)),
			}), status, asked)
		}
	})
}

func FuzzAnyBodyOfAnyForgeIsAnswered(f *testing.F) {
	f.Add(string(webhook.GitHub), pushed)
	f.Add(string(webhook.Bitbucket), `{"push":{"changes":[{"new":null}]},"changes":{}}`)
	f.Fuzz(func(t *testing.T, provider, body string) {
		h, err := webhook.New(webhook.Options{
			Hooks: []webhook.Hook{{
				Name: "fleet", Provider: webhook.Provider(provider), Repo: repo, Branch: "main", Secrets: []string{secretFile(t)},
			}},
			Trigger: func() error { return nil },
		})
		if err != nil {
			t.Skip()
		}
		d := &desk{Handler: h}
		m := mac(secret, body)
		d.post(body, headers{
			"X-GitHub-Event": "push", "X-Hub-Signature-256": "sha256=" + m, "X-Hub-Signature": "sha256=" + m, "X-Signature": "sha256=" + m,
			"X-Gitea-Event": "push", "X-Gitea-Signature": m, "X-Event-Key": "repo:push", "X-Gitlab-Event": "Push Hook",
			"X-Gitlab-Token": secret, "Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte(secret)),
		})
	})
}

func secretFile(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "secret")
	write(t, file, secret)
	return file
}

func TestAHookThatCannotBePassedOnIsSentAgain(t *testing.T) {
	d := newDesk(t, webhook.GitHub, repo)
	d.away = errors.New("the bus is away")
	d.want(t, "without the bus", d.post(pushed, github(secret, pushed, "1")), http.StatusServiceUnavailable, 1)
	d.away = nil
	d.want(t, "sent again", d.post(pushed, github(secret, pushed, "1")), http.StatusAccepted, 2)
	d.want(t, "sent once more", d.post(pushed, github(secret, pushed, "1")), http.StatusAccepted, 2)
}

// TestACapturedBodyHasNoEffectAgain sends it under new IDs, which no forge but GitLab signs.
func TestACapturedBodyHasNoEffectAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, webhook.GitHub, repo)
		d.want(t, "at first", d.post(pushed, github(secret, pushed, "1")), http.StatusAccepted, 1)
		for i := range 100 {
			d.post(pushed, github(secret, pushed, strconv.Itoa(2+i)))
		}
		d.want(t, "under other IDs", d.post(pushed, github(secret, pushed, "x")), http.StatusAccepted, 1)
		other := strings.Replace(pushed, "ffff", "eeee", 1)
		d.want(t, "another body", d.post(other, github(secret, other, "y")), http.StatusAccepted, 2)
		time.Sleep(11 * time.Minute)
		d.want(t, "when the window has passed", d.post(pushed, github(secret, pushed, "z")), http.StatusAccepted, 3)
	})
}

func TestASecretThatOthersCanReadIsRefused(t *testing.T) {
	d := newDesk(t, webhook.GitHub, repo)
	for _, file := range d.files {
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d.want(t, "mode 0644", d.post(pushed, github(secret, pushed, "1")), http.StatusServiceUnavailable, 0)
	if err := os.Chmod(d.files[0], 0o600); err != nil {
		t.Fatal(err)
	}
	d.want(t, "mode 0600", d.post(pushed, github(secret, pushed, "1")), http.StatusAccepted, 1)
}
