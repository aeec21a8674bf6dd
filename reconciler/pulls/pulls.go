// Package pulls comments on pull requests with their effect on the fleet: one comment on each, which is edited when the
// pull request changes. Make a [Commenter] with [New] and call [Commenter.Run] while this master leads. If [IsWorker]
// returns true, the program must call [Work] at its start and then exit.
//
// Guarantees: open pull requests are listed once a minute, and 10 s after a master reports that a branch moved, so that
// no forge has to reach the master. A pull request is planned once for each head. The comment is found by a hidden
// marker and by its author, also after a restart; comments of other users are never changed. Before a comment is
// written, its record is stored by compare-and-set, so that only one of two masters that both believe to lead writes
// it.
//
// # What a pull request can do to the master
//
// Its author may be unknown, so its commits are fetched, read and compiled by a process of its own, which has no
// connection to the bus and no identities: secrets stay encrypted, and neither they nor values whose names suggest
// secrets are shown. The process ends after 4 min (15 min when the repository is cloned); its processor time, its
// memory (1 GiB), its files (1 GiB) and its output are bounded. One process runs at a time, followed by a pause of four
// times its duration, so all pull requests together take at most a fifth of one processor. Its store of the repository
// is separate from the reconciler's and bounded, and nothing in it is published. Only the 50 pull requests that changed
// last are read.
//
// Landlock of the kernel keeps the process from the files of the master: while it fetches, it can read the credentials
// of the repository and the certificates of the system, write in its store, and connect to the TCP ports of the
// repository. From then on, while it compiles, it can read its store, and can neither write a file nor connect. Where
// the kernel has no Landlock, or one that does not confine TCP, New logs a warning.
//
// A comment shows the names of peels that a target selects, and so reveals facts of peels to its readers. Therefore
// pull requests from forks are ignored unless Options.Forks is set.
//
// Known gaps: Landlock confines neither UDP, Multipath TCP nor Unix sockets with a path. A repository that redirects to
// a port that is neither its own nor 80 or 443 cannot be fetched. A comment is not updated when only the fleet changes,
// and not written again if a person deletes it.
package pulls

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	kernel "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/forge"
	"github.com/seed-c01c3da5/zester/master/outbound"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

const (
	pollEvery   = time.Minute
	pollLeast   = 10 * time.Second // between two lists
	refusedWait = time.Hour        // after the forge refuses the token
	maxPulls    = 50
	restFactor  = 4 // the pause after a plan, as a multiple of its duration
	maxRest     = 10 * time.Minute
	keyPrefix   = "pulls." // of the keys in the bucket
)

// Options configure a Commenter.
type Options struct {
	Name  string // of the place; letters, digits, "_" and "-"
	Forge *forge.Client
	Forks bool // also comment on pull requests from forks
	// Repo is the repository that the reconciler follows. Dir is another directory than the reconciler's.
	Repo gitrepo.Options
	Log  *slog.Logger
}

// A Commenter comments on the pull requests of one repository.
type Commenter struct {
	o      Options
	marker string
}

// New checks the options. It neither connects nor reads the repository.
func New(o Options) (*Commenter, error) {
	repo, err := gitrepo.Open(o.Repo)
	if err != nil {
		return nil, fmt.Errorf("cannot comment on pull requests: %w", err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if missing := unconfined(kernel.LandlockGetABIVersion()); missing != "" {
		o.Log.Warn("the process that plans pull requests is not confined", "place", o.Name, "reason", missing)
	}
	c := &Commenter{o: o}
	c.marker = markerOf(o.Name, c.branch(), filepath.Clean(o.Repo.Path))
	return c, repo.Close()
}

func (c *Commenter) branch() string { return cmp.Or(c.o.Repo.Branch, "main") }

// markerOf returns the marker of a fleet's comments, different for each fleet of a repository.
func markerOf(parts ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	return "<!-- zester plan of fleet " + hex.EncodeToString(sum[:8]) + " -->"
}

// planned holds the planned heads of open pull requests, by number.
type planned map[string]head

type head struct {
	Head string `json:"head"`
	Done bool   `json:"done,omitempty"` // false: its comment may or may not be written
}

// Run comments until ctx ends. Errors of a forge or a pull request are logged. fleet is the index of all peels, store
// the bucket rollout.
func (c *Commenter) Run(ctx context.Context, nc *nats.Conn, fleet *peelindex.Index, store jetstream.KeyValue) error {
	hints := make(chan struct{}, 1)
	sub, err := nc.Subscribe(wire.BranchMoved, func(*nats.Msg) {
		select {
		case hints <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return fmt.Errorf("cannot subscribe to %s: %w", wire.BranchMoved, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	s := &session{Commenter: c, fleet: fleet, store: store, later: map[int]retry{}}
	for due := time.NewTimer(pollLeast); ; due.Reset(pollEvery) {
		select {
		case <-ctx.Done():
			due.Stop()
			return ctx.Err()
		case <-due.C:
		case <-hints:
			select {
			case <-ctx.Done():
				due.Stop()
				return ctx.Err()
			case <-time.After(pollLeast):
			}
		}
		s.poll(ctx)
	}
}

// A session is one call of Run.
type session struct {
	*Commenter
	fleet    *peelindex.Index
	store    jetstream.KeyValue
	done     planned
	revision uint64 // of done in the store
	user     int64  // of the token, 0 until it is known
	notUntil time.Time
	rest     time.Time // until then nothing is planned
	later    map[int]retry
	last     int // number of the pull request that was planned last
}

// retry says when to plan a pull request again after an error.
type retry struct {
	head     string
	failures int
	at       time.Time
}

// poll lists the open pull requests once, and plans the changed ones until a pause is due.
func (s *session) poll(ctx context.Context) {
	if time.Now().Before(s.notUntil) {
		return
	}
	err := s.load(ctx)
	if err == nil && s.user == 0 {
		s.user, err = s.o.Forge.User(ctx)
	}
	var pulls []forge.Pull
	if err == nil {
		pulls, err = s.o.Forge.Pulls(ctx, s.branch(), maxPulls, func(p forge.Pull) bool { return s.o.Forks || !p.Fork })
	}
	if err == nil {
		s.prune(pulls)
	}
	for _, p := range s.order(pulls) {
		if err != nil || time.Now().Before(s.rest) {
			break
		}
		if s.isDue(p) {
			err = s.comment(ctx, p)
		}
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	s.o.Log.Warn("pull requests not commented on", "place", s.o.Name, "err", err)
	s.done = nil // another master may have written it
	if e, ok := errors.AsType[*outbound.Error](err); ok {
		wait := e.After
		if outbound.HasStatus(err, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound) {
			wait = max(wait, refusedWait)
		}
		s.notUntil = time.Now().Add(wait)
	}
}

// order returns the pull requests by number, beginning after the last planned one, so that a pull request that changes
// all the time does not delay the others.
func (s *session) order(pulls []forge.Pull) []forge.Pull {
	all := sorting.Values(slices.Values(pulls), func(a, b forge.Pull) int { return cmp.Compare(a.Number, b.Number) })
	first := slices.IndexFunc(all, func(p forge.Pull) bool { return p.Number > s.last })
	if first < 0 {
		return all
	}
	return slices.Concat(all[first:], all[:first])
}

func (s *session) isDue(p forge.Pull) bool {
	before, again := s.done[strconv.Itoa(p.Number)], s.later[p.Number]
	return (before.Head != p.Head || !before.Done) && (again.head != p.Head || !time.Now().Before(again.at))
}

// comment plans one pull request and writes its comment.
func (s *session) comment(ctx context.Context, p forge.Pull) error {
	began := time.Now()
	s.last = p.Number
	text, err := s.plan(ctx, p)
	s.rest = time.Now().Add(min(restFactor*time.Since(began), maxRest))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, errAgain) {
		s.o.Log.Info("pull request is planned later", "place", s.o.Name, "pull", p.Number, "err", err)
		failures := s.later[p.Number].failures + 1
		s.later[p.Number] = retry{p.Head, failures, time.Now().Add(min(pollEvery<<min(failures, 6), refusedWait))}
		return nil
	}
	delete(s.later, p.Number)
	if err != nil {
		s.o.Log.Warn("pull request not planned", "place", s.o.Name, "pull", p.Number, "commit", p.Head, "err", err)
		text = "### zester plan\n\nThe master could not plan this change. Run `zester plan` for the reason.\n"
	}
	number := strconv.Itoa(p.Number)
	s.done[number] = head{Head: p.Head}
	if err := s.save(ctx); err != nil {
		return err
	}
	err = s.write(ctx, p.Number, s.marker+"\n"+text)
	answer, _ := errors.AsType[*outbound.Error](err)
	switch {
	case answer != nil && answer.Final, outbound.HasStatus(err, http.StatusForbidden, http.StatusNotFound):
		// The conversation may be locked or full, or the token may lack the right to comment: the next pull request
		// shows which.
		s.o.Log.Warn("pull request not commented on", "place", s.o.Name, "pull", p.Number, "err", err)
	case err != nil:
		return err
	default:
		s.o.Log.Info("pull request commented on", "place", s.o.Name, "pull", p.Number, "commit", p.Head)
	}
	s.done[number] = head{Head: p.Head, Done: true}
	return s.save(ctx)
}

// write edits the comment of this fleet, or adds it if there is none.
func (s *session) write(ctx context.Context, number int, text string) error {
	id, err := s.o.Forge.FindComment(ctx, number, s.user, s.marker)
	switch {
	case err != nil:
		return err
	case id != 0:
		return s.o.Forge.EditComment(ctx, number, id, text)
	}
	_, err = s.o.Forge.AddComment(ctx, number, text)
	return err
}

// prune forgets the pull requests that are closed.
func (s *session) prune(open []forge.Pull) {
	kept := planned{}
	for _, p := range open {
		if h, ok := s.done[strconv.Itoa(p.Number)]; ok {
			kept[strconv.Itoa(p.Number)] = h
		}
	}
	s.done = kept
	maps.DeleteFunc(s.later, func(number int, _ retry) bool {
		return !slices.ContainsFunc(open, func(p forge.Pull) bool { return p.Number == number })
	})
}

// load reads the planned heads, unless they are known.
func (s *session) load(ctx context.Context) error {
	if s.done != nil {
		return nil
	}
	done := planned{}
	entry, err := s.store.Get(ctx, keyPrefix+s.o.Name)
	if err == nil {
		s.revision = entry.Revision()
		err = canon.Unmarshal(entry.Value(), &done)
	} else if errors.Is(err, jetstream.ErrKeyNotFound) {
		s.revision, err = 0, nil
	}
	if err != nil {
		return fmt.Errorf("cannot read which pull requests were planned: %w", err)
	}
	s.done = done
	return nil
}

// save stores the planned heads. It fails if another master has stored some meanwhile.
func (s *session) save(ctx context.Context) error {
	data, err := canon.Marshal(s.done)
	if err == nil {
		s.revision, err = s.store.Update(ctx, keyPrefix+s.o.Name, data, s.revision)
	}
	if err != nil {
		return fmt.Errorf("cannot store which pull requests were planned: %w", err)
	}
	return nil
}
