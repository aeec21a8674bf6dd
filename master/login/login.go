// Package login lets people log in at a provider of OpenID Connect. Call [New]. [Provider.Begin] returns the URL of the
// provider to which a browser is sent, [Provider.Finish] the [Person] who comes back from there, and [Provider.Logout]
// what a logout token of the provider ends.
//
// A login uses the authorization code flow of OpenID Connect Core 1.0, section 3.1, with PKCE (RFC 7636, S256), a state
// and a nonce. All three are in an [Attempt], which the browser keeps in a cookie. So any master finishes a login that
// another has begun, and requests of strangers store nothing. zester login does the same with a browser on the person's
// host: [Provider.BeginOn], or else by a code that the person enters elsewhere (RFC 8628): [Provider.BeginDevice].
//
// Guarantees: an answer of the provider is at most 256 KiB and 10 s late; only asymmetric signatures count; a token is
// for the client's ID alone, or names it as the authorized party; the provider is reached over https, except on
// loopback.
//
// Known gaps: groups are read at the login, so a person who leaves a group keeps the role until the session or the
// credential ends. Who has a person enter a code of a login that somebody else has begun is logged in as the person. A
// provider that leaves long lists of groups out of its tokens gives nobody a role by them.
package login

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/outbound"
)

// Errors of logins.
var (
	// ErrRefused: the answer of the browser or the provider is not valid.
	ErrRefused = errors.New("the login is refused")
	// ErrAway: the provider does not answer.
	ErrAway = errors.New("the provider of logins does not answer")
)

const (
	answerTime  = 10 * time.Second // of the provider
	maxAnswer   = 256 << 10        // bytes
	attemptTime = 10 * time.Minute // for a person to log in
	maxSkew     = 5 * time.Minute  // between the clocks of the provider and of this master
	maxName     = 64               // bytes of the name of a person on the bus
	maxGroups   = 1000
	maxGroup    = 256             // bytes
	secretChars = 26              // of rand.Text, at least
	maxLogout   = 5 * time.Minute // after which a logout token is too old
)

// A Rule gives the people of a group a role.
type Rule struct {
	Group string
	Role  grants.Role // [grants.RoleOperator], [grants.RoleAuditor] or [grants.RoleMember]
}

// Options configure a provider. Issuer, ClientID, URL and Roles are required.
type Options struct {
	Issuer      string // its URL, as it names itself
	ClientID    string
	SecretFile  string            // file with the client's secret; empty: it has none
	UserClaim   string            // claim with a person's name; empty: email
	GroupsClaim string            // claim with a person's groups; empty: groups
	Roles       []Rule            // the first that fits counts; nobody else may log in
	URL         string            // of the console, without a path
	Transport   http.RoundTripper // nil: the default
}

// CallbackPath is the path to which the provider sends a browser back.
const CallbackPath = "/login/callback"

// Check returns an error if the options are not valid.
func (o Options) Check() error {
	if err := checkURL(o.Issuer); err != nil {
		return fmt.Errorf("cannot use the issuer %q: %w", o.Issuer, err)
	}
	if o.ClientID == "" {
		return errors.New("cannot log people in without the client_id that the provider knows")
	}
	if o.URL == "" {
		return errors.New("cannot log people in at a provider without console.url, to which it sends browsers back")
	}
	if len(o.Roles) == 0 {
		return errors.New("cannot log people in without roles: name the groups that may log in")
	}
	for _, r := range o.Roles {
		if r.Group == "" || len(r.Group) > maxGroup {
			return fmt.Errorf("cannot give a role to the group %.300q: a group has 1 to %d bytes", r.Group, maxGroup)
		}
		if !slices.Contains([]grants.Role{grants.RoleOperator, grants.RoleAuditor, grants.RoleMember}, r.Role) {
			return fmt.Errorf("cannot give the group %q the role %q: it is operator, auditor or member", r.Group,
				r.Role)
		}
	}
	return nil
}

// checkURL returns an error unless text is a URL of https, or of http on loopback.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("want a URL such as https://id.example.com")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !outbound.Loopback(u.Host)) {
		return errors.New("want https: over http everybody on the way could log in")
	}
	return nil
}

// A Provider logs people in. Make it with [New]. Methods may be called from several goroutines.
type Provider struct {
	o      Options
	client *http.Client
	turn   chan struct{} // holds one element while nobody uses found
	found  *discovered   // nil: the provider has not answered yet
}

// discovered is what the provider says about itself.
type discovered struct {
	provider *oidc.Provider
	verifier *oidc.IDTokenVerifier
}

// New returns a provider. It sends nothing: the provider is asked at the first login.
func New(o Options) (*Provider, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	p := &Provider{o: o, turn: make(chan struct{}, 1), client: &http.Client{
		Transport: bounded{cmp.Or[http.RoundTripper](o.Transport, http.DefaultTransport)},
		Timeout:   answerTime,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the provider sends masters elsewhere")
		},
	}}
	p.turn <- struct{}{}
	return p, nil
}

// BeginURL returns the URL at which the console begins a login: the cookie of an attempt is of the host to which the
// provider sends the browser back.
func (p *Provider) BeginURL(next string) string {
	return p.o.URL + "/login/oidc?next=" + url.QueryEscape(next)
}

// Issuer returns the URL of the provider.
func (p *Provider) Issuer() string { return p.o.Issuer }

// bounded limits the size of answers.
type bounded struct{ http.RoundTripper }

// RoundTrip sends a request.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		a.Body = struct {
			io.Reader
			io.Closer
		}{&limited{left: maxAnswer, r: a.Body}, a.Body}
	}
	return a, err
}

// limited is a reader that fails after a number of bytes.
type limited struct {
	r    io.Reader
	left int
}

// Read reads.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	n, err := l.r.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

// discover returns what the provider says about itself. It asks until it gets an answer once, and takes as long as one
// answer may, also if others wait for the same.
func (p *Provider) discover(ctx context.Context) (*discovered, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrAway, ctx.Err())
	case <-p.turn:
	}
	defer func() { p.turn <- struct{}{} }()
	if p.found != nil {
		return p.found, nil
	}

	// The library keeps the client of this context, and not its end, for keys that it reads later.
	provider, err := oidc.NewProvider(p.with(ctx), p.o.Issuer)
	if err != nil {
		return nil, fmt.Errorf("%w: %.300s", ErrAway, err.Error())
	}
	var keys struct {
		URL string `json:"jwks_uri"`
	}
	if err := provider.Claims(&keys); err != nil {
		return nil, fmt.Errorf("%w: %.300s", ErrAway, err.Error())
	}
	for _, text := range []string{provider.Endpoint().AuthURL, provider.Endpoint().TokenURL, keys.URL} {
		if u, err := url.Parse(text); err == nil {
			u.RawQuery = "" // some providers have one
			text = u.String()
		}
		if err := checkURL(text); err != nil {
			return nil, fmt.Errorf("%w: it names the endpoint %.200q: %w", ErrAway, text, err)
		}
	}
	p.found = &discovered{provider, provider.Verifier(&oidc.Config{ClientID: p.o.ClientID})}
	return p.found, nil
}

// with returns a context with which the libraries use the client of the provider.
func (p *Provider) with(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.client)
}

// config returns what a login at the provider needs, which leads the browser back to the console if redirect is empty.
func (p *Provider) config(d *discovered, redirect string) (*oauth2.Config, error) {
	c := &oauth2.Config{
		ClientID: p.o.ClientID, Endpoint: d.provider.Endpoint(),
		RedirectURL: cmp.Or(redirect, p.o.URL+CallbackPath),
		Scopes:      []string{oidc.ScopeOpenID, "profile", "email", p.groupsClaim()},
	}
	supported := scopesOf(d.provider)
	c.Scopes = slices.DeleteFunc(c.Scopes, func(s string) bool { return !slices.Contains(supported, s) })
	if p.o.SecretFile == "" {
		return c, nil
	}
	secret, err := outbound.ReadSecret(p.o.SecretFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the client's secret: %w", err)
	}
	c.ClientSecret = secret
	return c, nil
}

// scopesOf returns the scopes that a provider says it has, or the scopes of the standard.
func scopesOf(p *oidc.Provider) []string {
	var said struct {
		Scopes []string `json:"scopes_supported"`
	}
	if p.Claims(&said) != nil || !slices.Contains(said.Scopes, oidc.ScopeOpenID) {
		return []string{oidc.ScopeOpenID, "profile", "email"}
	}
	return said.Scopes
}

func (p *Provider) userClaim() string   { return cmp.Or(p.o.UserClaim, "email") }
func (p *Provider) groupsClaim() string { return cmp.Or(p.o.GroupsClaim, "groups") }

// An Attempt is a login that a browser has begun. It is a secret of the browser.
type Attempt struct {
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Next     string    `json:"next"`               // path to go on to; the caller checks it
	Redirect string    `json:"redirect,omitempty"` // where the provider sends the browser; empty: to the console
	Ends     time.Time `json:"ends"`
}

// Cookie returns the attempt as the value of a cookie.
func (a *Attempt) Cookie() string {
	data, _ := json.Marshal(a) // it has strings and a time
	return base64.RawURLEncoding.EncodeToString(data)
}

// AttemptOf reads the value of a cookie.
func AttemptOf(cookie string) (*Attempt, error) {
	a := &Attempt{}
	data, err := base64.RawURLEncoding.DecodeString(cookie)
	if err == nil {
		err = json.Unmarshal(data, a)
	}
	if err != nil || len(a.State) < secretChars || len(a.Nonce) < secretChars || len(a.Verifier) < secretChars {
		return nil, fmt.Errorf("%w: this browser has not begun it, or did so long ago", ErrRefused)
	}
	return a, nil
}

// Begin returns the URL of the provider, and what the browser has to bring back from there.
func (p *Provider) Begin(ctx context.Context, next string) (to string, a *Attempt, err error) {
	return p.begin(ctx, &Attempt{Nonce: rand.Text(), Next: next})
}

// begin fills in what an attempt lacks.
func (p *Provider) begin(ctx context.Context, a *Attempt) (to string, _ *Attempt, err error) {
	d, err := p.discover(ctx)
	if err != nil {
		return "", nil, err
	}
	c, err := p.config(d, a.Redirect)
	if err != nil {
		return "", nil, err
	}
	a.State, a.Verifier, a.Ends = rand.Text(), oauth2.GenerateVerifier(), time.Now().Add(attemptTime).UTC()
	return c.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), a, nil
}

// A Person has logged in at the provider.
type Person struct {
	Name    string      // on the bus
	Subject string      // identifies the person at the issuer; never given to another person
	SID     string      // the session at the provider; empty: it does not say
	Groups  []string    // sorted, at most 1,000
	Role    grants.Role // by the first rule that fits
	Token   string      // digest of what the provider has signed, the same for every encoding of the ID token
}

// Finish returns the person who comes back from the provider. The error is [ErrRefused], [ErrAway] or
// [grants.ErrNotAllowed] with the reason.
func (p *Provider) Finish(ctx context.Context, a *Attempt, answer url.Values) (*Person, error) {
	text, err := p.exchange(ctx, a, answer)
	if err != nil {
		return nil, err
	}
	return p.Verify(ctx, text, a.Nonce)
}

// exchange returns the ID token that the provider gives for its answer to an attempt.
func (p *Provider) exchange(ctx context.Context, a *Attempt, answer url.Values) (idToken string, err error) {
	switch {
	case subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(a.State)) != 1:
		return "", fmt.Errorf("%w: the provider answers another request than this browser's last", ErrRefused)
	case !time.Now().Before(a.Ends):
		return "", fmt.Errorf("%w: it took more than %v", ErrRefused, attemptTime)
	case answer.Get("error") != "":
		return "", fmt.Errorf("%w: the provider says %.60q", ErrRefused, answer.Get("error"))
	case answer.Get("code") == "":
		return "", fmt.Errorf("%w: the provider sent no code", ErrRefused)
	}

	d, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	c, err := p.config(d, a.Redirect)
	if err != nil {
		return "", err
	}
	tokens, err := c.Exchange(p.with(ctx), answer.Get("code"), oauth2.VerifierOption(a.Verifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response.StatusCode < 500 {
		return "", fmt.Errorf("%w: the provider does not take the code: %.60q", ErrRefused, refused.ErrorCode)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %.300s", ErrAway, err.Error())
	}
	text, ok := tokens.Extra("id_token").(string)
	if !ok {
		return "", fmt.Errorf("%w: the provider sent no ID token", ErrRefused)
	}
	return text, nil
}
