package hold_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
)

// A death ends a master at one of its writes: nothing of it is stored any more.
type death struct {
	mu    sync.Mutex
	left  int  // writes that are still stored; negative: the master lives on
	after bool // the last write is stored, and the master does not learn of it
	dead  bool
}

var errDied = errors.New("the master died")

// comes has the master die at its write n, which begins with 0, or right after it.
func (d *death) comes(n int, after bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left, d.after, d.dead = n+1, after, false
}

// goes has another master serve. It reports whether one died.
func (d *death) goes() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	died := d.dead
	d.left, d.dead = 0, false
	return died
}

// at carries out a write, unless the master is dead or dies.
func (d *death) at(write func() (uint64, error)) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.dead:
		return 0, errDied
	case d.left == 1:
		d.dead = true
		if d.after {
			_, _ = write()
		}
		return 0, errDied
	case d.left > 1:
		d.left--
	}
	return write()
}

// A mortal bucket is that of a master that may die.
type mortal struct {
	jetstream.KeyValue
	death *death
}

func (m mortal) Create(ctx context.Context, key string, value []byte, opts ...jetstream.KVCreateOpt) (uint64, error) {
	return m.death.at(func() (uint64, error) { return m.KeyValue.Create(ctx, key, value, opts...) })
}

func (m mortal) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return m.death.at(func() (uint64, error) { return m.KeyValue.Update(ctx, key, value, revision) })
}

// atEveryWrite runs a request in bubbles of its own in which the master dies before or after each of its writes, and calls
// then. ready comes before the request; what it returns goes to both.
func atEveryWrite(t *testing.T, ready func(b *bench) api.HoldID, request func(b *bench, id api.HoldID) error,
	then func(t *testing.T, b *bench, id api.HoldID),
) {
	t.Helper()
	for n, died := 0, true; died; n++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, stored %v", n, after), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bench) {
					id := ready(b)
					b.death.comes(n, after)
					err := request(b, id)
					if died = b.death.goes(); died != (err != nil) {
						t.Fatalf("died: %v, and the request ends with %v", died, err)
					}
					if died {
						refused(t, err, api.CodeUnavailable, errDied.Error())
						then(t, b, id)
					}
				})
			})
		}
		if !died && n < 1 || n > 9 {
			t.Fatalf("the master died at %d writes", n)
		}
	}
}

// decided is an earlier action of the same request, which bob has rejected.
func decided(b *bench) api.HoldID {
	id := b.operator("ann").add(b.reboot()).ID
	if _, err := ask[api.HoldAction](b.operator("bob"), "reject", api.HoldRequest{ID: id}); err != nil {
		b.t.Fatal(err)
	}
	return id
}

// open is an action that waits.
func open(b *bench) api.HoldID { return b.operator("ann").add(b.reboot()).ID }

// once holds that a request is one action, of which bob gets one job, and that ann may ask for as many others as before.
func (b *bench) once(t *testing.T, earlier ...api.HoldID) {
	t.Helper()
	ann, bob := b.operator("ann"), b.operator("bob")
	for _, id := range bob.list(api.HoldQuery{}) { // what the dead master left
		if s := ann.show(id); !slices.Equal(s.Names, b.fleet) {
			t.Errorf("%s waits without its peels: %+v", id, s)
		}
	}
	first := ann.add(b.reboot())
	for range 4 {
		if again := ann.add(b.reboot()); again.ID != first.ID {
			t.Errorf("asked for again, %s is %s", first.ID, again.ID)
		}
	}
	if all := bob.list(api.HoldQuery{All: true}); len(all) != len(earlier)+1 || !slices.Contains(all, first.ID) {
		t.Errorf("there are the actions %v, and before were %v", all, earlier)
	}
	b.oneJob(t, first.ID)
}

// oneJob holds that bob gets one job of an action, however often he approves it.
func (b *bench) oneJob(t *testing.T, id api.HoldID) {
	t.Helper()
	ann, bob := b.operator("ann"), b.operator("bob")
	approved, err := bob.approve(id)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if again, err := bob.approve(id); err != nil || again.JID != approved.JID {
			t.Errorf("approved again: %+v, %v", again, err)
		}
	}
	_, err = ann.approve(id)
	refused(t, err, api.CodeConflict, "was approved by bob")
	b.dispatch(approved)
	_, err = bob.approve(id)
	refused(t, err, api.CodeConflict, "was approved by bob")
	if next := ann.add(b.reboot()); next.ID == id || next.State != api.HoldOpen {
		t.Errorf("after a decision about %s: %+v", id, next)
	}
}

// TestAMasterThatDiesBetweenTwoWritesLeavesNothingTwiceAndNothingStuck has a master die at every write of a request about
// held actions.
func TestAMasterThatDiesBetweenTwoWritesLeavesNothingTwiceAndNothingStuck(t *testing.T) {
	add := func(b *bench, _ api.HoldID) error {
		_, err := ask[api.HoldAction](b.operator("ann"), "add", b.reboot())
		return err
	}
	t.Run("a new request", func(t *testing.T) {
		atEveryWrite(t, func(*bench) api.HoldID { return "" }, add, func(t *testing.T, b *bench, _ api.HoldID) { b.once(t) })
	})
	t.Run("a request as before", func(t *testing.T) {
		atEveryWrite(t, decided, add, func(t *testing.T, b *bench, id api.HoldID) { b.once(t, id) })
	})
	t.Run("an approval", func(t *testing.T) {
		atEveryWrite(t, open, func(b *bench, id api.HoldID) error {
			_, err := b.operator("bob").approve(id)
			return err
		}, func(t *testing.T, b *bench, id api.HoldID) { b.oneJob(t, id) })
	})
	t.Run("a rejection", func(t *testing.T) {
		reject := func(b *bench, id api.HoldID) error {
			_, err := ask[api.HoldAction](b.operator("bob"), "reject", api.HoldRequest{ID: id})
			return err
		}
		atEveryWrite(t, open, reject, func(t *testing.T, b *bench, id api.HoldID) {
			if err := reject(b, id); err != nil {
				refused(t, err, api.CodeConflict, "was rejected by bob")
			}
			_, err := b.operator("bob").approve(id)
			refused(t, err, api.CodeConflict, "was rejected by bob")
			b.once(t, id)
		})
	})
}

// TestWhatADeadMasterClaimedLeavesRoom has masters die with fifty actions of ann that they had claimed and not stored.
func TestWhatADeadMasterClaimedLeavesRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ann := b.operator("ann")
		for i := range api.HoldMaxOpenUser {
			b.death.comes(2, false) // after the claim and the count
			_, err := ask[api.HoldAction](ann, "add", b.numbered(i))
			refused(t, err, api.CodeUnavailable, errDied.Error())
			b.death.goes()
		}
		time.Sleep(2 * time.Minute)
		if a := ann.add(b.reboot()); a.State != api.HoldOpen {
			t.Errorf("%+v", a)
		}
	})
}
