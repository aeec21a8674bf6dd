package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/reconciler"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A fleet is the whole system in this process: the bus on loopback, a master with its reconciler, and the peels
// web-01, web-02 and db-01 with the settings in testdata/repo. The peel away-01 was there before and has stopped.
type fleet struct {
	dir  string // the master's data directory
	url  string
	ca   string // file with the certificate of the bus's authority
	work *worktree.Work
	keys *keystore.Keys
	stop func() error // ends it all; returns when it has ended

	repo       gitrepo.Options  // what the reconciler follows; without a URL: work
	identities []string         // of the reconciler
	rest       master.REST      // of the master
	services   []master.Service // of the master, beside the reconciler
	log        *slog.Logger     // of both
}

// patience is how long tests wait for what is to come.
const patience = time.Minute

var ada = worktree.Author{Name: "Ada", Email: "ada@example.com"}

// startFleet returns when all peels run the first revision. Its files are below dir. change may change what is started.
func startFleet(dir string, change ...func(*fleet) error) (f *fleet, err error) {
	f = &fleet{dir: filepath.Join(dir, "master")}
	if f.work, err = worktree.Init(filepath.Join(dir, "repo"), os.DirFS("testdata/repo"), "The beginning", ada); err != nil {
		return nil, err
	}
	for _, do := range change {
		if err := do(f); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	f.stop = func() error {
		cancel()
		if err := g.Wait(); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
	if err := f.populate(ctx, g); err != nil {
		return nil, errors.Join(err, f.stop())
	}
	return f, nil
}

// newFleet is startFleet for a test, at whose end it stops.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	f, err := startFleet(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fleet) populate(ctx context.Context, g *errgroup.Group) error {
	if err := f.startMaster(ctx, g); err != nil {
		return err
	}
	short, leave := context.WithCancel(ctx)
	defer leave()
	left, err := f.startPeel(short, new(errgroup.Group), "away-01")
	if err != nil {
		return err
	}
	if err := f.settle(ctx, "1"); err != nil {
		return err
	}
	leave()
	<-left
	for _, id := range []target.PeelID{"web-01", "web-02", "db-01"} {
		if _, err := f.startPeel(ctx, g, id); err != nil {
			return err
		}
	}
	if err := f.settle(ctx, "4"); err != nil {
		return err
	}
	return f.awaitRuns(ctx)
}

func (f *fleet) startMaster(ctx context.Context, g *errgroup.Group) error {
	repo := f.repo
	if repo.URL == "" {
		repo.URL = f.work.Dir()
	}
	repo.Dir = filepath.Join(f.dir, "repo")
	r, err := reconciler.New(reconciler.Options{Repo: repo, Owner: "test", Identities: f.identities})
	if err != nil {
		return err
	}
	ready := make(chan master.Info, 1)
	m, err := master.New(master.Options{
		ID: "test", DataDir: f.dir, Services: append([]master.Service{r.Run}, f.services...), Ready: func(i master.Info) { ready <- i },
		REST: f.rest, Log: f.log,
	})
	if err != nil {
		return err
	}
	g.Go(func() error { return m.Run(ctx) })
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case info := <-ready:
		f.url, f.ca = info.URL, filepath.Join(f.dir, "tls", "ca.crt")
	}
	f.keys, err = keystore.Open(keystore.Dir(f.dir))
	return err
}

// registered makes the credential of a peel as zester auth issue does.
func (f *fleet) registered(id target.PeelID) ([]byte, error) {
	key, err := credential.MakeKey()
	if err != nil {
		return nil, err
	}
	entry := keystore.Entry{Role: grants.RolePeel, ID: string(id), Keys: []credential.Key{{Public: key.Public(), Issued: time.Now()}}}
	name, err := keystore.Register(keystore.Dir(f.dir), entry, false)
	if err != nil {
		return nil, err
	}
	token, err := f.keys.Issue(grants.RolePeel, name, key.Public(), 0)
	if err != nil {
		return nil, err
	}
	return key.Creds(token)
}

// startPeel returns a channel that closes when the peel has ended.
func (f *fleet) startPeel(ctx context.Context, g *errgroup.Group, id target.PeelID) (<-chan struct{}, error) {
	creds, err := f.keys.Creds(grants.RolePeel, id.Wire(), 0)
	if id == "db-01" { // the masters know its key
		creds, err = f.registered(id)
	}
	if err != nil {
		return nil, err
	}
	p, err := peel.New(peel.Options{
		ID: id, DataDir: filepath.Join(f.dir, "peels", string(id)), URL: f.url, CA: f.ca,
		Connect: []nats.Option{nats.UserCredentialBytes(creds)}, Facts: target.Facts{"rack": "r7"},
	})
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	g.Go(func() error {
		defer close(ended)
		return p.Run(ctx)
	})
	return ended, nil
}

// settle waits until so many peels run what Git says.
func (f *fleet) settle(ctx context.Context, peels string) error {
	var out, errOut bytes.Buffer
	if code := run(ctx, []string{"--data-dir", f.dir, "sync", "wait", "--peels", peels, "--timeout", patience.String()}, &out, &errOut); code != exitOK {
		return fmt.Errorf("sync wait ended with %d: %s%s", code, &out, &errOut)
	}
	return nil
}

// awaitRuns waits until the runs with which the schedules of both web peels begin are over and recorded.
func (f *fleet) awaitRuns(ctx context.Context) error {
	return errors.Join(
		f.until(ctx, "(?s)^\\S+\n\\S+\n$", "job", "list", "--schedule", "hello", "-o", "name"),
		f.until(ctx, `(?s)"runs": 1\b.*"runs": 1\b`, "schedule", "list", "web-*", "-o", "json"))
}

// until runs a command until it succeeds and prints what matches.
func (f *fleet) until(ctx context.Context, pattern string, args ...string) error {
	want := regexp.MustCompile(pattern)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		var out, errOut bytes.Buffer
		code := run(ctx, append([]string{"--data-dir", f.dir}, args...), &out, &errOut)
		if code == exitOK && want.Match(out.Bytes()) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nothing matches %s, zester %v ended with %d: %s%s", pattern, args, code, &out, &errOut)
		case <-time.After(askInterval):
		}
	}
}

// credentials puts the files of people into dir: auditor.creds, direct.creds, and stranger.creds, which others have
// signed.
func (f *fleet) credentials(dir string) error {
	auditor, err := f.keys.Creds(grants.RoleAuditor, "eve", 0)
	if err != nil {
		return err
	}
	direct, err := f.keys.Creds(grants.RoleDirect, "dan", 0)
	if err != nil {
		return err
	}
	others, err := keystore.Open(filepath.Join(dir, "others"))
	if err != nil {
		return err
	}
	stranger, err := others.Creds(grants.RoleOperator, "mallory", 0)
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(f.ca)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "auditor.creds"), append(auditor, ca...), 0o600),
		os.WriteFile(filepath.Join(dir, "direct.creds"), append(direct, ca...), 0o600),
		os.WriteFile(filepath.Join(dir, "stranger.creds"), append(stranger, ca...), 0o600))
}
