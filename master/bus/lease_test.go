package bus

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

func leaseOf(t *testing.T, b *natstest.Bus, owner string) *Lease {
	t.Helper()
	js, err := jetstream.New(b.Conn(t, grants.RoleMaster, owner, nats.ReconnectBufSize(-1)))
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), "leases")
	if err != nil {
		t.Fatal(err)
	}
	return NewLease(kv, "reconciler", owner, slog.New(slog.DiscardHandler))
}

func TestOneHoldsTheLeaseAtATime(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		first, second := leaseOf(t, b, "m1"), leaseOf(t, b, "m2")
		revision, err := first.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			last, err := first.hold(ctx, revision)
			first.release(t.Context(), last)
			ended <- err
		}()

		got := make(chan time.Time, 1)
		go func() {
			if _, err := second.Acquire(t.Context()); err == nil {
				got <- time.Now()
			}
		}()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if len(got) > 0 {
			leave()
			t.Fatalf("two hold the lease, the first says %v", <-ended)
		}
		left := time.Now()
		leave()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the first ended with %v", err)
		}
		if wait := (<-got).Sub(left); wait > renewEvery {
			t.Errorf("the second waited %v after the first had left", wait)
		}
	})
}

func TestADeadHolderIsReplacedWithinItsTimeToLive(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		dead, next := leaseOf(t, b, "m1"), leaseOf(t, b, "m2")
		if _, err := dead.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		died := time.Now()
		if _, err := next.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if wait := time.Since(died); wait < 14*time.Second || wait > 21*time.Second {
			t.Errorf("the next began after %v", wait)
		}
	})
}

func TestAHolderWithoutTheBusStopsBeforeAnotherBegins(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := leaseOf(t, b, "m1")
		revision, err := l.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		b.Stop(t)
		if _, err := l.hold(t.Context(), revision); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("the holder ended with %v", err)
		}
		if held := time.Since(began); held > 15*time.Second {
			t.Errorf("the holder went on for %v", held)
		}
	})
}

func TestAHolderOutlastsARestartOfTheBus(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := leaseOf(t, b, "m1")
		revision, err := l.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := l.hold(ctx, revision)
			ended <- err
		}()
		time.Sleep(renewEvery - time.Second)
		b.Stop(t)
		time.Sleep(2 * time.Second)
		b.Start(t)
		time.Sleep(time.Minute)
		leave()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the holder ended with %v", err)
		}
	})
}

func TestALeaseOfAnotherProcessOfTheSameNameIsNotOurs(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		first, second := leaseOf(t, b, "m1"), leaseOf(t, b, "m1")
		revision, err := first.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := first.kv.Delete(t.Context(), first.task); err != nil {
			t.Fatal(err)
		}
		if _, err := second.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := first.renew(t.Context(), revision); !errors.Is(err, jetstream.ErrKeyExists) {
			t.Errorf("the first renews the lease of the second: %v", err)
		}
	})
}

func TestAWriteOfTheLeaseWhoseAnswerIsLostCounts(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := leaseOf(t, b, "m1")
		revision, err := l.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		unheard, err := l.renew(t.Context(), revision)
		if err != nil {
			t.Fatal(err)
		}
		if next, err := l.renew(t.Context(), revision); err != nil || next <= unheard {
			t.Errorf("revision %d after %d, %v", next, unheard, err)
		}
	})
}

func TestALeaseIsReleasedAfterALostAnswerToARenewal(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := leaseOf(t, b, "m1")
		revision, err := l.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.renew(t.Context(), revision); err != nil {
			t.Fatal(err)
		}
		l.release(t.Context(), revision)
		left := time.Now()
		if _, err := leaseOf(t, b, "m2").Acquire(t.Context()); err != nil || time.Since(left) > renewEvery {
			t.Errorf("the next waited %v, %v", time.Since(left), err)
		}
	})
}

// The lease counts as held from the time at which its last write was sent, however long the answer took.
func TestALeaseThatIsNotRenewedIsNotHeld(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := leaseOf(t, b, "m1")
		if err := l.Check(); err == nil {
			t.Errorf("before it was taken: %v", err)
		}
		revision, err := l.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(giveUpAfter - 1)
		if err := l.Check(); err != nil {
			t.Errorf("1 ns before it is given up: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if err := l.Check(); err == nil {
			t.Errorf("as it is given up: %v", err)
		}
		if revision, err = l.renew(t.Context(), revision); err != nil || l.Check() != nil {
			t.Errorf("after it was renewed: %v, %v", err, l.Check())
		}
		if _, err := l.write(func() (uint64, error) { time.Sleep(giveUpAfter); return revision, nil }); err != nil || l.Check() == nil {
			t.Errorf("after an answer that took %v the lease counts as held, %v", giveUpAfter, err)
		}
		if _, err := l.renew(t.Context(), revision); err != nil {
			t.Fatal(err)
		}
		if _, err := l.write(func() (uint64, error) { return 0, errors.New("no answer") }); err == nil || l.Check() != nil {
			t.Errorf("after a write that failed: %v, %v", err, l.Check())
		}
	})
}

// The monotonic clock stops while a machine is suspended: then the time of day alone shows that the lease was not renewed.
func TestALeaseIsNotHeldAfterTheMachineWasSuspended(t *testing.T) {
	l := NewLease(nil, "reconciler", "m1", slog.New(slog.DiscardHandler))
	l.renewed = time.Now()
	if err := l.Check(); err != nil {
		t.Fatal(err)
	}
	// In a time with both clocks the seconds of the time of day begin at bit 30 of the first word.
	*(*uint64)(unsafe.Pointer(&l.renewed)) -= uint64(giveUpAfter/time.Second) << 30
	if now := time.Now(); now.Sub(l.renewed) > time.Second || now.Round(0).Sub(l.renewed.Round(0)) < giveUpAfter {
		t.Fatalf("the clocks of %v do not differ", l.renewed)
	}
	if err := l.Check(); err == nil {
		t.Error("the lease counts as held")
	}
}

// A holder whose lease another has taken ends with its next renewal, and leaves the lease to the other.
func TestALeaseThatAnotherHasTakenEnds(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := leaseOf(t, b, "m1")
		revision, err := l.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.kv.Put(t.Context(), l.task, []byte("m2 and a text")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err = l.Serve(t.Context(), revision, func(ctx context.Context) error { <-ctx.Done(); return nil })
		if took := time.Since(began); !errors.Is(err, errTaken) || took > renewEvery+time.Second {
			t.Errorf("it ended after %v with %v", took, err)
		}
		if e, err := l.kv.Get(t.Context(), l.task); err != nil || string(e.Value()) != "m2 and a text" {
			t.Errorf("the lease of the other: %v", err)
		}
	})
}

// The second master leads once the first one's term has ended, and the first asks again only after its pause.
func TestTheTermOfALeaderEndsWithItsFunction(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		errFull := errors.New("the disk is full")
		began := time.Now()
		terms := make(chan string, 8)
		lead := func(owner string, pause time.Duration) {
			js, err := jetstream.New(b.Conn(t, grants.RoleMaster, owner, nats.ReconnectBufSize(-1)))
			if err != nil {
				t.Fatal(err)
			}
			task := Task{Name: "alerts", Owner: owner, Log: slog.New(slog.DiscardHandler)}
			task.Pause = func(err error) time.Duration {
				if !errors.Is(err, errFull) {
					t.Errorf("the term of %s ended with %v", owner, err)
				}
				return pause
			}
			ended := make(chan error, 1)
			ctx, stop := context.WithCancel(t.Context())
			t.Cleanup(func() {
				stop()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("%s ended with %v", owner, err)
				}
			})
			go func() {
				ended <- Lead(ctx, js, task, func(ctx context.Context, check func() error) error {
					if err := check(); err != nil {
						t.Errorf("%s begins without the lease: %v", owner, err)
					}
					terms <- owner
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(time.Minute):
						return errFull
					}
				})
			}()
			synctest.Wait()
		}
		lead("m1", time.Hour)
		lead("m2", 2*time.Hour)

		for _, want := range []struct {
			owner string
			after time.Duration
		}{
			{"m1", 0},
			{"m2", time.Minute},
			{"m1", time.Hour + time.Minute},
		} {
			got := <-terms
			late := time.Since(began) - want.after
			if got != want.owner || late < 0 || late > 2*renewEvery {
				t.Errorf("%s leads %v after the begin, want %s after %v", got, time.Since(began), want.owner, want.after)
			}
		}
	})
}
