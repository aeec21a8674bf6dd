package token

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Errors about tokens. A bearer learns only the first two.
var (
	ErrUnknown  = errors.New("the token is not known") // also where only its secret is wrong
	ErrEnded    = errors.New("the token has expired or was revoked")
	ErrNotFound = errors.New("no such token")
	ErrExists   = errors.New("there is such a token")
	ErrInvalid  = errors.New("the token cannot be made")
)

const (
	usedPrefix = "used."
	maxTokens  = 1000

	// coarse is how exactly the last use is known: one write a token in this time.
	coarse = 10 * time.Minute
)

// A Store has the bearer tokens of the REST API, in the bucket tokens. It reads a token from the leader of the bucket
// again after 400 ms, so that a change holds on every master within half a second; if the bucket cannot be read, every
// token is refused. Methods may be called from several goroutines.
type Store struct {
	js  jetstream.JetStream
	kv  jetstream.KeyValue
	all *bucket.CachedRecords[record]

	mu   sync.Mutex
	used map[string]time.Time // the last mark of this process
}

// record is a token as it is stored.
type record struct {
	credential.Token
	Secrets secrets `json:"secrets"`
}

// Open opens the bucket, which has to exist.
func Open(ctx context.Context, js jetstream.JetStream) (*Store, error) {
	kv, err := js.KeyValue(ctx, wire.BucketTokens)
	if err != nil {
		return nil, fmt.Errorf("cannot open the bucket %s: %w", wire.BucketTokens, err)
	}
	all, err := bucket.OpenRecords[record](ctx, js, wire.BucketTokens, "", "the token")
	return &Store{js: js, kv: kv, all: bucket.NewCachedRecords(all), used: map[string]time.Time{}}, err
}

// Authenticate returns the token with a text. The error is [ErrUnknown] or [ErrEnded], or
// says that the bucket could not be read.
func (t *Store) Authenticate(ctx context.Context, text string) (*credential.Token, error) {
	name, hash, ok := credential.ParseToken(text)
	if !ok {
		return nil, ErrUnknown
	}
	now := time.Now()
	r, err := t.recent(ctx, name)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	if !r.Secrets.opens(hash, now) {
		return nil, ErrUnknown
	}
	if r.State(now) != "active" {
		return nil, ErrEnded
	}
	t.mark(ctx, name, now)
	return &r.Token, nil
}

// Allow returns [grants.ErrNotAllowed] with the reason if the bearer of a token may not dispatch a function to targets,
// which are sorted. An expired token may: its request was made before. selects evaluates the target of a limit.
func (t *Store) Allow(ctx context.Context, name, function string, targets []target.PeelID,
	selects grants.Selector,
) error {
	r, err := t.recent(ctx, name)
	if err := usable(r, err); err != nil {
		return err
	}
	switch {
	case !r.Has(credential.ScopeDispatch):
		return fmt.Errorf("%w: the token %s lacks the scope %s", grants.ErrNotAllowed, name, credential.ScopeDispatch)
	case r.Has(credential.ScopeAdmin):
		return nil
	}
	return r.Limits.Evaluate(ctx, "the token "+name, function, targets, selects)
}

// Limits returns the limits of the bearer of a token. A token of the scope admin has none.
func (t *Store) Limits(ctx context.Context, name string) (grants.Limits, error) {
	r, err := t.recent(ctx, name)
	if err := usable(r, err); err != nil || r.Has(credential.ScopeAdmin) {
		return grants.Limits{}, err
	}
	return r.Limits, nil
}

// Has reports whether a token has a scope. The error is [grants.ErrNotAllowed] if there is no such token or it was
// revoked.
func (t *Store) Has(ctx context.Context, name string, scope credential.Scope) (bool, error) {
	r, err := t.recent(ctx, name)
	if err := usable(r, err); err != nil {
		return false, err
	}
	return r.Has(scope), nil
}

// Makers returns who made a token or gave it another secret. It reads the record itself.
func (t *Store) Makers(ctx context.Context, name string) ([]string, error) {
	r, _, err := t.all.Get(ctx, name)
	if r, err = checked(name, r, err); err != nil {
		return nil, err
	}
	return r.makers(), nil
}

// RecentMakers is [Store.Makers] as it was at most 400 ms ago.
func (t *Store) RecentMakers(ctx context.Context, name string) ([]string, error) {
	r, err := t.recent(ctx, name)
	if err := usable(r, err); err != nil {
		return nil, err
	}
	return r.makers(), nil
}

func (r *record) makers() []string {
	return slices.DeleteFunc([]string{r.CreatedBy, r.RotatedBy}, func(by string) bool { return by == "" })
}

// CheckNotRevoked returns [grants.ErrNotAllowed] if a token was revoked or does not exist. It reads the bucket, so it
// sees every revocation that was stored before.
func (t *Store) CheckNotRevoked(ctx context.Context, name string) error {
	stored, _, err := t.all.Get(ctx, name)
	return usable(checked(name, stored, err))
}

// usable returns [grants.ErrNotAllowed] for a record that was not found or whose token was revoked; err is the error of
// reading it.
func usable(r record, err error) error {
	switch {
	case errors.Is(err, ErrNotFound):
		return fmt.Errorf("%w: %w", grants.ErrNotAllowed, err)
	case err != nil:
		return err
	case !r.Revoked.IsZero():
		return fmt.Errorf("%w: the token %s was revoked", grants.ErrNotAllowed, r.Name)
	}
	return nil
}

// Forget makes the next request with each token read the stored record of the token.
func (t *Store) Forget() { t.all.Forget() }

// recent returns a record as it was at most 400 ms ago, or [ErrNotFound].
func (t *Store) recent(ctx context.Context, name string) (record, error) {
	r, err := t.all.Recent(ctx, name)
	return checked(name, r, err)
}

// checked returns [ErrNotFound] for a record that is absent, and refuses one under the name of another token.
func checked(name string, r record, err error) (record, error) {
	switch {
	case errors.Is(err, bucket.ErrAbsent):
		return record{}, fmt.Errorf("%w: %s", ErrNotFound, name)
	case err != nil:
		return record{}, err
	case r.Name != name:
		return record{}, fmt.Errorf("cannot read the token %s: the record is of %q", name, r.Name)
	}
	return r, nil
}

// mark stores when a token was last used. An error is ignored: it is no reason to refuse the bearer.
func (t *Store) mark(ctx context.Context, name string, now time.Time) {
	t.mu.Lock()
	recent := now.Sub(t.used[name]) < coarse
	if !recent {
		t.used[name] = now
	}
	t.mu.Unlock()
	if recent {
		return
	}
	if _, err := t.kv.Put(ctx, usedPrefix+name, []byte(now.UTC().Format(time.RFC3339))); err != nil {
		t.mu.Lock()
		delete(t.used, name)
		t.mu.Unlock()
	}
}

// Create stores a new token, created by a user. The error is [ErrExists] if the name was ever used, also by a revoked
// token: its jobs would seem to be of the new one.
func (t *Store) Create(ctx context.Context, q credential.TokenRequest, by string) (*credential.Token, error) {
	if err := errors.Join(q.Check(), q.CheckScopes()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	all, err := t.List(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) >= maxTokens {
		return nil, fmt.Errorf("%w: there are %d, and no more are kept", ErrInvalid, len(all))
	}
	now := time.Now().UTC()
	r := record{
		Token: credential.Token{
			Name:      q.Name,
			Scopes:    q.Scopes,
			Limits:    q.Limits,
			Created:   now,
			CreatedBy: by,
			Expires:   expires(&q, now),
		},
		Secrets: secrets{Hash: q.Hash},
	}
	if err := t.all.Create(ctx, q.Name, r); errors.Is(err, bucket.ErrPresent) {
		return nil, fmt.Errorf("%w: %s", ErrExists, q.Name)
	} else if err != nil {
		return nil, err
	}
	return &r.Token, nil
}

// Rotate gives a token another secret and a new end; the old secret stays valid for q.Grace. Scopes and limits stay.
func (t *Store) Rotate(ctx context.Context, q credential.TokenRequest, by string) (*credential.Token, error) {
	if err := q.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return t.change(ctx, q.Name, func(r *record, now time.Time) error {
		if !r.Revoked.IsZero() {
			return fmt.Errorf("%w: %s was revoked", ErrInvalid, q.Name)
		}
		old := secrets{Hash: q.Hash}
		if q.Grace > 0 {
			old.Old, old.OldUntil = r.Secrets.Hash, now.Add(q.Grace)
		}
		r.Secrets = old
		r.Rotated = now
		r.RotatedBy = by
		r.Expires = expires(&q, now)
		return nil
	})
}

// Revoke ends a token for good. Revoking it again changes nothing.
func (t *Store) Revoke(ctx context.Context, name, by string) (*credential.Token, error) {
	if err := credential.CheckTokenName(name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return t.change(ctx, name, func(r *record, now time.Time) error {
		if r.Revoked.IsZero() {
			r.Revoked, r.RevokedBy, r.Secrets = now, by, secrets{Hash: r.Secrets.Hash}
		}
		return nil
	})
}

// change makes a change to a record. If somebody else changes it at the same time, f is called again with the newer
// record.
func (t *Store) change(ctx context.Context, name string, f func(*record, time.Time) error) (*credential.Token, error) {
	r, err := t.all.Change(ctx, name, func(r *record) error {
		if r.Name != name {
			return fmt.Errorf("%w: %s", ErrNotFound, name)
		}
		return f(r, time.Now().UTC())
	})
	if errors.Is(err, bucket.ErrAbsent) {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	if err != nil {
		return nil, err
	}
	return &r.Token, nil
}

// List returns all tokens by name, those that have ended included. Records that cannot be decoded open nothing and are
// left out.
func (t *Store) List(ctx context.Context) ([]credential.Token, error) {
	tokens, _, err := t.read(ctx)
	return tokens, err
}

// Unreadable returns the keys of records that cannot be decoded.
func (t *Store) Unreadable(ctx context.Context) ([]string, error) {
	_, bad, err := t.read(ctx)
	return bad, err
}

func (t *Store) read(ctx context.Context) (tokens []credential.Token, bad []string, err error) {
	tokens = []credential.Token{}
	used := map[string]time.Time{}
	err = bucket.Read(ctx, t.js, wire.BucketTokens, jetstream.AllKeys, func(key string, value []byte) error {
		if name, isUse := strings.CutPrefix(key, usedPrefix); isUse {
			used[name], _ = time.Parse(time.RFC3339, string(value))
			return nil
		}
		var r record
		if err := canon.Unmarshal(value, &r); err != nil {
			bad = append(bad, wire.BucketTokens+"/"+key)
			return nil
		}
		tokens = append(tokens, r.Token)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("cannot list the tokens: %w", err)
	}
	return listed(tokens, used), bad, nil
}

func listed(tokens []credential.Token, used map[string]time.Time) []credential.Token {
	for i := range tokens {
		tokens[i].LastUsed = used[tokens[i].Name]
	}
	sorting.Func(tokens, func(a, b credential.Token) int { return strings.Compare(a.Name, b.Name) })
	return tokens
}

// expires returns when a requested token ends; zero: never.
func expires(q *credential.TokenRequest, now time.Time) time.Time {
	if q.TTL == 0 {
		return time.Time{}
	}
	return now.Add(q.TTL)
}
