package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

func open(t *testing.T, b *natstest.Bus) *audit.Log {
	t.Helper()
	return audit.OpenLog(b.JetStream(t), slog.New(slog.DiscardHandler))
}

func list(t *testing.T, l *audit.Log, q audit.Query) *audit.Page {
	t.Helper()
	page, err := l.List(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// told is what entries are of, in their order.
func told(entries []audit.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%s ", e.Target)
	}
	return strings.TrimSpace(b.String())
}

func TestEntriesAreListedAsTheyWereWritten(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := open(t, b)
		written := audit.Entry{Action: "job.dispatch", Target: "web-*", Function: "cmd.run", JID: "2abcdefghijklmnopqrstuvwxyz", Count: 7}.
			Ended(fmt.Errorf("it is %w", grants.ErrNotAllowed), true).By(grants.Caller{User: "lee", Role: grants.RoleLimited, From: "192.0.2.1"})
		began := time.Now()
		l.Write(t.Context(), written)
		page := list(t, l, audit.Query{})
		if len(page.Entries) != 1 {
			t.Fatal(page)
		}
		got := page.Entries[0]
		if got.Seq != 1 || got.Time.Sub(began) > time.Second || got.Reason != "it is not allowed" || got.Result != audit.Refused {
			t.Errorf("%+v", got)
		}
		got.Seq, got.Time, got.Prev = 0, written.Time, ""
		if !reflect.DeepEqual(got, written) {
			t.Errorf("%+v\n%+v", got, written)
		}
	})
}

func TestPagesAndFilters(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := open(t, b)
		if page := list(t, l, audit.Query{}); len(page.Entries) != 0 || page.More {
			t.Errorf("an empty log: %+v", page)
		}
		for i := range 6 {
			e := audit.Entry{Action: []string{"job.dispatch", "token.create"}[i%2], Target: fmt.Sprintf("t%d", i)}
			var err error
			if i == 4 {
				err = errors.New("no")
			}
			l.Write(t.Context(), e.Ended(err, false).By(grants.Caller{User: []string{"ann", "bob", "bob"}[i%3]}))
			time.Sleep(time.Minute)
		}
		for _, c := range []struct {
			q    audit.Query
			want string
			more bool
		}{
			{audit.Query{}, "t5 t4 t3 t2 t1 t0", false},
			{audit.Query{Limit: 2}, "t5 t4", true},
			{audit.Query{Limit: 2, Before: 5}, "t3 t2", true},
			{audit.Query{Before: 3}, "t1 t0", false},
			{audit.Query{After: 4}, "t4 t5", false},
			{audit.Query{Follow: true, Limit: 2}, "t0 t1", true},
			{audit.Query{After: 6}, "", false},
			{audit.Query{After: 60}, "", false},
			{audit.Query{User: "bob"}, "t5 t4 t2 t1", false},
			{audit.Query{Action: "token"}, "t5 t3 t1", false},
			{audit.Query{Action: "token.create", User: "ann"}, "t3", false},
			{audit.Query{Action: "tok"}, "", false},
			{audit.Query{Target: "2"}, "t2", false},
			{audit.Query{Result: audit.Failed}, "t4", false},
			{audit.Query{Since: time.Now().Add(-2 * time.Minute)}, "t5 t4", false},
			{audit.Query{Until: time.Now().Add(-5 * time.Minute)}, "t0", false},
		} {
			page := list(t, l, c.q)
			if got := told(page.Entries); got != c.want || page.More != c.more {
				t.Errorf("%+v: %q, more %v; want %q, %v", c.q, got, page.More, c.want, c.more)
			}
		}
		for action, err := range map[string]error{"session.begin": nil, "session.create": nil, "session.end": nil, "session.delete": errors.New("no")} {
			l.Write(t.Context(), audit.Entry{Action: action, Target: action}.Ended(err, false).By(grants.Caller{User: "eve"}))
		}
		l.Write(t.Context(), audit.Entry{Action: "session.begin", Target: "refused"}.Ended(grants.ErrNotAllowed, true).By(grants.Caller{User: "eve"}))
		var left []string
		for _, e := range list(t, l, audit.Query{User: "eve", NoLogins: true}).Entries {
			left = append(left, e.Target)
		}
		slices.Sort(left)
		if !slices.Equal(left, []string{"refused", "session.delete", "session.end"}) {
			t.Errorf("without logins: %q", left)
		}
		for q := (audit.Query{Limit: 4, Before: 7}); ; {
			page := list(t, l, q)
			if q.Before = page.Next; !page.More {
				if told(page.Entries) != "t1 t0" {
					t.Errorf("the last page: %s", told(page.Entries))
				}
				break
			}
		}
	})
}

// TestALongLogIsReadInPieces has more entries than are looked at for one page, of which the oldest and the newest match.
func TestALongLogIsReadInPieces(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := open(t, b)
		write := func(user string) {
			l.Write(t.Context(), audit.Entry{Action: "job.dispatch", Target: user}.Ended(nil, false).By(grants.Caller{User: user}))
		}
		write("ann")
		for i := range 2100 { // of three users, because not all entries of one would be kept
			write([]string{"bob", "eve", "lee"}[i%3])
		}
		write("ann")
		var all []audit.Entry
		pages := 0
		for q := (audit.Query{User: "ann"}); ; pages++ {
			page := list(t, l, q)
			all = append(all, page.Entries...)
			if q.Before = page.Next; !page.More {
				break
			}
		}
		if len(all) != 2 || pages != 1 {
			t.Errorf("%d entries on %d pages", len(all), pages+1)
		}
		all = nil
		for q := (audit.Query{User: "ann", Follow: true}); ; {
			page := list(t, l, q)
			all = append(all, page.Entries...)
			if q.After = page.Next; !page.More {
				break
			}
		}
		if len(all) != 2 {
			t.Errorf("followed: %d entries", len(all))
		}
	})
}

// TestReadersLeaveNothingBehind counts the consumers of the stream, of which the server allows 1,000.
func TestReadersLeaveNothingBehind(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := open(t, b)
		for range 10 {
			l.Write(t.Context(), audit.Entry{Action: "job.dispatch"}.Ended(nil, false))
		}
		for i := range 1100 { // as who follows the log does, once a second
			if _, err := l.List(t.Context(), audit.Query{After: 1, Limit: 1 + i%20}); err != nil {
				t.Fatalf("the reading %d: %v", i, err)
			}
		}
		synctest.Wait()
		stream, err := b.JetStream(t).Stream(t.Context(), wire.StreamAudit)
		if err != nil {
			t.Fatal(err)
		}
		if left := stream.CachedInfo().State.Consumers; left != 0 {
			t.Errorf("%d are left", left)
		}
	})
}

func TestRefusalsDoNotPushOutThePast(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := open(t, b)
		refuse := func(user string) {
			l.Write(t.Context(), audit.Entry{Action: "job.dispatch"}.Ended(grants.ErrNotAllowed, true).By(grants.Caller{User: user}))
		}
		for range 10_000 {
			refuse("eve")
		}
		refuse("ann")
		l.Write(t.Context(), audit.Entry{Action: "job.dispatch"}.Ended(nil, false).By(grants.Caller{User: "eve"}))
		entries := list(t, l, audit.Query{Limit: 500}).Entries
		if n := len(entries); n < 20 || n > 40 {
			t.Errorf("%d entries", n)
		}
		if e := entries[0]; e.User != "eve" || e.Result != audit.Done || e.LeftOut < 9_900 {
			t.Errorf("%+v", e)
		}
		if e := entries[1]; e.User != "ann" || e.LeftOut != 0 {
			t.Errorf("%+v", e)
		}
		time.Sleep(time.Minute)
		refuse("eve")
		if e := list(t, l, audit.Query{}).Entries[0]; e.User != "eve" || e.Result != audit.Refused || e.LeftOut != 0 {
			t.Errorf("a minute later: %+v", e)
		}
	})
}

// TestNobodyRemovesAnEntry sends with the credential of a master every request about a stream that the server knows, with bodies that
// would remove an entry or make the server do it.
func TestNobodyRemovesAnEntry(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := open(t, b)
		for _, target := range []string{"first", "second"} {
			l.Write(t.Context(), audit.Entry{Action: "job.dispatch", Target: target}.Ended(nil, false))
		}
		before, err := b.JetStream(t).Stream(t.Context(), wire.StreamAudit)
		if err != nil {
			t.Fatal(err)
		}
		config := before.CachedInfo().Config
		smaller := config
		smaller.MaxMsgs, smaller.DenyPurge, smaller.DenyDelete = 1, false, false
		update, err := json.Marshal(smaller)
		if err != nil {
			t.Fatal(err)
		}
		restore := fmt.Sprintf(`{"config":%s,"state":{"messages":0,"first_seq":1,"last_seq":0}}`, update)
		master := b.Conn(t, grants.RoleMaster, "m1", nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		for _, verb := range []string{"UPDATE", "CREATE", "DELETE", "PURGE", "MSG.DELETE", "RESTORE", "SNAPSHOT", "PEER.REMOVE", "LEADER.STEPDOWN", "MSG.GET", "INFO"} {
			for _, body := range []string{"", string(update), restore, `{"seq":1}`, `{"seq":1,"no_erase":false}`, `{"keep":1}`, `{"filter":">"}`, `{"peer":"x"}`} {
				_, _ = master.Request("$JS.API.STREAM."+verb+".audit", []byte(body), time.Second)
			}
		}
		for _, header := range []string{"Nats-Rollup: all", "Nats-Rollup: sub", "Nats-TTL: 1s", "KV-Operation: PURGE", "Nats-Marker-Reason: Purge"} {
			name, value, _ := strings.Cut(header, ": ")
			_, _ = master.RequestMsg(&nats.Msg{Subject: "zester.audit.job.dispatch", Header: nats.Header{name: {value}}}, time.Second)
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		after, err := b.JetStream(t).Stream(t.Context(), wire.StreamAudit)
		if err != nil || !reflect.DeepEqual(after.CachedInfo().Config, config) || after.CachedInfo().State.FirstSeq != 1 {
			t.Errorf("%+v, %v", after.CachedInfo(), err)
		}
		if _, err := after.GetMsg(t.Context(), 1); err != nil {
			t.Error(err)
		}
	})
}

// keeper is a connection with the permission to change how long the log is kept.
func keeper(t *testing.T, b *natstest.Bus) jetstream.JetStream {
	t.Helper()
	creds, err := b.Keys.KeeperCreds(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(b.URL(), nats.UserCredentialBytes(creds), nats.InProcessServer(b), nats.CustomInboxPrefix(grants.KeeperInbox), nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func TestEntriesEndByAge(t *testing.T) {
	if testing.Short() {
		t.Skip("60 hours of a bus in fake time")
	}
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := open(t, b)
		if err := natsd.ChangeAudit(t.Context(), keeper(t, b), bucket.Kept{Replicas: 1, Audit: 48 * time.Hour}); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			l.Write(t.Context(), audit.Entry{Action: "job.dispatch", Target: fmt.Sprint(i)}.Ended(nil, false))
			time.Sleep(30 * time.Hour)
		}
		if got := told(list(t, l, audit.Query{}).Entries); got != "1" {
			t.Errorf("left: %q", got)
		}
	})
}

// TestAnEntryThatIsNotStoredIsInTheLogOfTheProcess has the bus away, first for a moment, then for longer.
func TestAnEntryThatIsNotStoredIsInTheLogOfTheProcess(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		var said bytes.Buffer
		l := audit.OpenLog(b.JetStream(t), slog.New(slog.NewTextHandler(&said, nil)))
		b.Stop(t)
		time.AfterFunc(2*time.Second, func() { b.Start(t) })
		l.Write(t.Context(), audit.Entry{Action: "job.dispatch", Target: "late"}.Ended(nil, false))
		if got := told(list(t, l, audit.Query{}).Entries); got != "late" || said.Len() > 0 {
			t.Errorf("kept %q, said %q", got, said.String())
		}
		b.Stop(t)
		began := time.Now()
		l.Write(t.Context(), audit.Entry{Action: "token.create", Target: "ci"}.Ended(nil, false).By(grants.Caller{User: "ann"}))
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("it took %v", took)
		}
		for _, want := range []string{"level=ERROR", "user=ann", "action=token.create", "target=ci", "result=done"} {
			if !strings.Contains(said.String(), want) {
				t.Errorf("said %q, not %s", said.String(), want)
			}
		}
		b.Start(t)
	})
}

func TestAnEntryIsStoredAlthoughItsCallerIsGone(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := open(t, b)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l.Write(ctx, audit.Entry{Action: "job.dispatch", Target: "late"}.Ended(nil, false))
		if got := told(list(t, l, audit.Query{}).Entries); got != "late" {
			t.Errorf("kept %q", got)
		}
	})
}

func TestALogThatIsNoneTakesEntries(t *testing.T) {
	var l *audit.Log
	l.Write(t.Context(), audit.Entry{Action: "job.dispatch"})
}

func TestWhatSomebodyWritesIntoAnEntryIsBounded(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		l := open(t, b)
		long := strings.Repeat("ü", 1<<18) + "\xff"
		l.Write(t.Context(), audit.Entry{Action: "job.dispatch", Target: long, Function: long}.Ended(errors.New(long), true))
		e := list(t, l, audit.Query{}).Entries[0]
		if len(e.Target) > 600 || len(e.Function) > 600 || len(e.Reason) > 600 || !strings.HasPrefix(e.Target, "üü") {
			t.Errorf("%d, %d, %d bytes", len(e.Target), len(e.Function), len(e.Reason))
		}
	})
}
