// File index.go holds the IDs of the ended jobs, so that a page of a list does not read every key of their bucket. Make
// an [Index] with [NewIndex] and call [Index.Older].

package job

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/segmentio/ksuid"
	"golang.org/x/sync/singleflight"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

const (
	indexAtOnce = 4096             // keys on their way
	indexWait   = 60 * time.Second // for the first reading, of all keys
)

// An Index reads the IDs of the records of a bucket when it is called, from where it stopped: the first call takes a
// few seconds for a million records, each later one reads what was written since. It takes 32 bytes for each record.
type Index struct {
	js      jetstream.JetStream
	stream  jetstream.Stream   // of the bucket
	prefix  string             // of the subjects of records
	reading singleflight.Group // simultaneous callers wait for one reading

	mu      sync.Mutex
	entries []indexed // by ID
	created time.Time // of the stream that was read
	first   uint64    // sequence of its first message, as it was seen last
	next    uint64    // the sequence to read next
}

type indexed struct {
	id  ksuid.KSUID
	seq uint64 // of the last write that is known, which is before the first message when the record has aged out
}

// NewIndex returns the index of the records in the stream of a bucket, whose subjects are prefix and an ID. It reads
// nothing.
func NewIndex(js jetstream.JetStream, stream jetstream.Stream, prefix string) *Index {
	return &Index{js: js, stream: stream, prefix: prefix}
}

func byID(a, b indexed) int { return ksuid.Compare(a.id, b.id) }

// Older returns the n newest IDs before one, the newest first; before may be empty.
func (x *Index) Older(ctx context.Context, before wire.JID, n int) ([]wire.JID, error) {
	if err := x.follow(ctx); err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	end := len(x.entries)
	if id, err := ksuid.Parse(string(before)); err == nil {
		end, _ = slices.BinarySearchFunc(x.entries, indexed{id: id}, byID)
	} else if before != "" {
		return nil, fmt.Errorf("%q is no job ID: %w", before, err)
	}
	jids := make([]wire.JID, 0, n)
	for i := end - 1; i >= 0 && len(jids) < n; i-- {
		jids = append(jids, wire.JID(x.entries[i].id.String()))
	}
	return jids, nil
}

// follow brings the index to the state of the bucket when it was called, or a later one.
func (x *Index) follow(ctx context.Context) error {
	// The reading of an earlier caller may have begun before this call; the second has not.
	for range 2 {
		info, err := x.stream.Info(ctx)
		if err != nil {
			return err
		}
		if x.current(info) {
			return nil
		}
		read := x.reading.DoChan("", func() (any, error) {
			// The reading goes on if the caller leaves.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), indexWait)
			defer cancel()
			return nil, x.read(ctx)
		})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case done := <-read:
			if done.Err != nil {
				return done.Err
			}
		}
	}
	return nil
}

// current drops what has aged out, and reports whether nothing is to be read.
func (x *Index) current(info *jetstream.StreamInfo) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !info.Created.Equal(x.created) || info.State.LastSeq+1 < x.next {
		x.entries = nil
		x.created = info.Created
		x.next = 1
		x.first = 0
		// the stream was made or restored
	}
	if info.State.FirstSeq > x.first {
		x.first = info.State.FirstSeq
		x.entries = slices.DeleteFunc(x.entries, func(e indexed) bool { return e.seq < x.first })
	}
	return x.next > info.State.LastSeq
}

// read reads the keys that were written since the last time. One reading at a time.
func (x *Index) read(ctx context.Context) error {
	x.mu.Lock()
	c := jetstream.ConsumerConfig{
		FilterSubject: x.prefix + "*", HeadersOnly: true, MaxRequestBatch: indexAtOnce,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: x.next,
	}
	x.mu.Unlock()
	if c.OptStartSeq == 1 {
		c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverLastPerSubjectPolicy, 0
	}
	info, err := x.stream.Info(ctx)
	if err != nil {
		return err
	}
	var read []indexed
	err = bucket.Drain(ctx, x.js, info.Config.Name, c, func(m jetstream.Msg, meta *jetstream.MsgMetadata) (more bool) {
		if id, err := ksuid.Parse(strings.TrimPrefix(m.Subject(), x.prefix)); err == nil {
			read = append(read, indexed{id, meta.Sequence.Stream})
		}
		return true
	})
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.next = info.State.LastSeq + 1
	x.mergeLocked(read)
	return nil
}

// mergeLocked adds IDs. Almost all are newer than those that are there. Caller must hold mu.
func (x *Index) mergeLocked(read []indexed) {
	if len(read) == 0 {
		return
	}
	from, _ := slices.BinarySearchFunc(x.entries, slices.MinFunc(read, byID), byID)
	x.entries = append(x.entries, read...)
	tail := x.entries[from:]
	sorting.Stable(tail, byID) // of one ID the last is the newest write
	kept := tail[:0]
	for i, e := range tail {
		if i+1 == len(tail) || tail[i+1].id != e.id {
			kept = append(kept, e)
		}
	}
	x.entries = x.entries[:from+len(kept)]
}
