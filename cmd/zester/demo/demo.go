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
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/reconciler"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Options say what to show.
type Options struct {
	Repo   string          // a config repo to clone in place of the example; no commit is made in it
	Peels  []target.PeelID // no two the same on the bus; empty: web-01, web-02 and db-01
	Keep   bool            // leave everything running at the end, until ctx ends
	Zester string          // how a person calls the command line
	Out    io.Writer       // each Write is of whole lines
	Log    slog.Handler    // of the daemons
}

// ErrInterrupted is returned when ctx ended before the demo did. Everything is removed by then.
var ErrInterrupted = errors.New("interrupted, everything is removed")

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
	work   *worktree.Work
	client *api.Client
	began  time.Time
}

// Run plays the demo and removes everything that it made. What goes wrong is a [*StepError], or [ErrInterrupted].
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
	return s.run(ctx)
}

// run plays on a stage until its end, or ctx's, and returns when all that was started has stopped.
func (s *stage) run(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	cast, running := errgroup.WithContext(running)
	err := s.play(running, cast)
	if err == nil && s.o.Keep {
		s.sayHowToReach()
		<-running.Done()
	}
	stop()
	daemon := cast.Wait()
	if errors.Is(daemon, context.Canceled) {
		daemon = nil
	}
	step, failed := errors.AsType[*StepError](err)
	switch {
	case failed && ctx.Err() != nil:
		return ErrInterrupted
	case failed && daemon != nil:
		return &StepError{Step: step.Step, Err: daemon} // of which the step's own error only follows
	case daemon != nil:
		return &StepError{Step: "keep everything running", Err: daemon}
	}
	return err
}

// play starts everything and walks through the scenes.
func (s *stage) play(ctx context.Context, cast *errgroup.Group) error {
	if err := s.step("make the config repo", func() error { return s.makeRepo(ctx) }); err != nil {
		return err
	}
	if err := s.step("start the bus, a master and the reconciler", func() error { return s.startMaster(ctx, cast) }); err != nil {
		return err
	}
	defer s.client.Close()
	start := "start the peels, each with its own credential: " + strings.Join(names(s.o.Peels), ", ")
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
		return &StepError{Step: name, Err: err}
	}
	s.say("   done in %s\n", since(start))
	return nil
}

func (s *stage) say(format string, args ...any) { fmt.Fprintf(s.o.Out, format, args...) }

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }

func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

func (s *stage) makeRepo(ctx context.Context) (err error) {
	if s.o.Repo != "" {
		s.work, err = worktree.Clone(ctx, s.o.Repo, "", s.path("repo"))
	} else {
		s.work, err = worktree.Init(s.path("repo"), examples.Fleet(), "The fleet as it is", ada)
	}
	if err == nil {
		s.say("   %s\n", s.work.Dir())
	}
	return err
}

// ada makes the commits of the demo.
var ada = worktree.Author{Name: "Ada Demo", Email: "ada@example.com"}

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
	s.client, err = api.Connect(api.ClientOptions{URL: run.URL, Creds: []byte(run.Creds), CA: run.CA})
	return err
}

func (s *stage) startPeels(ctx context.Context, cast *errgroup.Group) error {
	keys, err := keystore.Open(keystore.Dir(s.path("master")))
	if err != nil {
		return err
	}
	run, err := api.ReadRunInfo(s.path("master"))
	if err != nil {
		return err
	}
	for _, id := range s.o.Peels {
		creds, err := keys.Creds(grants.RolePeel, id.Wire(), 0)
		if err != nil {
			return err
		}
		p, err := peel.New(peel.Options{
			ID: id, DataDir: s.path("peels/" + string(id)), URL: run.URL, CA: run.CA,
			Connect: []nats.Option{nats.UserCredentialBytes(creds)}, Facts: s.facts(id), Log: slog.New(s.o.Log),
		})
		if err != nil {
			return err
		}
		cast.Go(func() error { return p.Run(ctx) })
	}
	return nil
}

func names(peels []target.PeelID) []string {
	list := make([]string, len(peels))
	for i, id := range peels {
		list[i] = string(id)
	}
	return list
}

// facts let the example's targets tell the demo's peels, which all run on one host.
func (s *stage) facts(id target.PeelID) target.Facts {
	switch {
	case s.o.Repo != "":
		return nil
	case strings.HasPrefix(string(id), "db"):
		return target.Facts{"role": "database"}
	}
	return target.Facts{"role": "web"}
}

func (s *stage) sayHowToReach() {
	s.say("\neverything goes on until Ctrl-C; from a second terminal, in the same directory:\n\n")
	s.say("  export ZESTER_DATA_DIR=%s\n", s.path("master"))
	s.say("  %s sync status\n", s.o.Zester)
	s.say("  %s '*' cmd.run command='uname -sr'\n", s.o.Zester)
	s.say("  %s job list\n", s.o.Zester)
	s.say("\nedit and commit in %s to see what changes\n", s.work.Dir())
}
