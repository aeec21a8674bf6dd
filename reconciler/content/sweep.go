package content

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
)

// keepUnused is how long a content stays that nothing names.
const keepUnused = 24 * time.Hour

// Sweep removes the contents that named does not return and that were unused for a day, and returns their number. named
// is called after the bucket was listed; it returns the blobs of all documents and revisions, or an error, and then
// nothing is removed.
//
// What Publish writes after the bucket was listed is not removed, whatever named returned.
func (s *Store) Sweep(ctx context.Context,
	named func(ctx context.Context) (map[string]bool, error),
) (removed int, err error) {
	now, err := s.list(ctx)
	if err != nil {
		return 0, err
	}
	marks, err := s.marks(ctx)
	if err != nil {
		return 0, err
	}
	used, err := named(ctx)
	if err != nil {
		return 0, fmt.Errorf("cannot find out which contents of files are used: %w", err)
	}
	for blob := range now.blobs() {
		gone, err := s.sweepOne(ctx, now, blob, used[blob], marks[blob])
		if err != nil {
			return removed, fmt.Errorf("cannot remove unused contents of files: %w", err)
		}
		if gone {
			removed++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.present) // the next Publish looks whether the bucket still has everything
	return removed, nil
}

// marks returns since when contents are unused, by blob. It reads them by a consumer, as a copy of the stream may lag
// behind.
func (s *Store) marks(ctx context.Context) (map[string]time.Time, error) {
	marks := map[string]time.Time{}
	err := bucket.Drain(ctx, s.js, s.stream.CachedInfo().Config.Name, jetstream.ConsumerConfig{
		DeliverPolicy:   jetstream.DeliverLastPerSubjectPolicy,
		FilterSubject:   keyPrefix + "*." + unused,
		MaxRequestBatch: 512,
		HeadersOnly:     true,
	}, func(m jetstream.Msg, meta *jetstream.MsgMetadata) (more bool) {
		marks[blobOf(m.Subject())] = meta.Timestamp
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read which contents of files are unused: %w", err)
	}
	return marks, nil
}

// sweepOne marks a content as unused, removes the mark, or removes the content. since is when it was marked, if it was.
func (s *Store) sweepOne(ctx context.Context, now listing, blob string, used bool,
	since time.Time,
) (removed bool, err error) {
	switch {
	case used && !since.IsZero():
		return false, s.purge(ctx, blob+"."+unused)
	case used:
		return false, nil
	case since.IsZero():
		return false, s.write(ctx, blob+"."+unused, nil)
	case time.Since(since) < keepUnused:
		return false, nil
	}
	return true, s.purge(ctx, blob+".*", jetstream.WithPurgeSequence(now.last+1))
}
