package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// lines returns all that is stored.
func lines(t *testing.T, l *audit.Log) (all []audit.Line) {
	t.Helper()
	for q := (audit.Query{Lines: true}); ; {
		page := list(t, l, q)
		all = append(all, page.Lines...)
		if q.After = page.Next; !page.More {
			return all
		}
	}
}

// gaps are what is wrong with the chain.
func gaps(all []audit.Line) (found []string) {
	var head audit.Head
	for _, line := range all {
		if err := head.Check(line); err != nil {
			found = append(found, err.Error())
		}
		head = audit.HeadOf(line)
	}
	return found
}

func done(action, target, user string) audit.Entry {
	return audit.Entry{Action: action, Target: target}.Ended(nil, false).By(grants.Caller{User: user})
}

func TestAPageFitsIntoAMessage(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		const entries = 400
		l := open(t, b)
		for range entries {
			l.Write(t.Context(), audit.Entry{Action: "job.dispatch", User: "ann", Args: strings.Repeat(`"<`, 2<<10), Result: audit.Done})
		}
		for what, q := range map[string]audit.Query{
			"lines": {Lines: true}, "the newest": {Limit: 500}, "the oldest": {Follow: true, Limit: 500},
		} {
			n := 0
			for more := true; more; {
				page := list(t, l, q)
				data, err := canon.Marshal(page)
				if err != nil || len(data) > wire.MaxMessage {
					t.Fatalf("%s: a page takes %d bytes, the bus carries %d, %v", what, len(data), wire.MaxMessage, err)
				}
				n += len(page.Lines) + len(page.Entries)
				if more = page.More; what == "the newest" {
					q.Before = page.Next
				} else {
					q.After = page.Next
				}
			}
			if n != entries {
				t.Errorf("%s: %d of %d on all pages", what, n, entries)
			}
		}
	})
}

func TestEntriesOfSeveralMastersAreOneChain(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		var writers sync.WaitGroup
		for m := range 3 {
			l := open(t, b)
			for w := range 8 {
				writers.Go(func() {
					for i := range 20 {
						l.Write(t.Context(), done("job.dispatch", fmt.Sprint(i), fmt.Sprintf("u%d-%d", m, w)))
					}
				})
			}
		}
		writers.Wait()
		all := lines(t, open(t, b))
		if len(all) != 480 {
			t.Errorf("%d entries of 480", len(all))
		}
		if found := gaps(all); found != nil {
			t.Errorf("%d gaps, the first: %s", len(found), found[0])
		}
	})
}

// Run finds what a master's credential can do to the log: an entry beside the chain.
func TestAnEntryThatNoMasterWroteIsAGap(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		var said bytes.Buffer
		l := audit.OpenLog(b.JetStream(t), slog.New(slog.NewTextHandler(&said, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		l.Write(t.Context(), done("job.dispatch", "one", "ann"))
		l.Write(t.Context(), done("job.dispatch", "two", "ann"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := l.Status(); s.Gaps != 0 || s.Head.Seq != 2 {
			t.Fatalf("%+v", s)
		}
		forged := done("job.dispatch", "forged", "bob")
		text, err := forged.Text()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.JetStream(t).Publish(t.Context(), "zester.audit.job.dispatch.bob", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, err := b.JetStream(t).Publish(t.Context(), "zester.audit.x", []byte("garbage")); err != nil {
			t.Fatal(err)
		}
		l.Write(t.Context(), done("job.dispatch", "three", "ann")) // follows what is there
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := l.Status(); s.Gaps != 2 || s.Head.Seq != 5 || !strings.Contains(s.First, "entry 3 says that it is entry 0") {
			t.Errorf("%+v", s)
		}
		if !strings.Contains(said.String(), "the audit log has a gap") {
			t.Errorf("said %q", said.String())
		}
		page := list(t, l, audit.Query{})
		if got := told(page.Entries); got != "three  forged two one" || page.Entries[1].Action != audit.ActionUnreadable {
			t.Errorf("an entry that cannot be decoded hides others: %q", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestTheChainGoesOnAfterAllEntriesWereRemovedByAge(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		if err := natsd.ChangeAudit(t.Context(), keeper(t, b), bucket.Kept{Replicas: 1, Audit: time.Hour}); err != nil {
			t.Fatal(err)
		}
		open(t, b).Write(t.Context(), done("job.dispatch", "old", "ann"))
		time.Sleep(5 * time.Hour)
		l := open(t, b)
		for range 2 {
			l.Write(t.Context(), done("job.dispatch", "new", "ann"))
		}
		all := lines(t, l)
		if len(all) != 2 || all[0].Seq != 2 {
			t.Fatal(all)
		}
		head := audit.Head{Seq: 1}
		for _, line := range all {
			if err := head.Check(line); err != nil {
				t.Error(err)
			}
			head = audit.HeadOf(line)
		}
	})
}

// A master that was away while entries were written, and removed by their age, goes on with those that are left.
func TestEntriesThatWereRemovedBeforeTheyWereCheckedAreNoGap(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		if err := natsd.ChangeAudit(t.Context(), keeper(t, b), bucket.Kept{Replicas: 1, Audit: time.Hour}); err != nil {
			t.Fatal(err)
		}
		l := open(t, b)
		watch := func() audit.Status {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := l.Run(ctx); err != nil {
				t.Error(err)
			}
			return l.Status()
		}
		l.Write(t.Context(), done("job.dispatch", "checked", "ann"))
		if s := watch(); s.Head.Seq != 1 || s.Gaps != 0 {
			t.Errorf("%+v", s)
		}
		l.Write(t.Context(), done("job.dispatch", "removed", "ann"))
		time.Sleep(5 * time.Hour)
		for range 2 {
			l.Write(t.Context(), done("job.dispatch", "left", "ann"))
		}
		if s := watch(); s.Head.Seq != 4 || s.Gaps != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A user whom masters let do everything he asks cannot push out what others did.
// Whoever may do everything could dispatch jobs until entries are left out, and then make a user.
func TestManyJobsDoNotHideWhatElseAUserDoes(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := open(t, b)
		for range 1100 {
			l.Write(t.Context(), done("job.dispatch", "noise", "mob"))
		}
		if err := l.Record(t.Context(), done("job.dispatch", "more", "mob")); err == nil {
			t.Error("an entry that is left out is said to be stored")
		}
		if err := l.Record(t.Context(), done("job.cancel", "more", "mob")); err == nil {
			t.Error("each action about jobs has a share of its own")
		}
		if err := l.Record(t.Context(), done("user.add", "eve", "mob")); err != nil {
			t.Error(err)
		}
		if e := list(t, l, audit.Query{Limit: 1}).Entries[0]; e.Action != "user.add" || e.Target != "eve" || e.LeftOut < 100 {
			t.Errorf("%+v", e)
		}
	})
}

// The reconciler and the service of schedules have a log of their own, whose chain nobody watches there.
func TestWhatIsLeftOutIsCountedSoon(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := open(t, b)
		for range 25 {
			l.Write(t.Context(), audit.Entry{Action: "sync.approve", Target: "deed", User: "mob", Result: audit.Refused})
		}
		time.Sleep(11 * time.Second)
		if e := list(t, l, audit.Query{Limit: 1}).Entries[0]; e.Action != audit.ActionOmitted || e.LeftOut != 5 || e.User != "mob" || e.Target != "sync.approve" {
			t.Errorf("%+v", e)
		}
		time.Sleep(time.Minute)
		if n := len(list(t, l, audit.Query{}).Entries); n != 21 {
			t.Errorf("%d entries", n)
		}
	})
}

// The bus drops the entry of a repeated request, and with it how many entries were left out before. A later one tells.
func TestWhatIsLeftOutIsToldAlsoAfterARepeatedRequest(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := open(t, b)
		repeated := done("job.dispatch", "deed", "mob")
		repeated.JID = "2abcdefghijklmnopqrstuvwxyz"
		l.Write(t.Context(), repeated)
		for range 25 {
			l.Write(t.Context(), audit.Entry{Action: "sync.approve", Target: "deed", User: "mob", Result: audit.Refused})
		}
		l.Write(t.Context(), repeated)
		time.Sleep(11 * time.Second)
		if e := list(t, l, audit.Query{Limit: 1}).Entries[0]; e.Action != audit.ActionOmitted || e.LeftOut != 5 || e.User != "mob" {
			t.Errorf("%+v", e)
		}
	})
}

func TestAUserCannotPushOutTheEntriesOfOthers(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		admin := keeper(t, b)
		s, err := admin.Stream(t.Context(), wire.StreamAudit)
		if err != nil {
			t.Fatal(err)
		}
		c := s.CachedInfo().Config
		c.MaxBytes = 1 << 20
		if _, err := admin.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		l := open(t, b)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = l.Run(ctx) }()
		l.Write(t.Context(), done("job.dispatch", "deed", "mob"))
		l.Write(t.Context(), done("job.dispatch", "work", "ann"))
		written := 2
		for range 1200 { // twenty minutes
			for range 10 {
				l.Write(t.Context(), audit.Entry{Action: "job.dispatch", Target: "noise", Args: strings.Repeat("x", 500)}.Ended(nil, false).By(grants.Caller{User: "mob"}))
				written++
			}
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Minute)
		all := lines(t, l)
		if found := gaps(all); found != nil {
			t.Errorf("%s", found[0])
		}
		counted, late := 0, 0
		for _, line := range all {
			e := line.Entry()
			counted += 1 + e.LeftOut
			if e.Action == audit.ActionOmitted {
				counted--
			}
			if time.Since(e.Time) < 12*time.Minute {
				late++
			}
		}
		if late > 13 {
			t.Errorf("%d entries in the last 12 minutes", late)
		}
		if all[0].Entry().Target != "deed" || all[1].Entry().Target != "work" {
			t.Errorf("the log begins with %+v", all[0].Entry())
		}
		if counted != written {
			t.Errorf("%d of %d actions are in %d entries", counted, written, len(all))
		}
		l.Write(t.Context(), done("job.dispatch", "later", "ann"))
		if e := list(t, l, audit.Query{Limit: 1}).Entries[0]; e.Target != "later" || e.LeftOut != 0 {
			t.Errorf("another user: %+v", e)
		}
	})
}

func TestWhatWasLeftOutIsTold(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := open(t, b)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = l.Run(ctx) }()
		for i := range 5200 {
			if l.Write(t.Context(), done("job.dispatch", "noise", "mob")); i%10 == 0 {
				l.Write(t.Context(), audit.Entry{Action: "job.cancel"}.Ended(errors.New("no"), true).By(grants.Caller{User: "eve"}))
			}
		}
		time.Sleep(time.Minute)
		page := list(t, l, audit.Query{Limit: 2})
		if e := page.Entries[0]; e.User != "mob" || e.Action != audit.ActionOmitted || e.LeftOut != 4200 || e.Target != "job.dispatch" {
			t.Errorf("%+v", e)
		}
		if e := page.Entries[1]; e.User != "eve" || e.LeftOut != 500 || e.Result != audit.Refused {
			t.Errorf("%+v", e)
		}
	})
}

// losesAnswers is a connection that stores what is published, and loses the answers to the first.
type losesAnswers struct {
	jetstream.JetStream
	lost int
}

func (l *losesAnswers) PublishMsg(ctx context.Context, m *nats.Msg, o ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	ack, err := l.JetStream.PublishMsg(ctx, m, o...)
	if l.lost--; l.lost >= 0 && err == nil {
		return nil, errors.New("the answer was lost")
	}
	return ack, err
}

// TestAnEntryWhoseAnswerIsLostTellsOnceWhatWasLeftOut holds that the entry that is stored already is not written again.
func TestAnEntryWhoseAnswerIsLostTellsOnceWhatWasLeftOut(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := &losesAnswers{JetStream: b.JetStream(t)}
		l := audit.OpenLog(js, slog.New(slog.DiscardHandler))
		refused := audit.Entry{Action: "sync.approve", Target: "deed", User: "mob", Result: audit.Refused}
		for range 25 {
			l.Write(t.Context(), refused)
		}
		time.Sleep(2 * time.Second)
		js.lost = 2
		l.Write(t.Context(), refused)
		time.Sleep(time.Minute)
		l.Write(t.Context(), refused)
		leftOut, entries := 0, list(t, l, audit.Query{}).Entries
		for _, e := range entries {
			leftOut += e.LeftOut
		}
		if len(entries) != 22 || leftOut != 5 || entries[1].LeftOut != 5 {
			t.Errorf("%d entries, which tell of %d that were left out: %+v", len(entries), leftOut, entries[0])
		}
	})
}

// The newest entries of a page are large, and those before them small: the bound of a page counts from the newest on.
func TestAPageOfTheNewestCountsTheirOwnBytes(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := open(t, b)
		e := done("job.dispatch", "deed", "ann")
		for i := range 500 {
			if e.Args = ""; i >= 250 {
				e.Args = strings.Repeat("x", 4<<10)
			}
			l.Write(t.Context(), e)
		}
		page, err := canon.Marshal(list(t, l, audit.Query{Limit: 500}))
		if err != nil || len(page) > wire.MaxMessage {
			t.Errorf("a page takes %d bytes, the bus carries %d, %v", len(page), wire.MaxMessage, err)
		}
	})
}
