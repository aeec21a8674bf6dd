package login

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// Errors of logins by a code of a device.
var (
	// ErrPending: the person has not decided yet.
	ErrPending = errors.New("the person has not entered the code yet")
	// ErrSlowDown: the same, and the requests come too often.
	ErrSlowDown = fmt.Errorf("%w, and was asked for too often", ErrPending)
	// ErrNoDevices: the provider has no logins of devices.
	ErrNoDevices = errors.New("the provider lets nobody log in by a code (device flow)")
)

const (
	maxSecret       = 4 << 10 // bytes of a code of a device
	defaultInterval = 5       // seconds (RFC 8628, section 3.2)
	maxInterval     = 60      // seconds
	maxExpires      = 1800    // seconds
)

// NonceOf returns the nonce of a login for the key of a person. An ID token with it makes a credential for no other
// key.
func NonceOf(public string) string {
	sum := sha256.Sum256([]byte("zester login 1\n" + public + "\n"))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// BeginOn is [Provider.Begin] for a program on the person's host that listens on a port of 127.0.0.1 (RFC 8252, section
// 7.3), and gets a credential for a key.
func (p *Provider) BeginOn(ctx context.Context, port uint16, public string) (to string, a *Attempt, err error) {
	back := "http://127.0.0.1:" + strconv.Itoa(int(port)) + CallbackPath
	return p.begin(ctx, &Attempt{Nonce: NonceOf(public), Redirect: back})
}

// FinishOn returns the person who comes back from the provider, and the ID token that says so.
func (p *Provider) FinishOn(ctx context.Context, a *Attempt, answer url.Values) (idToken string, _ *Person, err error) {
	if idToken, err = p.exchange(ctx, a, answer); err != nil {
		return "", nil, err
	}
	person, err := p.Verify(ctx, idToken, a.Nonce)
	return idToken, person, err
}

// A Device is a login by a code that a person enters in a browser on any device.
type Device struct {
	Secret   string        // by which the login is finished; whoever has it logs in
	Code     string        // that the person enters
	URL      string        // where the person enters it
	Whole    string        // the same with the code in it; empty: the provider has none
	Interval time.Duration // between two requests of [Provider.FinishDevice], at least
	Ends     time.Time
}

// BeginDevice begins a login by a code. The error is [ErrNoDevices] if the provider has none.
func (p *Provider) BeginDevice(ctx context.Context) (*Device, error) {
	d, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	at := d.provider.Endpoint().DeviceAuthURL
	if at == "" {
		return nil, ErrNoDevices
	}
	c, err := p.config(d, "")
	if err != nil {
		return nil, err
	}
	a, err := p.post(ctx, d, at, url.Values{"scope": {strings.Join(c.Scopes, " ")}})
	if err != nil {
		return nil, err
	}
	if a.Interval <= 0 {
		a.Interval = defaultInterval
	}
	out := &Device{
		Secret: a.DeviceCode, Code: a.UserCode, URL: a.URL, Whole: a.Whole,
		Interval: time.Duration(min(a.Interval, maxInterval)) * time.Second,
		Ends:     time.Now().UTC().Add(time.Duration(min(max(a.Expires, 0), maxExpires)) * time.Second),
	}
	u, err := url.Parse(out.URL)
	if out.Secret == "" || len(out.Secret) > maxSecret || out.Code == "" || len(out.Code) > maxName || err != nil ||
		checkURL(u.Scheme+"://"+u.Host) != nil || len(out.URL)+len(out.Whole) > maxSecret {
		return nil, fmt.Errorf("%w: what it says about the code is not valid", ErrAway)
	}
	return out, nil
}

// FinishDevice asks once whether the person has entered the code, and returns the person with the ID token that says
// so. The error is [ErrPending] or [ErrSlowDown] if the caller is to ask again.
func (p *Provider) FinishDevice(ctx context.Context, secret string) (idToken string, _ *Person, err error) {
	if secret == "" || len(secret) > maxSecret {
		return "", nil, fmt.Errorf("%w: it has no code", ErrRefused)
	}
	d, err := p.discover(ctx)
	if err != nil {
		return "", nil, err
	}
	a, err := p.post(ctx, d, d.provider.Endpoint().TokenURL, url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {secret},
	})
	if err != nil {
		return "", nil, err
	}
	if a.IDToken == "" {
		return "", nil, fmt.Errorf("%w: the provider sent no ID token", ErrRefused)
	}
	person, err := p.Verify(ctx, a.IDToken, "")
	return a.IDToken, person, err
}

// posted is what a provider answers to requests about a device.
type posted struct {
	Error      string `json:"error"`
	DeviceCode string `json:"device_code"`
	UserCode   string `json:"user_code"`
	URL        string `json:"verification_uri"`
	Whole      string `json:"verification_uri_complete"`
	Interval   int    `json:"interval"`
	Expires    int    `json:"expires_in"`
	IDToken    string `json:"id_token"`
}

// post sends a form to an endpoint of the provider, as the client. The library would send each such request twice, to
// find out how the client proves itself.
func (p *Provider) post(ctx context.Context, d *discovered, to string, form url.Values) (*posted, error) {
	if err := checkURL(to); err != nil {
		return nil, fmt.Errorf("%w: it names the endpoint %.200q: %w", ErrAway, to, err)
	}
	c, err := p.config(d, "")
	if err != nil {
		return nil, err
	}
	var said struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	_ = d.provider.Claims(&said) // without it the client proves itself as the standard says
	isBasic := c.ClientSecret != "" && (len(said.Methods) == 0 || slices.Contains(said.Methods, "client_secret_basic"))
	form.Set("client_id", c.ClientID)
	if c.ClientSecret != "" && !isBasic {
		form.Set("client_secret", c.ClientSecret)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if isBasic {
		r.SetBasicAuth(url.QueryEscape(c.ClientID), url.QueryEscape(c.ClientSecret))
	}
	answer, err := p.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %.300s", ErrAway, err.Error())
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: %.300s", ErrAway, err.Error())
	}
	a := &posted{}
	if json.Unmarshal(body, a) != nil || answer.StatusCode >= 500 {
		return nil, fmt.Errorf("%w: it answers %s", ErrAway, answer.Status)
	}
	return a, refusal(a.Error, answer)
}

// refusal returns the error of an answer of the provider.
func refusal(code string, answer *http.Response) error {
	switch {
	case code == "authorization_pending":
		return ErrPending
	case code == "slow_down":
		return ErrSlowDown
	case code == "access_denied":
		return fmt.Errorf("%w: the login was denied at the provider", grants.ErrNotAllowed)
	case code == "expired_token":
		return fmt.Errorf("%w: the code has expired", ErrRefused)
	case code != "" || answer.StatusCode >= 300:
		return fmt.Errorf("%w: the provider says %.60q (%s)", ErrRefused, code, answer.Status)
	}
	return nil
}
