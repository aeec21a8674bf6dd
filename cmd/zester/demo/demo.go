// Package demo runs the whole of zester in one process, with nothing left out and nothing pretended: a config repo, the
// embedded server on loopback, a master with its reconciler, and peels that each connect with a credential of their
// own. It then walks through what an operator does, and says of each step what happened and how long it took.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/examples"
	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/reconciler"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Options say what to show.
type Options struct {
	Repo  string          // a config repo to clone in place of the example; no commit is made in it
	Peels []target.PeelID // empty: web-01, web-02 and db-01
	Keep  bool            // leave everything running at the end, until ctx ends
	Out   io.Writer
	Log   slog.Handler // of the daemons
}

// A StepError says which step went wrong.
type StepError struct {
	Step string
	Err  error
}

func (e *StepError) Error() string { return fmt.Sprintf("cannot %s: %v", e.Step, e.Err) }

// Unwrap returns what went wrong.
func (e *StepError) Unwrap() error { return e.Err }

// A stage is what the demo plays on.
type stage struct {
	o      Options
	dir    string
	work   *gitrepo.Work
	client *api.Client
	began  time.Time
}

// Run plays the demo and removes everything that it made.
func Run(ctx context.Context, o Options) (err error) {
	if len(o.Peels) == 0 {
		o.Peels = []target.PeelID{"web-01", "web-02", "db-01"}
	}
	dir, err := os.MkdirTemp("", "zester-demo-")
	if err != nil {
		return fmt.Errorf("cannot make a directory for the demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &stage{o: o, dir: dir, began: time.Now()}
	if err := s.step("make the config repo", s.makeRepo); err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	cast, ctx := errgroup.WithContext(ctx)
	err = s.play(ctx, cast)
	if err == nil && o.Keep {
		s.sayHowToReach()
		<-ctx.Done()
	}
	cancel()
	return errors.Join(err, ended(cast.Wait()))
}

// ended drops the error that says that the demo's own end was asked for.
func ended(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// play starts everything and walks through the scenes.
func (s *stage) play(ctx context.Context, cast *errgroup.Group) error {
	if err := s.step("start the bus, a master and the reconciler", func() error { return s.startMaster(ctx, cast) }); err != nil {
		return err
	}
	defer s.client.Close()
	start := fmt.Sprintf("start %d peels, each with its own credential", len(s.o.Peels))
	if err := s.step(start, func() error { return s.startPeels(ctx, cast) }); err != nil {
		return err
	}
	for _, scene := range s.scenes(ctx) {
		if err := s.step(scene.name, scene.play); err != nil {
			return err
		}
	}
	s.say("\nall of it took %s\n", since(s.began))
	return nil
}

// step announces, plays and times a part of the demo.
func (s *stage) step(name string, play func() error) error {
	s.say("\n== %s\n", name)
	start := time.Now()
	if err := play(); err != nil {
		if errors.Is(err, context.Canceled) {
			return err
		}
		return &StepError{Step: name, Err: err}
	}
	s.say("   done in %s\n", since(start))
	return nil
}

func (s *stage) say(format string, args ...any) { fmt.Fprintf(s.o.Out, format, args...) }

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }

func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

func (s *stage) makeRepo() (err error) {
	if s.o.Repo != "" {
		s.work, err = gitrepo.Clone(context.Background(), s.o.Repo, "", s.path("repo"))
	} else {
		s.work, err = gitrepo.Init(s.path("repo"), examples.Fleet(), "The fleet as it is", ada)
	}
	if err == nil {
		s.say("   %s\n", s.work.Dir())
	}
	return err
}

// ada makes the commits of the demo.
var ada = gitrepo.Author{Name: "Ada Demo", Email: "ada@example.com"}

func (s *stage) startMaster(ctx context.Context, cast *errgroup.Group) error {
	log := slog.New(s.o.Log)
	r, err := reconciler.New(reconciler.Options{
		Repo: gitrepo.Options{URL: s.work.Dir(), Dir: s.path("master/repo"), Log: log}, Owner: "demo", Log: log,
	})
	if err != nil {
		return err
	}
	ready := make(chan master.Info, 1)
	m, err := master.New(master.Options{
		ID: "demo", DataDir: s.path("master"), Log: log, Services: []master.Service{r.Run},
		Ready: func(i master.Info) { ready <- i },
	})
	if err != nil {
		return err
	}
	cast.Go(func() error { return m.Run(ctx) })
	select {
	case <-ctx.Done():
		return ctx.Err()
	case info := <-ready:
		s.say("   listening on %s, credentials required\n", info.URL)
	}
	run, err := api.ReadRunInfo(s.path("master"))
	if err != nil {
		return err
	}
	s.client, err = api.Connect(api.ClientOptions{URL: run.URL, Creds: []byte(run.Creds)})
	return err
}

func (s *stage) startPeels(ctx context.Context, cast *errgroup.Group) error {
	keys, err := auth.Open(auth.Dir(s.path("master")))
	if err != nil {
		return err
	}
	run, err := api.ReadRunInfo(s.path("master"))
	if err != nil {
		return err
	}
	for _, id := range s.o.Peels {
		creds, err := keys.Creds(auth.RolePeel, id.Wire(), 0)
		if err != nil {
			return err
		}
		p, err := peel.New(peel.Options{
			ID: id, DataDir: s.path("peels/" + string(id)), URL: run.URL, Connect: []nats.Option{nats.UserCredentialBytes(creds)},
			Facts: target.Facts{"role": role(id)}, Log: slog.New(s.o.Log),
		})
		if err != nil {
			return err
		}
		cast.Go(func() error { return p.Run(ctx) })
	}
	return nil
}

// role is the fact by which the example's targets tell the demo's peels, which all run on one host.
func role(id target.PeelID) string {
	if strings.HasPrefix(string(id), "db") {
		return "database"
	}
	return "web"
}

func (s *stage) sayHowToReach() {
	s.say("\neverything goes on until Ctrl-C; from a second terminal, in the same directory:\n\n")
	s.say("  export ZESTER_DATA_DIR=%s\n", s.path("master"))
	s.say("  go run ./cmd/zester sync status\n")
	s.say("  go run ./cmd/zester '*' cmd.run command=uptime\n")
	s.say("  cd %s    # edit, commit, and watch: zester sync wait\n", s.work.Dir())
}
