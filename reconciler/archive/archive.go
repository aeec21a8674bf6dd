// Package archive stores the files of the newest revisions on the bus, so that a master can serve them when the repo
// cannot be read, and so that people can pin one.
//
// Call [Open] first. [Archive.Load] reads a revision, [Archive.Header] a revision without its files, and [Archive.List]
// and [Archive.Find] list the stored ones. [Archive.Request] gives a revision to [Archive.Run], which stores it in a
// goroutine of its own.
//
// The contents of files that states name are not stored twice: a stored revision refers to them in package content, and
// [Archive.Blobs] returns what all of them refer to. Files that no peel needed when the revision was stored, and those
// that sops has encrypted, are stored as they are in the repo.
//
// Guarantees:
//   - A revision that List names is complete: its manifest is written after its files and removed before them. Load
//     checks the SHA-256 of the files.
//   - At most 20 revisions are stored besides those in use. Each takes at most 16 MiB, packed.
//   - Request never waits for the bus.
//   - An error of the bus is returned; it is never read as a revision that is not stored.
//   - A revision of another source is never returned: the same commit may hold other files at another path.
//
// Known gaps: the files of a larger revision are not stored, and only the log says so. Parts of a revision whose master
// stopped before the manifest are removed when a later revision is stored.
package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	contentx "github.com/seed-c01c3da5/zester/reconciler/content"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/content"
	"github.com/seed-c01c3da5/zester/settings/policy"
)

// Bucket is the bucket of stored revisions.
const Bucket = "revisions"

const (
	maxStored  = 20               // revisions, besides those in use
	callLimit  = 30 * time.Second // for one revision, or the list of all
	storeAgain = 30 * time.Second // after a revision could not be stored
)

// A Revision is a commit with its files, read from the repo or from the archive. It is immutable.
type Revision struct {
	Commit gitrepo.Commit
	Tree   fs.FS
	Safety *policy.Safety // limits, waves and freezes of its zester.yaml; nil if they were not read
	// Contents are the files below files/ that its states name, by path; the bucket of package content has them.
	Contents map[string]content.File
}

// ID returns the commit as a string of hex digits.
func (r *Revision) ID() settings.Commit { return settings.Commit(r.Commit.Hash.String()) }

// An Archive reads and writes the stored revisions. Its methods may be called at the same time, Request by one
// goroutine.
type Archive struct {
	kv       jetstream.KeyValue
	stream   jetstream.Stream // of kv
	blobs    *contentx.Store
	source   string // the source that the fleet follows; only its revisions are returned
	log      *slog.Logger
	requests chan *request
	newest   atomic.Pointer[request]

	mu    sync.Mutex
	named map[string][]string // the blobs of stored revisions that Blobs has read, by Entry.Sum
}

// A request is a revision to store, and the revisions that must not be removed for it.
type request struct {
	revision *Revision
	keep     []settings.Commit
	once     sync.Once     // closes tried
	tried    chan struct{} // closed after the first attempt, or when another request replaced it
}

// Open returns the archive of the revisions of a source: repo, branch and path in one text. The bucket must exist.
func Open(ctx context.Context, js jetstream.JetStream, contents *contentx.Store, source string,
	log *slog.Logger,
) (*Archive, error) {
	a := &Archive{
		blobs:    contents,
		source:   source,
		log:      log,
		requests: make(chan *request, 1),
		named:    map[string][]string{},
	}
	var err error
	if a.kv, err = js.KeyValue(ctx, Bucket); err == nil {
		a.stream, err = js.Stream(ctx, "KV_"+Bucket)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open the bucket %s: %w", Bucket, err)
	}
	return a, nil
}

// Request makes Run store a revision without removing those in keep. It replaces a request that Run has not begun.
func (a *Archive) Request(r *Revision, keep []settings.Commit) {
	select {
	case replaced := <-a.requests:
		close(replaced.tried)
	default:
	}
	next := &request{revision: r, keep: keep, tried: make(chan struct{})}
	a.newest.Store(next)
	a.requests <- next
}

// Run stores the requested revisions until ctx ends. It tries each again until it is stored or another is requested.
func (a *Archive) Run(ctx context.Context) error {
	var due *request
	for {
		var again <-chan time.Time
		if due != nil {
			again = time.After(storeAgain)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case due = <-a.requests:
		case <-again:
		}
		err := a.put(ctx, due.revision, due.keep)
		due.once.Do(func() { close(due.tried) })
		if err != nil && ctx.Err() == nil {
			a.log.Warn("revision not stored on the bus", "commit", due.revision.Commit.Hash, "err", err)
		}
		if err == nil || errors.Is(err, errTooLarge) {
			due = nil
		}
	}
}
