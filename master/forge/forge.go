// Package forge is a client for the API of one repository on GitHub, GitLab, Gitea or Forgejo: the status of a commit,
// the open pull requests for a branch, and comments on them. Begin with [New].
//
// Guarantees: a comment is found by a marker in its text and by its author. [Client.FindComment] returns only comments
// of the token's user, so no other user can cause a comment to be replaced by writing the marker first. The number of
// pull requests and comments that are read, and the bytes of each answer, are bounded.
//
// The token comes from a file that is read for each request, so that it can be replaced without a restart. It is sent
// only to the host of the repository's URL (for github.com to api.github.com), and only over https, or over http to
// this machine. Errors have the type [outbound.Error].
//
// Known gap: the installation token of a GitHub App cannot read the user that it belongs to, so it can set statuses but
// not comment.
package forge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/seed-c01c3da5/zester/master/outbound"
)

const (
	pageSize  = "20"
	maxAnswer = 8 << 20 // bytes
)

// A Provider is a kind of forge.
type Provider string

// The providers. Gitea includes Forgejo.
const (
	GitHub Provider = "github"
	GitLab Provider = "gitlab"
	Gitea  Provider = "gitea"
)

// A State is the state of a commit.
type State string

// The states. A commit may change from any state to any other.
const (
	Pending  State = "pending"
	Success  State = "success"
	Failure  State = "failure"
	Canceled State = "canceled" // another commit replaced it
)

// A Status is the status of a commit, which the forge shows.
type Status struct {
	Commit      string
	Branch      string
	Name        string // of the check, such as zester/fleet
	State       State
	Description string // SetStatus cuts it to the limit of the forge
}

// Options configure the client.
type Options struct {
	Provider  Provider
	URL       string            // page of the repository on the forge
	Token     string            // file with the credential
	Transport http.RoundTripper // if nil, [http.DefaultTransport]
}

// A Client sends requests to the API of one repository. Its methods may be called at the same time.
type Client struct {
	o     Options
	shape shape
	root  *url.URL // of the API
	api   *url.URL // of the repository in the API
	http  *outbound.Client
}

// Known reports whether a provider is one of the forges.
func (p Provider) Known() bool { _, ok := shapes[p]; return ok }

// New checks the options. No file is read and nothing is sent.
func New(o Options) (*Client, error) {
	if !o.Provider.Known() {
		return nil, fmt.Errorf("provider %q is no forge", o.Provider)
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return nil, errors.New("its url is not one of http or https without a user") // it may hold a password
	}
	if o.Token == "" {
		return nil, errors.New("it has no token: the file with the credential for the forge")
	}
	if u.Scheme == "http" && !outbound.Loopback(u.Host) {
		return nil, errors.New("over http everybody on the way could read its token; use https")
	}
	c := &Client{o: o, shape: shapes[o.Provider], http: outbound.New(o.Transport)}
	var path []string
	if c.root, path, err = c.shape.repository(u); err != nil {
		return nil, err
	}
	c.api = c.root.JoinPath(path...)
	return c, nil
}

// call sends one request to the API and decodes the answer into out, unless out is nil.
func (c *Client) call(ctx context.Context, method string, at *url.URL, in, out any) error {
	token, err := outbound.ReadGuardedSecret(c.o.Token)
	if err != nil {
		return &outbound.Error{Err: err}
	}
	var body []byte
	if in != nil {
		if body, err = json.Marshal(in); err != nil {
			return &outbound.Error{Err: err, Final: true}
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return &outbound.Error{Err: err, Final: true}
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	c.shape.authorize(req.Header, token)
	answer, err := c.http.Do(req, maxAnswer, token)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return &outbound.Error{
			Err: errors.New("its answer is not the JSON of this API: " + outbound.Line(err.Error(), 200)),
		}
	}
	return nil
}

// SetStatus sets the status of a commit. Setting the same status again changes nothing.
func (c *Client) SetStatus(ctx context.Context, s Status) error {
	f := c.shape
	body := map[string]string{
		f.fields[0]: f.states[s.State],
		f.fields[1]: s.Name,
		f.fields[2]: outbound.Line(s.Description, f.description),
	}
	if f.branch {
		body["ref"] = s.Branch
	}
	err := c.call(ctx, http.MethodPost, c.api.JoinPath("statuses", s.Commit), body, nil)
	if c.o.Provider == GitLab && isSet(err) {
		return nil
	}
	return err
}

// isSet reports whether GitLab refused a status because the commit has it already.
func isSet(err error) bool {
	return outbound.HasStatus(err, http.StatusBadRequest) &&
		bytes.Contains([]byte(err.Error()), []byte("Cannot transition status"))
}

// User returns the ID of the user of the token.
func (c *Client) User(ctx context.Context) (int64, error) {
	var user struct {
		ID int64 `json:"id"`
	}
	err := c.call(ctx, http.MethodGet, c.root.JoinPath("user"), nil, &user)
	if err == nil && user.ID == 0 {
		err = &outbound.Error{Err: errors.New("its answer names no user")}
	}
	return user.ID, err
}

func decimal(n int) string { return strconv.Itoa(n) }

// page returns the address of a page of a list, from 1 on.
func page(at *url.URL, query url.Values, n int) *url.URL {
	to := *at
	if query == nil {
		query = url.Values{}
	}
	query.Set("page", decimal(n))
	to.RawQuery = query.Encode()
	return &to
}

// maxPages bounds the pages of a list that are read.
const maxPages = 25

// maxEntries bounds the entries of one answer: short ones take many times the memory of their JSON.
const maxEntries = 10_000

// A list is decoded up to maxEntries.
type list[T any] []T

// UnmarshalJSON reads an array.
func (l *list[T]) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		return errors.New("it is no array")
	}
	for d.More() {
		var entry T
		if err := d.Decode(&entry); err != nil {
			return err
		}
		if len(*l) == maxEntries {
			return fmt.Errorf("it has more than %d entries", maxEntries)
		}
		*l = append(*l, entry)
	}
	return nil
}

// A listing is a list of the API of a forge.
type listing struct {
	at    *url.URL
	query url.Values // of each page
	paged bool       // else one answer, without a query, has the whole list
}

// each calls f with the entries of a list, page by page, until f returns false, a page has no new entries, or after 25
// pages. all is false in the last case.
func each[T any](ctx context.Context, c *Client, l listing, id func(T) int64, f func(T) bool) (all bool, err error) {
	var last []int64
	for n := 1; n <= maxPages; n++ {
		var entries list[T]
		to := l.at
		if l.paged {
			to = page(l.at, l.query, n)
		}
		if err := c.call(ctx, http.MethodGet, to, nil, &entries); err != nil {
			return false, err
		}
		ids := make([]int64, len(entries))
		for i, e := range entries {
			ids[i] = id(e)
		}
		if len(entries) == 0 || slices.Equal(ids, last) {
			return true, nil
		}
		for _, e := range entries {
			if !f(e) {
				return true, nil
			}
		}
		if !l.paged {
			return true, nil
		}
		last = ids
	}
	return false, nil
}
