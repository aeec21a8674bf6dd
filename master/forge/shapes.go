package forge

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// A shape describes the API of one kind of forge.
//
// Sources: GitHub REST 2022-11-28 "Create a commit status", "List pull requests", "Issue comments", "Get the
// authenticated user"; GitLab "Commits API, set commit pipeline status", "Merge requests API", "Notes API", "Users
// API"; Gitea and Forgejo swagger, repoCreateStatus, repoListPullRequests, issueGetComments, userGetCurrent.
type shape struct {
	description int // bytes of the description of a status
	states      map[State]string
	fields      [3]string // the API's names of state, name and description
	branch      bool      // a status names the branch
	authorize   func(h http.Header, token string)
	// repository returns the root of the API and the path from there to a repository.
	repository func(page *url.URL) (root *url.URL, path []string, err error)
	pulls      string // path from the repository to the list of pull requests
	filter     func(branch string) url.Values
	comments   func(number int) []string // path from the repository to the comments of a pull request
	comment    func(number int, id string) []string
	edit       string // method that changes a comment
	paged      bool   // the list of comments has pages
	head       string // the reference of a pull request's head is refs/HEAD/NUMBER/head
}

var shapes = map[Provider]shape{
	GitHub: {
		description: 140, fields: [3]string{"state", "context", "description"},
		states: map[State]string{Pending: "pending", Success: "success", Failure: "failure", Canceled: "error"},
		authorize: func(h http.Header, token string) {
			h.Set("Authorization", "Bearer "+token)
			h.Set("Accept", "application/vnd.github+json")
			h.Set("X-GitHub-Api-Version", "2022-11-28")
		},
		repository: githubRepository, pulls: "pulls",
		filter: func(branch string) url.Values {
			return url.Values{
				"state":     {"open"},
				"base":      {branch},
				"sort":      {"updated"},
				"direction": {"desc"},
				"per_page":  {pageSize},
			}
		},
		comments: issueComments, comment: issueComment, edit: http.MethodPatch, paged: true, head: "pull",
	},
	GitLab: {
		description: 255, fields: [3]string{"state", "name", "description"}, branch: true,
		states:     map[State]string{Pending: "pending", Success: "success", Failure: "failed", Canceled: "canceled"},
		authorize:  func(h http.Header, token string) { h.Set("PRIVATE-TOKEN", token) },
		repository: gitlabRepository, pulls: "merge_requests",
		filter: func(branch string) url.Values {
			return url.Values{
				"state":         {"opened"},
				"target_branch": {branch},
				"order_by":      {"updated_at"},
				"sort":          {"desc"},
				"per_page":      {pageSize},
			}
		},
		comments: func(number int) []string { return []string{"merge_requests", decimal(number), "notes"} },
		comment: func(number int, id string) []string {
			return []string{"merge_requests", decimal(number), "notes", id}
		},
		edit: http.MethodPut, paged: true, head: "merge-requests",
	},
	Gitea: {
		description: 255, fields: [3]string{"state", "context", "description"},
		states:     map[State]string{Pending: "pending", Success: "success", Failure: "failure", Canceled: "error"},
		authorize:  func(h http.Header, token string) { h.Set("Authorization", "token "+token) },
		repository: giteaRepository, pulls: "pulls",
		filter: func(string) url.Values {
			return url.Values{"state": {"open"}, "sort": {"recentupdate"}, "limit": {pageSize}}
		},
		comments: issueComments, comment: issueComment, edit: http.MethodPatch, head: "pull",
	},
}

func issueComments(number int) []string { return []string{"issues", decimal(number), "comments"} }

func issueComment(_ int, id string) []string { return []string{"issues", "comments", id} }

// segments returns the parts of the path to a repository.
func segments(page *url.URL) []string {
	return strings.Split(strings.TrimSuffix(strings.Trim(page.Path, "/"), ".git"), "/")
}

func githubRepository(page *url.URL) (*url.URL, []string, error) {
	parts := segments(page)
	if len(parts) != 2 {
		return nil, nil, errors.New("its url is not https://HOST/OWNER/REPO")
	}
	root := &url.URL{Scheme: page.Scheme, Host: page.Host, Path: "/api/v3"} // GitHub Enterprise Server
	if host := strings.ToLower(page.Hostname()); host == "github.com" || host == "www.github.com" {
		root = &url.URL{Scheme: "https", Host: "api.github.com", Path: "/"}
	}
	return root, []string{"repos", parts[0], parts[1]}, nil
}

// gitlabRepository returns the whole path of the project as one part, as the API requires.
func gitlabRepository(page *url.URL) (*url.URL, []string, error) {
	parts := segments(page)
	if len(parts) < 2 {
		return nil, nil, errors.New("its url is not https://HOST/GROUP/PROJECT")
	}
	root := &url.URL{Scheme: page.Scheme, Host: page.Host, Path: "/api/v4"}
	return root, []string{"projects", url.PathEscape(strings.Join(parts, "/"))}, nil
}

// giteaRepository also supports a forge that is not at the root of its host.
func giteaRepository(page *url.URL) (*url.URL, []string, error) {
	parts := segments(page)
	if len(parts) < 2 {
		return nil, nil, errors.New("its url is not https://HOST/OWNER/REPO")
	}
	above, repo := parts[:len(parts)-2], parts[len(parts)-2:]
	root := &url.URL{Scheme: page.Scheme, Host: page.Host, Path: "/" + strings.Join(above, "/")}
	return root.JoinPath("api/v1"), append([]string{"repos"}, repo...), nil
}
