// Package logintest is a provider of OpenID Connect for tests, on loopback. Call [Start]. It keeps to the standard
// unless a test sets one of the fields of [Faults].
package logintest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// ClientID and Secret identify the only client.
const (
	ClientID = "zester"
	Secret   = "the client's secret"
)

// A Provider is a provider for one client. It logs in everybody who comes, with the claims of its field.
type Provider struct {
	*httptest.Server
	t *testing.T

	mu     sync.Mutex
	key    crypto.Signer
	kid    string
	codes  map[string]request
	device map[string]string // what the token endpoint says next about a device; empty: the person has logged in
	claims map[string]any
	faults Faults

	changed chan struct{} // closes when the faults change
}

// Faults are ways in which a provider departs from the standard.
type Faults struct {
	Path      string                      // of the requests that the next four are about; empty: all
	Hang      bool                        // no request gets an answer
	Huge      bool                        // its answers are ten megabytes of blanks
	HTML      bool                        // its answers are pages, of the status 200
	Redirect  string                      // where its answers lead; empty: nowhere
	Algorithm string                      // in the header of tokens; empty: the key decides
	NoSecret  bool                        // tokens need no secret of the client
	Change    func(claims map[string]any) // of ID tokens
	AuthURL   string                      // in the discovery document; empty: its own
	Issuer    string                      // in the discovery document; empty: its own
	NoDevices bool                        // there is no login by a code
}

// A request is what a browser came with.
type request struct{ nonce, challenge, redirect string }

// Start returns a provider that runs until the test ends. Its key is RSA.
func Start(t *testing.T) *Provider {
	t.Helper()
	p := &Provider{
		t: t, codes: map[string]request{}, device: map[string]string{}, claims: map[string]any{},
		changed: make(chan struct{}),
	}
	p.RotateRSA()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("POST /device", p.beginDevice)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := p.now()
		if f.Path != "" && f.Path != r.URL.Path {
			f = Faults{}
		}
		switch {
		case f.Hang:
			p.hang(r)
			return
		case f.HTML:
			_, _ = w.Write([]byte("<!doctype html><title>Sign in</title>"))
			return
		case f.Redirect != "":
			http.Redirect(w, r, f.Redirect, http.StatusTemporaryRedirect)
			return
		case f.Huge:
			_, _ = w.Write([]byte(strings.Repeat(" ", 10<<20)))
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		p.Fail(Faults{})
		p.Close()
	})
	return p
}

// hang returns when the client has gone, or the faults change. Whether the client of a form has gone is not known.
func (p *Provider) hang(r *http.Request) {
	p.mu.Lock()
	changed := p.changed
	p.mu.Unlock()
	select {
	case <-r.Context().Done():
	case <-changed:
	}
}

func (p *Provider) now() Faults {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults
}

// Fail sets the faults. Requests that hang end without an answer.
func (p *Provider) Fail(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = f
	close(p.changed)
	p.changed = make(chan struct{})
}

// Person sets the claims of everybody who logs in.
func (p *Provider) Person(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = claims
}

// RotateRSA replaces the key by a new one of RSA.
func (p *Provider) RotateRSA() {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	p.rotate(key, err)
}

// RotateEC replaces the key by a new one on the curve P-256.
func (p *Provider) RotateEC() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p.rotate(key, err)
}

func (p *Provider) rotate(key crypto.Signer, err error) {
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.kid = key, rand.Text()
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	f := p.now()
	d := map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
		"jwks_uri":                              p.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"RS256", "ES256", "HS256", "none"},
		"scopes_supported":                      []string{"openid", "email", "groups"},
	}
	if !f.NoDevices {
		d["device_authorization_endpoint"] = p.URL + "/device"
	}
	if f.AuthURL != "" {
		d["authorization_endpoint"] = f.AuthURL
	}
	if f.Issuer != "" {
		d["issuer"] = f.Issuer
	}
	answer(w, http.StatusOK, d)
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := map[string]string{"kid": p.kid, "use": "sig"}
	switch public := p.key.Public().(type) {
	case *rsa.PublicKey:
		key["kty"], key["alg"] = "RSA", "RS256"
		key["n"] = text(public.N.Bytes())
		key["e"] = text(big.NewInt(int64(public.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := public.Bytes()
		if err != nil {
			p.t.Error(err)
			return
		}
		key["kty"], key["alg"], key["crv"] = "EC", "ES256", "P-256"
		key["x"], key["y"] = text(point[1:33]), text(point[33:])
	}
	answer(w, http.StatusOK, map[string]any{"keys": []any{key}})
}

func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "the request is not that of the client", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = request{q.Get("nonce"), q.Get("code_challenge"), q.Get("redirect_uri")}
	p.mu.Unlock()
	back := url.Values{"state": {q.Get("state")}, "code": {code}}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusSeeOther)
}

// isClient reports whether a request proves that it comes from the client.
func (p *Provider) isClient(r *http.Request) bool {
	id, secret, _ := r.BasicAuth()
	return p.now().NoSecret || id == ClientID && secret == url.QueryEscape(Secret)
}

func (p *Provider) beginDevice(w http.ResponseWriter, r *http.Request) {
	if !p.isClient(r) || !strings.Contains(r.PostFormValue("scope"), "openid") {
		answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	secret := rand.Text()
	p.mu.Lock()
	p.device[secret] = "authorization_pending"
	p.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{
		"device_code": secret, "user_code": "WDJB-MJHT", "verification_uri": p.URL + "/enter", "expires_in": 600,
		"interval": 1,
	})
}

// Decide sets what the provider says about all logins by a code: an error of RFC 8628, or empty for a person who has
// logged in.
func (p *Provider) Decide(says string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for secret := range p.device {
		p.device[secret] = says
	}
}

func (p *Provider) deviceToken(w http.ResponseWriter, r *http.Request) {
	secret := r.PostFormValue("device_code")
	p.mu.Lock()
	says, known := p.device[secret]
	if known && says == "" {
		delete(p.device, secret)
	}
	p.mu.Unlock()
	switch {
	case !p.isClient(r):
		answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
	case !known:
		answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
	case says != "":
		answer(w, http.StatusBadRequest, map[string]string{"error": says})
	default:
		answer(w, http.StatusOK, map[string]any{
			"access_token": rand.Text(), "token_type": "Bearer", "id_token": p.idToken(""),
		})
	}
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	if r.PostFormValue("grant_type") == "urn:ietf:params:oauth:grant-type:device_code" {
		p.deviceToken(w, r)
		return
	}
	code := r.PostFormValue("code")
	p.mu.Lock()
	q, known := p.codes[code]
	delete(p.codes, code)
	p.mu.Unlock()
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case !p.isClient(r):
		answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
	case !known, text(sum[:]) != q.challenge, r.PostFormValue("redirect_uri") != q.redirect:
		answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
	default:
		answer(w, http.StatusOK, map[string]any{
			"access_token": rand.Text(), "token_type": "Bearer", "id_token": p.idToken(q.nonce),
		})
	}
}

func (p *Provider) idToken(nonce string) string {
	now := time.Now()
	claims := map[string]any{
		"iss": p.URL, "aud": ClientID, "nonce": nonce, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	}
	p.mu.Lock()
	if nonce == "" {
		delete(claims, "nonce")
	}
	maps.Copy(claims, p.claims)
	change := p.faults.Change
	p.mu.Unlock()
	if change != nil {
		change(claims)
	}
	return p.Sign(claims)
}

// LogoutToken returns a token that ends the sessions of a subject, with further claims or others in place of its own.
func (p *Provider) LogoutToken(subject string, more map[string]any) string {
	now := time.Now()
	claims := map[string]any{
		"iss": p.URL, "aud": ClientID, "sub": subject, "jti": rand.Text(), "iat": now.Unix(),
		"exp":    now.Add(time.Minute).Unix(),
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	}
	for name, value := range more {
		claims[name] = value
		if value == nil {
			delete(claims, name)
		}
	}
	return p.Sign(claims)
}

// Sign returns a JWT with the claims.
func (p *Provider) Sign(claims map[string]any) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	alg := "RS256"
	if _, ok := p.key.(*ecdsa.PrivateKey); ok {
		alg = "ES256"
	}
	if p.faults.Algorithm != "" {
		alg = p.faults.Algorithm
	}
	header := encode(p.t, map[string]string{"alg": alg, "kid": p.kid, "typ": "JWT"})
	signed := header + "." + encode(p.t, claims)
	switch alg {
	case "none":
		return signed + "."
	case "HS256": // with what everybody knows
		public, err := x509.MarshalPKIXPublicKey(p.key.Public())
		if err != nil {
			p.t.Error(err)
		}
		mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
		mac.Write([]byte(signed))
		return signed + "." + text(mac.Sum(nil))
	}
	sum := sha256.Sum256([]byte(signed))
	if key, ok := p.key.(*ecdsa.PrivateKey); ok {
		r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
		if err != nil {
			p.t.Error(err)
			return ""
		}
		both := make([]byte, 64)
		r.FillBytes(both[:32])
		s.FillBytes(both[32:])
		return signed + "." + text(both)
	}
	signature, err := p.key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		p.t.Error(err)
	}
	return signed + "." + text(signature)
}

func encode(t *testing.T, v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		t.Error(err)
	}
	return text(data)
}

func text(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }
