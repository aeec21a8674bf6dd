// Package demo runs a whole fleet in one process: a config repo, the embedded server on loopback, a master with its
// reconciler, and peels that each connect with a credential of their own. It then runs the steps of an operator, and
// prints the result and the time of each. Call [Run].
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

// Options configure the demo.
type Options struct {
	Repo   string          // a config repo to clone instead of the example; it is not changed
	Peels  []target.PeelID // different on the bus; empty: web-01, web-02 and db-01
	Keep   bool            // leave everything running at the end, until ctx ends
	Zester string          // the command line's name in hints
	Out    io.Writer       // gets whole lines with each Write
	Log    slog.Handler    // of the master and the peels
}

// ErrInterrupted is returned when ctx ended before the demo. Everything is removed before.
var ErrInterrupted = errors.New("interrupted, everything is removed")

// A StepError is the error of a step.
type StepError struct {
	Step string
	Err  error
}

func (e *StepError) Error() string { return fmt.Sprintf("cannot %s: %v", e.Step, e.Err) }

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

// A session is one run of the demo.
type session struct {
	o      Options
	dir    string
	work   *worktree.Work
	client *api.Client
	began  time.Time
}

// Run runs the demo and removes everything that it created. The error of a step is a [*StepError]; if ctx ended during
// a step it is [ErrInterrupted].
func Run(ctx context.Context, o Options) (err error) {
	if len(o.Peels) == 0 {
		o.Peels = []target.PeelID{"web-01", "web-02", "db-01"}
	}
	dir, err := os.MkdirTemp("", "zester-demo-")
	if err != nil {
		return fmt.Errorf("cannot make a directory for the demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &session{o: o, dir: dir, began: time.Now()}
	return s.run(ctx)
}

// run runs all steps, with Options.Keep waits for the end of ctx, and returns when everything that it started has
// stopped.
func (s *session) run(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	daemons, running := errgroup.WithContext(running)
	err := s.runSteps(running, daemons)
	if err == nil && s.o.Keep {
		s.sayHowToReach()
		<-running.Done()
	}
	stop()
	daemon := daemons.Wait()
	if errors.Is(daemon, context.Canceled) {
		daemon = nil
	}
	failedStep, failed := errors.AsType[*StepError](err)
	switch {
	case failed && ctx.Err() != nil:
		return ErrInterrupted
	case failed && daemon != nil:
		return &StepError{Step: failedStep.Step, Err: daemon} // the cause of the step's own error
	case daemon != nil:
		return &StepError{Step: "keep everything running", Err: daemon}
	}
	return err
}

// runSteps starts everything and walks through the steps.
func (s *session) runSteps(ctx context.Context, daemons *errgroup.Group) error {
	if err := s.step("make the config repo", func() error { return s.makeRepo(ctx) }); err != nil {
		return err
	}
	if err := s.step("start the bus, a master and the reconciler", func() error {
		return s.startMaster(ctx, daemons)
	}); err != nil {
		return err
	}
	defer s.client.Close()
	start := "start the peels, each with its own credential: " + strings.Join(names(s.o.Peels), ", ")
	if err := s.step(start, func() error { return s.startPeels(ctx, daemons) }); err != nil {
		return err
	}
	for _, step := range s.steps(ctx) {
		if err := s.step(step.name, step.run); err != nil {
			return err
		}
	}
	s.say("\nall of it took %s\n", since(s.began))
	return nil
}

// step prints the name of a step, runs it and prints its time.
func (s *session) step(name string, run func() error) error {
	s.say("\n== %s\n", name)
	start := time.Now()
	if err := run(); err != nil {
		return &StepError{Step: name, Err: err}
	}
	s.say("   done in %s\n", since(start))
	return nil
}

func (s *session) say(format string, args ...any) { fmt.Fprintf(s.o.Out, format, args...) }

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }

func (s *session) path(name string) string { return filepath.Join(s.dir, name) }

func (s *session) makeRepo(ctx context.Context) (err error) {
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

// ada is the author of the demo's commits.
var ada = worktree.Author{Name: "Ada Demo", Email: "ada@example.com"}

func (s *session) startMaster(ctx context.Context, daemons *errgroup.Group) error {
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
		REST:  master.REST{Listen: "127.0.0.1:0"}, // for zester console
		Ready: func(i master.Info) { ready <- i },
	})
	if err != nil {
		return err
	}
	daemons.Go(func() error { return m.Run(ctx) })
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

func (s *session) startPeels(ctx context.Context, daemons *errgroup.Group) error {
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
		daemons.Go(func() error { return p.Run(ctx) })
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

// facts returns facts by which the targets of the example select the peels, which all run on one host.
func (s *session) facts(id target.PeelID) target.Facts {
	switch {
	case s.o.Repo != "":
		return nil
	case strings.HasPrefix(string(id), "db"):
		return target.Facts{"role": "database"}
	}
	return target.Facts{"role": "web"}
}

func (s *session) sayHowToReach() {
	s.say("\neverything goes on until Ctrl-C; from a second terminal, in the same directory:\n\n")
	s.say("  export ZESTER_DATA_DIR=%s\n", s.path("master"))
	s.say("  %s sync status\n", s.o.Zester)
	s.say("  %s '*' cmd.run command='uname -sr'\n", s.o.Zester)
	s.say("  %s job list\n", s.o.Zester)
	s.say("  %s coverage --by peel\n", s.o.Zester)
	s.say("  %s console\n", s.o.Zester)
	s.say("\nedit and commit in %s to see what changes\n", s.work.Dir())
}
