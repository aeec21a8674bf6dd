// Package bucket reads what a KV bucket or a stream holds, once, and leaves nothing behind on the server.
//
// The client tells the end of the reading of a bucket by how many values there were at its start. That many never come where one is
// purged in between, so a reading in which nothing comes for a while is an error: nobody takes a part for the whole, and
// nobody waits for ever.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// silence is how long the next value may take.
const silence = 5 * time.Second

// Read calls got for the newest value of each key that matches, a subject with wildcards, in the order in which they were
// stored. Deleted keys are left out. It ends with the first error of got, which it returns as it is. What it says to
// errors of its own is for the caller to complete with what was read.
func Read(ctx context.Context, kv jetstream.KeyValue, keys string, got func(jetstream.KeyValueEntry) error) error {
	watch, err := kv.Watch(ctx, keys, jetstream.IgnoreDeletes())
	if err != nil {
		return err
	}
	defer release(watch)
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-quiet.C:
			return fmt.Errorf("nothing came for %v: read it again", silence)
		case entry, ok := <-watch.Updates():
			if !ok {
				return errors.New("the bus ended the reading")
			}
			if entry == nil {
				return nil
			}
			if err := got(entry); err != nil {
				return err
			}
			quiet.Reset(silence)
		}
	}
}

// release takes what the client has left to give, without which it would wait for ever to give it. A watch that ended as it
// began does not say so.
func release(watch jetstream.KeyWatcher) {
	_ = watch.Stop()
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	for {
		select {
		case <-quiet.C:
			return
		case _, ok := <-watch.Updates():
			if !ok {
				return
			}
		}
	}
}

// forgotten is when the server gives up a reading whose reader is gone.
const forgotten = time.Minute

// Drain calls got for the messages of a stream that a consumer gives, until it has no more or got returns false. Of c it
// takes what is to be read, and as MaxRequestBatch how many messages may be on their way. Ctx bounds it: a message that is
// removed meanwhile may be waited for in vain.
func Drain(ctx context.Context, stream jetstream.Stream, c jetstream.ConsumerConfig, got func(jetstream.Msg, *jetstream.MsgMetadata) (more bool)) error {
	c.AckPolicy, c.MemoryStorage, c.Replicas, c.InactiveThreshold = jetstream.AckNonePolicy, true, 1, forgotten
	consumer, err := stream.CreateConsumer(ctx, c)
	if err != nil {
		return err
	}
	name := consumer.CachedInfo().Name
	defer func() {
		if ctx.Err() == nil {
			_ = stream.DeleteConsumer(ctx, name) // else the server forgets it
		}
	}()
	if consumer.CachedInfo().NumPending == 0 {
		return nil
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(c.MaxRequestBatch))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if !got(m, meta) || meta.NumPending == 0 {
			return nil
		}
	}
}
