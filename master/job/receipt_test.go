package job_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A signed is a run with its receipt, as a peel and masters make them.
type signed struct {
	job  *job.Job
	ret  *wire.Return
	keys []credential.PeelKey
}

func peelKey(t testing.TB) (nkeys.KeyPair, credential.PeelKey) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return pair, credential.PeelKey{Public: public}
}

// dispatched returns a job of a person that a peel has run.
func dispatched(t testing.TB, pair nkeys.KeyPair, key credential.PeelKey, peel target.PeelID) signed {
	t.Helper()
	now := time.Now()
	j := &job.Job{
		Spec:    job.Spec{JID: wire.NewJID(), Function: "cmd.run", StateID: "df", Args: map[string]any{"shell": true}},
		Created: now.Add(-time.Second), Updated: now, Deadline: now.Add(time.Minute),
	}
	r := &wire.Return{
		JID: j.JID, Peel: peel, Result: wire.Result{Success: true, Data: map[string]any{"n": int64(1)}, Duration: time.Second}, Epoch: 7,
		Finished: now, Receipt: &wire.Receipt{Number: 4, Document: "d1"},
	}
	s, err := r.Statement(settings.Ran("cmd.run df", j.Args))
	sign(t, pair, s, err, r.Receipt)
	return signed{j, r, []credential.PeelKey{key}}
}

func sign(t testing.TB, pair nkeys.KeyPair, s wire.Statement, err error, r *wire.Receipt) {
	t.Helper()
	text, failed := s.Text()
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	if r.Signature, err = pair.Sign(text); err != nil {
		t.Fatal(err)
	}
}

func TestAReceiptProvesOneRunOfOnePeel(t *testing.T) {
	pair, key := peelKey(t)
	_, other := peelKey(t)
	elsewhere := func() signed { return dispatched(t, pair, key, "web-01") }
	for name, tc := range map[string]struct {
		change func(*signed)
		want   error
	}{
		"as it was":       {func(*signed) {}, nil},
		"no receipt":      {func(s *signed) { s.ret.Receipt = nil }, job.ErrNoReceipt},
		"nobody's":        {func(s *signed) { s.keys = nil }, job.ErrUnknownKeys},
		"another peel's":  {func(s *signed) { s.keys[0] = other }, job.ErrNotProven},
		"as another peel": {func(s *signed) { s.ret.Peel = "web-02" }, job.ErrNotProven},
		"of another run":  {func(s *signed) { s.ret.Receipt = elsewhere().ret.Receipt }, job.ErrNotProven},
		"for another job": {func(s *signed) { s.ret.JID = wire.NewJID() }, job.ErrNotProven},
		"another result":  {func(s *signed) { s.ret.Data = map[string]any{"n": int64(2)} }, job.ErrNotProven},
		"a success":       {func(s *signed) { s.ret.Success = false }, job.ErrNotProven},
		"a duration":      {func(s *signed) { s.ret.Duration++ }, job.ErrNotProven},
		"a time":          {func(s *signed) { s.ret.Finished = s.ret.Finished.Add(1) }, job.ErrNotProven},
		"a function":      {func(s *signed) { s.job.Function = "test.ping" }, job.ErrNotProven},
		"an ID":           {func(s *signed) { s.job.StateID = "rm" }, job.ErrNotProven},
		"arguments":       {func(s *signed) { s.job.Args = nil }, job.ErrNotProven},
		"a number":        {func(s *signed) { s.ret.Receipt.Number++ }, job.ErrNotProven},
		"settings":        {func(s *signed) { s.ret.Receipt.Document = "d2" }, job.ErrNotProven},
		"no call, though it was not interrupted": {func(s *signed) {
			st, err := s.ret.Statement("")
			sign(t, pair, st, err, s.ret.Receipt)
		}, job.ErrNotProven},
		"a key that was replaced since": {func(s *signed) {
			s.keys = []credential.PeelKey{other, {Public: key.Public, Revoked: s.ret.Finished.Add(1)}}
		}, nil},
		"a key that was revoked before":  {func(s *signed) { s.keys[0].Revoked = s.ret.Finished.Add(-1) }, job.ErrRevokedKey},
		"a clock that is behind":         {func(s *signed) { s.job.Created = s.ret.Finished.Add(2 * time.Minute) }, job.ErrWrongClock},
		"a clock beyond the deadline":    {func(s *signed) { s.job.Deadline = s.ret.Finished.Add(-2 * time.Minute) }, job.ErrWrongClock},
		"a clock that is a little apart": {func(s *signed) { s.job.Created = s.ret.Finished.Add(50 * time.Second) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := elsewhere()
			tc.change(&s)
			if _, err := s.job.Prove(s.ret, s.keys); !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
		})
	}
}

func TestAnInterruptedRunHasAReceiptWithoutItsCall(t *testing.T) {
	pair, key := peelKey(t)
	s := dispatched(t, pair, key, "web-01")
	s.ret.Success, s.ret.Outcome = false, wire.Interrupted
	st, err := s.ret.Statement("")
	sign(t, pair, st, err, s.ret.Receipt)
	if _, err := s.job.Prove(s.ret, s.keys); err != nil {
		t.Error(err)
	}
}

func TestAReceiptOfTheScheduleProvesItsRecord(t *testing.T) {
	pair, key := peelKey(t)
	at := time.Now().Add(-time.Minute)
	r := wire.ScheduledResult{
		JID: wire.NewJID(), Peel: "web-01", Entry: "beat", Trigger: wire.TriggerTimer, Function: "test.ping", Result: wire.Result{Success: true},
		Nominal: at, Fired: at.Add(1), Started: at.Add(2), Finished: at.Add(3), Commit: "c0ffee", Receipt: &wire.Receipt{Number: 9},
	}
	s, err := r.Statement(settings.Ran(r.Function, r.Args))
	sign(t, pair, s, err, r.Receipt)
	stamp := func(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }
	metadata := map[string]string{
		job.MetaSource: job.SourceSchedule, job.MetaSchedule: "beat", job.MetaTrigger: "timer", job.MetaCommit: "c0ffee", job.MetaNominal: stamp(r.Nominal),
		job.MetaFired: stamp(r.Fired), job.MetaStarted: stamp(r.Started), job.MetaFinished: stamp(r.Finished),
	}
	record := func() *job.Job {
		return &job.Job{Spec: job.Spec{JID: r.JID, Function: "test.ping", Metadata: maps.Clone(metadata)}, Updated: r.Finished.Add(time.Hour)}
	}
	keys := []credential.PeelKey{key}
	proof, err := record().Prove(r.Return(), keys)
	if err != nil || !proof.Began.Equal(r.Started) || proof.Number != 9 || proof.Key != key.Public {
		t.Fatalf("%+v, %v", proof, err)
	}
	for _, name := range []string{job.MetaSchedule, job.MetaTrigger, job.MetaCommit, job.MetaNominal, job.MetaFired, job.MetaStarted, job.MetaFinished} {
		j := record()
		if j.Metadata[name] += "1"; name == job.MetaNominal || name == job.MetaFired || name == job.MetaStarted || name == job.MetaFinished {
			j.Metadata[name] = stamp(at.Add(-time.Hour))
		}
		if _, err := j.Prove(r.Return(), keys); !errors.Is(err, job.ErrNotProven) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	ahead := record()
	ahead.Updated = r.Finished.Add(-2 * time.Minute)
	if _, err := ahead.Prove(r.Return(), keys); !errors.Is(err, job.ErrWrongClock) {
		t.Errorf("a clock that is ahead: %v", err)
	}
}

func BenchmarkProve(b *testing.B) {
	pair, key := peelKey(b)
	s := dispatched(b, pair, key, "web-01")
	for b.Loop() {
		if _, err := s.job.Prove(s.ret, s.keys); err != nil {
			b.Fatal(err)
		}
	}
}
