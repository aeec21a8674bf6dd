// Package content stores the contents of files that states name on the bus, sealed, and removes those that nothing
// names. Call [Open] first, [Store.Publish] before the documents that name contents are written, and [Store.Sweep] from
// time to time. [Store.Read] reads one.
//
// Guarantees:
//   - When Publish returns without an error, the bucket has every content that it was given, whole.
//   - A content that the bucket has is not written again. What is written never changes: its key is its hash.
//   - A content is removed a day after no document, revision in use or stored revision names it. One that is named
//     again meanwhile stays, also if another master publishes it at the same moment.
//   - An error of the bus is returned; it is never read as a content that the bucket lacks.
//   - The bucket has at most 2 GiB: two revisions of 1 GiB, while one replaces the other. Publish is an error beyond
//     that.
//   - checkLease is called before each write and each removal.
//
// Known gap: a master that is stopped between a check of the lease and the removal goes on with that removal when it
// continues. It removes only what was not named for a day, and nothing that was written since it looked.
package content

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/settings/content"
)

const (
	maxBytes  = 2 << 30         // of the bucket
	atOnce    = 8               // contents that are written at the same time
	callLimit = 5 * time.Second // for one answer of the bus

	keyPrefix = "$KV." + content.Bucket + "."
	// unused is the last part of the key that says since when nothing names a content. Its value is empty; the time is
	// the time of the message.
	unused = "unused"
)

// A Store reads and writes the bucket. Its methods may be called at the same time.
type Store struct {
	js         jetstream.JetStream
	stream     jetstream.Stream
	checkLease func() error

	mu      sync.Mutex
	present map[string]bool // blobs that the bucket was seen to have since the last Sweep
}

// Open returns the store. The bucket must exist. checkLease returns an error unless this master leads.
func Open(ctx context.Context, js jetstream.JetStream, checkLease func() error) (*Store, error) {
	stream, err := js.Stream(ctx, "KV_"+content.Bucket)
	if err != nil {
		return nil, fmt.Errorf("cannot open the bucket %s: %w", content.Bucket, err)
	}
	return &Store{js: js, stream: stream, checkLease: checkLease, present: map[string]bool{}}, nil
}

// A listing has the keys of the bucket at one moment.
type listing struct {
	subjects map[string]uint64 // of the messages
	bytes    uint64            // of all messages
	last     uint64            // the sequence of the last write
}

func (s *Store) list(ctx context.Context) (listing, error) {
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(keyPrefix+">"))
	if err != nil {
		return listing{}, fmt.Errorf("cannot list the contents of files: %w", err)
	}
	return listing{info.State.Subjects, info.State.Bytes, info.State.LastSeq}, nil
}

func (l listing) has(key string) bool { return l.subjects[keyPrefix+key] > 0 }

// hasAll reports whether the bucket has all parts of a content, and nobody has marked it as unused: a marked one may be
// removed.
func (l listing) hasAll(f content.File) bool {
	for _, key := range f.Chunks() {
		if !l.has(key) {
			return false
		}
	}
	return !l.has(f.Blob + "." + unused)
}

// Publish stores those of the files, by path, whose contents the bucket lacks, and returns their number. sealed returns
// a file of a path with its sealed content; it is called by one goroutine.
func (s *Store) Publish(ctx context.Context, files map[string]content.File,
	sealed func(path string) (content.File, []byte, error),
) (stored int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lacking, bytes := map[string]string{}, uint64(0) // paths by blob
	var now listing
	for path, f := range files {
		if s.present[f.Blob] {
			continue
		}
		if now.subjects == nil {
			if now, err = s.list(ctx); err != nil {
				return 0, err
			}
		}
		if now.hasAll(f) {
			s.present[f.Blob] = true
		} else if _, again := lacking[f.Blob]; !again {
			lacking[f.Blob] = path
			bytes += uint64(f.SealedSize())
		}
	}
	if now.bytes+bytes > maxBytes && bytes > 0 {
		return 0, fmt.Errorf(
			"cannot store the contents of files: %d bytes are to be added to %d, the limit is %d; "+
				"contents that no revision names are removed after a day",
			bytes, now.bytes, int64(maxBytes),
		)
	}
	return s.putAll(ctx, lacking, files, sealed)
}

// putAll stores contents, given by the path of one file for each blob. The caller holds mu.
func (s *Store) putAll(ctx context.Context, lacking map[string]string, files map[string]content.File,
	sealed func(path string) (content.File, []byte, error),
) (stored int, err error) {
	g, putting := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for blob, path := range lacking {
		if putting.Err() != nil {
			break
		}
		f, data, err := sealed(path)
		if err == nil && f.Blob != blob {
			err = errors.New("its content is another than when the revision was compiled")
		}
		if err != nil {
			return 0, errors.Join(fmt.Errorf("cannot store the content of %s: %w", path, err), g.Wait())
		}
		g.Go(func() error {
			if err := s.put(putting, files[path], data); err != nil {
				return fmt.Errorf("cannot store the content of %s: %w", path, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	for blob := range lacking {
		s.present[blob] = true
	}
	return len(lacking), nil
}

// put writes the chunks of a content, and then removes the mark that it is unused.
func (s *Store) put(ctx context.Context, f content.File, data []byte) error {
	for _, key := range f.Chunks() {
		if err := s.write(ctx, key, data[:min(len(data), content.MaxChunk)]); err != nil {
			return err
		}
		data = data[min(len(data), content.MaxChunk):]
	}
	return s.purge(ctx, f.Blob+"."+unused)
}

func (s *Store) write(ctx context.Context, key string, value []byte) error {
	if err := s.checkLease(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := s.js.Publish(ctx, keyPrefix+key, value)
	return err
}

func (s *Store) purge(ctx context.Context, key string, o ...jetstream.StreamPurgeOpt) error {
	if err := s.checkLease(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return s.stream.Purge(ctx, append(o, jetstream.WithPurgeSubject(keyPrefix+key))...)
}

// Read returns the content that f describes.
func (s *Store) Read(ctx context.Context, f content.File) ([]byte, error) {
	var data []byte
	for _, key := range f.Chunks() {
		msg, err := s.stream.GetLastMsgForSubject(ctx, keyPrefix+key)
		if err != nil {
			return nil, fmt.Errorf("cannot read the content %s: %w", f.Blob, err)
		}
		data = append(data, msg.Data...)
	}
	plain, err := content.Open(f, data)
	if err != nil {
		return nil, fmt.Errorf("cannot read the content %s: %w", f.Blob, err)
	}
	return plain, nil
}

// blobs returns the blobs of a listing.
func (l listing) blobs() map[string]bool {
	all := map[string]bool{}
	for subject := range l.subjects {
		all[blobOf(subject)] = true
	}
	return all
}

func blobOf(subject string) string {
	blob, _, _ := strings.Cut(strings.TrimPrefix(subject, keyPrefix), ".")
	return blob
}
