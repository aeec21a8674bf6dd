package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/outbox"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// publisher sends as a peel does: a request that the stream answers when it has stored the message.
func publisher(nc *nats.Conn) func(context.Context, outbox.Item) error {
	return func(ctx context.Context, i outbox.Item) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		msg := &nats.Msg{Subject: i.Subject, Data: i.Payload, Header: nats.Header{nats.MsgIdHdr: {i.MsgID}}}
		reply, err := nc.RequestMsgWithContext(ctx, msg)
		if err != nil {
			return err
		}
		var ack jetstream.PubAck
		if err := json.Unmarshal(reply.Data, &ack); err != nil || ack.Stream == "" {
			return errors.Join(err, errors.New("not stored"))
		}
		return nil
	}
}

// A bus that is away, a peel that restarts meanwhile and a crash after the acknowledgement: the stream has every
// result, once, in order.
func TestResultsReachTheStreamOnceThroughOutageAndRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "outbox")
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		nc := b.Conn(t, grants.RolePeel, "web-01", nats.ReconnectBufSize(-1))
		var put []wire.JID
		fill := func(o *outbox.Outbox) {
			for range 3 {
				jid := wire.NewJID()
				put = append(put, jid)
				if _, err := o.Put(string(jid), wire.ScheduledOf(jid, "web-01"), []byte(jid)); err != nil {
					t.Fatal(err)
				}
			}
		}
		first := open(t, dir)
		stop := run(t, first, publisher(nc))
		fill(first)
		time.Sleep(time.Second)
		b.Stop(t)
		fill(first)
		time.Sleep(time.Minute)
		stop()

		second := open(t, dir)
		publish := publisher(nc)
		crashed := false
		stop = run(t, second, func(ctx context.Context, i outbox.Item) error {
			err := publish(ctx, i)
			if err == nil && !crashed {
				crashed = true
				return errors.New("died before the message was deleted")
			}
			return err
		})
		fill(second)
		time.Sleep(time.Minute)
		b.Start(t)
		time.Sleep(2 * time.Minute)
		stop()
		if second.Len() != 0 || second.Dropped() != 0 || !crashed {
			t.Errorf("%d wait, %d were dropped", second.Len(), second.Dropped())
		}
		for i, jid := range stored(t, b, len(put)) {
			if jid != put[i] {
				t.Errorf("message %d is %s, want %s", i, jid, put[i])
			}
		}
	})
}

func open(t *testing.T, dir string) *outbox.Outbox {
	t.Helper()
	o, err := outbox.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// run runs an outbox until stop is called.
func run(t *testing.T, o *outbox.Outbox, publish func(context.Context, outbox.Item) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = o.Run(ctx, publish) })
	return func() {
		cancel()
		running.Wait()
		synctest.Wait()
	}
}

// stored returns the payloads of the stream of job events, which must be n messages.
func stored(t *testing.T, b *natstest.Bus, n int) []wire.JID {
	t.Helper()
	stream, err := b.JetStream(t).Stream(t.Context(), wire.StreamJobEvents)
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context())
	if err != nil || info.State.Msgs != uint64(n) {
		t.Fatalf("%+v, want %d messages, %v", info.State, n, err)
	}
	var jids []wire.JID
	for seq := range n {
		msg, err := stream.GetMsg(t.Context(), uint64(seq+1))
		if err != nil {
			t.Fatal(err)
		}
		jids = append(jids, wire.JID(msg.Data))
	}
	return jids
}
