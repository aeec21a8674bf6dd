package job_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

var million = flag.Bool("job.million", false, "list a million jobs, which take a minute to write")

// BenchmarkList lists the first page of many jobs: any, and those of a user who has few.
func BenchmarkList(b *testing.B) {
	counts := []int{10_000}
	if *million {
		counts = append(counts, 1_000_000)
	}
	for _, n := range counts {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			js := manyJobs(b, n)
			s, err := job.NewStore(b.Context(), js)
			if err != nil {
				b.Fatal(err)
			}
			b.Run("first", func(b *testing.B) { // of a master that has just begun
				for b.Loop() {
					s, err = job.NewStore(b.Context(), js)
					if err == nil {
						_, err = s.List(b.Context(), job.Query{})
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
			for name, q := range map[string]job.Query{"any": {}, "of a user": {User: "rare"}} {
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						if _, err := s.List(b.Context(), q); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}

// manyJobs is a bus with n jobs of the last days.
func manyJobs(b *testing.B, n int) jetstream.JetStream {
	bus := natstest.Listen(b)
	js, err := jetstream.New(bus.Conn(b, grants.RoleMaster, "writer"), jetstream.WithPublishAsyncMaxPending(4096), jetstream.WithPublishAsyncTimeout(time.Minute))
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	for i := range n {
		j := claim("a")
		j.JID = at(b, now.Add(-time.Duration(i)*500*time.Millisecond))
		if j.Status = job.Complete; i%5000 == 0 {
			j.User = "rare"
		}
		data, err := canon.Marshal(j)
		if err == nil {
			_, err = js.PublishMsgAsync(&nats.Msg{Subject: "$KV.jobs." + string(j.JID), Data: data}, jetstream.WithStallWait(time.Minute))
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(time.Minute):
		b.Fatal("not all jobs were written")
	}
	return js
}

func TestAListKnowsWhatWasWrittenSinceAndWhatIsGone(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		s, err := job.NewStore(t.Context(), js)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := js.Stream(t.Context(), "KV_jobs")
		if err != nil {
			t.Fatal(err)
		}
		c := stream.CachedInfo().Config
		c.MaxAge, c.Duplicates = 10*time.Minute, time.Minute // in place of days
		if _, err := js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		reads := 0
		if _, err := js.Conn().Subscribe("$JS.API.CONSUMER.CREATE.KV_jobs.>", func(*nats.Msg) { reads++ }); err != nil {
			t.Fatal(err)
		}
		want := func(wantReads int, jobs ...*job.Job) {
			t.Helper()
			all, _ := pages(t, s, job.Query{Limit: 2})
			synctest.Wait()
			if len(all) != len(jobs) || reads != wantReads {
				t.Fatalf("%d jobs after %d readings, want %d after %d", len(all), reads, len(jobs), wantReads)
			}
			for i, j := range all {
				if j.JID != jobs[i].JID || j.Status != jobs[i].Status {
					t.Errorf("job %d is %s %s, want %s %s", i, j.JID, j.Status, jobs[i].JID, jobs[i].Status)
				}
			}
		}
		want(0)
		var jobs []*job.Job // newest first
		add := func(when time.Time) *job.Job {
			j := claim("a")
			j.JID = at(t, when)
			jobs = append(jobs, create(t, s, j))
			j.Finish(job.End{Targets: 1}, time.Now())
			end(t, s, j)
			slices.SortFunc(jobs, func(a, b *job.Job) int { return strings.Compare(string(b.JID), string(a.JID)) })
			return j
		}
		began := time.Now()
		add(began.Add(2 * time.Second))
		first := add(began)
		add(began.Add(time.Second))
		want(1, jobs...)
		want(1, jobs...) // nothing has changed
		add(began.Add(time.Minute))
		add(began.Add(-time.Minute)) // asked for by a client whose clock is behind
		want(2, jobs...)
		time.Sleep(6 * time.Minute)
		stored, err := stream.GetLastMsgForSubject(t.Context(), "$KV.jobs."+string(first.JID))
		if err == nil { // the same record is written once more
			_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: stored.Subject, Data: stored.Data})
		}
		if err != nil {
			t.Fatal(err)
		}
		add(time.Now())
		want(3, jobs...)
		b.Restart(t)
		time.Sleep(6 * time.Minute) // the others age out
		jobs = slices.DeleteFunc(jobs, func(j *job.Job) bool { return j != first && j.Created.Equal(began) })
		want(3, jobs...)
		if err := js.DeleteStream(t.Context(), "KV_jobs"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.List(t.Context(), job.Query{}); err == nil {
			t.Error("a bucket that is away has no jobs")
		}
		if _, err := natsd.Provision(t.Context(), js, bucket.Kept{}); err != nil {
			t.Fatal(err)
		}
		jobs = nil
		want(3)
		add(time.Now())
		want(4, jobs...)
	})
}

// TestAPageByTargetReadsABoundedNumberOfTargets holds that such a page has its time, too, where all jobs are of the whole
// fleet, and that the pages together lose nothing.
func TestAPageByTargetReadsABoundedNumberOfTargets(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, _ jetstream.JetStream) {
		wanted := create(t, s, claim("wanted"))
		time.Sleep(time.Second)
		all := fleet(4001) // of which one chunk is read
		for range 130 {
			create(t, s, claim(all...))
			time.Sleep(time.Second)
		}
		found, lengths := pages(t, s, job.Query{Target: "wanted"})
		if len(found) != 1 || found[0].JID != wanted.JID || len(lengths) < 2 {
			t.Errorf("%d jobs on pages of %v", len(found), lengths)
		}
	})
}

func TestAListLeavesOutReadsAndRunsOfSchedulesWhereThatIsAsked(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		s, err := job.NewStore(t.Context(), b.JetStream(t))
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]string{} // by JID
		for name, change := range map[string]func(*job.Job){
			"changes": func(j *job.Job) { j.Function = "cmd.run" },
			"reads":   func(j *job.Job) { j.Function = "schedule.list" },
			"newer":   func(j *job.Job) { j.Function = "newer.function" },
			"scheduled": func(j *job.Job) {
				j.Function, j.Metadata = "cmd.run", map[string]string{job.MetaSource: job.SourceSchedule}
			},
			"scheduled, reads": func(j *job.Job) {
				j.Function, j.Metadata = "test.ping", map[string]string{job.MetaSource: job.SourceSchedule}
			},
		} {
			j := claim("a")
			change(j)
			if err := s.Create(t.Context(), j); err != nil {
				t.Fatal(err)
			}
			names[string(j.JID)] = name
		}
		for _, c := range []struct {
			q    job.Query
			want string
		}{
			{job.Query{}, "changes; newer; reads; scheduled; scheduled, reads"},
			{job.Query{NoReads: true}, "changes; newer; scheduled; scheduled, reads"},
			{job.Query{Asked: true}, "changes; newer; reads"},
			{job.Query{Asked: true, NoReads: true}, "changes; newer"},
		} {
			// Pages of one hold all that is selected, and none that is not, also where the newest are left out.
			var got []string
			for q := c.q; ; {
				q.Limit = 1
				page, err := s.List(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, j := range page.Jobs {
					got = append(got, names[string(j.JID)])
				}
				if q.Cursor = page.Next; q.Cursor == "" {
					break
				}
			}
			slices.Sort(got)
			if list := strings.Join(got, "; "); list != c.want {
				t.Errorf("%+v lists %s, want %s", c.q, list, c.want)
			}
		}
	})
}

// The author of an entry need not be the user of a credential with the same name, so a run of a schedule is nobody's.
func TestARunOfAScheduleIsShownToNobodyAsOwn(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, _ jetstream.JetStream) {
		own := create(t, s, claim("a"))
		run := claim("a")
		run.Metadata = map[string]string{job.MetaSource: job.SourceSchedule}
		create(t, s, run)
		v := &job.View{User: own.User}
		for j, want := range map[*job.Job]bool{own: true, run: false} {
			if shown, err := s.Shows(t.Context(), v, j); err != nil || shown != want {
				t.Errorf("the job with the metadata %v is shown: %v, %v", j.Metadata, shown, err)
			}
		}
		page, err := s.List(t.Context(), job.Query{View: v})
		if err != nil || len(page.Jobs) != 1 || page.Jobs[0].JID != own.JID {
			t.Errorf("%+v, %v", page, err)
		}
	})
}

// Whoever sees the own jobs alone learns no ID of another one, from a cursor neither.
func TestACursorIsNoIDOfAJobThatIsNotShown(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, js jetstream.JetStream) {
		others := map[wire.JID]bool{}
		for i := range 2002 { // more than are read for a page
			j := claim("a")
			if j.JID, j.Status = at(t, time.Now().Add(time.Duration(i)*time.Second)), job.Complete; i > 0 {
				j.User = "bob"
				others[j.JID] = true
			}
			data, err := canon.Marshal(j)
			if err == nil {
				_, err = js.Publish(t.Context(), "$KV.jobs."+string(j.JID), data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		q := job.Query{View: &job.View{User: claim("a").User}}
		page, err := s.List(t.Context(), q)
		if err != nil || len(page.Jobs) != 0 || page.Next == "" || others[page.Next] {
			t.Fatalf("%+v, %v", page, err)
		}
		if all, _ := pages(t, s, q); len(all) != 1 {
			t.Errorf("%d jobs", len(all))
		}
	})
}
