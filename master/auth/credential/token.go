package credential

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// A Scope is a permission of a token for the REST API.
type Scope string

// The scopes. A token has one or more; none includes another but ScopeAdmin, which includes all.
const (
	ScopeRead     Scope = "read"     // see peels, all jobs and what they returned
	ScopeDispatch Scope = "dispatch" // run functions within the token's limits; see and cancel the jobs that it made
	ScopeSync     Scope = "sync"     // approve, pause, pin and retry what Git brings to the fleet
	ScopeAdmin    Scope = "admin"    // everything, without limits
	// the token opens /mcp alone; its scopes read and dispatch say which tools it has there
	ScopeMCP     Scope = "mcp"
	ScopeMetrics Scope = "metrics" // the token opens /metrics alone, and has no other scope
)

// scopes are all, and scopeNames what people read of them.
var scopes = []Scope{ScopeRead, ScopeDispatch, ScopeSync, ScopeAdmin, ScopeMCP, ScopeMetrics}

const scopeNames = "read, dispatch, sync, admin, mcp and metrics"

// A Token is a bearer token as masters know it, without its text.
type Token struct {
	Name      string        `json:"name"` // jobs that it makes are of the user "token:<name>"
	Scopes    []Scope       `json:"scopes"`
	Limits    grants.Limits `json:"limits,omitzero"`
	Created   time.Time     `json:"created"`
	CreatedBy string        `json:"created_by"`
	Rotated   time.Time     `json:"rotated,omitzero"` // the last time
	RotatedBy string        `json:"rotated_by,omitempty"`
	Expires   time.Time     `json:"expires,omitzero"` // zero: it does not
	Revoked   time.Time     `json:"revoked,omitzero"` // zero: it is not
	RevokedBy string        `json:"revoked_by,omitempty"`
	LastUsed  time.Time     `json:"last_used,omitzero"` // to ten minutes; zero: never
}

// tokenUser begins the user names of tokens. No credential of the bus can have such a name.
const tokenUser = "token:"

// User returns the user name of jobs that the bearer starts.
func (t *Token) User() string { return tokenUser + t.Name }

// TokenNameOf returns the name of the token whose jobs a user name stands for; ok is false for the names of people.
func TokenNameOf(user string) (name string, ok bool) { return strings.CutPrefix(user, tokenUser) }

// Purpose returns ScopeMCP or ScopeMetrics for a token that opens one path alone, else "".
func (t *Token) Purpose() Scope {
	for _, s := range []Scope{ScopeMCP, ScopeMetrics} {
		if slices.Contains(t.Scopes, s) {
			return s
		}
	}
	return ""
}

// Has reports whether the token gives a scope.
func (t *Token) Has(s Scope) bool {
	return slices.Contains(t.Scopes, s) || slices.Contains(t.Scopes, ScopeAdmin)
}

// State returns "active", "revoked" or "expired" for a time.
func (t *Token) State(now time.Time) string {
	switch {
	case !t.Revoked.IsZero():
		return "revoked"
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return "expired"
	}
	return "active"
}

// A Hash is the SHA-256 of a whole token. A token has 256 random bits, so it cannot be guessed and needs no
// slow hash, with which unauthenticated requests would load the master.
type Hash [sha256.Size]byte

// Equal reports whether two hashes are the same, in constant time.
func (h Hash) Equal(other Hash) bool { return subtle.ConstantTimeCompare(h[:], other[:]) == 1 }

// A token is "zester.<name>.<43 characters of base64url>".
const (
	tokenPrefix = "zester."
	secretBytes = 32
)

// NewSecret makes the text of a bearer token of that name. The user's own program calls it and sends masters the hash
// alone.
func NewSecret(name string) (text string, hash Hash) {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // it ends the program rather than fail
	text = tokenPrefix + name + "." + base64.RawURLEncoding.EncodeToString(secret)
	return text, sha256.Sum256([]byte(text))
}

// ParseToken reads the name in a token and hashes it; ok is false for what cannot be a token.
func ParseToken(text string) (name string, hash Hash, ok bool) {
	rest, ok := strings.CutPrefix(text, tokenPrefix)
	name, secret, found := strings.Cut(rest, ".")
	if !ok || !found || CheckTokenName(name) != nil || len(secret) != base64.RawURLEncoding.EncodedLen(secretBytes) {
		return "", Hash{}, false
	}
	return name, sha256.Sum256([]byte(text)), true
}

// CheckTokenName returns an error if a token, or a join token, cannot have a name.
func CheckTokenName(name string) error {
	// the jobs of a token are recorded under its name, as those of people are
	if grants.CheckName(grants.RoleOperator, name) != nil {
		return fmt.Errorf("a token's name has 1 to 64 letters, digits, '_' and '-': %.70q", name)
	}
	return nil
}

// A TokenRequest asks for a token that does not exist yet, or for another secret for one that does.
type TokenRequest struct {
	Name   string        `json:"name"`
	Hash   Hash          `json:"hash"`
	TTL    time.Duration `json:"ttl,omitempty"` // 0: it does not end
	Scopes []Scope       `json:"scopes,omitempty"`
	Limits grants.Limits `json:"limits,omitzero"`
	Grace  time.Duration `json:"grace,omitempty"` // the old secret goes on for so long
}

const (
	minTokenTTL = time.Minute
	maxTokenTTL = 10 * 366 * 24 * time.Hour
	maxGrace    = 7 * 24 * time.Hour
)

// Check returns an error if the name, the hash or a duration of the request is not valid.
func (r *TokenRequest) Check() error {
	if err := CheckTokenName(r.Name); err != nil {
		return err
	}
	if r.Hash == (Hash{}) {
		return errors.New("it has no hash")
	}
	if r.TTL > 0 && r.TTL < minTokenTTL {
		return fmt.Errorf("it would end after %v: %v is the least", r.TTL, minTokenTTL)
	}
	if r.TTL < 0 || r.TTL > maxTokenTTL {
		return fmt.Errorf("it would end after %v: %v is the most", r.TTL, maxTokenTTL)
	}
	if r.Grace < 0 || r.Grace > maxGrace {
		return fmt.Errorf("its old secret would go on for %v: %v is the most", r.Grace, maxGrace)
	}
	return nil
}

// CheckScopes returns an error if the scopes or the limits of a new token are not valid.
func (r *TokenRequest) CheckScopes() error {
	if len(r.Scopes) == 0 {
		return errors.New("it has no scope: there are " + scopeNames)
	}
	for _, s := range r.Scopes {
		if !slices.Contains(scopes, s) {
			return fmt.Errorf("there is no scope %.40q: there are %s", s, scopeNames)
		}
	}
	if slices.Contains(r.Scopes, ScopeMCP) {
		if slices.Contains(r.Scopes, ScopeAdmin) || slices.Contains(r.Scopes, ScopeSync) || len(r.Scopes) == 1 {
			return errors.New(
				"the scope mcp needs read or dispatch beside it, which say what the assistant may do, " +
					"and neither admin nor sync",
			)
		}
	}
	if slices.Contains(r.Scopes, ScopeMetrics) && len(r.Scopes) > 1 {
		return errors.New("the scope metrics opens /metrics alone: it goes with no other scope")
	}
	if !r.Limits.IsZero() {
		if slices.Contains(r.Scopes, ScopeAdmin) || slices.Contains(r.Scopes, ScopeSync) ||
			!slices.Contains(r.Scopes, ScopeDispatch) {
			return errors.New("limits are for the scope dispatch without admin and sync, which concern the whole fleet")
		}
	}
	return r.Limits.Check()
}
