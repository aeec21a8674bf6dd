package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/segmentio/ksuid"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// bubble runs f with a store on a bus in fake time.
func bubble(t *testing.T, f func(t *testing.T, s *job.Store, js jetstream.JetStream)) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		s, err := job.NewStore(t.Context(), js)
		if err != nil {
			t.Fatal(err)
		}
		f(t, s, js)
	})
}

func claim(targets ...target.PeelID) *job.Job {
	s := job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: targets, Timeout: time.Minute}
	return job.FromDispatch(s, "alice", "m1", time.Now())
}

func create(t *testing.T, s *job.Store, j *job.Job) *job.Job {
	t.Helper()
	if err := s.Create(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	return j
}

func TestARecordComesBackAsItWasWritten(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, _ jetstream.JetStream) {
		j := claim("web-01", "web.02")
		j.Args, j.Metadata = map[string]any{"n": int64(3)}, map[string]string{"ticket": "7"}
		create(t, s, j)
		got, err := s.Get(t.Context(), j.JID)
		if err != nil {
			t.Fatal(err)
		}
		if !got.SameIntent(&j.Spec) || got.Revision != j.Revision || got.Revision == 0 || got.Status != job.Claimed ||
			got.User != "alice" || got.Owner != "m1" || !got.Deadline.Equal(j.Deadline) || got.V != wire.Version {
			t.Errorf("wrote %+v\nread  %+v", j, got)
		}
	})
}

func TestAnAbsentJobIsNotAnUnreadableOne(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, js jetstream.JetStream) {
		for _, jid := range []wire.JID{wire.NewJID(), "", "active.x", "*"} {
			if _, err := s.Get(t.Context(), jid); !errors.Is(err, job.ErrNotFound) {
				t.Errorf("%q: %v", jid, err)
			}
		}
		j := create(t, s, claim("a"))
		if err := js.DeleteStream(t.Context(), "KV_job-returns"); err != nil {
			t.Fatal(err)
		}
		if r, err := storedReturn(t, s, j.JID, "a"); err == nil {
			t.Errorf("without the bucket the return is %v", r)
		}
		for _, gone := range []struct {
			stream string
			jid    wire.JID // whose record is in it, if it is stored
		}{{"KV_jobs", wire.NewJID()}, {"KV_active", j.JID}} {
			if err := js.DeleteStream(t.Context(), gone.stream); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Get(t.Context(), gone.jid); err == nil || errors.Is(err, job.ErrNotFound) {
				t.Errorf("without %s: %v", gone.stream, err)
			}
		}
	})
}

func TestAnIDIsTakenOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, _ jetstream.JetStream) {
		j := create(t, s, claim("a"))
		other := claim("b")
		other.JID = j.JID
		if err := s.Create(t.Context(), other); !errors.Is(err, job.ErrExists) {
			t.Errorf("%v", err)
		}
	})
}

func TestOnlyTheHolderOfTheRevisionWrites(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, _ jetstream.JetStream) {
		j := create(t, s, claim("a"))
		stale := *j
		j.Status = job.Running
		if err := s.Update(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		stale.Owner = "m2"
		if err := s.Update(t.Context(), &stale); !errors.Is(err, job.ErrConflict) {
			t.Errorf("a stale write: %v", err)
		}
		j.Finish(job.End{Targets: 1, Returned: 1, Succeeded: 1}, time.Now())
		if err := s.Update(t.Context(), j); err != nil {
			t.Errorf("the next write of the holder: %v", err)
		}
	})
}

func TestAWriteWhoseAcknowledgementWasLostIsRecognised(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, _ jetstream.JetStream) {
		j := create(t, s, claim("a"))
		before := *j
		j.Status = job.Running
		again := *j
		if err := s.Update(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		if err := s.Update(t.Context(), &again); err != nil || again.Revision != j.Revision {
			t.Errorf("the same write again: %v, revision %d of %d", err, again.Revision, j.Revision)
		}
		before.Revision = 0
		if err := s.Create(t.Context(), &before); !errors.Is(err, job.ErrExists) {
			t.Errorf("a create of what was replaced meanwhile: %v", err)
		}
	})
}

func fleet(n int) []target.PeelID {
	ids := make([]target.PeelID, n)
	for i := range ids {
		ids[i] = target.PeelID(fmt.Sprintf("peel-%06d", i))
	}
	return ids
}

func TestManyTargetsAreStoredOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, js jetstream.JetStream) {
		j := create(t, s, claim(fleet(9001)...))
		got, err := s.Get(t.Context(), j.JID)
		if err != nil || !slices.Equal(got.Targets, j.Targets) {
			t.Fatalf("%d targets, %v", len(got.Targets), err)
		}
		before := stored(t, js)
		got.Status = job.Running
		if err := s.Update(t.Context(), got); err != nil {
			t.Fatal(err)
		}
		if grown := stored(t, js) - before; grown > 2000 {
			t.Errorf("a change of the status wrote %d bytes", grown)
		}
		other := claim(fleet(9002)...)
		other.JID = j.JID
		if err := s.Create(t.Context(), other); !errors.Is(err, job.ErrExists) {
			t.Errorf("other targets under the same ID: %v", err)
		}
		if got, err = s.Get(t.Context(), j.JID); err != nil || len(got.Targets) != 9001 {
			t.Errorf("then the job has %d targets, %v", len(got.Targets), err)
		}
	})
}

// A master stops between the removal of a record and that of its targets.
func TestTargetsWithoutARecordAreRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, js jetstream.JetStream) {
		gone, live := create(t, s, claim(fleet(501)...)), create(t, s, claim(fleet(502)...))
		stream, err := js.Stream(t.Context(), "KV_active")
		if err == nil {
			err = stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.active."+string(gone.JID)))
		}
		if err != nil {
			t.Fatal(err)
		}
		purges, err := js.Conn().SubscribeSync("$JS.API.STREAM.PURGE.KV_active")
		if err == nil {
			err = s.RemoveStrayTargets(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		msg, err := purges.NextMsg(time.Second)
		var purge jetstream.StreamPurgeRequest
		if err == nil {
			err = json.Unmarshal(msg.Data, &purge)
		}
		if last := stream.CachedInfo().State.LastSeq; err != nil || purge.Sequence != last+1 {
			t.Errorf("targets that a claim of this ID stores meanwhile: %v, %+v, the last was %d", err, purge, last)
		}
		_, err = stream.GetLastMsgForSubject(t.Context(), "$KV.active.targets."+string(gone.JID)+".0")
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			t.Errorf("targets without a record: %v", err)
		}
		if j, err := s.Get(t.Context(), live.JID); err != nil || len(j.Targets) != 502 {
			t.Errorf("targets of a live job: %+v, %v", j, err)
		}
	})
}

func TestARecordIsKeptAsLongAfterAJobThatTookLong(t *testing.T) {
	const retention = 2 * time.Hour // a week, in short
	bubble(t, func(t *testing.T, s *job.Store, js jetstream.JetStream) {
		stream, err := js.Stream(t.Context(), "KV_jobs")
		if err != nil {
			t.Fatal(err)
		}
		c := stream.CachedInfo().Config
		c.MaxAge = retention
		if _, err := js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		jobs := []*job.Job{create(t, s, claim("a")), create(t, s, claim(fleet(5000)...))}
		time.Sleep(3 * retention) // a live job has no age
		for _, j := range jobs {
			j.Finish(job.End{Targets: j.TargetCount}, time.Now())
			end(t, s, j)
		}
		time.Sleep(retention - time.Minute)
		for _, j := range jobs {
			if got, err := s.Get(t.Context(), j.JID); err != nil || !slices.Equal(got.Targets, j.Targets) || got.Status != job.Timeout {
				t.Errorf("before its time a job with %d targets: %v", j.TargetCount, err)
			}
		}
		time.Sleep(2 * time.Minute)
		for _, j := range jobs {
			if _, err := s.Get(t.Context(), j.JID); !errors.Is(err, job.ErrNotFound) {
				t.Errorf("after its time a job with %d targets: %v", j.TargetCount, err)
			}
		}
	})
}

// end writes a final record and moves the job to the ended ones, as a dispatcher does.
func end(t *testing.T, s *job.Store, j *job.Job) {
	t.Helper()
	archive := func(ctx context.Context, j *job.Job) error { return s.Archive(ctx, j, 0) }
	for _, step := range []func(context.Context, *job.Job) error{s.Update, archive, s.Remove} {
		if err := step(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
}

// A master that repeats what another did before it died adds no second record, which would have no lifetime.
func TestAJobIsArchivedOnce(t *testing.T) {
	const lifetime = time.Hour
	bubble(t, func(t *testing.T, s *job.Store, js jetstream.JetStream) {
		j := create(t, s, claim("a"))
		j.Finish(job.End{Targets: 1}, time.Now())
		if err := s.Update(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.Archive(t.Context(), j, lifetime); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Remove(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lifetime + time.Minute)
		if _, err := s.Get(t.Context(), j.JID); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("after its lifetime: %v", err)
		}
	})
}

func stored(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_active")
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.Bytes
}

func TestAnEndedJobLeavesNothingAmongTheLiveOnes(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, js jetstream.JetStream) {
		a, large, b := create(t, s, claim("a")), create(t, s, claim(fleet(9001)...)), create(t, s, claim("b"))
		for _, j := range []*job.Job{a, large} {
			j.Finish(job.End{Targets: j.TargetCount}, time.Now())
			end(t, s, j)
		}
		live, _, err := s.ListLive(t.Context())
		if err != nil || len(live) != 1 || live[0].JID != b.JID || live[0].Owner != "m1" {
			t.Errorf("%+v, %v", live, err)
		}
		stream, err := js.Stream(t.Context(), "KV_active")
		if err != nil {
			t.Fatal(err)
		}
		if n := stream.CachedInfo().State.Msgs; n != 1 {
			t.Errorf("%d messages are left of one live job", n)
		}
		for _, j := range []*job.Job{a, large} {
			got, err := s.Get(t.Context(), j.JID)
			if err != nil || got.Live || got.Status != job.Timeout || !slices.Equal(got.Targets, j.Targets) {
				t.Errorf("%+v, %v", got, err)
			}
			again := claim("c")
			again.JID = j.JID
			if err := s.Create(t.Context(), again); !errors.Is(err, job.ErrExists) {
				t.Errorf("a claim under the ID of an ended job: %v", err)
			}
		}
	})
}

// TestLiveJobsOutlastTheHistory has scheduled runs fill the bucket of ended jobs several times over.
func TestLiveJobsOutlastTheHistory(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, js jetstream.JetStream) {
		stream, err := js.Stream(t.Context(), "KV_jobs")
		if err != nil {
			t.Fatal(err)
		}
		c := stream.CachedInfo().Config
		c.MaxMsgs, c.MaxBytes = 50, 64<<10
		if _, err := js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		live := []*job.Job{create(t, s, claim("a")), create(t, s, claim(fleet(5000)...))}
		for range 10 {
			runs := make([]job.Ended, 50)
			for i := range runs {
				runs[i] = ended(t, wire.NewJID(), "a", "x")
			}
			for _, err := range createEnded(t, s, runs...) {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if info, err := stream.Info(t.Context()); err != nil || info.State.FirstSeq < 400 {
			t.Fatalf("the bucket was not rolled over: %+v, %v", info.State, err)
		}
		for _, j := range live {
			got, err := s.Get(t.Context(), j.JID)
			if err != nil || got.Status != job.Claimed || !slices.Equal(got.Targets, j.Targets) {
				t.Fatalf("a live job of %d targets: %v", j.TargetCount, err)
			}
			got.Status = job.Running
			if err := s.Update(t.Context(), got); err != nil {
				t.Error(err)
			}
		}
		if all, _, err := s.ListLive(t.Context()); err != nil || len(all) != 2 {
			t.Errorf("%d live jobs, %v", len(all), err)
		}
	})
}

// at makes an ID of a second; the rest is random, as in real ones.
func at(t testing.TB, when time.Time) wire.JID {
	t.Helper()
	id, err := ksuid.NewRandomWithTime(when)
	if err != nil {
		t.Fatal(err)
	}
	return wire.JID(id.String())
}

func pages(t *testing.T, s *job.Store, q job.Query) (all []job.Job, lengths []int) {
	t.Helper()
	for {
		page, err := s.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Jobs...)
		lengths = append(lengths, len(page.Jobs))
		if q.Cursor = page.Next; q.Cursor == "" {
			return all, lengths
		}
	}
}

func TestJobsAreListedNewestFirstInPages(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, _ jetstream.JetStream) {
		now := time.Now()
		var jids []wire.JID
		for i := range 130 {
			j := claim("a")
			j.JID = at(t, now.Add(time.Duration(i%65)*time.Second)) // two of each second, written out of order
			j.Args = map[string]any{"secret": "not in a list"}
			create(t, s, j)
			if i%3 == 0 {
				j.Finish(job.End{Targets: 1}, now)
				end(t, s, j)
			}
			jids = append(jids, j.JID)
		}
		slices.Sort(jids)
		slices.Reverse(jids)
		all, lengths := pages(t, s, job.Query{})
		var got []wire.JID
		for _, j := range all {
			got = append(got, j.JID)
			if j.Args != nil || j.TargetCount != 1 {
				t.Errorf("listed as %+v", j)
			}
		}
		if !slices.Equal(got, jids) || !slices.Equal(lengths, []int{50, 50, 30}) {
			t.Errorf("pages of %v; in order: %v", lengths, slices.Equal(got, jids))
		}
	})
}

func TestAListIsFiltered(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, _ jetstream.JetStream) {
		ping, big, run := claim("a", "b"), claim(fleet(700)...), claim("b")
		ping.User, big.Function, run.Status = "bob", "cmd.run", job.Complete
		run.Metadata = map[string]string{job.MetaSource: job.SourceSchedule, job.MetaSchedule: "sync-certs", job.MetaCommit: "0123456789"}
		for _, j := range []*job.Job{ping, big, run} {
			create(t, s, j)
		}
		for _, test := range []struct {
			q    job.Query
			want []*job.Job
		}{
			{job.Query{}, []*job.Job{ping, big, run}},
			{job.Query{User: "bob"}, []*job.Job{ping}},
			{job.Query{Function: "cmd.run"}, []*job.Job{big}},
			{job.Query{Status: job.Complete}, []*job.Job{run}},
			{job.Query{Target: "b"}, []*job.Job{ping, run}},
			{job.Query{Target: "peel-000699"}, []*job.Job{big}},
			{job.Query{Target: "peel-000700"}, nil},
			{job.Query{Schedule: "sync-certs", Commit: "01234"}, []*job.Job{run}},
			{job.Query{Schedule: "sync-certs", Commit: "1"}, nil},
		} {
			all, _ := pages(t, s, test.q)
			got, want := map[wire.JID]bool{}, map[wire.JID]bool{}
			for _, j := range all {
				got[j.JID] = true
			}
			for _, j := range test.want {
				want[j.JID] = true
			}
			if !maps.Equal(got, want) {
				t.Errorf("%+v selects %v, want %v", test.q, got, want)
			}
		}
	})
}

func TestAPageOfAListStaysSmall(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, _ jetstream.JetStream) {
		for range 20 {
			j := claim("a")
			j.TargetExpr = string(make([]byte, job.MaxExpr))
			create(t, s, j)
		}
		q := job.Query{}
		for n := 0; ; {
			page, err := s.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			data, err := canon.Marshal(page)
			if err != nil || len(data) > 512<<10 {
				t.Errorf("a page takes %d bytes, %v", len(data), err)
			}
			n += len(page.Jobs)
			if q.Cursor = page.Next; q.Cursor == "" {
				if n != 20 {
					t.Errorf("%d of 20 jobs listed", n)
				}
				return
			}
		}
	})
}

// put stores a return as a master does that has a report of a schedule.
func put(t *testing.T, js jetstream.JetStream, r wire.Return) {
	t.Helper()
	data, err := canon.Marshal(r)
	if err == nil {
		_, err = js.PublishMsg(t.Context(), job.ReturnMessage(r.JID, r.Peel, data))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestEveryTargetHasARow(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, js jetstream.JetStream) {
		j := create(t, s, claim("a", "b.c", "d"))
		j.Published, j.Sent = 3, time.Now()
		put(t, js, wire.Return{JID: j.JID, Peel: "a", Result: wire.Result{Success: true, Data: "x"}, V: wire.Version})
		put(t, js, wire.Return{JID: j.JID, Peel: "b.c", Result: wire.Result{Error: "no"}, V: wire.Version})
		for status, last := range map[job.Status]job.RowState{
			job.Running: job.RowWaiting, job.Partial: job.RowMissing, job.Canceled: job.RowMissing,
		} {
			j.Status = status
			if err := s.Update(t.Context(), j); err != nil {
				t.Fatal(err)
			}
			page, err := s.Rows(t.Context(), j.JID, "")
			if err != nil || len(page.Rows) != 3 || page.Next != "" || page.Job.Status != status {
				t.Fatalf("%s: %+v, %v", status, page, err)
			}
			for i, want := range []job.RowState{job.RowOK, job.RowFailed, last} {
				if row := page.Rows[i]; row.State != want || row.Peel != j.Targets[i] || (row.Return == nil) != (i == 2) {
					t.Errorf("%s: row %d is %+v, want %s", status, i, row, want)
				}
			}
		}
	})
}

func TestPagesOfRowsAreBoundedAndLoseNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, js jetstream.JetStream) {
		j := create(t, s, claim(fleet(600)...))
		for i, id := range j.Targets {
			size := 100
			if i%50 == 0 {
				size = 300 << 10
			}
			if i == 77 {
				size = job.MaxReturn - 200
			}
			put(t, js, wire.Return{JID: j.JID, Peel: id, Result: wire.Result{Success: true, Data: make([]byte, size)}, V: wire.Version})
		}
		var got []target.PeelID
		for after := target.PeelID(""); ; {
			page, err := s.Rows(t.Context(), j.JID, after)
			if err != nil {
				t.Fatal(err)
			}
			data, err := canon.Marshal(page)
			if err != nil || len(data) > 512<<10 && len(page.Rows) > 1 || len(data) > wire.MaxMessage {
				t.Fatalf("a page of %d rows takes %d bytes, %v", len(page.Rows), len(data), err)
			}
			for _, row := range page.Rows {
				got = append(got, row.Peel)
				after = row.Peel
			}
			if page.Next == "" {
				break
			}
		}
		if !slices.Equal(got, j.Targets) {
			t.Errorf("%d of 600 rows", len(got))
		}
	})
}

func TestAReturnThatIsStoredAfterTheEndIsLate(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, js jetstream.JetStream) {
		for _, returned := range []int{1, 2} { // as the record counts; all that it counts came before
			j := claim("a", "b")
			j.Status, j.Published = job.Running, 2
			create(t, s, j)
			put(t, js, wire.Return{JID: j.JID, Peel: "a", Result: wire.Result{Success: true}, V: wire.Version})
			time.Sleep(time.Second)
			j.Finish(job.End{Targets: 2, Returned: returned, Succeeded: returned}, time.Now())
			if err := s.Update(t.Context(), j); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			put(t, js, wire.Return{JID: j.JID, Peel: "b", Result: wire.Result{Success: true}, V: wire.Version})
			if _, err := js.Publish(t.Context(), wire.ReturnOf(j.JID, "a"), []byte("again")); err == nil {
				t.Error("a second return was stored")
			}
			all := rows(t, s, j.JID)
			if all["a"].Late || all["b"].Late != (returned == 1) || all["b"].State != job.RowOK {
				t.Errorf("%s: %+v", j.Status, all)
			}
		}
	})
}
