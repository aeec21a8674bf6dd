package notify

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// A forge is how one kind of forge takes the status of a commit.
type forge struct {
	most      int // bytes of a description
	states    map[State]string
	fields    [3]string // what it calls state, name and description
	ref       bool      // it wants to know the branch
	authorize func(h http.Header, token string)
	// repository is the address of a repository in the forge's API.
	repository func(page *url.URL) (*url.URL, error)
}

// Sources: GitHub REST 2022-11-28 "Create a commit status"; GitLab "Commits API, set commit pipeline status"; Gitea and
// Forgejo swagger, repoCreateStatus.
var forges = map[Provider]forge{
	GitHub: {
		most: 140, fields: [3]string{"state", "context", "description"},
		states: map[State]string{Pending: "pending", Success: "success", Failure: "failure", Canceled: "error"},
		authorize: func(h http.Header, token string) {
			h.Set("Authorization", "Bearer "+token)
			h.Set("Accept", "application/vnd.github+json")
			h.Set("X-GitHub-Api-Version", "2022-11-28")
		},
		repository: githubRepository,
	},
	GitLab: {
		most: 255, fields: [3]string{"state", "name", "description"}, ref: true,
		states:     map[State]string{Pending: "pending", Success: "success", Failure: "failed", Canceled: "canceled"},
		authorize:  func(h http.Header, token string) { h.Set("PRIVATE-TOKEN", token) },
		repository: gitlabRepository,
	},
	Gitea: {
		most: 255, fields: [3]string{"state", "context", "description"},
		states:     map[State]string{Pending: "pending", Success: "success", Failure: "failure", Canceled: "error"},
		authorize:  func(h http.Header, token string) { h.Set("Authorization", "token "+token) },
		repository: giteaRepository,
	},
}

// status is the body of the request that sets it.
func (f forge) status(r Report, name string) ([]byte, error) {
	body := map[string]string{f.fields[0]: f.states[r.State], f.fields[1]: name, f.fields[2]: limit(r.Text, f.most)}
	if f.ref {
		body["ref"] = r.Branch
	}
	return json.Marshal(body)
}

// segments are the parts of the path to a repository.
func segments(page *url.URL) []string {
	return strings.Split(strings.TrimSuffix(strings.Trim(page.Path, "/"), ".git"), "/")
}

func githubRepository(page *url.URL) (*url.URL, error) {
	parts := segments(page)
	if len(parts) != 2 {
		return nil, errors.New("its url is not https://HOST/OWNER/REPO")
	}
	base := &url.URL{Scheme: page.Scheme, Host: page.Host, Path: "/api/v3"} // GitHub Enterprise Server
	if host := strings.ToLower(page.Hostname()); host == "github.com" || host == "www.github.com" {
		base = &url.URL{Scheme: "https", Host: "api.github.com", Path: "/"}
	}
	return base.JoinPath("repos", parts[0], parts[1]), nil
}

// gitlabRepository has the whole path to the project as one part, as the API wants it.
func gitlabRepository(page *url.URL) (*url.URL, error) {
	parts := segments(page)
	if len(parts) < 2 {
		return nil, errors.New("its url is not https://HOST/GROUP/PROJECT")
	}
	base := &url.URL{Scheme: page.Scheme, Host: page.Host, Path: "/"}
	return base.JoinPath("api/v4/projects", url.PathEscape(strings.Join(parts, "/"))), nil
}

// giteaRepository allows for a forge that is not at the root of its host.
func giteaRepository(page *url.URL) (*url.URL, error) {
	parts := segments(page)
	if len(parts) < 2 {
		return nil, errors.New("its url is not https://HOST/OWNER/REPO")
	}
	base := &url.URL{Scheme: page.Scheme, Host: page.Host, Path: "/" + strings.Join(parts[:len(parts)-2], "/")}
	return base.JoinPath("api/v1/repos", parts[len(parts)-2], parts[len(parts)-1]), nil
}

// isThere reports whether GitLab refuses a status because the commit has it: it takes none twice.
func isThere(status int, answer []byte) bool {
	return status == http.StatusBadRequest && strings.Contains(string(answer), "Cannot transition status")
}
