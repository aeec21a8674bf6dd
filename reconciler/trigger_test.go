package reconciler

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/source"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// another is the reconciler of a master that does not hold the lease.
func (b *bench) another() *Reconciler {
	b.t.Helper()
	r, err := New(Options{Repo: gitrepo.Options{URL: b.dir, Dir: b.t.TempDir()}, Owner: "m2"})
	if err != nil {
		b.t.Fatal(err)
	}
	r.bus.Store(b.bus.Conn(b.t, grants.RoleMaster, "m2", nats.ReconnectBufSize(-1)))
	return r
}

func moved(t *testing.T, r *Reconciler) {
	t.Helper()
	if err := r.Moved(); err != nil {
		t.Fatal(err)
	}
}

func TestAHintGivenToAnyMasterIsFollowedWithinASecond(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.poll = time.Hour
		b.peel("web-01", nil)
		b.start()
		r := b.another()
		commit := b.commit("x", map[string]string{"settings/web.yaml": xForW})
		b.after(time.Second)
		if s := b.status(); s.LastGood.Commit == commit {
			t.Fatal("the commit is seen without a hint")
		}
		moved(t, r)
		b.after(time.Second)
		if s := b.status(); s.LastGood.Commit != commit || b.entries("web-01") != "abcdx" {
			t.Errorf("%s in force, %s", s.LastGood.Commit, b.entries("web-01"))
		}
	})
}

func TestAHundredHintsAreOneAttemptAndTheLastCommitIsNotLost(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.poll = time.Hour
		b.start()
		r := b.another()
		var last settings.Commit
		for _, name := range []string{"one", "two"} {
			last = b.commit(name, map[string]string{"settings/web.yaml": xForW + "# " + name + "\n"})
			for range 50 {
				moved(t, r)
			}
		}
		b.after(time.Second)
		if s := b.status(); s.LastGood.Commit != last {
			t.Errorf("%s in force, want %s", s.LastGood.Commit, last)
		}
		var past status.History
		b.ask("history", nil, &past)
		if len(past.Attempts) != 3 || past.Attempts[1].Outcome != status.OutcomeSuperseded {
			t.Errorf("%+v", past.Attempts)
		}
	})
}

func TestACommitWaitsLessThanAChangeOfTheFleet(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.poll = time.Hour
		b.start()
		r := b.another()
		for _, c := range []struct {
			wait  time.Duration
			begin func() (done func() bool)
		}{
			{source.Quiet, func() func() bool {
				commit := b.commit("x", map[string]string{"settings/web.yaml": xForW})
				moved(t, r)
				return func() bool { return b.status().LastGood.Commit == commit }
			}},
			{burstPause, func() func() bool {
				b.peel("web-02", nil)
				return func() bool { return b.document("web-02") != nil }
			}},
		} {
			done := c.begin()
			if b.after(c.wait * 3 / 4); done() {
				t.Errorf("nothing is waited for, %v should be", c.wait)
			}
			if b.after(c.wait / 2); !done() {
				t.Errorf("more than %v is waited for", c.wait)
			}
		}
	})
}
