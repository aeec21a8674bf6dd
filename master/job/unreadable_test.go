package job_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestALiveRecordThatCannotBeDecodedHidesNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, js jetstream.JetStream) {
		first := create(t, s, claim("a"))
		damaged, foreign := create(t, s, claim("b")), wire.NewJID()
		record, err := js.KeyValue(t.Context(), "active")
		if err != nil {
			t.Fatal(err)
		}
		last := create(t, s, claim("c"))
		copied, err := record.Get(t.Context(), string(last.JID))
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range map[wire.JID][]byte{damaged.JID: []byte("\xc1damaged"), foreign: copied.Value()} {
			if _, err := record.Put(t.Context(), string(key), value); err != nil {
				t.Fatal(err)
			}
		}
		live, unreadable, err := s.ListLive(t.Context())
		if err != nil || len(live) != 2 || live[0].JID != first.JID || live[1].JID != last.JID {
			t.Errorf("%d live jobs, %v", len(live), err)
		}
		if len(unreadable) != 2 {
			t.Fatalf("unreadable: %v", unreadable)
		}
		for _, jid := range []wire.JID{damaged.JID, foreign} {
			if !strings.Contains(unreadable[0].Error()+unreadable[1].Error(), string(jid)) {
				t.Errorf("%v do not name %s", unreadable, jid)
			}
		}
		ids, err := s.LiveIDs(t.Context())
		if err != nil || len(ids) != 4 || !ids[damaged.JID] || !ids[foreign] {
			t.Errorf("the IDs of live jobs are %v, %v", ids, err)
		}
	})
}

// TestAnOlderEndDoesNotReplaceANewerOne has a master stop between the end of a job and its copy, for so long that the job was
// archived by another master, aged out, and was run again under the same ID.
func TestAnOlderEndDoesNotReplaceANewerOne(t *testing.T) {
	for name, targets := range map[string][2][]target.PeelID{
		"few targets":  {{"a"}, {"b"}},
		"many targets": {fleet(600), fleet(700)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *job.Store, js jetstream.JetStream) {
				run := func(j *job.Job) *job.Job {
					create(t, s, j)
					j.Epoch = j.Revision
					j.Finish(job.End{Targets: len(j.Targets)}, time.Now())
					end(t, s, j)
					return j
				}
				older := run(claim(targets[0]...))
				stream, err := js.Stream(t.Context(), "KV_jobs")
				if err == nil {
					err = stream.Purge(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				newer := claim(targets[1]...)
				newer.JID = older.JID
				run(newer)
				if err := s.Archive(t.Context(), older, 0); err != nil {
					t.Error(err)
				}
				check := func(when string) {
					t.Helper()
					got, err := s.Get(t.Context(), older.JID)
					if err != nil {
						t.Fatal(err)
					}
					if got.Epoch != newer.Epoch || len(got.Targets) != len(newer.Targets) || got.Targets[0] != newer.Targets[0] {
						t.Errorf("%s: the end is that of epoch %d with %d targets, want epoch %d with %d",
							when, got.Epoch, len(got.Targets), newer.Epoch, len(newer.Targets))
					}
				}
				check("after the older end")
				if err := stream.Purge(t.Context()); err != nil {
					t.Fatal(err)
				}
				for _, j := range []*job.Job{older, newer, newer} {
					if err := s.Archive(t.Context(), j, 0); err != nil {
						t.Error(err)
					}
				}
				check("after the older end and the newer one")
			})
		})
	}
}
