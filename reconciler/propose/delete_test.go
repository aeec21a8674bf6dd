package propose_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/crypto/ssh"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/propose"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// inBubble runs f with a site in fake time, in which the peels db-01 and db-02 are known, and web-01, which
// gets no entry.
func inBubble(t *testing.T, f func(s *site, peels [2]*nats.Conn)) {
	s := newRepo(t)
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		s.t, s.bus = t, b
		var peels [2]*nats.Conn
		for i, id := range []target.PeelID{"db-01", "db-02"} {
			peels[i] = b.Conn(t, grants.RolePeel, id.Wire())
			s.say(peels[i], wire.Fact(id.Wire()), wire.Facts{Peel: id, Facts: target.Facts{}, V: wire.Version})
		}
		s.say(b.Conn(t, grants.RolePeel, "web-01"), wire.Fact("web-01"), wire.Facts{Peel: "web-01", Facts: target.Facts{}, V: wire.Version})
		f(s, peels)
	})
}

// say has a peel store a message.
func (s *site) say(nc *nats.Conn, subject string, v any) {
	s.t.Helper()
	data, err := canon.Marshal(v)
	if err == nil {
		_, err = nc.Request(subject, data, time.Minute)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// reports has a peel report an entry that started at a time, zero: never, and took a second. With running set it is to be tried again.
func (s *site) reports(nc *nats.Conn, id target.PeelID, name string, started time.Time, running int) {
	s.t.Helper()
	e := ledger.EntryReport{State: "exhausted"}
	if e.Running = running; !started.IsZero() {
		e.Started, e.Ended = started, started.Add(time.Second)
	}
	s.reportsEntry(nc, id, name, e)
}

// reportsEntry has a peel report on the only entry of its settings.
func (s *site) reportsEntry(nc *nats.Conn, id target.PeelID, name string, e ledger.EntryReport) {
	s.t.Helper()
	raw, err := canon.Marshal(map[string]any{"schedule": map[string]any{name: map[string]any{"module": "test.ping"}}})
	if err != nil {
		s.t.Fatal(err)
	}
	d := settings.Document{V: settings.OpenVersion, Peel: id, Generation: 1, Digest: settings.DigestOf(raw), Settings: raw}
	data, err := d.Encode()
	if err == nil {
		_, err = s.bus.JetStream(s.t).Publish(s.t.Context(), wire.SettingsKey(id.Wire()), data)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	r := ledger.Report{Peel: id, Digest: string(d.Digest), Time: time.Now(), Started: time.Now(), Entries: []ledger.EntryReport{e}}
	if data, err = ledger.Encode(&r); err == nil {
		_, err = nc.Request(wire.ScheduleStateOf(id.Wire()), data, time.Minute)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// enforce puts the newest commit of the branch in force.
func (s *site) enforce() {
	s.t.Helper()
	kv, err := s.bus.JetStream(s.t).KeyValue(s.t.Context(), record.Bucket)
	if err != nil {
		s.t.Fatal(err)
	}
	store := record.NewStore(kv, "m1", record.Source{})
	r, err := store.Read(s.t.Context())
	if err == nil {
		r.Commit = settings.Commit(s.git("-C", s.repo, "rev-parse", "main"))
		_, err = store.Write(s.t.Context(), r)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// once adds an entry that runs once, in an hour, and puts it in force.
func (s *site) once(c client, name string) (at time.Time) {
	s.t.Helper()
	at = time.Now().Add(time.Hour).Truncate(time.Second)
	q := api.ScheduleAddRequest{Name: name, Fields: map[string]any{"module": "test.ping", "at": at.UTC().Format(time.RFC3339), "delete_after_run": true, "start_deadline": "10m"}}
	if _, err := c.ScheduleAdd(s.t.Context(), q); err != nil {
		s.t.Fatal(err)
	}
	s.enforce()
	return at
}

// has reports whether the branch has the entry.
func (s *site) has(name string) bool {
	return strings.Contains(s.git("-C", s.repo, "ls-tree", "-r", "--name-only", "main"), "settings/api/"+name+".yaml")
}

// audited returns the entries about the removal of an entry by a master.
func (s *site) audited(name string) (all []string) {
	page, err := audit.OpenLog(s.bus.JetStream(s.t), nil).List(s.t.Context(), audit.Query{Action: "schedule.remove", User: "zester", Target: name})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range page.Entries {
		all = append(all, string(e.Result)+" "+e.Reason)
	}
	return all
}

func TestAnEntryIsRemovedWhenItRanOnAllPeels(t *testing.T) {
	inBubble(t, func(s *site, peels [2]*nats.Conn) {
		stop := s.start("m1", s.options())
		ann := s.client("ann")
		at := s.once(ann, "once")
		before := s.log("%H")
		time.Sleep(time.Until(at) + 5*time.Second)
		s.reports(peels[0], "db-01", "once", at, 0)
		s.reports(peels[1], "db-02", "once", at.Add(-time.Minute), 0) // somebody ran it by hand
		time.Sleep(3 * time.Minute)
		s.reports(peels[1], "db-02", "once", at, 1)
		time.Sleep(3 * time.Minute)
		if !s.has("once") {
			s.t.Fatal("removed while it runs on db-02")
		}
		s.reports(peels[1], "db-02", "once", at, 0)
		time.Sleep(2 * time.Minute)
		if s.has("once") {
			s.t.Error("it ran on both peels and is still there")
		}
		if got := s.git("-C", s.repo, "log", "-1", "--format=%an <%ae> %cn %s: %b", "main"); got != "zester <zester@example.com> zester schedules: remove once: delete_after_run: it ran on 2 of 2 peels." {
			s.t.Error(got)
		}
		if got := s.git("-C", s.repo, "ls-tree", "-r", "--name-only", "main"); got != "settings/all.yaml\ntop.yaml" {
			s.t.Error(got)
		}
		time.Sleep(time.Hour)
		if after := s.log("%H"); len(after) != len(before)+1 {
			s.t.Errorf("%d commits, want one more than %d", len(after), len(before))
		}
		if got := s.audited("once"); !slices.Equal(got, []string{"done "}) {
			s.t.Errorf("%q", got)
		}
		stop()
	})
}

func TestAnEntryIsRemovedWhenNoPeelCanStartItAnyMore(t *testing.T) {
	inBubble(t, func(s *site, peels [2]*nats.Conn) {
		s.start("m1", s.options())
		at := s.once(s.client("ann"), "once")
		time.Sleep(time.Until(at) + 5*time.Second)
		s.reports(peels[0], "db-01", "once", at, 0) // db-02 is away
		time.Sleep(10 * time.Minute)
		if !s.has("once") {
			s.t.Error("db-02 could still start it")
		}
		time.Sleep(5 * time.Minute)
		if s.has("once") {
			s.t.Error("no peel can start it any more, and it is still there")
		}
	})
}

// The process of db-02 was killed during the run: the run has no end.
func TestAnInterruptedRunIsNoRunOfAnEntryThatIsToBeRemoved(t *testing.T) {
	inBubble(t, func(s *site, peels [2]*nats.Conn) {
		s.start("m1", s.options())
		at := s.once(s.client("ann"), "once")
		time.Sleep(time.Until(at) + 5*time.Second)
		s.reports(peels[0], "db-01", "once", at, 0)
		interrupted := ledger.EntryReport{State: "waiting"}
		interrupted.Started = at
		s.reportsEntry(peels[1], "db-02", "once", interrupted)
		time.Sleep(5 * time.Minute)
		if !s.has("once") {
			s.t.Error("removed although db-02 can still run it")
		}
	})
}

func TestAnEntryThatIsChangedOrRanNowhereStays(t *testing.T) {
	inBubble(t, func(s *site, peels [2]*nats.Conn) {
		s.start("m1", s.options())
		ann := s.client("ann")
		at := s.once(ann, "edited")
		s.once(ann, "nowhere")
		time.Sleep(time.Until(at) + 5*time.Second)
		if _, err := ann.change("disable", "edited"); err != nil {
			s.t.Fatal(err)
		}
		s.enforce()
		s.reports(peels[0], "db-01", "edited", at, 0)
		s.reports(peels[1], "db-02", "edited", at, 0)
		time.Sleep(time.Hour)
		for _, p := range []struct {
			nc *nats.Conn
			id target.PeelID
		}{{peels[0], "db-01"}, {peels[1], "db-02"}} {
			s.reports(p.nc, p.id, "nowhere", time.Time{}, 0)
		}
		time.Sleep(time.Hour)
		for name, why := range map[string]string{"edited": "somebody changed it after its time had come", "nowhere": "it ran on none of 2 peels"} {
			if !s.has(name) {
				s.t.Errorf("%s is gone", name)
			}
			if got := s.audited(name); !slices.Equal(got, []string{"refused settings/api/" + name + ".yaml stays: " + why}) {
				s.t.Errorf("%s: %q", name, got)
			}
		}
	})
}

// record returns what masters keep of the entry once.
func (s *site) record() (r propose.SpentRecord, key string) {
	s.t.Helper()
	sum := sha256.Sum256([]byte("settings/api/once.yaml\x00once"))
	key = "spent." + hex.EncodeToString(sum[:16])
	store, err := s.bus.JetStream(s.t).KeyValue(s.t.Context(), "schedules")
	if err != nil {
		s.t.Fatal(err)
	}
	e, err := store.Get(s.t.Context(), key)
	if err == nil {
		err = json.Unmarshal(e.Value(), &r)
	}
	if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		s.t.Fatal(err)
	}
	return r, key
}

// TestARemovalThatFailsIsStoredAndMadeLater has commits that cannot be signed for a while.
func TestARemovalThatFailsIsStoredAndMadeLater(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, func(s *site, peels [2]*nats.Conn) {
		o := s.options()
		o.Write.Key = filepath.Join(s.dir, "key")
		sign := func() {
			if err := os.WriteFile(o.Write.Key, pem.EncodeToMemory(block), 0o600); err != nil {
				s.t.Fatal(err)
			}
		}
		sign()
		s.start("m1", o)
		at := s.once(s.client("ann"), "once")
		if err := os.Remove(o.Write.Key); err != nil {
			s.t.Fatal(err)
		}
		time.Sleep(time.Until(at) + 5*time.Second)
		s.reports(peels[0], "db-01", "once", at, 0)
		s.reports(peels[1], "db-02", "once", at, 0)
		time.Sleep(2 * time.Minute)
		if r, _ := s.record(); r.State != propose.SpentRemoving || !s.has("once") {
			s.t.Errorf("without a commit %+v", r)
		}
		sign()
		time.Sleep(12 * time.Minute)
		s.enforce()
		time.Sleep(3 * time.Minute)
		if r, _ := s.record(); r.State != "" || s.has("once") || len(s.log("%s")) != 3 {
			s.t.Errorf("%+v, commits %q", r, s.log("%s"))
		}
	})
}

// TestAMasterThatTakesOverMakesTheCommitThatAnotherIntended has a dead master whose record says that the entry is to be removed. No
// report says so any more.
func TestAMasterThatTakesOverMakesTheCommitThatAnotherIntended(t *testing.T) {
	inBubble(t, func(s *site, peels [2]*nats.Conn) {
		stop := s.start("m1", s.options())
		ann := s.client("ann")
		at := s.once(ann, "once")
		time.Sleep(time.Until(at) + time.Minute)
		stop()
		r, key := s.record()
		if r.State != propose.SpentWaiting {
			s.t.Fatalf("%+v", r)
		}
		r.State, r.Why = propose.SpentRemoving, "delete_after_run: it ran on 2 of 2 peels."
		data, err := json.Marshal(r)
		if err == nil {
			_, err = s.bus.JetStream(s.t).Publish(s.t.Context(), "$KV.schedules."+key, data)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		for _, master := range []string{"m2", "m3"} { // one of them leads
			s.start(master, s.options())
		}
		time.Sleep(3 * time.Minute)
		s.enforce()
		time.Sleep(3 * time.Minute)
		if got := s.log("%s"); s.has("once") || len(got) != 3 {
			s.t.Errorf("commits %q", got)
		}
		if r, _ := s.record(); r.State != "" {
			s.t.Errorf("the record is still there: %+v", r)
		}
	})
}

func TestWhereChangesAreProposedOnePullRequestRemovesTheEntry(t *testing.T) {
	inBubble(t, func(s *site, peels [2]*nats.Conn) {
		stop := s.start("m1", s.options())
		at := s.once(s.client("ann"), "once")
		stop()
		o := s.options()
		o.Mode = propose.Propose
		s.start("m2", o)
		time.Sleep(time.Until(at) + 5*time.Second)
		s.reports(peels[0], "db-01", "once", at, 0)
		s.reports(peels[1], "db-02", "once", at, 0)
		time.Sleep(time.Hour)
		branches := s.branches()
		if r, _ := s.record(); len(branches) != 1 || !s.has("once") || r.State != propose.SpentProposed {
			s.t.Fatalf("branches %q, %+v", branches, r)
		}
		if got := s.git("-C", s.repo, "ls-tree", "-r", "--name-only", branches[0]); strings.Contains(got, "once") {
			s.t.Error(got)
		}
		s.git("-C", s.repo, "update-ref", "refs/heads/main", branches[0])
		s.enforce()
		time.Sleep(time.Hour)
		if got := s.branches(); len(got) != 1 {
			s.t.Errorf("after the merge: %q", got)
		}
		if r, _ := s.record(); r.State != "" {
			s.t.Errorf("after the merge: %+v", r)
		}
	})
}
