// Package forgetest is a forge for tests: a server on this machine with the API of GitHub, GitLab or Gitea. Begin with
// [New]. It checks the token of each request, and serves open pull requests, their comments and commit statuses.
package forgetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/seed-c01c3da5/zester/master/forge"
)

// Token is the credential of user 1, who writes the comments of the master.
const Token = "t0ken-of-the-master"

// repo is the path of the repository below the root of each API.
var roots = map[forge.Provider]string{
	forge.GitHub: "/api/v3/repos/ops/fleet/",
	forge.GitLab: "/api/v4/projects/ops%2Ffleet/",
	forge.Gitea:  "/api/v1/repos/ops/fleet/",
}

// A Server is a forge with the repository ops/fleet.
type Server struct {
	*httptest.Server
	provider forge.Provider

	mu       sync.Mutex
	pulls    []Pull
	comments []Comment
	requests []string // METHOD path
	changed  chan struct{}
	refuse   int   // status of all answers, 0: none is refused
	next     int64 // ID of a comment
}

// A Pull is an open pull request.
type Pull struct {
	Number int
	Head   string
	Branch string // the target branch
	Source string // the branch with the change; empty: topic
	Title  string
	Fork   bool
}

// A Comment is a comment on a pull request.
type Comment struct {
	ID     int64
	Number int // of the pull request
	User   int64
	Body   string
}

// New starts a forge that ends with the test.
func New(t testing.TB, provider forge.Provider) *Server {
	s := &Server{provider: provider, next: 100, changed: make(chan struct{}, 1)}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// Repo returns the URL of the repository.
func (s *Server) Repo() string { return s.URL + "/ops/fleet" }

// SetPulls replaces the open pull requests.
func (s *Server) SetPulls(pulls ...Pull) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulls = pulls
}

// Pulls returns the open pull requests.
func (s *Server) Pulls() []Pull {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pulls)
}

// Write adds a comment of a user.
func (s *Server) Write(number int, user int64, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(number, user, body)
}

// Delete removes all comments of a user.
func (s *Server) Delete(user int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.comments = slices.DeleteFunc(s.comments, func(c Comment) bool { return c.User == user })
}

// Refuse answers all requests with a status; 0 ends that.
func (s *Server) Refuse(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = status
}

// Comments returns the comments on a pull request, the oldest first.
func (s *Server) Comments(number int) (on []Comment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.comments {
		if c.Number == number {
			on = append(on, c)
		}
	}
	return on
}

// Changed returns a channel with a value after comments were written.
func (s *Server) Changed() <-chan struct{} { return s.changed }

// Requests returns the requests so far with this method, as METHOD path.
func (s *Server) Requests(method string) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.HasPrefix(r, method+" ") {
			all = append(all, r)
		}
	}
	return all
}

func (s *Server) add(number int, user int64, body string) Comment {
	s.next++
	c := Comment{s.next, number, user, body}
	s.comments = append(s.comments, c)
	s.signal()
	return c
}

func (s *Server) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *Server) authorized(h http.Header) bool {
	switch s.provider {
	case forge.GitHub:
		return h.Get("Authorization") == "Bearer "+Token
	case forge.GitLab:
		return h.Get("PRIVATE-TOKEN") == Token
	}
	return h.Get("Authorization") == "token "+Token
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.EscapedPath())
	switch {
	case s.refuse != 0:
		w.WriteHeader(s.refuse)
		return
	case !s.authorized(r.Header):
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	root := roots[s.provider]
	if r.URL.Path == root[:strings.Index(root, "/api/")+len("/api/v3/")]+"user" {
		answer(w, http.StatusOK, map[string]any{"id": 1, "login": "zester-bot", "username": "zester-bot"})
		return
	}
	path, ok := strings.CutPrefix(r.URL.EscapedPath(), root)
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	s.repository(w, r, strings.Split(path, "/"))
}

// repository answers requests below the repository. GitLab has merge_requests and notes instead of pulls, issues and
// comments.
func (s *Server) repository(w http.ResponseWriter, r *http.Request, path []string) {
	gitlab := s.provider == forge.GitLab
	list, above, comments := "pulls", "issues", "comments"
	if gitlab {
		list, above, comments = "merge_requests", "merge_requests", "notes"
	}
	var in request
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len([]rune(in.Body)) > 65_536 {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
	}
	edit := http.MethodPatch
	if gitlab {
		edit = http.MethodPut
	}
	switch {
	case r.Method == http.MethodGet && len(path) == 1 && path[0] == list:
		answer(w, http.StatusOK, cutPage(r, s.openPulls(r), true))
	case r.Method == http.MethodPost && len(path) == 1 && path[0] == list:
		s.open(w, in)
	case r.Method == http.MethodPost && path[0] == "statuses":
		answer(w, http.StatusCreated, map[string]any{})
	case len(path) == 3 && path[0] == above && path[2] == comments:
		number, _ := strconv.Atoi(path[1])
		if r.Method == http.MethodPost {
			answer(w, http.StatusCreated, s.comment(s.add(number, 1, in.Body)))
			return
		}
		answer(w, http.StatusOK, cutPage(r, s.commentsOn(number), s.provider != forge.Gitea))
	case r.Method == edit && len(path) >= 3 && path[len(path)-2] == comments && path[0] == above:
		s.edit(w, path[len(path)-1], in.Body)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// A request has the fields of all requests that are served.
type request struct {
	Body   string
	Title  string
	Head   string
	Base   string
	Source string `json:"source_branch"` // GitLab, as Target
	Target string `json:"target_branch"`
}

// open opens a pull request. A second one of a branch is refused.
func (s *Server) open(w http.ResponseWriter, in request) {
	p := Pull{Number: len(s.pulls) + 1, Branch: in.Base, Source: in.Head, Title: in.Title}
	if s.provider == forge.GitLab {
		p.Branch, p.Source = in.Target, in.Source
	}
	switch {
	case p.Branch == "" || p.Source == "" || p.Title == "":
		w.WriteHeader(http.StatusBadRequest)
	case !slices.ContainsFunc(s.pulls, func(o Pull) bool {
		return !o.Fork && o.Source == p.Source && o.Branch == p.Branch
	}):
		s.pulls = append(s.pulls, p)
		answer(w, http.StatusCreated, s.pull(p))
	case s.provider == forge.GitHub:
		w.WriteHeader(http.StatusUnprocessableEntity)
	default:
		w.WriteHeader(http.StatusConflict)
	}
}

// edit changes a comment of any user, as a token with the right to moderate may.
func (s *Server) edit(w http.ResponseWriter, id, body string) {
	for i, c := range s.comments {
		if fmt.Sprint(c.ID) == id {
			s.comments[i].Body = body
			s.signal()
			answer(w, http.StatusOK, s.comment(s.comments[i]))
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

func (s *Server) commentsOn(number int) (all []any) {
	for _, c := range s.comments {
		if c.Number == number {
			all = append(all, s.comment(c))
		}
	}
	return all
}

func (s *Server) comment(c Comment) any {
	who := "user"
	if s.provider == forge.GitLab {
		who = "author"
	}
	return map[string]any{"id": c.ID, "body": c.Body, who: map[string]any{"id": c.User}}
}

func (s *Server) openPulls(r *http.Request) (all []any) {
	q := r.URL.Query()
	for _, p := range s.pulls {
		if want := q.Get("base") + q.Get("target_branch"); want != "" && want != p.Branch {
			continue
		}
		all = append(all, s.pull(p))
	}
	return all
}

// pull returns a pull request as the forge shows it.
func (s *Server) pull(p Pull) any {
	from, source := int64(7), cmp.Or(p.Source, "topic")
	if p.Fork {
		from = 8
	}
	page := fmt.Sprintf("%s/pulls/%d", s.Repo(), p.Number)
	if s.provider == forge.GitLab {
		return map[string]any{
			"iid":               p.Number,
			"sha":               p.Head,
			"target_branch":     p.Branch,
			"source_branch":     source,
			"source_project_id": from,
			"target_project_id": 7,
			"web_url":           page,
		}
	}
	return map[string]any{
		"number": p.Number, "head": map[string]any{"sha": p.Head, "ref": source, "repo": map[string]any{"id": from}},
		"base": map[string]any{"ref": p.Branch, "repo": map[string]any{"id": 7}}, "html_url": page,
	}
}

// cutPage returns one page of a list.
func cutPage(r *http.Request, all []any, paged bool) []any {
	q := r.URL.Query()
	size, _ := strconv.Atoi(q.Get("per_page") + q.Get("limit"))
	n, _ := strconv.Atoi(q.Get("page"))
	if !paged || size == 0 {
		return append([]any{}, all...)
	}
	from := min(len(all), (max(n, 1)-1)*size)
	return append([]any{}, all[from:min(len(all), from+size)]...)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
