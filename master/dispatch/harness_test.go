package dispatch_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// system is a bus in fake time with one operator.
type system struct {
	t     *testing.T
	bus   *natstest.Bus
	js    jetstream.JetStream
	store *job.Store
	alice *nats.Conn
	hook  func(step string) // of masters that are started while it is set
	lossy bool              // masters that are started drop most of what they receive
	room  int64             // bytes of messages that may wait on masters that are started; 0: as many as usual
	wide  bool              // masters that are started take the bus for a cluster
	peels map[target.PeelID]*peel
	runs  map[string]int // of masters that have a scanner, by name
}

func bubble(t *testing.T, f func(t *testing.T, s *system)) {
	t.Helper()
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		store, err := job.NewStore(t.Context(), js)
		if err != nil {
			t.Fatal(err)
		}
		f(t, &system{t: t, bus: b, js: js, store: store, alice: b.Conn(t, grants.RoleOperator, "alice"), runs: map[string]int{}})
	})
}

// master starts a dispatcher, which ends with the test if stop is not called.
func (s *system) master(name string, change ...func(*dispatch.Options)) (d *dispatch.Dispatcher, stop func()) {
	s.t.Helper()
	return s.masterOn(s.bus.Conn(s.t, grants.RoleMaster, name, nats.ReconnectBufSize(-1)), name, change...)
}

// masterOn is master on a connection that was made for it.
func (s *system) masterOn(nc *nats.Conn, name string, change ...func(*dispatch.Options)) (d *dispatch.Dispatcher, stop func()) {
	s.t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		s.t.Fatal(err)
	}
	store, err := job.NewStore(s.t.Context(), js)
	if err != nil {
		s.t.Fatal(err)
	}
	o := dispatch.Options{Conn: nc, Store: store, Owner: name}
	for _, c := range change {
		c(&o)
	}
	if d, err = dispatch.New(o); err != nil {
		s.t.Fatal(err)
	}
	if s.hook != nil {
		d.OnStep(s.hook)
	}
	if s.lossy {
		d.Overrun()
	}
	if s.room > 0 {
		d.LimitPending(s.room)
	}
	if s.wide {
		d.InCluster()
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("%s ended with %v", name, err)
		}
	})
	s.t.Cleanup(stop)
	synctest.Wait()
	return d, stop
}

// peel is a connection with a peel's credential that answers as it is told.
type peel struct {
	t    *testing.T
	id   target.PeelID
	nc   *nats.Conn
	work sync.WaitGroup
	mu   sync.Mutex
	reqs []wire.Request
}

// peel starts a peel; on may be nil, and is called once for each job and epoch, beside what else is heard.
func (s *system) peel(id target.PeelID, on func(p *peel, r wire.Request)) *peel {
	s.t.Helper()
	p := &peel{t: s.t, id: id, nc: s.bus.Conn(s.t, grants.RolePeel, id.Wire())}
	_, err := p.nc.Subscribe(wire.Cmd(id.Wire()), func(msg *nats.Msg) {
		r, err := wire.DecodeRequest(msg)
		if err != nil {
			s.t.Error(err)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		known := slices.ContainsFunc(p.reqs, func(o wire.Request) bool { return o.JID == r.JID && o.Epoch == r.Epoch })
		if p.reqs = append(p.reqs, r); on != nil && !known {
			p.work.Go(func() { on(p, r) })
		}
	})
	s.t.Cleanup(func() {
		synctest.Wait() // a request that is on its way begins work
		p.work.Wait()
	})
	if err == nil {
		err = p.nc.Flush()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if s.peels == nil {
		s.peels = map[target.PeelID]*peel{}
	}
	s.peels[id] = p
	return p
}

// sent returns how many requests a peel has; one that was not started has none.
func (s *system) sent(id target.PeelID) int {
	if p := s.peels[id]; p != nil {
		return len(p.requests())
	}
	return 0
}

func (p *peel) requests() []wire.Request {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reqs
}

func (p *peel) publish(subject string, v any) {
	data, err := canon.Marshal(v)
	if err == nil {
		err = p.nc.Publish(subject, data)
	}
	if err != nil {
		p.t.Error(err)
	}
}

func (p *peel) ack(r wire.Request) {
	p.publish(wire.AckOf(r.JID, p.id.Wire()), wire.Ack{JID: r.JID, Peel: p.id, Epoch: r.Epoch, Time: time.Now(), V: wire.Version})
}

func (p *peel) result(r wire.Request, result wire.Result) {
	p.publish(wire.ReturnOf(r.JID, p.id.Wire()), wire.Return{JID: r.JID, Peel: p.id, Result: result, Epoch: r.Epoch, Finished: time.Now(), V: wire.Version})
}

// deliver sends a return until the bus has stored it, as a peel's outbox does.
func (p *peel) deliver(r wire.Request, result wire.Result) {
	data, err := canon.Marshal(wire.Return{JID: r.JID, Peel: p.id, Result: result, Epoch: r.Epoch, Finished: time.Now(), V: wire.Version})
	if err != nil {
		p.t.Error(err)
	}
	for !p.nc.IsClosed() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		answer, err := p.nc.RequestWithContext(ctx, wire.ReturnOf(r.JID, p.id.Wire()), data)
		cancel()
		if err == nil && (!strings.Contains(string(answer.Data), `"error"`) || strings.Contains(string(answer.Data), "maximum messages per subject")) {
			return
		}
		time.Sleep(time.Second)
	}
}

// pong acknowledges and succeeds at once.
func pong(p *peel, r wire.Request) {
	p.ack(r)
	p.deliver(r, wire.Result{Success: true, Data: true})
}

func ask(change func(*job.Spec), targets ...target.PeelID) job.Spec {
	s := job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: targets, TargetExpr: "*"}
	if change != nil {
		change(&s)
	}
	return s
}

// answerError is how a refused request comes back.
type answerError struct{ code, text string }

func (e *answerError) Error() string { return e.code + " " + e.text }

// request asks for a job as an operator does.
func (s *system) request(nc *nats.Conn, user string, spec job.Spec) (*job.Job, error) {
	s.t.Helper()
	data, err := canon.Marshal(spec)
	if err != nil {
		s.t.Fatal(err)
	}
	msg, err := nc.Request(wire.Dispatch(user), data, time.Minute)
	if err != nil {
		return nil, err
	}
	if code := msg.Header.Get(micro.ErrorCodeHeader); code != "" {
		return nil, &answerError{code, msg.Header.Get(micro.ErrorHeader)}
	}
	j := new(job.Job)
	if err := canon.Unmarshal(msg.Data, j); err != nil {
		s.t.Fatal(err)
	}
	return j, nil
}

func (s *system) dispatch(spec job.Spec) *job.Job {
	s.t.Helper()
	j, err := s.request(s.alice, "alice", spec)
	if err != nil {
		s.t.Fatal(err)
	}
	return j
}

// record reads what is stored of a job once nothing moves.
func (s *system) record(jid wire.JID) *job.Job {
	s.t.Helper()
	synctest.Wait()
	j, err := s.store.Get(s.t.Context(), jid)
	if err != nil {
		s.t.Fatal(err)
	}
	return j
}

// active reports whether a job is among the live ones.
func (s *system) active(jid wire.JID) bool {
	s.t.Helper()
	synctest.Wait()
	all, _, err := s.store.ListLive(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, a := range all {
		if a.JID == jid {
			return true
		}
	}
	return false
}

// events are the subjects of a job's messages in the stream, in order.
func (s *system) events(jid wire.JID) []string {
	s.t.Helper()
	stream, err := s.js.Stream(s.t.Context(), "job-events")
	if err != nil {
		s.t.Fatal(err)
	}
	var subjects []string
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(s.t.Context(), seq)
		if err != nil {
			s.t.Fatal(err)
		}
		if at, _, err := wire.JobSubject(m.Subject); err == nil && at == jid {
			subjects = append(subjects, m.Subject)
		}
	}
	return subjects
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

// provision makes the streams that are missing.
func provision(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	if _, err := natsd.Provision(t.Context(), js, bucket.Kept{}); err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if e, ok := errors.AsType[*answerError](err); !ok || e.code != code {
		t.Errorf("answered %v, want code %s", err, code)
	}
}
