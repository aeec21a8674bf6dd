// Package notify tells places outside what becomes of revisions: the status that a forge shows beside a commit, and any
// address that takes a JSON document.
//
// A place is told over HTTP by one request for each state of a commit. Telling a forge the same again changes nothing
// there, so whoever does not know whether a request arrived sends it again. What a place answers decides about nothing
// but that, and is cut before it reaches a log. Credentials come from files that are read for each request, so that they
// are replaced without a restart. They go to the host of the place alone: no redirect is followed.
package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
)

const (
	patience  = 20 * time.Second // for one request
	maxAnswer = 64 << 10         // bytes that are read of one
	maxShown  = 200              // bytes of an answer in an error
	maxWait   = time.Hour        // that a place may ask for
)

// A State is what is said of a commit.
type State string

// The states. A commit may come from any of them to any other.
const (
	Pending  State = "pending"
	Success  State = "success"
	Failure  State = "failure"
	Canceled State = "canceled" // another commit took its place
)

// A Report says how far a commit is.
type Report struct {
	State   State
	Text    string // for people: the numbers, or why it failed
	Commit  string
	Branch  string
	Author  string
	Subject string // the commit's first line
	Peels   int    // that the commit is for, and of them:
	Applied int
	Failed  int
	Offline int
	Took    time.Duration // of a success, from the first look at the commit on
}

// A Provider is a kind of place.
type Provider string

// The providers. Gitea also stands for Forgejo.
const (
	GitHub  Provider = "github"
	GitLab  Provider = "gitlab"
	Gitea   Provider = "gitea"
	Webhook Provider = "webhook"
)

var providers = []Provider{GitHub, GitLab, Gitea, Webhook}

// Options say where a place is.
type Options struct {
	Name     string // letters, digits, "_" and "-"; a forge shows the status as zester/NAME
	Provider Provider
	// URL is that of the repository as people open it on the forge, or where a webhook posts to.
	URL    string
	Token  string // file with the credential for a forge
	Secret string // file with the key that signs what a webhook posts; empty: it is not signed
	Body   string // template of what a webhook posts, see [New]; empty: one with every field
	// Transport is the way there; nil: [http.DefaultTransport].
	Transport http.RoundTripper
}

// A Place is told about commits. Its methods may be called at the same time.
type Place struct {
	o      Options
	api    *url.URL // of the repository, or of the webhook
	client *http.Client
}

var name = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// New checks the options; no file is read and nothing is sent. In the body of a webhook ${state}, ${text}, ${commit},
// ${short}, ${branch}, ${author}, ${subject}, ${peels}, ${applied}, ${failed}, ${offline} and ${seconds} stand for their
// values, which fit into a JSON string, and $$ for a dollar sign; the whole has to be JSON.
func New(o Options) (*Place, error) {
	p := &Place{o: o}
	cannot := fmt.Sprintf("cannot notify %q", o.Name)
	if !name.MatchString(o.Name) {
		return nil, errors.New(cannot + `: want a name of 1 to 40 letters, digits, "_" and "-"`)
	}
	if !slices.Contains(providers, o.Provider) {
		return nil, fmt.Errorf("%s: provider %q is none of %v", cannot, o.Provider, providers)
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return nil, errors.New(cannot + ": its url is not one of http or https without a user") // it may hold a password
	}
	forge := o.Provider != Webhook
	switch {
	case forge && o.Token == "":
		return nil, errors.New(cannot + " without token: the file with the credential for the forge")
	case forge && (o.Secret != "" || o.Body != ""):
		return nil, errors.New(cannot + ": secret and body are for webhooks; a forge has a token")
	case !forge && o.Token != "":
		return nil, errors.New(cannot + ": a token is for forges; what a webhook posts is signed with secret")
	case forge && u.Scheme == "http" && !gitrepo.Loopback(u.Host):
		return nil, errors.New(cannot + ": over http everybody on the way could read its token; use https")
	}
	if p.api = u; forge {
		p.api, err = forges[o.Provider].repository(u)
	} else {
		_, err = fill(o.Body, Report{})
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cannot, err)
	}
	p.client = &http.Client{
		Transport: o.Transport, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return p, nil
}

// Name is what the place is called.
func (p *Place) Name() string { return p.o.Name }

// An Error is why a place was not told.
type Error struct {
	Final bool          // sending it again cannot help
	After time.Duration // how long the place wants to be left alone, 0 if it does not say
	err   error
}

func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns what went wrong.
func (e *Error) Unwrap() error { return e.err }

// Send tells the place. Its errors are of the type [Error].
func (p *Place) Send(ctx context.Context, r Report) error {
	cannot := fmt.Sprintf("cannot tell %q about %.7s", p.o.Name, r.Commit)
	req, err := p.request(ctx, r)
	if err != nil {
		return &Error{err: fmt.Errorf("%s: %w", cannot, err)}
	}
	req.Header.Set("User-Agent", "zester")
	req.Header.Set("Content-Type", "application/json")
	res, err := p.client.Do(req)
	if err != nil {
		return &Error{err: fmt.Errorf("%s: %w", cannot, unaddressed(err))}
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if res.StatusCode/100 == 2 || p.o.Provider == GitLab && isThere(res.StatusCode, answer) {
		return nil
	}
	e := &Error{Final: final(res.StatusCode), After: after(res.Header, time.Now())}
	e.err = fmt.Errorf("%s: it answers with status %d: %s%s", cannot, res.StatusCode, shown(answer), hint(res.StatusCode))
	if err != nil {
		e.err = errors.Join(e.err, err)
	}
	return e
}

func (p *Place) request(ctx context.Context, r Report) (*http.Request, error) {
	if p.o.Provider == Webhook {
		return p.post(ctx, r)
	}
	token, err := gitrepo.ReadSecret(p.o.Token)
	if err != nil {
		return nil, err
	}
	f := forges[p.o.Provider]
	body, err := f.status(r, "zester/"+p.o.Name)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.api.JoinPath("statuses", r.Commit).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	f.authorize(req.Header, token)
	return req, nil
}

// final reports whether a place refuses a request for what it is. A credential, and what it may, can change.
func final(status int) bool {
	return slices.Contains([]int{http.StatusBadRequest, http.StatusGone, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity}, status)
}

func hint(status int) string {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound:
		return "; its credential may lack the right to do this, or its url is wrong"
	case status/100 == 3:
		return "; its url has changed"
	}
	return ""
}

// after reads Retry-After, seconds or a date.
func after(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	var wait time.Duration
	if seconds, err := strconv.ParseUint(value, 10, 16); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxWait)
}

// shown is the beginning of an answer as one line of text.
func shown(answer []byte) string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == '\u007f' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(answer[:min(maxShown, len(answer))]), ""))
	return strings.Join(strings.Fields(text), " ")
}

// unaddressed is an error of a client without the URL, which may hold a key.
func unaddressed(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// limit cuts a text to so many bytes.
func limit(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}
