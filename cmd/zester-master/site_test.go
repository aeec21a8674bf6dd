package main_test

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/dial"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var ada = worktree.Author{Name: "Ada", Email: "ada@example.com"}

// A site is a directory in which a fleet runs: configuration files, a repo, and what the daemons keep.
type site struct {
	t    *testing.T
	dir  string
	work *worktree.Work
	env  []string // of daemons
}

// newSite makes a site whose repo holds the files.
func newSite(t *testing.T, files fs.FS) *site {
	t.Helper()
	t.Parallel()
	s := &site{t: t, dir: t.TempDir()}
	var err error
	if s.work, err = worktree.Init(s.path("fleet"), files, "the fleet as it is", ada); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

func (s *site) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) commit(changes map[string]string) string {
	s.t.Helper()
	bytes := map[string][]byte{}
	for name, text := range changes {
		bytes[name] = []byte(text)
	}
	h, err := s.work.Commit("a change", bytes, ada)
	if err != nil {
		s.t.Fatal(err)
	}
	return h.String()
}

// daemon starts a program.
func (s *site) daemon(args ...string) *process {
	s.t.Helper()
	return command{dir: s.dir, env: s.env, args: args}.start(s.t)
}

// zester runs the command line for the master in the folder master and returns what it printed. It has to end with
// the code.
func (s *site) zester(code int, args ...string) string {
	s.t.Helper()
	args = append([]string{"zester", "--data-dir", s.path("master")}, args...)
	out, errOut, got := command{dir: s.dir, args: args}.run(s.t)
	if got != code {
		s.t.Fatalf("%v ended with %d, want %d\n%s%s", args, got, code, out, errOut)
	}
	return out
}

// issue makes a credential and returns its file.
func (s *site) issue(role grants.Role, name string) string {
	s.t.Helper()
	file := s.path(name + ".creds")
	s.zester(0, "auth", "issue", string(role), name, "--again", "--out", file)
	return file
}

// url is where the master in the folder master listens.
func (s *site) url() string {
	s.t.Helper()
	info, err := api.ReadRunInfo(s.path("master"))
	if err != nil {
		s.t.Fatal(err)
	}
	return info.URL
}

// ctx ends when something has taken too long.
func (s *site) ctx() context.Context {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	s.t.Cleanup(cancel)
	return ctx
}

// client asks the master in the folder master.
func (s *site) client() *api.Client {
	s.t.Helper()
	info, err := api.ReadRunInfo(s.path("master"))
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := api.Connect(api.ClientOptions{URL: info.URL, Creds: []byte(info.Creds), CA: info.CA})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// streams reads the bus as a master could.
func (s *site) streams() jetstream.JetStream {
	s.t.Helper()
	const name = "observer"
	creds := s.issue(grants.RoleMaster, name)
	nc, err := nats.Connect(s.url(), nats.UserCredentials(creds), dial.CheckedBy(creds), nats.CustomInboxPrefix(grants.RoleMaster.Inbox(name)), nats.Timeout(patience))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		s.t.Fatal(err)
	}
	return js
}

// written is how many writes the bucket of settings has seen.
func (s *site) written() uint64 {
	s.t.Helper()
	stream, err := s.streams().Stream(s.t.Context(), "KV_settings")
	if err != nil {
		s.t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}

// dispatch runs a function on a peel and returns the job as it was accepted.
func (s *site) dispatch(c *api.Client, peel target.PeelID, function string) *job.Job {
	s.t.Helper()
	j, err := api.JobDispatch.Ask(s.ctx(), c, job.Spec{
		JID: wire.NewJID(), Function: function, Targets: []target.PeelID{peel}, TargetExpr: string(peel), Timeout: patience,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return j
}

// below is a file system as a folder of another.
func below(t *testing.T, dir string, files fs.FS) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		out[path.Join(dir, name)] = &fstest.MapFile{Data: data, Mode: 0o644}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
