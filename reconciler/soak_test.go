package reconciler

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var soakPeels = flag.Int("soak.peels", 4, "of the fleet")

var soakTime = flag.Duration("soak.time", 40*time.Minute, "of the fleet, in fake time")

const (
	soakEvery = 10 * time.Minute // of the entry that all peels report, by cron
)

// A soak is a whole fleet for hours of fake time: masters with the reconciler, and peels, that are all the real ones.
type soak struct {
	t      *testing.T
	bus    *natstest.Bus
	dir    string
	work   *worktree.Work
	client *api.Client

	ids     []target.PeelID
	peels   []func() // that end them
	masters []func()

	asked, answered int // targets of the dispatched jobs, and those that have returned
	goroutines      int // when everything ran for the first time
	heap            uint64
}

func soakFiles(round int) map[string]string {
	return map[string]string{
		"top.yaml": "base:\n  '*': [all]\n",
		"settings/all.yaml": fmt.Sprintf(`marker: %d
schedule:
  report: {cron: '*/10 * * * *', timezone: UTC, module: test.ping, return_job: true}
  quiet: {interval: 5m, module: test.echo, args: {text: round %d}}
  nightly: {cron: '0 3 * * *', module: test.ping}
  weekly: {cron: '0 4 * * 0', module: test.ping}
`, round, round/3),
	}
}

// TestHoursOfAFleet commits, dispatches and restarts, and counts at the end what peels have run and masters keep.
func TestHoursOfAFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("hours of a bus")
	}
	dir := t.TempDir()
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		files := fstest.MapFS{}
		for name, content := range soakFiles(0) {
			files[name] = text(content)
		}
		work, err := worktree.Init(filepath.Join(dir, "work"), files, "first", ada)
		if err != nil {
			t.Fatal(err)
		}
		s := &soak{t: t, bus: bus, dir: dir, work: work}
		s.begin()
		time.Sleep(time.Until(time.Now().Truncate(soakEvery).Add(soakEvery + 30*time.Second)))
		began := time.Now()
		for time.Since(began) < *soakTime { // what takes longer than a minute goes on into the next
			s.minute(int(time.Since(began) / time.Minute))
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + 30*time.Second)))
		}
		s.count()
	})
}

func (s *soak) begin() {
	creds, err := s.bus.Keys.Creds(grants.RoleOperator, "alice", 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.masters = []func(){s.master(0), s.master(1)}
	s.client, err = api.Connect(api.ClientOptions{URL: s.bus.URL(), Creds: creds, Connect: []nats.Option{nats.InProcessServer(s.bus), nats.MaxReconnects(-1)}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.client.Close)
	for i := range *soakPeels {
		s.ids = append(s.ids, target.PeelID(fmt.Sprintf("host-%04d", i)))
		s.peels = append(s.peels, s.peel(i))
	}
}

// run starts a process and returns what ends it. One that ends by itself is started again.
func (s *soak) run(what string, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			err := run(ctx)
			if ctx.Err() != nil {
				return
			}
			s.t.Logf("%s ended with %v", what, err)
			time.Sleep(time.Second)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	s.t.Cleanup(stop)
	return stop
}

func (s *soak) master(i int) (stop func()) {
	name := fmt.Sprintf("m%d", i)
	r, err := New(Options{Repo: gitrepo.Options{URL: s.work.Dir(), Dir: filepath.Join(s.dir, name)}, Owner: name, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.t.Fatal(err)
	}
	var once sync.Once
	ready := make(chan struct{})
	o := master.Options{
		ID: name, DataDir: filepath.Join(s.dir, name), NATS: s.bus.URL(), Connect: s.bus.Options(grants.RoleMaster, name),
		Services: []master.Service{r.unwatched}, Ready: func(master.Info) { once.Do(func() { close(ready) }) },
	}
	stop = s.run(name, func(ctx context.Context) error {
		m, err := master.New(o)
		if err != nil {
			return err
		}
		return m.Run(ctx)
	})
	<-ready
	return stop
}

// unwatched is Run, but that the local repo is polled and not watched.
func (r *Reconciler) unwatched(ctx context.Context, nc *nats.Conn, fleet *fleet.Fleet) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return r.lead(ctx, js, func(ctx context.Context, checkLease func() error) error {
		t, err := r.newTerm(ctx, nc, js, fleet, checkLease)
		if err != nil {
			return err
		}
		return errors.Join(t.run(ctx, nil), t.source.Close())
	})
}

func (s *soak) peel(i int) (stop func()) {
	id := s.ids[i]
	return s.run(string(id), func(ctx context.Context) error {
		p, err := peel.New(peel.Options{
			ID: id, DataDir: filepath.Join(s.dir, string(id)), URL: s.bus.URL(), Connect: s.bus.Options(grants.RolePeel, id.Wire()),
			Zone: time.UTC, Simulated: true,
		})
		if err != nil {
			return err
		}
		return p.Run(ctx)
	})
}

// minute is what happens half a minute after each: nothing is due then, so that no run falls between two processes.
func (s *soak) minute(m int) {
	if m%10 == 3 {
		s.commit(m)
	}
	if m%5 == 2 {
		s.dispatch()
	}
	if m%7 == 6 {
		for i := m % 3; i < len(s.ids); i += 3 {
			s.peels[i]()
			s.peels[i] = s.peel(i)
		}
	}
	if m%25 == 15 {
		i := m / 25 % 2
		s.masters[i]()
		s.masters[i] = s.master(i)
	}
	if m%60 == 30 {
		s.bus.Restart(s.t)
	}
	if m == 20 {
		s.goroutines, s.heap = s.size()
	}
}

// commit changes the settings of all, and waits until all have them.
func (s *soak) commit(m int) {
	s.t.Helper()
	files := map[string][]byte{}
	for name, content := range soakFiles(m) {
		files[name] = []byte(content)
	}
	h, err := s.work.Commit(fmt.Sprintf("minute %d", m), files, ada)
	if err != nil {
		s.t.Fatal(err)
	}
	for range 120 {
		status, err := api.SyncStatus.Ask(s.t.Context(), s.client, api.None{})
		if err == nil && string(status.LastGood.Commit) == h.String() && status.Counts.Applied == len(s.ids) {
			return
		}
		time.Sleep(time.Second)
	}
	status, err := api.SyncStatus.Ask(s.t.Context(), s.client, api.None{})
	s.t.Fatalf("minute %d: not everywhere after two minutes: %+v, %v", m, status, err)
}

func (s *soak) dispatch() {
	s.t.Helper()
	spec := job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: s.ids, TargetExpr: "*", Timeout: time.Minute}
	if _, err := api.JobDispatch.Ask(s.t.Context(), s.client, spec); err != nil {
		s.t.Fatal(err)
	}
	for range 90 {
		j, err := api.JobShow.Ask(s.t.Context(), s.client, api.JobRequest{JID: spec.JID})
		if err == nil && j.Status.Final() {
			s.asked, s.answered = s.asked+len(s.ids), s.answered+j.SuccessCount
			return
		}
		time.Sleep(time.Second)
	}
	s.t.Fatalf("job %s has not ended", spec.JID)
}

// size is what the process has when nothing is under way.
func (s *soak) size() (goroutines int, heap uint64) {
	synctest.Wait()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), m.HeapAlloc
}

// A due is one run that a peel's schedule asks for.
type due struct {
	peel target.PeelID
	at   string
}

// count compares what is recorded with what had to run.
func (s *soak) count() {
	goroutines, heap := s.size()
	s.t.Logf("%d peels: goroutines %d, then %d; heap %d KiB, then %d; %d of %d answers", len(s.ids), s.goroutines, goroutines, s.heap>>10, heap>>10, s.answered, s.asked)
	if s.answered != s.asked || s.asked == 0 {
		s.t.Errorf("%d of %d dispatched runs have answered", s.answered, s.asked)
	}
	if most := s.goroutines + s.goroutines/20 + 10; goroutines > most {
		s.t.Errorf("%d goroutines after two hours, %d after 20 min", goroutines, s.goroutines)
	}
	seen := map[due]int{}
	for q := (job.Query{Schedule: "report", Limit: 500}); ; {
		page, err := api.JobList.Ask(s.t.Context(), s.client, q)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, j := range page.Jobs {
			seen[due{j.Targets[0], j.Metadata[job.MetaNominal]}]++
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if want := len(s.ids) * int(*soakTime/soakEvery+1); len(seen) != want { // one was before the first minute
		s.t.Errorf("%d runs of the schedule are recorded, want %d", len(seen), want)
	}
	for d, n := range seen {
		if n != 1 {
			s.t.Errorf("%v is recorded %d times", d, n)
		}
	}
}
