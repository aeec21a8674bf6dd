package hold_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A lagging bus makes the consumers of lists of held actions at a copy of the bucket that has got none of them yet. Keys
// are read from the leader, as always.
type lagging struct {
	jetstream.JetStream
	now   *atomic.Bool
	death *death
}

func (l lagging) CreateConsumer(ctx context.Context, stream string, c jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	if l.now.Load() && stream == wire.KV(wire.BucketHeld) {
		c.FilterSubject = wire.KVSubject(wire.BucketHeld, "nothing")
	}
	return l.JetStream.CreateConsumer(ctx, stream, c)
}

func (l lagging) KeyValue(ctx context.Context, name string) (jetstream.KeyValue, error) {
	kv, err := l.JetStream.KeyValue(ctx, name)
	return mortal{kv, l.death}, err
}

// TestARepeatedRequestIsOneActionForAListThatLags: its reply was lost, and the list has not got its action yet.
func TestARepeatedRequestIsOneActionForAListThatLags(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ann, bob := b.operator("ann"), b.operator("bob")
		b.lags.Store(true)
		first := ann.add(b.reboot())
		for range 8 { // any master answers
			if again := ann.add(b.reboot()); again.ID != first.ID {
				t.Fatalf("the same request is the action %s, and then %s", first.ID, again.ID)
			}
		}
		if other := bob.add(b.reboot()); other.ID == first.ID || other.By != "bob" {
			t.Errorf("the same request of somebody else is %+v", other)
		}
		if other := ann.add(b.numbered(1)); other.ID == first.ID {
			t.Errorf("another request is %+v", other)
		}
		b.lags.Store(false)

		// After a decision the same request makes a new action.
		if _, err := bob.approve(first.ID); err != nil {
			t.Fatal(err)
		}
		b.lags.Store(true)
		next := ann.add(b.reboot())
		if again := ann.add(b.reboot()); next.ID == first.ID || next.State != api.HoldOpen || again.ID != next.ID {
			t.Errorf("after a decision about %s: %+v, and again: %+v", first.ID, next, again)
		}
	})
}

// TestTheSameRequestAtTwoMastersAtOnceIsOneAction has eight copies of a request arrive together.
func TestTheSameRequestAtTwoMastersAtOnceIsOneAction(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ann := b.operator("ann")
		ann.add(b.numbered(0)) // which connects
		ids := make([]api.HoldID, 8)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() { ids[i] = ann.add(b.reboot()).ID })
		}
		all.Wait()
		for _, id := range ids {
			if id != ids[0] || id == "" {
				t.Fatalf("the actions are %s", ids)
			}
		}
	})
}

// TestTheOpenActionsOfAUserAreCountedForAListThatLags: neither a list that lags nor masters that store at the same time let
// a user have more.
func TestTheOpenActionsOfAUserAreCountedForAListThatLags(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ann := b.operator("ann")
		ann.add(b.numbered(0)) // which connects
		b.lags.Store(true)
		var stored atomic.Int32
		var all sync.WaitGroup
		turns := make(chan struct{}, 8) // masters carry out so many at once
		for i := range api.HoldMaxOpenUser + 9 {
			all.Go(func() {
				turns <- struct{}{}
				defer func() { <-turns }()
				_, err := ask[api.HoldAction](ann, "add", b.numbered(i+1))
				if err == nil {
					stored.Add(1)
				} else {
					refused(t, err, api.CodeConflict, "50 actions of ann wait for a person, and no more may")
				}
			})
		}
		all.Wait()
		if n := stored.Load(); n != api.HoldMaxOpenUser-1 {
			t.Errorf("%d more actions are stored", n)
		}
		if a := ann.add(b.numbered(0)); a.State != api.HoldOpen {
			t.Errorf("what is open already is asked for again: %+v", a)
		}
	})
}
