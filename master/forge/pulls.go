package forge

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/seed-c01c3da5/zester/master/outbound"
)

// A Pull is an open pull request; GitLab calls it a merge request.
type Pull struct {
	Number int
	Head   string // hash of the newest commit, as the forge reports it
	Ref    string // reference from which the head can be fetched
	Fork   bool   // its commits come from another repository, or from an unknown one
}

// pull has the fields of all forges. No name has two meanings.
type pull struct {
	Number int    `json:"number"`
	IID    int    `json:"iid"`
	SHA    string `json:"sha"` // GitLab
	Head   side   `json:"head"`
	Base   side   `json:"base"`
	Source int64  `json:"source_project_id"`
	Target int64  `json:"target_project_id"`
	Branch string `json:"target_branch"`
	From   string `json:"source_branch"` // GitLab
	Page   string `json:"html_url"`
	Web    string `json:"web_url"` // GitLab
}

type side struct {
	SHA  string `json:"sha"`
	Ref  string `json:"ref"`
	Repo *struct {
		ID int64 `json:"id"`
	} `json:"repo"` // null if the repository was deleted
}

// Each forge has one of the two fields.

func (p pull) number() int { return p.Number + p.IID }

func (p pull) page() string { return outbound.Line(p.Page+p.Web, 500) }

// isFork reports whether the head is in another repository or in an unknown one.
func (p pull) isFork(gitlab bool) bool {
	if gitlab {
		return p.Source == 0 || p.Source != p.Target
	}
	return p.Head.Repo == nil || p.Base.Repo == nil || p.Head.Repo.ID == 0 || p.Head.Repo.ID != p.Base.Repo.ID
}

// pulls is the list of open pull requests for a branch.
func (c *Client) pulls(branch string) listing {
	return listing{at: c.api.JoinPath(c.shape.pulls), query: c.shape.filter(branch), paged: true}
}

// Pulls returns at most most open pull requests for a branch that want accepts, the last changed first.
func (c *Client) Pulls(ctx context.Context, branch string, most int, want func(Pull) bool) ([]Pull, error) {
	gitlab := c.o.Provider == GitLab
	var found []Pull
	number := func(p pull) int64 { return int64(p.number()) }
	_, err := each(ctx, c, c.pulls(branch), number, func(p pull) bool {
		one := Pull{Number: p.number(), Head: p.SHA + p.Head.SHA, Fork: p.isFork(gitlab)}
		one.Ref = fmt.Sprintf("refs/%s/%d/head", c.shape.head, one.Number)
		if p.Branch+p.Base.Ref == branch && one.Number > 0 && want(one) {
			found = append(found, one)
		}
		return len(found) < most
	})
	return found, err
}

type comment struct {
	ID     int64  `json:"id"`
	Body   string `json:"body"`
	User   author `json:"user"`
	Author author `json:"author"` // GitLab
}

type author struct {
	ID int64 `json:"id"`
}

// FindComment returns the ID of the first comment of a user on a pull request whose text begins with marker, 0 if there
// is none. If there are more comments than it reads, it returns an error instead of 0.
func (c *Client) FindComment(ctx context.Context, number int, user int64, marker string) (found int64, err error) {
	query := c.shape.filter("")
	for key := range query {
		if key != "per_page" {
			query.Del(key)
		}
	}
	if c.o.Provider == GitLab {
		query.Set("sort", "asc")
		query.Set("order_by", "created_at")
	}
	id := func(m comment) int64 { return m.ID }
	comments := listing{at: c.api.JoinPath(c.shape.comments(number)...), query: query, paged: c.shape.paged}
	all, err := each(ctx, c, comments, id, func(m comment) bool {
		if m.User.ID+m.Author.ID == user && user != 0 && strings.HasPrefix(m.Body, marker) {
			found = m.ID
		}
		return found == 0
	})
	if err == nil && !all {
		err = &outbound.Error{Err: fmt.Errorf("pull request %d has more comments than are read", number), Final: true}
	}
	return found, err
}

type text struct {
	Body string `json:"body"`
}

// AddComment writes a comment on a pull request and returns its ID.
func (c *Client) AddComment(ctx context.Context, number int, body string) (int64, error) {
	var made comment
	err := c.call(ctx, http.MethodPost, c.api.JoinPath(c.shape.comments(number)...), text{body}, &made)
	return made.ID, err
}

// EditComment replaces the text of a comment. Call it only with an ID that [Client.FindComment] returned.
func (c *Client) EditComment(ctx context.Context, number int, id int64, body string) error {
	at := c.api.JoinPath(c.shape.comment(number, fmt.Sprint(id))...)
	return c.call(ctx, c.shape.edit, at, text{body}, nil)
}

// A NewPull is a pull request to open, from one branch of the repository into another.
type NewPull struct{ Branch, Into, Title, Body string }

// OpenPull opens a pull request and returns the address of its page. If one is open for the branch, it returns that
// one's.
func (c *Client) OpenPull(ctx context.Context, p NewPull) (page string, err error) {
	body := map[string]string{"title": p.Title, "head": p.Branch, "base": p.Into, "body": p.Body}
	if c.o.Provider == GitLab {
		body = map[string]string{
			"title":         p.Title,
			"source_branch": p.Branch,
			"target_branch": p.Into,
			"description":   p.Body,
		}
	}
	var made pull
	err = c.call(ctx, http.MethodPost, c.api.JoinPath(c.shape.pulls), body, &made)
	if outbound.HasStatus(err, http.StatusConflict, http.StatusUnprocessableEntity) {
		if open, found := c.openPull(ctx, p); found == nil && open != nil {
			return open.page(), nil
		}
	}
	if err != nil {
		return "", err
	}
	return made.page(), nil
}

// openPull returns the open pull request from one branch of the repository into another, nil if there is none.
func (c *Client) openPull(ctx context.Context, p NewPull) (found *pull, err error) {
	gitlab := c.o.Provider == GitLab
	number := func(p pull) int64 { return int64(p.number()) }
	_, err = each(ctx, c, c.pulls(p.Into), number, func(o pull) bool {
		if o.Branch+o.Base.Ref == p.Into && o.From+o.Head.Ref == p.Branch && !o.isFork(gitlab) {
			found = &o
		}
		return found == nil
	})
	return found, err
}
