package job_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// ended is a scheduled run of a peel under an ID.
func ended(t *testing.T, jid wire.JID, peel target.PeelID, said string) job.Ended {
	t.Helper()
	data, err := canon.Marshal(wire.Return{JID: jid, Peel: peel, Result: wire.Result{Success: true, Data: said}, V: wire.Version})
	if err != nil {
		t.Fatal(err)
	}
	j := claim(peel)
	j.JID, j.Metadata = jid, map[string]string{job.MetaSource: job.SourceSchedule}
	j.Finish(job.End{Targets: 1, Returned: 1, Succeeded: 1}, time.Now())
	return job.Ended{Job: j, Return: data}
}

// storedReturn reads the return of a peel from the bucket. It is nil if there is none.
func storedReturn(t *testing.T, s *job.Store, jid wire.JID, peel target.PeelID) (r *wire.Return, err error) {
	t.Helper()
	err = s.Stored(t.Context(), jid, func(stored job.StoredReturn) {
		if stored.Sender == peel.Wire() {
			r = job.ReadReturn(jid, peel, stored.Data)
		}
	})
	return r, err
}

// createEnded returns what became of each.
func createEnded(t *testing.T, s *job.Store, all ...job.Ended) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	errs, told := make([]error, len(all)), make([]int, len(all))
	s.CreateEnded(ctx, all, func(i int, err error) {
		errs[i] = err
		told[i]++
	})
	for i, n := range told {
		if n != 1 {
			t.Errorf("told %d times of job %d", n, i)
		}
	}
	return errs
}

func TestJobsThatHaveEndedAreCreatedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, js jetstream.JetStream) {
		dispatched := create(t, s, claim("a", "b"))
		first := ended(t, wire.NewJID(), "a", "first")
		large := ended(t, wire.NewJID(), "a", "large")
		large.Job.Args = map[string]any{"text": strings.Repeat("x", job.MaxReturn)}
		all := []job.Ended{
			first, large, ended(t, first.Job.JID, "a", "second"), ended(t, first.Job.JID, "b", "not mine"),
			ended(t, dispatched.JID, "a", "not scheduled"), ended(t, wire.NewJID(), "a", "another"),
		}
		for range 2 {
			for i, err := range createEnded(t, s, all...) {
				if want := []error{nil, job.ErrTooLarge, nil, job.ErrExists, job.ErrExists, nil}[i]; !errors.Is(err, want) {
					t.Errorf("job %d: %v, want %v", i, err, want)
				}
			}
		}
		for i, want := range []string{"first", "", "first", "", "", "another"} {
			j := all[i].Job
			r, err := storedReturn(t, s, j.JID, j.Targets[0])
			if got := ""; err != nil || r != nil {
				if got, _ = r.Data.(string); err != nil || got != want {
					t.Errorf("the return of job %d is %q, %v", i, got, err)
				}
			} else if want != "" {
				t.Errorf("job %d has no return", i)
			}
		}
		for bucket, want := range map[string]uint64{"KV_active": 1, "KV_jobs": 2, "KV_job-returns": 2} {
			if stream, err := js.Stream(t.Context(), bucket); err != nil || stream.CachedInfo().State.LastSeq != want {
				t.Errorf("%s: %+v, %v", bucket, stream.CachedInfo().State, err)
			}
		}
	})
}

func TestNoReturnIsStoredWithoutItsRecord(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, js jetstream.JetStream) {
		stream, err := js.Stream(t.Context(), "KV_jobs")
		if err != nil {
			t.Fatal(err)
		}
		for name, trouble := range map[string]func(c *jetstream.StreamConfig){
			"refused": func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1 },
			"absent":  func(c *jetstream.StreamConfig) { c.Subjects = []string{"elsewhere.>"} },
			"silent":  func(c *jetstream.StreamConfig) { c.NoAck = true },
		} {
			c := stream.CachedInfo().Config
			trouble(&c)
			if _, err := js.UpdateStream(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			e := ended(t, wire.NewJID(), "a", "x")
			if errs := createEnded(t, s, e, ended(t, wire.NewJID(), "a", "y")); errs[0] == nil || errs[1] == nil {
				t.Errorf("%s: %v", name, errs)
			}
			if r, err := storedReturn(t, s, e.Job.JID, "a"); r != nil || err != nil {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
			if _, err := js.UpdateStream(t.Context(), stream.CachedInfo().Config); err != nil {
				t.Fatal(err)
			}
			if errs := createEnded(t, s, e); errs[0] != nil {
				t.Errorf("%s: and when that is over: %v", name, errs[0])
			}
		}
	})
}
