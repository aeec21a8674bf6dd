// Package bucket reads the content of a KV bucket or a stream once. Call [Read] for the values of a bucket, [Drain] for
// the messages of a stream. [IsConflict] tells refused compare-and-set writes from other errors, and [Usages] returns
// how full the streams are.
//
// Guarantees: a reading that is not complete is an error; if nothing comes for 5 s the reading ends with an error,
// unless the server says that the remaining messages were removed; nothing is left behind on the server.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// atOnce is how many values are requested in advance. A return may have half a MiB.
const atOnce = 64

// operationHeader has the value in which a key was deleted, as the client writes it. The server has a header of its
// own, [jetstream.MarkerReasonHeader], for a value that has expired.
const operationHeader = "KV-Operation"

// Read calls got for the newest value of each key of a KV bucket that matches, a subject with wildcards, in the order
// in which they were stored. Deleted keys are left out. It returns the first error of got unchanged. The caller adds to
// other errors what was read.
func Read(ctx context.Context, js jetstream.JetStream, name, keys string,
	got func(key string, value []byte) error,
) error {
	prefix := "$KV." + name + "."
	var failed error
	err := Drain(ctx, js, "KV_"+name, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubject: prefix + keys, MaxRequestBatch: atOnce,
	}, func(m jetstream.Msg, _ *jetstream.MsgMetadata) (more bool) {
		if h := m.Headers(); h.Get(operationHeader) == "" && h.Get(jetstream.MarkerReasonHeader) == "" {
			failed = got(strings.TrimPrefix(m.Subject(), prefix), m.Data())
		}
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	return err
}

const (
	silence     = 5 * time.Second       // for the next requested message
	unknownWait = 20 * time.Millisecond // before a request to a consumer that no server knows yet is repeated
	forgotten   = time.Minute           // after which the server removes the consumer of a reader that is gone
)

// Drain calls got for the messages of a stream that a consumer selects, until there are no more or got returns false. c
// says which messages, and in MaxRequestBatch how many are requested in advance.
func Drain(ctx context.Context, js jetstream.JetStream, stream string, c jetstream.ConsumerConfig,
	got func(jetstream.Msg, *jetstream.MsgMetadata) (more bool),
) error {
	c.AckPolicy = jetstream.AckNonePolicy
	c.MemoryStorage = true
	c.Replicas = 1
	c.InactiveThreshold = forgotten
	consumer, err := js.CreateConsumer(ctx, stream, c)
	if err != nil {
		return err
	}
	name := consumer.CachedInfo().Name
	defer func() {
		if ctx.Err() == nil {
			_ = js.DeleteConsumer(ctx, stream, name) // after an error the server removes it later
		}
	}()
	r := reading{consumer: consumer, pending: consumer.CachedInfo().NumPending, got: got}
	for r.pending > 0 {
		if err := r.fetch(ctx, int(min(r.pending, uint64(c.MaxRequestBatch)))); err != nil {
			return err
		}
	}
	return nil
}

type reading struct {
	consumer jetstream.Consumer
	pending  uint64 // messages that are to come, at most
	unknown  int    // requests in a row that no server knew the consumer of; a cluster may take a moment to know it
	got      func(jetstream.Msg, *jetstream.MsgMetadata) (more bool)
}

// fetch takes the next n messages, or what came of them.
func (r *reading) fetch(ctx context.Context, n int) error {
	quiet, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	batch, err := r.consumer.Fetch(n, jetstream.FetchContext(quiet))
	if err != nil {
		return err
	}
	came := false
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if came, r.pending = true, meta.NumPending; !r.got(m, meta) {
			r.pending = 0
			return nil
		}
	}
	if came {
		r.unknown = 0
		return nil
	}
	switch err := batch.Error(); {
	case errors.Is(err, nats.ErrNoResponders) && r.unknown < int(silence/unknownWait):
		r.unknown++
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(unknownWait):
			return nil
		}
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		return err
	}
	info, err := r.consumer.Info(ctx)
	if err != nil {
		return err
	}
	if r.pending = info.NumPending; r.pending > 0 {
		return fmt.Errorf("nothing came for %v, and %d are to come: read it again", silence, r.pending)
	}
	return nil
}
