package master_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// recovery is how long after its deadline a job may still run whose master has died at the worst moment: 15 s until its
// heartbeat has ended, two looks of 20 s, and the reading of its returns.
const recovery = 60 * time.Second

// A line is what a process reaches the bus by. It can be cut and it can be frozen.
type line struct {
	bus *natstest.Bus

	mu     sync.Mutex
	cut    bool
	thawed chan struct{} // closed unless frozen
	hears  chan struct{} // closed unless deaf
	ends   []*lineEnd
}

func newLine(bus *natstest.Bus) *line {
	l := &line{bus: bus, thawed: make(chan struct{}), hears: make(chan struct{})}
	close(l.thawed)
	close(l.hears)
	return l
}

// InProcessConn is how the client dials. It does so with its connection locked, for which others would wait outside fake
// time: so nothing waits here for a thaw.
func (l *line) InProcessConn() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.thawed:
	default:
		return nil, errors.New("the line is frozen")
	}
	select {
	case <-l.hears:
	default:
		return nil, errors.New("the line is deaf")
	}
	if l.cut {
		return nil, errors.New("the line is cut")
	}
	c, err := l.bus.InProcessConn()
	if err != nil {
		return nil, err
	}
	end := &lineEnd{Conn: c, line: l, more: make(chan struct{}, 1)}
	l.ends = append(l.ends, end)
	go end.pump()
	return end, nil
}

// setCut ends the connection and refuses others until it is undone.
func (l *line) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut = cut; cut {
		for _, e := range l.ends {
			_ = e.Conn.Close()
			e.lose(l.hears)
		}
		l.ends = nil
	}
}

// setDeaf stops what is heard alone. What came meanwhile is heard when it is undone, unless the line was cut before.
func (l *line) setDeaf(deaf bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if deaf {
		l.hears = make(chan struct{})
	} else {
		close(l.hears)
	}
}

func (l *line) hearing() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hears
}

// freeze stops all that is said and heard, as it is for a process that does not run; what it would have said is said,
// and what it missed is heard, after thaw.
func (l *line) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.thawed = make(chan struct{})
}

func (l *line) thaw() {
	l.mu.Lock()
	select {
	case <-l.thawed:
	default:
		close(l.thawed)
	}
	ends := slices.Clone(l.ends)
	l.mu.Unlock()
	for _, e := range ends {
		e.sending.Lock()
		_ = e.send() // an error is of a connection that has ended
		e.sending.Unlock()
	}
}

func (l *line) frozen() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.thawed
}

// A lineEnd is one connection over a line. It keeps what is on its way while the line is frozen, as the kernel does.
type lineEnd struct {
	net.Conn
	line *line
	more chan struct{}

	mu   sync.Mutex
	came []byte
	err  error
	lost bool // what came is never heard

	sending sync.Mutex
	held    []byte // what is said while the line is frozen
}

func (e *lineEnd) pump() {
	buf := make([]byte, 64<<10)
	for {
		n, err := e.Conn.Read(buf)
		e.mu.Lock()
		e.came, e.err = append(e.came, buf[:n]...), err
		e.mu.Unlock()
		e.tell()
		if err != nil {
			return
		}
	}
}

func (e *lineEnd) tell() {
	select {
	case e.more <- struct{}{}:
	default:
	}
}

func (e *lineEnd) Read(p []byte) (int, error) {
	for {
		<-e.line.frozen()
		<-e.line.hearing()
		e.mu.Lock()
		if e.lost {
			e.came, e.err = nil, io.EOF
		}
		n, err := copy(p, e.came), e.err
		e.came = e.came[n:]
		e.mu.Unlock()
		if n > 0 || len(p) == 0 {
			return n, nil
		}
		if err != nil {
			e.tell() // the next reading, too
			return 0, io.EOF
		}
		<-e.more
	}
}

// lose drops what came and was not heard, if the line is deaf.
func (e *lineEnd) lose(hears <-chan struct{}) {
	select {
	case <-hears:
	default:
		e.mu.Lock()
		e.lost = true
		e.mu.Unlock()
	}
}

func (e *lineEnd) Write(p []byte) (int, error) {
	e.sending.Lock()
	defer e.sending.Unlock()
	e.held = append(e.held, p...)
	return len(p), e.send()
}

// send is for who holds the lock sending.
func (e *lineEnd) send() error {
	select {
	case <-e.line.frozen():
	default:
		return nil
	}
	_, err := e.Conn.Write(e.held)
	e.held = e.held[:0]
	return err
}

// The bus's side of a pipe always reads, so nothing has to be given up.
func (e *lineEnd) SetDeadline(time.Time) error      { return nil }
func (e *lineEnd) SetReadDeadline(time.Time) error  { return nil }
func (e *lineEnd) SetWriteDeadline(time.Time) error { return nil }

// A site is a bus with masters and peels, all of them real, in fake time.
type site struct {
	t     *testing.T
	bus   *natstest.Bus
	dir   string
	js    jetstream.JetStream
	store *job.Store
	alice *nats.Conn
	begun begun
	rest  func() // until nothing moves

	ledger *ledger // nil: nothing is purged
}

// begun is how often peels have begun a job, which outlives them as it does their crashes.
type begun struct {
	mu    sync.Mutex
	times map[wire.JID]map[target.PeelID]int
}

func (b *begun) of(jid wire.JID) map[target.PeelID]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.times[jid])
}

// A listener is the log of a peel. It hears what passes the fence.
type listener struct {
	begun *begun
	peel  target.PeelID
}

func (l listener) Enabled(context.Context, slog.Level) bool { return true }
func (l listener) WithGroup(string) slog.Handler            { return l }

func (l listener) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l listener) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "request accepted" {
		return nil
	}
	var jid wire.JID
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "jid" {
			jid = wire.JID(a.Value.String())
		}
		return true
	})
	l.begun.mu.Lock()
	defer l.begun.mu.Unlock()
	if l.begun.times == nil {
		l.begun.times = map[wire.JID]map[target.PeelID]int{}
	}
	if l.begun.times[jid] == nil {
		l.begun.times[jid] = map[target.PeelID]int{}
	}
	l.begun.times[jid][l.peel]++
	return nil
}

func atSite(t *testing.T, f func(t *testing.T, s *site)) {
	t.Helper()
	dir := t.TempDir()
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		s := &site{t: t, bus: bus, dir: dir, js: bus.JetStream(t), alice: bus.Conn(t, grants.RoleOperator, "alice"), rest: synctest.Wait}
		var err error
		if s.store, err = job.NewStore(t.Context(), s.js); err != nil {
			t.Fatal(err)
		}
		f(t, s)
	})
}

// A process is a master or a peel that runs.
type process struct {
	*line
	nc   *nats.Conn // a master's
	stop func()     // in peace
}

// kill takes the bus away for ever before it ends the process, which so has no part in what follows.
func (p *process) kill() {
	p.setCut(true)
	p.thaw()
	p.stop()
}

func (s *site) process(run func(context.Context) error) *process {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	p := &process{stop: sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			s.t.Errorf("a process ended with %v", err)
		}
	})}
	s.t.Cleanup(p.stop)
	return p
}

// master starts a master and waits until it is ready. It may have the name of one that has ended. If it ends by itself
// it is started again, as its unit would be.
func (s *site) master(name string, change ...func(*master.Options)) *process {
	s.t.Helper()
	l, ready := newLine(s.bus), make(chan struct{}, 1)
	var conn atomic.Pointer[nats.Conn]
	o := master.Options{
		ID: name, DataDir: filepath.Join(s.dir, name), NATS: s.bus.URL(),
		Connect: append(s.bus.Options(grants.RoleMaster, name), nats.InProcessServer(l), keepsNothing(s.t)),
		Services: []master.Service{func(ctx context.Context, nc *nats.Conn, _ *fleet.Fleet) error {
			conn.Store(nc)
			<-ctx.Done()
			return nil
		}},
		Ready: func(master.Info) {
			select {
			case ready <- struct{}{}:
			default:
			}
		},
	}
	for _, f := range change {
		f(&o)
	}
	p := s.process(func(ctx context.Context) error {
		for ; ctx.Err() == nil; time.Sleep(time.Second) {
			m, err := master.New(o)
			if err != nil {
				return err
			}
			if err := m.Run(ctx); err != nil && ctx.Err() == nil {
				s.t.Logf("%s ended with %v", name, err)
			}
		}
		return nil
	})
	p.line = l
	<-ready
	p.nc = conn.Load()
	return p
}

// peel starts a peel, whose files may be there from an earlier run.
func (s *site) peel(id target.PeelID) *process {
	s.t.Helper()
	l := newLine(s.bus)
	m, err := peel.New(peel.Options{
		ID: id, DataDir: filepath.Join(s.dir, "peel-"+id.Wire()), URL: s.bus.URL(), Simulated: true, Zone: time.UTC,
		Log:     slog.New(listener{begun: &s.begun, peel: id}),
		Connect: append(s.bus.Options(grants.RolePeel, id.Wire()), nats.InProcessServer(l), keepsNothing(s.t)),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	p := s.process(m.Run)
	p.line = l
	return p
}

// keepsNothing fails the test if a connection would send later what could not be sent.
func keepsNothing(t *testing.T) nats.Option {
	return func(o *nats.Options) error {
		if o.ReconnectBufSize != -1 {
			t.Errorf("%s keeps up to %d bytes while the bus is away", o.Name, o.ReconnectBufSize)
		}
		return nil
	}
}

func (s *site) peels(ids ...target.PeelID) (all []*process) {
	for _, id := range ids {
		all = append(all, s.peel(id))
	}
	synctest.Wait()
	return all
}

// ping asks nothing of a peel but an answer, nap one after so long.
func ping(ids ...target.PeelID) job.Spec {
	return job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: ids, TargetExpr: "*", Timeout: 30 * time.Second}
}

func nap(takes time.Duration, ids ...target.PeelID) job.Spec {
	spec := ping(ids...)
	spec.Function, spec.Args = "test.sleep", map[string]any{"duration": takes.String()}
	return spec
}

// ask asks for a job once.
func (s *site) ask(spec job.Spec) (*job.Job, error) {
	data, err := canon.Marshal(spec)
	if err != nil {
		s.t.Fatal(err)
	}
	msg, err := s.alice.Request(wire.Dispatch("alice"), data, 20*time.Second)
	if err != nil {
		return nil, err
	}
	if code := msg.Header.Get(micro.ErrorCodeHeader); code != "" {
		return nil, fmt.Errorf("%s %s", code, msg.Header.Get(micro.ErrorHeader))
	}
	j := new(job.Job)
	return j, canon.Unmarshal(msg.Data, j)
}

// people is what the command line of an operator uses.
func (s *site) people(name string) *api.Client {
	s.t.Helper()
	creds, err := s.bus.Keys.Creds(grants.RoleOperator, name, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := api.Connect(api.ClientOptions{URL: s.bus.URL(), Creds: creds, Connect: []nats.Option{nats.InProcessServer(s.bus)}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// insist asks for a job until it is known to run, as a person does.
func (s *site) insist(spec job.Spec) *job.Job {
	s.t.Helper()
	for range 60 {
		if j, err := s.ask(spec); err == nil {
			return j
		}
		time.Sleep(2 * time.Second)
	}
	s.t.Fatalf("job %s was never accepted", spec.JID)
	return nil
}

func (s *site) record(jid wire.JID) *job.Job {
	s.t.Helper()
	j, err := s.store.Get(s.t.Context(), jid)
	if err != nil {
		s.t.Fatal(err)
	}
	return j
}

func (s *site) rows(jid wire.JID) []job.Row {
	s.t.Helper()
	var rows []job.Row
	for after := target.PeelID(""); ; after = rows[len(rows)-1].Peel {
		page, err := s.store.Rows(s.t.Context(), jid, after)
		if err != nil {
			s.t.Fatal(err)
		}
		if rows = append(rows, page.Rows...); page.Next == "" {
			return rows
		}
	}
}

// said is what the streams have of a job.
type said struct {
	ends    int
	returns map[target.PeelID][]storing // by peel, in the order of storing
}

// history reads the stream of events and the bucket of returns.
func (s *site) history() map[wire.JID]*said {
	s.t.Helper()
	stream, err := s.js.Stream(s.t.Context(), "job-events")
	if err != nil {
		s.t.Fatal(err)
	}
	consumer, err := stream.OrderedConsumer(s.t.Context(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[wire.JID]*said{}
	for left := stream.CachedInfo().State.Msgs; left > 0; left-- {
		m, err := consumer.Next()
		for errors.Is(err, nats.ErrNoResponders) { // a new consumer is not known to all servers of a cluster at once
			time.Sleep(20 * time.Millisecond)
			m, err = consumer.Next()
		}
		if err != nil {
			s.t.Fatal(err)
		}
		jid, _, err := wire.JobSubject(m.Subject())
		if err != nil {
			continue
		}
		h := all[jid]
		if h == nil {
			h = new(said)
			all[jid] = h
		}
		if m.Subject() == wire.StatusOf(jid) {
			h.ends++
		}
	}
	storings := s.storings()
	for jid, h := range all {
		h.returns = storings[jid]
	}
	return all
}

// check fails the test unless all jobs have ended as they must. Late is how long after its deadline one may have.
func (s *site) check(late time.Duration, jids ...wire.JID) {
	s.t.Helper()
	s.rest()
	active, _, err := s.store.ListLive(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	all := s.history()
	for _, jid := range jids {
		j := s.record(jid)
		if !j.Status.Final() {
			s.t.Errorf("%s is %s %v after its deadline, owner %q", jid, j.Status, time.Since(j.Deadline), j.Owner)
			continue
		}
		if over := j.Updated.Sub(j.Deadline); over > late {
			s.t.Errorf("%s ended %v after its deadline", jid, over)
		}
		if slices.ContainsFunc(active, func(a job.Job) bool { return a.JID == jid }) {
			s.t.Errorf("%s has ended and is in the index", jid)
		}
		h := all[jid]
		if h == nil || h.ends != 1 {
			s.t.Errorf("%s: not one terminal event: %+v", jid, h)
			continue
		}
		s.checkRows(j, h)
	}
}

// checkRows compares what the peels have sent with what is told of them, and the status with both.
func (s *site) checkRows(j *job.Job, h *said) {
	s.t.Helper()
	end := job.End{Targets: len(j.Targets), Canceled: j.Cancel != nil, Reason: j.Metadata[job.MetaFailedReason]}
	rows, begun := s.rows(j.JID), s.begun.of(j.JID)
	if len(rows) != len(j.Targets) {
		s.t.Errorf("%s has %d rows for %d targets", j.JID, len(rows), len(j.Targets))
	}
	for _, row := range rows {
		sent := h.returns[row.Peel]
		s.checkReturns(j, row, sent, begun[row.Peel])
		if len(sent) == 0 || sent[0].isLate(j) {
			continue
		}
		end.Returned++
		if sent[0].Success {
			end.Succeeded++
		}
		if sent[0].Outcome == wire.Canceled {
			end.Stopped++
		}
	}
	if want := end.Status(); j.Status != want || j.ReturnCount != end.Returned || j.SuccessCount != end.Succeeded {
		s.t.Errorf("%s is %s with %d returns and %d successes, its rows make it %s: %+v\n%+v\n%+v", j.JID, j.Status, j.ReturnCount, j.SuccessCount, want, end, j, h.returns)
	}
}

// checkReturns compares the returns of one peel that were stored with how often it has begun and with its row. The first
// one counts if the job had not ended; another can be stored only when the first has been purged.
func (s *site) checkReturns(j *job.Job, row job.Row, sent []storing, begun int) {
	s.t.Helper()
	if ran := runs(sent); ran > 1 && s.ledger == nil || begun > 1 || begun < min(ran, 1) {
		s.t.Errorf("%s was begun %d times by %s and ended %d times: %+v", j.JID, begun, row.Peel, ran, sent)
	}
	if begun > 0 && len(sent) == 0 {
		s.t.Errorf("%s: what %s returned is lost, its row is %+v", j.JID, row.Peel, row)
	}
	there := slices.DeleteFunc(slices.Clone(sent), func(r storing) bool { return r.purged })
	if len(there) > 1 || (row.Return == nil) != (len(there) == 0) || row.Return != nil && row.Late != there[0].isLate(j) {
		s.t.Errorf("%s: of the returns of %s there are %+v, its row is %+v", j.JID, row.Peel, there, row)
	}
	for i, r := range sent {
		if i > 0 && (r.sequence <= j.LastReturn || !sent[i-1].purged) {
			s.t.Errorf("%s: a return of %s was stored again while the job lived: %+v", j.JID, row.Peel, sent)
		}
	}
}

// isLate reports whether a return was stored after the end of its job.
func (r storing) isLate(j *job.Job) bool {
	return r.sequence > j.LastReturn && j.ReturnCount != j.TargetCount
}

// runs is how many runs of a job the returns of one peel are of. Each has an end of its own; a peel that could not
// know whether its return had arrived sends it again.
func runs(returns []storing) int {
	ends := map[int64]bool{}
	for _, r := range returns {
		if r.Outcome != wire.Rejected {
			ends[r.Finished.UnixNano()] = true
		}
	}
	return len(ends)
}
