package quota

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

const (
	parts      = 16  // a peel's share of a stream is 1/16
	sampleSize = 128 // consecutive messages in a sample

	// countPause is how long the messages of a peel are not counted again, for each message that was counted. Counting
	// takes about 4 µs for each.
	countPause = 100 * time.Microsecond
)

// crowded reports whether less than half of the stream is free.
func crowded(s bucket.Usage) bool { return s.Full() > 0.5 }

// An amount is how many messages and bytes of a peel a stream has, or may have.
type amount struct{ messages, bytes uint64 }

func (a *amount) add(bytes uint64) { a.messages, a.bytes = a.messages+1, a.bytes+bytes }

// beyond reports whether a has more messages or more bytes than a limit. A limit of 0 is none.
func (a amount) beyond(limit amount) bool {
	return limit.messages > 0 && a.messages > limit.messages || limit.bytes > 0 && a.bytes > limit.bytes
}

// shareOf returns the share of one peel in a stream.
func shareOf(c *jetstream.StreamConfig) amount {
	return amount{uint64(max(c.MaxMsgs, 0)) / parts, uint64(max(c.MaxBytes, 0)) / parts}
}

// checkShares samples a crowded stream that has got messages since the last time, and purges what peels have beyond
// their shares, and all messages under subjects of no job that the sample has found. It counts the messages of at most
// one peel in each row of the sample. After a purge the stream's cached state is new.
func (t *Trimmer) checkShares(ctx context.Context, s *shared, stream jetstream.Stream) error {
	state := stream.CachedInfo().State
	if state.LastSeq == s.sampled || state.Msgs == 0 {
		return nil
	}
	now := time.Now()
	maps.DeleteFunc(s.counted, func(_ string, until time.Time) bool { return now.After(until) })
	newest := max(state.FirstSeq, state.LastSeq-min(state.LastSeq, sampleSize)+1)
	random := state.FirstSeq + rand.Uint64N(state.LastSeq-state.FirstSeq+1)
	for _, from := range []uint64{newest, random} {
		held, strange, err := t.sample(ctx, s, from)
		if err == nil {
			err = t.purgeStrange(ctx, s, stream, strange)
		}
		if err != nil {
			return err
		}
		heavy := slices.DeleteFunc(heaviest(held), func(peel string) bool {
			_, counted := s.counted[peel]
			return counted
		})
		if len(heavy) == 0 {
			continue
		}
		if err := t.checkPeel(ctx, s, stream, heavy[0]); err != nil {
			return err
		}
	}
	s.sampled = state.LastSeq
	return nil
}

// sample returns what each peel has of some messages in a row, and patterns of the subjects among them that are of no
// job.
func (t *Trimmer) sample(ctx context.Context, s *shared,
	from uint64,
) (held map[string]amount, strange map[string]bool, err error) {
	held, strange = map[string]amount{}, map[string]bool{}
	n := 0
	err = t.read(ctx, s, part{s.filter, from, sampleSize}, func(m jetstream.Msg, _ uint64) (more bool) {
		n++
		if pattern := s.strange(m.Subject()); pattern != "" {
			strange[pattern] = true
			return n < sampleSize
		}
		peel := wire.Sender(m.Subject())
		a := held[peel]
		a.add(sizeOf(m))
		held[peel] = a
		return n < sampleSize
	})
	return held, strange, err
}

// purgeStrange purges all messages whose subjects match one of the patterns.
func (t *Trimmer) purgeStrange(ctx context.Context, s *shared, stream jetstream.Stream,
	patterns map[string]bool,
) error {
	for pattern := range patterns {
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(pattern)); err != nil {
			return err
		}
		t.removed.Add(1)
		t.refusals.Warn(s.name, "messages under subjects of no job purged, the stream is crowded", "stream",
			s.name, "subjects", pattern)
	}
	if len(patterns) == 0 {
		return nil
	}
	_, err := stream.Info(ctx)
	return err
}

// strangeReturn returns a pattern of the subjects like one that is no key of job-returns, empty if it is a key. Peels
// can make such subjects with JIDs that are wildcards or hold the character DEL.
func strangeReturn(subject string) string {
	tokens := strings.Split(subject, ".")
	switch {
	case tokens[0] != "$KV":
		return tokens[0] + ".>"
	case len(tokens) > keyTokens:
		return "$KV." + wire.BucketJobReturns + strings.Repeat(".*", len(tokens)-2)
	}
	return ""
}

// keyTokens is how many tokens a key of job-returns has as a subject.
const keyTokens = 4

// heaviest returns the peels that have more than a sixteenth of a sample's messages or bytes, those with the most
// first.
func heaviest(held map[string]amount) []string {
	var total amount
	for _, a := range held {
		total.messages, total.bytes = total.messages+a.messages, total.bytes+a.bytes
	}
	weight := func(peel string) float64 {
		a := held[peel]
		return max(float64(a.messages)/float64(total.messages), float64(a.bytes)/float64(total.bytes))
	}
	peels := sorting.Values(maps.Keys(held), func(a, b string) int {
		return cmp.Or(cmp.Compare(weight(b), weight(a)), cmp.Compare(a, b))
	})
	return slices.DeleteFunc(peels, func(peel string) bool { return weight(peel)*parts <= 1 })
}

// checkPeel purges the oldest messages of a peel if it has more than its share, down to half of it.
func (t *Trimmer) checkPeel(ctx context.Context, s *shared, stream jetstream.Stream, peel string) error {
	share := shareOf(&stream.CachedInfo().Config)
	sizes, err := t.sizes(ctx, s, peel, share)
	if err != nil {
		return err
	}
	s.counted[peel] = time.Now().Add(time.Duration(len(sizes)) * countPause)
	keep, over := kept(sizes, share)
	if !over {
		return nil
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(s.of(peel)), jetstream.WithPurgeKeep(keep)); err != nil {
		return err
	}
	t.removed.Add(1)
	t.refusals.Warn(peel, "surplus of a peel purged, the stream is crowded", "peel", peel, "stream", s.name, "kept",
		keep)
	_, err = stream.Info(ctx)
	return err
}

// sizes returns the sizes of a peel's messages in a stream, in bytes, the oldest first. It ends with the first message
// beyond the number that is the peel's share.
func (t *Trimmer) sizes(ctx context.Context, s *shared, peel string, share amount) (all []uint64, err error) {
	err = t.read(ctx, s, part{s.of(peel), 1, walkBatch}, func(m jetstream.Msg, _ uint64) (more bool) {
		all = append(all, sizeOf(m))
		return share.messages == 0 || uint64(len(all)) <= share.messages
	})
	return all, err
}

// kept returns how many of a peel's newest messages, of these sizes, are at most half of its share, and whether all are
// more than the share.
func kept(sizes []uint64, share amount) (keep uint64, over bool) {
	var all, half amount
	for _, n := range sizes {
		all.add(n)
	}
	if !all.beyond(share) {
		return 0, false
	}
	for _, n := range slices.Backward(sizes) {
		half.add(n)
		if half.beyond(amount{share.messages / 2, share.bytes / 2}) {
			break
		}
		keep++
	}
	return max(keep, 1), true
}

// A part is some messages of a stream.
type part struct {
	filter string // of their subjects
	from   uint64 // the lowest sequence
	batch  int    // how many are fetched at a time
}

// read calls got with the headers of the messages of a part until it returns false.
func (t *Trimmer) read(ctx context.Context, s *shared, p part,
	got func(m jetstream.Msg, seq uint64) (more bool),
) error {
	return bucket.Drain(ctx, t.js, s.name, jetstream.ConsumerConfig{
		DeliverPolicy:   jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:     max(p.from, 1),
		FilterSubject:   p.filter,
		HeadersOnly:     true,
		MaxRequestBatch: p.batch,
	}, func(m jetstream.Msg, meta *jetstream.MsgMetadata) (more bool) { return got(m, meta.Sequence.Stream) })
}
