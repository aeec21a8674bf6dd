// Package session keeps the logins of browsers. Call [Open]; a browser logs in with [Store.Redeem] or [Store.ByToken]
// and is known by its cookie with [Store.Authenticate].
//
// Guarantees: the bucket sessions has the SHA-256 of a cookie and never the cookie; a code opens one session, once,
// within a minute; a session that was ended, or whose user or token has ended, opens nothing on any master half a
// second later; a session ends after a time without requests and after a lifetime, whatever it does. An error of the
// bucket opens nothing.
//
// Known gap: a person has one code at a time, so a second one replaces the first.
package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/reach"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// Errors of logins. A browser learns these alone.
var (
	ErrUnknown  = errors.New("it is not known, or was used before")
	ErrEnded    = errors.New("the session has ended")
	ErrNotFound = errors.New("no such session")
	ErrNoPerson = errors.New("only people log in by a code")
)

const (
	codeTime    = time.Minute
	most        = 20             // sessions of a user; one more ends the oldest
	coarse      = time.Minute    // how exactly the last request of a session is known
	minIdle     = 5 * coarse     // so that coarse does not matter
	maxLifetime = 24 * time.Hour // less than the bucket keeps a session
	DefaultIdle = 30 * time.Minute
	DefaultLife = 12 * time.Hour
	maxAgent    = 200 // bytes
	secretBytes = 32
	idBytes     = 8
)

const (
	sessionPrefix = "session."
	codePrefix    = "code."
	logoutPrefix  = "logout." // a logout token that a provider has sent
	spentPrefix   = "spent."  // an ID token by which zester login has made a credential
)

// Options are how long sessions last. The zero value has the defaults.
type Options struct {
	Idle     time.Duration // without a request; 0: [DefaultIdle]
	Lifetime time.Duration // at most; 0: [DefaultLife]
	Log      *slog.Logger  // nil: nothing is logged
}

// Check returns an error if a time is out of bounds.
func (o Options) Check() error {
	if o.Idle != 0 && o.Idle < minIdle {
		return fmt.Errorf("cannot end sessions after %v without a request: the least is %v", o.Idle, minIdle)
	}
	if o.Lifetime < 0 || o.Lifetime > maxLifetime {
		return fmt.Errorf("cannot keep sessions for %v: the most is %v", o.Lifetime, maxLifetime)
	}
	return nil
}

// A Store has the sessions of all masters of a bus. Methods may be called from several goroutines.
type Store struct {
	js       jetstream.JetStream
	kv       jetstream.KeyValue
	sessions *bucket.CachedRecords[api.Session]
	codes    bucket.Records[code]
	users    *user.Store
	tokens   *token.Store
	o        Options
}

// code is a one-time code as it is stored, under the name of its person.
type code struct {
	Hash credential.Hash `json:"hash"`
	Role grants.Role     `json:"role"`
	Ends time.Time       `json:"ends"`
}

// Open opens the bucket, which has to exist.
func Open(
	ctx context.Context, js jetstream.JetStream, users *user.Store, tokens *token.Store, o Options,
) (*Store, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if o.Idle == 0 {
		o.Idle = DefaultIdle
	}
	if o.Lifetime == 0 {
		o.Lifetime = DefaultLife
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	kv, err := js.KeyValue(ctx, wire.BucketSessions)
	if err != nil {
		return nil, fmt.Errorf("cannot open the bucket %s: %w", wire.BucketSessions, err)
	}
	sessions, err := bucket.OpenRecords[api.Session](ctx, js, wire.BucketSessions, sessionPrefix, "the session")
	if err != nil {
		return nil, err
	}
	codes, err := bucket.OpenRecords[code](ctx, js, wire.BucketSessions, codePrefix, "the code of")
	return &Store{
		js: js, kv: kv, sessions: bucket.NewCachedRecords(sessions), codes: codes, users: users, tokens: tokens, o: o,
	}, err
}

// Code makes a one-time code for a person. It replaces the person's earlier code.
func (s *Store) Code(ctx context.Context, from grants.Caller) (*api.SessionCode, error) {
	if !from.Role.IsPerson() || strings.Contains(from.User, ":") {
		return nil, fmt.Errorf("%w: %w", grants.ErrNotAllowed, ErrNoPerson)
	}
	if err := s.checkUser(ctx, from.User, from.Role); err != nil {
		return nil, err
	}

	text := from.User + "." + secret()
	ends := time.Now().UTC().Add(codeTime)
	c := code{Hash: sha256.Sum256([]byte(text)), Role: from.Role, Ends: ends}
	err := s.codes.Create(ctx, from.User, c)
	if errors.Is(err, bucket.ErrPresent) {
		_, err = s.codes.Change(ctx, from.User, func(old *code) error { *old = c; return nil })
	}
	if err != nil {
		return nil, fmt.Errorf("cannot store the code: %w", err)
	}
	return &api.SessionCode{Code: text, Ends: ends}, nil
}

// A Browser is where a session is used.
type Browser struct {
	From  string // address
	Agent string // the header User-Agent
}

// Redeem logs a browser in by a one-time code and returns the cookie.
func (s *Store) Redeem(ctx context.Context, text string, b Browser) (cookie string, session *api.Session, err error) {
	name, _, ok := strings.Cut(text, ".")
	if !ok || grants.CheckName(grants.RoleOperator, name) != nil {
		return "", nil, ErrUnknown
	}
	c, revision, err := s.codes.Get(ctx, name)
	switch {
	case errors.Is(err, bucket.ErrAbsent):
		return "", nil, ErrUnknown
	case err != nil:
		return "", nil, err
	case !c.Hash.Equal(sha256.Sum256([]byte(text))), !time.Now().Before(c.Ends):
		return "", nil, ErrUnknown
	}

	// Of two browsers with the code one deletes it.
	if err := s.kv.Delete(ctx, codePrefix+name, jetstream.LastRevision(revision)); bucket.IsConflict(err) {
		return "", nil, ErrUnknown
	} else if err != nil {
		return "", nil, fmt.Errorf("cannot use the code: %w", err)
	}
	if err := s.checkUser(ctx, name, c.Role); err != nil {
		return "", nil, err
	}
	isBreakGlass := s.users.IsBreakGlass(ctx, grants.Caller{User: name, Role: c.Role}, "")
	return s.begin(ctx, api.Session{User: name, Role: c.Role, BreakGlass: isBreakGlass}, b)
}

// ByToken logs a browser in by a token of the REST API and returns the cookie.
func (s *Store) ByToken(ctx context.Context, text string, b Browser) (cookie string, session *api.Session, err error) {
	t, err := s.tokens.Authenticate(ctx, strings.TrimSpace(text))
	switch {
	case errors.Is(err, token.ErrUnknown):
		return "", nil, ErrUnknown
	case errors.Is(err, token.ErrEnded):
		return "", nil, ErrEnded
	case err != nil:
		return "", nil, err
	case t.Purpose() != "":
		return "", nil, fmt.Errorf("%w: the token opens /%s alone", grants.ErrNotAllowed, t.Purpose())
	}
	n := api.Session{User: t.User(), Role: RoleOf(t.Scopes), Scopes: t.Scopes, Ends: t.Expires}
	if err := s.checkOwner(ctx, &n); err != nil {
		return "", nil, err
	}
	return s.begin(ctx, n, b)
}

// ByProvider begins a session for a person whom a provider has logged in.
func (s *Store) ByProvider(
	ctx context.Context, n api.Session, b Browser,
) (cookie string, session *api.Session, err error) {
	known := user.Known{Name: n.User, Role: n.Role, Groups: n.Groups, At: *n.Login}
	if err := s.users.Bind(ctx, known); err != nil {
		return "", nil, err
	}
	return s.begin(ctx, n, b)
}

// begin stores a new session. Its Ends is when its token ends; zero: it has none, or one that does not end.
func (s *Store) begin(ctx context.Context, n api.Session, b Browser) (cookie string, session *api.Session, err error) {
	now := time.Now().UTC()
	cookie = secret()
	key := keyOf(cookie)
	n.ID = key[:2*idBytes]
	n.From = audit.Bounded(b.From, maxAgent)
	n.Agent = audit.Bounded(b.Agent, maxAgent)
	n.Began = now
	n.Seen = now
	if last := now.Add(s.o.Lifetime); n.Ends.IsZero() || n.Ends.After(last) {
		n.Ends = last
	}

	if err := s.sessions.Create(ctx, key, n); err != nil {
		return "", nil, fmt.Errorf("cannot store the session: %w", err)
	}
	return cookie, &n, s.endOldest(ctx, n.User)
}

// endOldest ends the sessions of a user that are too many.
func (s *Store) endOldest(ctx context.Context, user string) error {
	own, err := s.of(ctx, user)
	if err != nil {
		return err
	}
	for _, k := range own[min(most, len(own)):] {
		if err := s.end(ctx, k.key); err != nil {
			return err
		}
	}
	return nil
}

// Authenticate returns the session of a cookie, [ErrUnknown] or [ErrEnded]. A request that a person made is activity,
// and keeps the session; a page that refreshes itself is none.
func (s *Store) Authenticate(ctx context.Context, cookie string, activity bool) (*api.Session, error) {
	if len(cookie) != base64.RawURLEncoding.EncodedLen(secretBytes) {
		return nil, ErrUnknown
	}
	key := keyOf(cookie)
	n, err := s.sessions.Recent(ctx, key)
	switch {
	case errors.Is(err, bucket.ErrAbsent):
		return nil, ErrUnknown
	case err != nil:
		return nil, err
	}

	now := time.Now()
	if !now.Before(n.Ends) || now.Sub(n.Seen) >= s.o.Idle {
		return nil, ErrEnded
	}
	if err := s.checkOwner(ctx, &n); err != nil {
		return nil, err
	}
	if activity && now.Sub(n.Seen) >= coarse {
		s.noteRequest(ctx, key, &n, now)
	}
	return &n, nil
}

// Forget makes [Store.Authenticate] read the stored records, in place of those that were read in the last 400 ms. Call
// it when a session, a person or a token was changed.
func (s *Store) Forget() {
	s.sessions.Forget()
	s.users.Forget()
	s.tokens.Forget()
}

// noteRequest stores the time of a request. If that fails the session goes on, and ends as if there had been no
// request.
func (s *Store) noteRequest(ctx context.Context, key string, n *api.Session, now time.Time) {
	_, err := s.sessions.Change(ctx, key, func(n *api.Session) error { n.Seen = now.UTC(); return nil })
	if err != nil && !errors.Is(err, bucket.ErrAbsent) { // absent: it has ended meanwhile
		s.o.Log.Warn("last request of a session not stored", "session", n.ID, "user", n.User, "err", err)
	}
}

// checkOwner returns [ErrEnded] if the user or the token of a session has ended.
func (s *Store) checkOwner(ctx context.Context, n *api.Session) error {
	known := reach.Reach{Users: s.users, Tokens: s.tokens}
	err := known.CheckKnown(ctx, grants.Caller{User: n.User, Role: n.Role})
	if errors.Is(err, grants.ErrNotAllowed) {
		return fmt.Errorf("%w: %w", ErrEnded, err)
	}
	return err
}

func (s *Store) checkUser(ctx context.Context, name string, role grants.Role) error {
	return s.users.CheckKnown(ctx, grants.Caller{User: name, Role: role})
}

// Logout ends the session of a cookie. One that is not known has ended.
func (s *Store) Logout(ctx context.Context, cookie string) error { return s.end(ctx, keyOf(cookie)) }

// List returns the sessions of a user that have not ended, or of all users if user is empty, the newest first.
func (s *Store) List(ctx context.Context, user string) ([]api.Session, error) {
	var listed []api.Session
	all, err := s.of(ctx, user)
	for _, k := range all {
		listed = append(listed, k.session)
	}
	return listed, err
}

// End ends sessions and returns how many. A user who is no operator ends only own ones.
func (s *Store) End(ctx context.Context, from grants.Caller, q api.SessionEndRequest) (ended int, err error) {
	owner := from.User
	if IsOperator(from.Role) && !strings.Contains(from.User, ":") {
		owner = q.User
	} else if q.User != "" && q.User != from.User {
		return 0, fmt.Errorf("%w: the sessions of %s are ended by operators", grants.ErrNotAllowed, q.User)
	}
	if (q.ID == "") == (q.User == "") {
		return 0, errors.New("cannot end sessions: name a session or a user")
	}

	all, err := s.of(ctx, owner)
	if err != nil {
		return 0, err
	}
	for _, k := range all {
		if q.ID != "" && k.session.ID != q.ID {
			continue
		}
		if err := s.end(ctx, k.key); err != nil {
			return ended, err
		}
		ended++
	}
	if q.ID != "" && ended == 0 {
		return 0, fmt.Errorf("%w: %s", ErrNotFound, q.ID)
	}
	return ended, nil
}

func (s *Store) end(ctx context.Context, key string) error {
	if err := s.kv.Purge(ctx, sessionPrefix+key); err != nil {
		return fmt.Errorf("cannot end the session: %w", err)
	}
	return nil
}

// keyed is a session with its key.
type keyed struct {
	key     string
	session api.Session
}

// of returns the sessions of a user that have not ended, or of all users if user is empty, the newest first. A record
// that cannot be decoded opens nothing and is left out.
func (s *Store) of(ctx context.Context, user string) ([]keyed, error) {
	var all []keyed
	now := time.Now()
	err := bucket.Read(ctx, s.js, wire.BucketSessions, sessionPrefix+">", func(key string, value []byte) error {
		var n api.Session
		if canon.Unmarshal(value, &n) != nil || user != "" && n.User != user {
			return nil
		}
		if now.Before(n.Ends) && now.Sub(n.Seen) < s.o.Idle {
			all = append(all, keyed{strings.TrimPrefix(key, sessionPrefix), n})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list the sessions: %w", err)
	}
	sorting.Func(all, func(a, b keyed) int { return b.session.Began.Compare(a.session.Began) })
	return all, nil
}

// IsOperator reports whether a role may see and end the sessions of others.
func IsOperator(r grants.Role) bool { return r == grants.RoleOperator || r == grants.RoleDirect }

// RoleOf returns the role of a session that a token with these scopes began.
func RoleOf(scopes []credential.Scope) grants.Role {
	switch {
	case slices.Contains(scopes, credential.ScopeAdmin):
		return grants.RoleOperator
	case slices.Contains(scopes, credential.ScopeDispatch):
		return grants.RoleLimited
	}
	return grants.RoleAuditor
}

// keyOf returns the key of a cookie in the bucket.
func keyOf(cookie string) string {
	sum := sha256.Sum256([]byte(cookie))
	return hex.EncodeToString(sum[:])
}

func secret() string {
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random) // it ends the program rather than fail
	return base64.RawURLEncoding.EncodeToString(random)
}
