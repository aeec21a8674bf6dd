package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/seed-c01c3da5/zester/master/forge"
	"github.com/seed-c01c3da5/zester/master/forge/forgetest"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/push"
	"github.com/seed-c01c3da5/zester/reconciler/propose"
)

// TestWriteScripts runs what changes the config repo, each script with a fleet of its own. It follows a bare repository, and its
// master makes commits and opens pull requests there.
func TestWriteScripts(t *testing.T) {
	t.Parallel()
	runWrites(t, "testdata/script/write", propose.Direct)
}

// TestPatchScripts runs commands that would change the config repo, with a master that may not.
func TestPatchScripts(t *testing.T) {
	t.Parallel()
	runWrites(t, "testdata/script/patch", propose.Off)
}

func runWrites(t *testing.T, dir string, mode propose.Mode) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	testscript.Run(t, testscript.Params{
		Dir: dir, Cmds: commands, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			f, err := startWriter(env.T().(testing.TB), mode)
			if err != nil {
				return err
			}
			if err := f.setUp(env); err != nil {
				return err
			}
			env.Setenv("REPO", f.repo.URL)
			for name, value := range map[string]string{
				"GIT_AUTHOR_NAME": "Bob", "GIT_AUTHOR_EMAIL": "bob@example.com", "GIT_COMMITTER_NAME": "Bob", "GIT_COMMITTER_EMAIL": "bob@example.com",
			} {
				env.Setenv(name, value)
			}
			return nil
		},
	})
}

// startWriter starts a fleet that follows a bare repository, with a master that may write to it. It ends with the test.
func startWriter(t testing.TB, mode propose.Mode) (*fleet, error) {
	f, err := startFleet(t.TempDir(), func(f *fleet) error {
		f.repo.URL = filepath.Join(t.TempDir(), "fleet.git")
		if out, err := exec.Command("git", "clone", "-q", "--bare", f.work.Dir(), f.repo.URL).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		pulls, err := pullsOn(t)
		if err != nil {
			return err
		}
		service, err := propose.New(propose.Options{
			Mode: mode, Path: ".", Branch: "main", Max: 10, Target: "web-*", Domain: "example.com", Forge: pulls,
			Write: push.Options{Repo: gitrepo.Options{URL: f.repo.URL, Dir: filepath.Join(f.dir, "write")}, Committer: push.Person{Name: "zester", Email: "zester@example.com"}},
		})
		if err == nil {
			f.services = append(f.services, service.Run)
		}
		return err
	})
	if err == nil {
		t.Cleanup(func() {
			if err := f.stop(); err != nil {
				t.Error(err)
			}
		})
	}
	return f, err
}

// pullsOn returns the client of a forge that ends with the test.
func pullsOn(t testing.TB) (*forge.Client, error) {
	f, token := forgetest.New(t, forge.GitHub), filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(forgetest.Token), 0o600); err != nil {
		return nil, err
	}
	return forge.New(forge.Options{Provider: forge.GitHub, URL: f.Repo(), Token: token})
}
