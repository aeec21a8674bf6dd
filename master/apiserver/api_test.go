package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/apiserver"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/dial"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

var quiet = slog.New(slog.DiscardHandler)

func wantCode(t *testing.T, err error, code api.Code) {
	t.Helper()
	if api.CodeOf(err) != code {
		t.Errorf("code %q of %v, want %q", api.CodeOf(err), err, code)
	}
}

func TestTargetsAreResolvedFromTheFacts(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		s.peel("web-01", target.Facts{"os": "debian"}, nil)
		s.peel("web.02", target.Facts{"os": "alpine"}, nil)
		s.peel("db-01", target.Facts{"os": "debian"}, nil)
		c := s.client(grants.RoleOperator, "alice")
		for expr, want := range map[string][]target.PeelID{
			"*":                       {"db-01", "web-01", "web.02"},
			"G@os:debian and not db*": {"web-01"},
			"N@front":                 {"web-01"},
			"L@web.02,db-01,gone":     {"db-01", "web.02"},
			"nobody*":                 nil,
		} {
			r, err := c.Resolve(t.Context(), expr)
			if err != nil || !slices.Equal(r.Peels, want) || r.Total != len(want) || len(r.Offline) != 0 {
				t.Errorf("%s: %+v, %v", expr, r, err)
			}
			if strings.HasPrefix(expr, "L@") && !slices.Equal(r.Unknown, []target.PeelID{"gone"}) {
				t.Errorf("unknown: %v", r.Unknown)
			}
		}
		_, err := c.Resolve(t.Context(), "web-* and")
		wantCode(t, err, api.CodeInvalid)
		if err == nil || !strings.Contains(err.Error(), "column") {
			t.Errorf("a bad expression: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if r, err := c.Resolve(t.Context(), "web*"); err != nil || !slices.Equal(r.Offline, []target.PeelID{"web-01", "web.02"}) {
			t.Errorf("after two silent minutes: %+v, %v", r, err)
		}
	})
}

func TestAnExpressionIsExplained(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		s.peel("web-01", target.Facts{"os": "debian"}, nil)
		s.peel("db-01", target.Facts{"os": "debian"}, nil)
		c := s.client(grants.RoleAuditor, "bob")
		e, err := api.TargetExplain.Ask(t.Context(), c, api.ExplainRequest{Expr: "N@front and G@oss:debian"})
		if err != nil || e.Total != 2 || e.Parsed != "N@front and G@oss:debian" || len(e.Explanation.Parts) != 2 {
			t.Fatalf("%+v, %v", e, err)
		}
		front, oss := e.Explanation.Parts[0], e.Explanation.Parts[1]
		if front.Peels != 1 || oss.Peels != 0 || oss.Excludes != 1 || !slices.Equal(oss.Hints, []string{"No peel has a fact oss; did you mean os?"}) {
			t.Errorf("%+v", e.Explanation)
		}
		if groups, err := c.NodeGroups(t.Context()); err != nil || !slices.Contains(groups, "front") || !slices.IsSorted(groups) {
			t.Errorf("the node groups are %q, %v", groups, err)
		}
		for _, expr := range []string{"web-* and", "a" + strings.Repeat(" or a", peelindex.MaxExplained)} {
			_, err = api.TargetExplain.Ask(t.Context(), c, api.ExplainRequest{Expr: expr})
			wantCode(t, err, api.CodeInvalid)
		}
	})
}

func TestPeelsAreListedAndShown(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		s.peel("web-01", target.Facts{"os": "debian"}, nil)
		s.peel("db-01", nil, nil)
		c := s.client(grants.RoleAuditor, "eve")
		peels, err := c.Peels(t.Context(), "")
		if err != nil || len(peels) != 2 || peels[0].ID != "db-01" || !peels[0].Online || peels[0].Facts != nil || peels[0].LastSeen.IsZero() {
			t.Errorf("%+v, %v", peels, err)
		}
		if peels, err = c.Peels(t.Context(), "web*"); err != nil || len(peels) != 1 {
			t.Errorf("%+v, %v", peels, err)
		}
		p, err := api.PeelShow.Ask(t.Context(), c, api.PeelRequest{Peel: "web-01"})
		if err != nil || p.Facts["os"] != "debian" || !p.Online {
			t.Errorf("%+v, %v", p, err)
		}
		if p.Lacks[api.PartReport] == "" || p.Lacks[api.PartEntries] == "" || p.Lacks[api.PartSettings] != "" {
			t.Errorf("without a reconciler and without coverage: %q", p.Lacks)
		}
		_, err = api.PeelShow.Ask(t.Context(), c, api.PeelRequest{Peel: "gone"})
		wantCode(t, err, api.CodeNotFound)
	})
}

// More credentials than one page has come in order, each once.
func TestCredentialsComeInPages(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		authority := s.authority(func(context.Context, string) error { return nil })
		s.master("m1", func(o *apiserver.Options) { o.Authority = authority })
		for i := range 1100 {
			key := credential.Key{Public: fmt.Sprint(i), Issued: time.Now(), Expires: time.Now().Add(time.Duration(i+1) * time.Hour)}
			entry := keystore.Entry{Role: grants.RolePeel, ID: fmt.Sprintf("p-%04d", i), Keys: []credential.Key{key}}
			if _, err := keystore.Register(s.bus.Keys.Dir(), entry, false); err != nil {
				t.Fatal(err)
			}
		}
		all, err := s.client(grants.RoleAuditor, "eve").Credentials(t.Context())
		if err != nil || len(all) != 1100 || all[0].Name != "p-0000" || all[1099].Name != "p-1099" || !all[1099].Expires.Equal(time.Now().Add(1100*time.Hour)) {
			t.Fatalf("%d credentials, %v", len(all), err)
		}
		for i := 1; i < len(all); i++ {
			if all[i].Name <= all[i-1].Name {
				t.Fatalf("%s after %s", all[i].Name, all[i-1].Name)
			}
		}
	})
}

// A reply has room for a part of 5,000 hosts.
func TestHostsThatAreEnrolledComeInPages(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		authority := s.authority(func(context.Context, string) error { return nil })
		s.master("m1", func(o *apiserver.Options) { o.Authority = authority })
		nc := s.bus.Conn(t, grants.RoleMaster, "loader")
		for i := range 5000 {
			e := credential.Enrolled{ID: target.PeelID(fmt.Sprintf("p-%04d", i)), State: credential.Accepted, Public: strings.Repeat("U", 56), From: "192.0.2.7"}
			e.History = []credential.Step{{State: credential.Pending, By: "host"}, {State: credential.Accepted, By: "ada"}}
			if i%2 == 0 {
				e.State = credential.Rejected
			}
			data, err := canon.Marshal(e)
			if err == nil {
				err = nc.Publish(wire.KVSubject(wire.BucketEnroll, "peel."+e.ID.Wire()), data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		c := s.client(grants.RoleOperator, "ada")
		first, err := api.EnrollList.Ask(t.Context(), c, api.EnrollQuery{})
		if err != nil || first.Next == "" || len(first.Peels) == 5000 {
			t.Fatalf("%+v", err)
		}
		all, err := c.Enrolled(t.Context(), api.EnrollQuery{})
		if err != nil || len(all) != 5000 || all[4999].ID != "p-4999" {
			t.Errorf("%d hosts, %v", len(all), err)
		}
		if all, err = c.Enrolled(t.Context(), api.EnrollQuery{State: credential.Accepted}); err != nil || len(all) != 2500 || all[0].ID != "p-0001" {
			t.Errorf("%d accepted, %v", len(all), err)
		}
		for id, want := range map[target.PeelID]int{"p-0007": 1, "p-9999": 0, "a b": 0} {
			if one, err := api.EnrollList.Ask(t.Context(), c, api.EnrollQuery{ID: id}); err != nil || len(one.Peels) != want {
				t.Errorf("%s: %+v, %v", id, one, err)
			}
		}
	})
}

func TestManyPeelsComeInPages(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		nc := s.bus.Conn(t, grants.RoleMaster, "loader")
		var ids []target.PeelID
		for i := range 4100 {
			id := target.PeelID(fmt.Sprintf("p%04d%s", i, strings.Repeat("x", 120)))
			data, err := canon.Marshal(wire.Facts{Peel: id, V: wire.Version})
			if err == nil {
				err = nc.Publish(wire.Fact(id.Wire()), data)
			}
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		synctest.Wait()
		s.master("m1")
		c := s.client(grants.RoleOperator, "alice")
		time.Sleep(2 * time.Minute) // so that each is in the answer twice
		r, err := c.Resolve(t.Context(), "*")
		if err != nil || !slices.Equal(r.Peels, ids) || !slices.Equal(r.Offline, ids) || r.Total != 4100 {
			t.Errorf("%d resolved, %d offline, %v", len(r.Peels), len(r.Offline), err)
		}
		peels, err := c.Peels(t.Context(), "")
		if err != nil || len(peels) != 4100 || peels[4099].ID != ids[4099] {
			t.Errorf("%d listed, %v", len(peels), err)
		}
	})
}

// collect follows a job to its end.
func collect(ctx context.Context, f *api.Follower) (returns []target.PeelID, acks int, ended *job.Job, err error) {
	for e, err := range f.Events(ctx) {
		switch {
		case err != nil:
			return returns, acks, nil, err
		case e.Acked:
			acks++
		case e.Return != nil:
			returns = append(returns, e.Peel)
		case e.Ended != nil:
			ended = e.Ended
		}
	}
	slices.Sort(returns)
	return returns, acks, ended, nil
}

func TestAJobIsDispatchedFollowedAndShown(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		ids := []target.PeelID{"db-01", "web.01"}
		for _, id := range ids {
			s.peel(id, nil, pong(id))
		}
		s.peel("quiet", nil, nil)
		c := s.client(grants.RoleOperator, "alice")
		spec := job.Spec{JID: wire.NewJID(), Function: "test.echo", Args: map[string]any{"text": "a"}, Targets: append(ids, "quiet"), TargetExpr: "*", Timeout: 10 * time.Second}
		f, err := c.Follow(spec.JID, spec.Targets)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if j, err := api.JobDispatch.Ask(t.Context(), c, spec); err != nil || j.Status != job.Running || j.User != "alice" {
			t.Fatalf("%+v, %v", j, err)
		}
		returns, _, ended, err := collect(t.Context(), f)
		if err != nil || !slices.Equal(returns, ids) || ended == nil || ended.Status != job.Partial || ended.ReturnCount != 2 {
			t.Errorf("%v, %+v, %v", returns, ended, err)
		}
		j, err := api.JobShow.Ask(t.Context(), c, api.JobRequest{JID: spec.JID})
		if err != nil || j.Args["text"] != "a" || len(j.Targets) != 3 || j.Status != job.Partial {
			t.Errorf("%+v, %v", j, err)
		}
		var states []job.RowState
		for row, err := range c.Rows(t.Context(), spec.JID) {
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, row.State)
		}
		if !slices.Equal(states, []job.RowState{job.RowOK, job.RowMissing, job.RowOK}) {
			t.Errorf("%v", states)
		}
		page, err := api.JobList.Ask(t.Context(), c, job.Query{User: "alice", Target: "quiet"})
		if err != nil || len(page.Jobs) != 1 || page.Jobs[0].JID != spec.JID {
			t.Errorf("%+v, %v", page, err)
		}
		_, err = api.JobList.Ask(t.Context(), c, job.Query{Status: "done"})
		wantCode(t, err, api.CodeInvalid)
		_, err = api.JobList.Ask(t.Context(), c, job.Query{Cursor: "nonsense"})
		wantCode(t, err, api.CodeInvalid)
		_, err = api.JobShow.Ask(t.Context(), c, api.JobRequest{JID: wire.NewJID()})
		wantCode(t, err, api.CodeNotFound)
	})
}

func TestWhatAFollowerMissedComesAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		var ids []target.PeelID
		for i := range 20 {
			ids = append(ids, target.PeelID(fmt.Sprintf("p%02d", i)))
			s.peel(ids[i], nil, pong(ids[i]))
		}
		c := s.client(grants.RoleOperator, "alice")
		spec := job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: ids}
		if _, err := api.JobDispatch.Ask(t.Context(), c, spec); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		f, err := c.Follow(spec.JID, ids) // too late for any message
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		began := time.Now()
		returns, acks, ended, err := collect(t.Context(), f)
		if err != nil || !slices.Equal(returns, ids) || acks != 0 || ended.Status != job.Complete || time.Since(began) > 6*time.Second {
			t.Errorf("%v, %+v, %v after %v", returns, ended, err, time.Since(began))
		}
	})
}

func TestTargetsThatAreOfflineAreUnreachable(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.peel("fast", nil, pong("fast"))
		s.peel("gone", nil, nil)
		slow := s.peel("slow", nil, nil)
		time.Sleep(5 * time.Minute)
		s.master("m1")
		c := s.client(grants.RoleOperator, "alice")
		spec := job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: []target.PeelID{"fast", "gone", "slow"}, Timeout: 5 * time.Minute}
		if _, err := api.JobDispatch.Ask(t.Context(), c, spec); err != nil {
			t.Fatal(err)
		}
		check := func(when string, want ...job.RowState) {
			t.Helper()
			var got []job.RowState
			for row, err := range c.Rows(t.Context(), spec.JID) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, row.State)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		time.Sleep(time.Second)
		check("while the master does not know the peels", job.RowOK, job.RowWaiting, job.RowWaiting)
		time.Sleep(2 * time.Minute)
		if err := slow.Publish(wire.Heartbeat("slow"), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		check("once it knows them", job.RowOK, job.RowUnreachable, job.RowWaiting)
		time.Sleep(5 * time.Minute)
		check("at the end", job.RowOK, job.RowMissing, job.RowMissing)
	})
}

// A damaged return is stored, so it counts as a failed one.
func TestAFollowerHearsADamagedReturnAsAFailedOne(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		s.peel("a", nil, func(nc *nats.Conn, r wire.Request) { _ = nc.Publish(wire.ReturnOf(r.JID, "a"), []byte("damaged")) })
		s.peel("b", nil, func(nc *nats.Conn, r wire.Request) {
			data, _ := canon.Marshal(wire.Return{JID: r.JID, Peel: "a", Result: wire.Result{Success: true}, V: wire.Version})
			_ = nc.Publish(wire.ReturnOf(r.JID, "b"), data)
		})
		s.peel("c", nil, nil)
		c := s.client(grants.RoleOperator, "alice")
		spec := job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: []target.PeelID{"a", "b", "c"}}
		f, err := c.Follow(spec.JID, spec.Targets)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := api.JobDispatch.Ask(t.Context(), c, spec); err != nil {
			t.Fatal(err)
		}
		began, failed := time.Now(), 0
		for e, err := range f.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Return == nil {
				continue
			}
			if e.Return.Success || !strings.HasPrefix(e.Return.Error, "the return is damaged: ") {
				t.Errorf("%s: %+v", e.Peel, e.Return)
			}
			if failed++; failed == 2 && time.Since(began) > time.Second {
				t.Errorf("after %v, not when it was stored", time.Since(began))
			}
		}
		if failed != 2 {
			t.Errorf("%d failed returns, want 2", failed)
		}
	})
}

func TestLeavingAFollowerLeavesTheJob(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		s.peel("a", nil, func(nc *nats.Conn, r wire.Request) {
			time.Sleep(20 * time.Second)
			pong("a")(nc, r)
		})
		c := s.client(grants.RoleOperator, "alice")
		spec := job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: []target.PeelID{"a"}}
		f, err := c.Follow(spec.JID, spec.Targets)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := api.JobDispatch.Ask(t.Context(), c, spec); err != nil {
			t.Fatal(err)
		}
		ctx, interrupt := context.WithTimeout(t.Context(), 3*time.Second)
		defer interrupt()
		if _, _, _, err := collect(ctx, f); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		f.Close()
		time.Sleep(time.Minute)
		if j, err := api.JobShow.Ask(t.Context(), c, api.JobRequest{JID: spec.JID}); err != nil || j.Status != job.Complete {
			t.Errorf("%+v, %v", j, err)
		}
	})
}

func TestWhatIsNotAllowedIsKnownAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		c := s.client(grants.RoleAuditor, "eve")
		began := time.Now()
		_, err := api.JobDispatch.Ask(t.Context(), c, job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: []target.PeelID{"a"}})
		wantCode(t, err, api.CodeDenied)
		if took := time.Since(began); took > time.Second {
			t.Errorf("after %v", took)
		}
	})
}

func TestACredentialThatTheBusDoesNotKnowIsDenied(t *testing.T) {
	b := natstest.Listen(t)
	other := natstest.Listen(t)
	creds, err := other.Keys.Creds(grants.RoleOperator, "alice", 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.Connect(api.ClientOptions{URL: b.URL(), Creds: creds, CA: b.CA()})
	wantCode(t, err, api.CodeDenied)
	brief, err := other.Keys.Creds(grants.RoleOperator, "bob", time.Nanosecond) // it ends with the second that is over
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.Connect(api.ClientOptions{URL: b.URL(), Creds: brief, CA: b.CA()})
	wantCode(t, err, api.CodeDenied)
	if e, ok := errors.AsType[*dial.BusError](err); !ok || !strings.Contains(err.Error(), "the credential of bob: it ended at 20") || !strings.Contains(e.Hint, "auth user add bob --again") {
		t.Errorf("of a credential that has ended it is said: %v, %+v", err, e)
	}
	_, err = api.Connect(api.ClientOptions{URL: b.URL(), Creds: creds, CA: other.CA()})
	wantCode(t, err, api.CodeUnreachable)
	if e, ok := errors.AsType[*dial.BusError](err); !ok || !strings.Contains(err.Error(), "not signed by an authority in "+other.CA()) || !strings.Contains(e.Hint, "--ca FILE") {
		t.Errorf("of another authority it is said: %v, %+v", err, e)
	}
	_, err = api.Connect(api.ClientOptions{URL: b.URL(), Creds: []byte("nonsense")})
	wantCode(t, err, api.CodeDenied)
	b.Stop(t)
	own, err := b.Keys.Creds(grants.RoleOperator, "alice", 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.Connect(api.ClientOptions{URL: b.URL(), Creds: own, CA: b.CA()})
	wantCode(t, err, api.CodeUnreachable)
}

func TestWithoutAMasterTheAnswerSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		c := s.client(grants.RoleOperator, "alice")
		_, err := c.Resolve(t.Context(), "*")
		wantCode(t, err, api.CodeUnavailable)
		if err == nil || !strings.Contains(err.Error(), "no master answers") {
			t.Errorf("%v", err)
		}
		_, err = api.SyncStatus.Ask(t.Context(), c, api.None{})
		wantCode(t, err, api.CodeUnavailable)
		if err == nil || !strings.HasPrefix(err.Error(), "no settings service answers") {
			t.Errorf("%v", err)
		}
	})
}

func TestDispatchWaitsForAMasterThatIsAboutToCome(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		stop := s.master("m1")
		s.peel("a", nil, pong("a"))
		c := s.client(grants.RoleOperator, "alice")
		stop()
		started := make(chan struct{})
		go func() {
			defer close(started)
			time.Sleep(400 * time.Millisecond)
			s.master("m2")
		}()
		j, err := api.JobDispatch.Ask(t.Context(), c, job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: []target.PeelID{"a"}})
		if err != nil || j.Owner != "m2" {
			t.Errorf("%+v, %v", j, err)
		}
		<-started
	})
}

func TestQuestionsWaitForAMasterThatIsAboutToCome(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		c := s.client(grants.RoleOperator, "alice")
		started := make(chan struct{})
		go func() {
			defer close(started)
			time.Sleep(3 * time.Second)
			s.master("m1")
		}()
		if jobs, err := api.JobActive.Ask(t.Context(), c, api.None{}); err != nil || len(jobs.Jobs) != 0 {
			t.Errorf("%+v, %v", jobs, err)
		}
		<-started
	})
}

// With a million jobs that takes seconds, longer than some wait for an answer.
func TestTheKeysOfAllJobsAreReadBeforeAnybodyAsks(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		old := job.Job{Spec: job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: []target.PeelID{"a"}}, Status: job.Complete}
		if err := s.store.Archive(t.Context(), &old, 0); err != nil {
			t.Fatal(err)
		}
		readings := 0
		nc := s.bus.Conn(t, grants.RoleMaster, "spy")
		if _, err := nc.Subscribe("$JS.API.CONSUMER.CREATE.KV_jobs.>", func(*nats.Msg) { readings++ }); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.master("m1")
		synctest.Wait()
		before := readings
		page, err := api.JobList.Ask(t.Context(), s.client(grants.RoleOperator, "alice"), job.Query{})
		synctest.Wait()
		if err != nil || len(page.Jobs) != 1 || before == 0 || readings != before {
			t.Errorf("%+v, %v after %d readings, %d of them before it was asked for", page, err, readings, before)
		}
	})
}

func TestSyncIsAskedWhereItIsServed(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		nc := s.bus.Conn(t, grants.RoleMaster, "m1")
		service, err := micro.AddService(nc, micro.Config{Name: "sync", Version: "1.0.0"})
		if err != nil {
			t.Fatal(err)
		}
		all := make([]status.Peel, 1200)
		for i := range all {
			all[i] = status.Peel{Peel: target.PeelID(fmt.Sprintf("p%04d", i)), State: status.Applied}
		}
		answer := func(verb string, f func(micro.Request) any) {
			handler := func(req micro.Request) {
				data, err := canon.Marshal(f(req))
				if err == nil {
					err = req.Respond(data)
				}
				if err != nil {
					t.Error(err)
				}
			}
			if err := service.AddEndpoint(verb, micro.HandlerFunc(handler), micro.WithEndpointSubject(wire.API("sync", verb, "*"))); err != nil {
				t.Fatal(err)
			}
		}
		answer("status", func(micro.Request) any { return status.Sync{Branch: "main"} })
		answer("now", func(micro.Request) any { time.Sleep(time.Minute); return status.Sync{Branch: "now"} })
		answer("peels", func(req micro.Request) any {
			var q status.PeelsRequest
			if err := canon.Unmarshal(req.Data(), &q); err != nil {
				t.Error(err)
			}
			from := slices.IndexFunc(all, func(p status.Peel) bool { return p.Peel > q.Cursor })
			to := min(from+500, len(all))
			page := status.SyncPeelsPage{Peels: all[from:to]}
			if to < len(all) {
				page.Next = all[to-1].Peel
			}
			return page
		})
		c := s.client(grants.RoleOperator, "alice")
		if st, err := api.SyncStatus.Ask(t.Context(), c, api.None{}); err != nil || st.Branch != "main" {
			t.Errorf("%+v, %v", st, err)
		}
		if st, err := api.SyncNow.Ask(t.Context(), c, api.None{}); err != nil || st.Branch != "now" {
			t.Errorf("%+v, %v", st, err)
		}
		if peels, err := c.SyncPeels(t.Context()); err != nil || len(peels) != 1200 || peels[1199].Peel != "p1199" {
			t.Errorf("%d peels, %v", len(peels), err)
		}
	})
}

func TestMastersShareTheQuestions(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		stop := s.master("m1")
		s.master("m2")
		s.peel("a", nil, nil)
		c := s.client(grants.RoleOperator, "alice")
		for i := range 20 {
			if i == 10 {
				stop()
			}
			if r, err := c.Resolve(t.Context(), "*"); err != nil || r.Total != 1 {
				t.Errorf("question %d: %+v, %v", i, r, err)
			}
		}
	})
}

func TestTargetsAreResolvedFromSettings(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		c := s.client(grants.RoleOperator, "alice")
		revisions := map[target.PeelID]uint64{}
		give := func(id target.PeelID, generation uint64, workers int) {
			raw, err := canon.Marshal(map[string]any{"nginx": map[string]any{"workers": workers}})
			if err != nil {
				t.Fatal(err)
			}
			doc := &settings.Document{V: settings.Version, Peel: id, Generation: generation, Digest: settings.DigestOf(raw), Settings: raw}
			stored, err := settings.NewStore(s.bus.JetStream(t)).Publish(t.Context(), slices.Values([]settings.Write{{Document: doc, Revision: revisions[id]}}))
			if err != nil {
				t.Fatal(err)
			}
			revisions[id] = stored[id]
		}
		for _, id := range []target.PeelID{"web-01", "web-02", "db-01"} {
			s.peel(id, nil, nil)
		}
		give("web-01", 1, 4)
		give("web-02", 1, 8)
		expect := func(want ...target.PeelID) {
			t.Helper()
			if r, err := c.Resolve(t.Context(), "I@nginx:workers:4"); err != nil || !slices.Equal(r.Peels, want) {
				t.Errorf("%+v, %v, want %v", r, err, want)
			}
		}
		expect("web-01")
		give("web-02", 2, 4)
		expect("web-01", "web-02")
		give("web-01", 2, 8)
		expect("web-02")
	})
}

func TestAnotherSealingKeyOfAPeelIsApprovedByAnOperator(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		nc := s.peel("web-01", nil, nil)
		keys := make([]string, 2)
		for i := range keys {
			pair, err := nkeys.CreateCurveKeys()
			if err == nil {
				keys[i], err = pair.PublicKey()
			}
			if err != nil {
				t.Fatal(err)
			}
			data, err := canon.Marshal(wire.Facts{Peel: "web-01", Key: keys[i], V: wire.Version})
			if err == nil {
				_, err = nc.Request(wire.Fact("web-01"), data, time.Second)
			}
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		c := s.client(grants.RoleOperator, "ada")
		p, err := api.PeelShow.Ask(t.Context(), c, api.PeelRequest{Peel: "web-01"})
		if err != nil || p.Key != keys[0] || p.PendingKey != keys[1] {
			t.Fatalf("%+v, %v", p, err)
		}
		_, err = api.PeelRekey.Ask(t.Context(), s.client(grants.RoleAuditor, "eve"), api.PeelKey{Peel: "web-01", Key: keys[1]})
		wantCode(t, err, api.CodeDenied)
		_, err = api.PeelRekey.Ask(t.Context(), c, api.PeelKey{Peel: "web-01", Key: keys[0]})
		wantCode(t, err, api.CodeConflict)
		_, err = api.PeelRekey.Ask(t.Context(), c, api.PeelKey{Peel: "gone", Key: keys[1]})
		wantCode(t, err, api.CodeNotFound)
		now, err := api.PeelRekey.Ask(t.Context(), c, api.PeelKey{Peel: "web-01", Key: keys[1]})
		if err != nil || now.Key != keys[1] || now.PendingKey != "" {
			t.Errorf("%+v, %v", p, err)
		}
	})
}
