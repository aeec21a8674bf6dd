// Package content keeps the contents of files that a peel's settings name: it fetches them from the bus in the
// background and stores them on the disk, sealed. Open a [Cache] with [New], tell it with [Cache.Want] what the
// document in force names, run [Cache.Run] with a connection, and read with [Cache.Read].
//
// Guarantees:
//   - Read returns exactly the content that the settings describe, or an error: both hashes are checked at each
//     reading. A stored content that was damaged is removed and fetched again.
//   - A content is stored only if its bytes have the hash that the settings name. A bus that sends other bytes changes
//     nothing.
//   - A content that the document in force names stays on the disk, so that states can be applied while the bus is
//     away. The others are removed after a week without use. If they take more than 64 MiB together, those that were
//     not used for longest go first.
//   - Only the user of the peel can read the files, and nobody can open them without the settings.
//
// Known gap: a damaged content of the right size counts as present until it is read.
package content

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/peel/loglimit"
	"github.com/seed-c01c3da5/zester/settings/content"
)

const (
	readLimit = 30 * time.Second // how long the reads of a run wait together for contents that have not arrived

	// All peels of a fleet get a document at the same moment. A peel that lacks more than largeBytes of what it names
	// waits for a random time, at most largeSpread, before it fetches them.
	largeBytes  = 256 << 10
	largeSpread = 10 * time.Second
)

// A Cache holds the contents of one peel. Its methods may be called at the same time, Run once.
type Cache struct {
	dir     string
	changed func()
	log     *loglimit.Limiter
	due     chan struct{} // there may be something to fetch

	mu      sync.Mutex
	wanted  map[string]content.File // by blob: what the document in force names
	asked   map[*content.File]bool  // what calls of Read wait for
	stored  map[string]int64        // by blob: bytes on the disk
	arrived chan struct{}           // closed, and replaced by another, when a content was stored
	from    time.Time               // nothing is fetched before
	failed  error                   // of the newest attempt to fetch, nil if it succeeded
}

// New opens the cache in a directory, and makes the directory if it does not exist. changed is called after Run has
// changed the number that [Cache.Missing] returns.
func New(dir string, changed func(), log *slog.Logger) (*Cache, error) {
	c := &Cache{
		dir: dir, changed: changed, log: loglimit.New(log), due: make(chan struct{}, 1),
		asked: map[*content.File]bool{}, arrived: make(chan struct{}),
	}
	var err error
	if c.stored, err = openDir(dir); err != nil {
		return nil, fmt.Errorf("cannot open the cache of contents: %w", err)
	}
	return c, nil
}

// Want replaces the files that the document in force names. Run fetches what is missing. Each file has passed
// [content.File.Check].
func (c *Cache) Want(files map[string]content.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.wanted
	c.wanted = make(map[string]content.File, len(files))
	var lacking int64
	for _, f := range files {
		_, known := before[f.Blob]
		_, twice := c.wanted[f.Blob]
		if !known && !twice && !c.hasLocked(f) {
			lacking += f.Size
		}
		c.wanted[f.Blob] = f
	}
	if lacking > largeBytes {
		c.from = time.Now().Add(rand.N(largeSpread))
	}
	c.wake()
}

// wake makes Run look for missing contents.
func (c *Cache) wake() {
	select {
	case c.due <- struct{}{}:
	default:
	}
}

// hasLocked reports whether a content is on the disk. The caller holds mu.
func (c *Cache) hasLocked(f content.File) bool {
	size, ok := c.stored[f.Blob]
	return ok && size == f.SealedSize()
}

// Missing returns how many of the wanted contents are not on the disk.
func (c *Cache) Missing() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.wanted {
		if !c.hasLocked(f) {
			n++
		}
	}
	return n
}

// A Budget bounds how long the reads of one run wait together, 30 s, so that a bus without many contents does not hold
// up a run for each of them. The zero value is a whole one. It is not safe for concurrent use.
type Budget struct{ spent time.Duration }

// wait waits until arrived is closed. It returns false if the budget or ctx ended first.
func (b *Budget) wait(ctx context.Context, arrived <-chan struct{}) bool {
	start := time.Now()
	timer := time.NewTimer(readLimit - b.spent)
	defer timer.Stop()
	defer func() { b.spent += time.Since(start) }()
	select {
	case <-arrived:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// Read returns the content of a file that a document names: the document in force, or an earlier one that a run still
// uses. path is the file's name in the config repo, for errors. If the content has not arrived, Read waits for it while
// the budget lasts.
func (c *Cache) Read(ctx context.Context, b *Budget, path string, f content.File) ([]byte, error) {
	defer c.endAsk(&f)
	for damaged := false; ; {
		here, arrived := c.ask(&f)
		if !here {
			if !b.wait(ctx, arrived) {
				return nil, c.late(ctx, path)
			}
			continue
		}
		plain, err := read(c.dir, f)
		switch {
		case err == nil:
			return plain, nil
		case !damaged && (errors.Is(err, errDamaged) || errors.Is(err, fs.ErrNotExist)):
			damaged = true // a second time it is the disk
			c.log.Warn("damaged", "stored content is damaged and is fetched again", "file", path, "err", err)
			c.lose(f.Blob)
		default:
			return nil, fmt.Errorf("cannot read the content of %s: %w", path, err)
		}
	}
}

// ask reports whether a content is on the disk. If it is not, Run fetches it until [Cache.endAsk], and arrived is
// closed when it may have come.
func (c *Cache) ask(f *content.File) (here bool, arrived <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hasLocked(*f) {
		return true, nil
	}
	c.asked[f] = true
	c.wake()
	return false, c.arrived
}

func (c *Cache) endAsk(f *content.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asked, f)
}

// lose records that a content is not on the disk.
func (c *Cache) lose(blob string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.stored, blob)
}

// late returns the error of a content that did not arrive.
func (c *Cache) late(ctx context.Context, path string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return fmt.Errorf("the content of %s has not arrived in %v: %w", path, readLimit, c.failed)
	}
	return fmt.Errorf("the content of %s has not arrived in %v, and the bus is not reached", path, readLimit)
}

// lacking returns the contents to fetch, each once, and the time from which to fetch them.
func (c *Cache) lacking() (files []content.File, from time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]content.File, len(c.wanted)+len(c.asked))
	maps.Copy(all, c.wanted)
	for f := range c.asked {
		all[f.Blob] = *f
	}
	for _, f := range all {
		if !c.hasLocked(f) {
			files = append(files, f)
		}
	}
	return files, c.from
}
