//go:build linux

package state

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// git runs git in the directory of the fixture.
func (h *fixture) git(args ...string) string {
	h.t.Helper()
	config := []string{"-C", h.dir + "/origin", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"}
	out, err := exec.Command("git", append(config, args...)...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit makes a commit of the repository with a file.
func (h *fixture) commit(content string) {
	h.t.Helper()
	must(h.t, os.WriteFile(h.dir+"/origin/f", []byte(content), 0o644))
	h.git("add", "f")
	h.git("commit", "--quiet", "-m", content)
}

func TestACloneFollowsItsBranch(t *testing.T) {
	h := newHost(t)
	must(t, os.Mkdir(h.dir+"/origin", 0o755))
	h.git("init", "--quiet")
	h.commit("one")
	h.git("tag", "-a", "v1", "-m", "v1")
	const latest = "app: {git.latest: {path: DIR/app, url: DIR/origin, rev: main}}"

	predicted := h.run(latest, true)
	h.wants(predicted, "app: would_change intended")
	if _, err := os.Stat(h.dir + "/app"); err == nil {
		t.Error("a test made a clone")
	}
	h.wants(h.run(latest, false), "app: changed intended")
	h.wants(h.run(latest, true), "app: unchanged")
	if got := h.read("app/f"); got != "one" {
		t.Errorf("the clone has %q", got)
	}

	h.commit("two")
	r := h.run(latest, true)
	h.wants(r, "app: would_change drift")
	if c := r.States[0].Changes[0]; c.Do != "checkout" || c.After != h.git("rev-parse", "HEAD") || c.Before != h.git("rev-parse", "HEAD~") {
		t.Errorf("%+v", c)
	}
	h.wants(h.run(latest, false), "app: changed drift")
	if got := h.read("app/f"); got != "two" {
		t.Errorf("the clone has %q", got)
	}

	tag := strings.Replace(latest, "main", "v1", 1)
	h.wants(h.run(tag, false), "app: changed intended")
	h.wants(h.run(tag, true), "app: unchanged")
	if got := h.read("app/f"); got != "one" {
		t.Errorf("the clone has %q", got)
	}
}

func TestAClonePlainlyFails(t *testing.T) {
	h := newHost(t)
	must(t, os.Mkdir(h.dir+"/origin", 0o755))
	h.git("init", "--quiet")
	h.commit("one")
	must(t, os.Mkdir(h.dir+"/full", 0o755))
	must(t, os.WriteFile(h.dir+"/full/f", nil, 0o644))

	for text, want := range map[string]string{
		"{path: DIR/app, url: DIR/origin, rev: none}": "has no branch or tag none",
		"{path: DIR/app, url: DIR/nothing}":           "git ls-remote",
		"{path: DIR/full, url: DIR/origin}":           "has files and is no clone of git",
	} {
		r := h.run("app: {git.latest: "+text+"}", false)
		if o := r.States[0]; o.Result != Failed || !strings.Contains(o.Comment, want) {
			t.Errorf("%s: %+v, want %s", text, o, want)
		}
	}
}

// The first checkout of a clone fails: what is there is no clone with its files.
func TestACloneWithoutACheckoutIsNotUnchanged(t *testing.T) {
	h := newHost(t)
	must(t, os.Mkdir(h.dir+"/origin", 0o755))
	h.git("init", "--quiet")
	h.commit("one")
	h.git("clone", "--quiet", "--no-checkout", "--", h.dir+"/origin", h.dir+"/app")

	const latest = "app: {git.latest: {path: DIR/app, url: DIR/origin}}"
	h.wants(h.run(latest, true), "app: would_change intended")
	h.wants(h.run(latest, false), "app: changed intended")
	if got := h.read("app/f"); got != "one" {
		t.Errorf("the clone has %q", got)
	}
	h.wants(h.run(latest, true), "app: unchanged")
}

// Another user could put a link to a repository of root in the place of the clone.
func TestACloneOfRootIsInADirectoryOfRoot(t *testing.T) {
	h := newHost(t)
	must(t, os.Mkdir(h.dir+"/origin", 0o755))
	h.git("init", "--quiet")
	h.commit("one")
	must(t, os.Mkdir(h.dir+"/shared", 0o755))
	must(t, os.Chmod(h.dir+"/shared", 0o777))
	for _, name := range []string{"app", "new/app"} {
		r := h.run("app: {git.latest: {path: DIR/shared/"+name+", url: DIR/origin}}", true)
		const want = "another user can replace"
		if o := r.States[0]; o.Result != Failed || !strings.Contains(o.Comment, want) {
			t.Errorf("%s: %+v, want %s", name, o, want)
		}
	}
}

// A person has edited a file of the clone: the edit stays unless the state forces the checkout.
func TestAnEditOfACloneIsThrownAwayOnlyByForce(t *testing.T) {
	h := newHost(t)
	must(t, os.Mkdir(h.dir+"/origin", 0o755))
	h.git("init", "--quiet")
	h.commit("one")
	const latest = "app: {git.latest: {path: DIR/app, url: DIR/origin}}"
	h.wants(h.run(latest, false), "app: changed intended")

	must(t, os.WriteFile(h.dir+"/app/f", []byte("mine"), 0o644))
	h.commit("two")
	if r := h.run(latest, false); r.States[0].Result != Failed || h.read("app/f") != "mine" {
		t.Errorf("%+v; the file is %q", r.States[0], h.read("app/f"))
	}
	r := h.run(strings.Replace(latest, "}}", ", force: true}}", 1), false)
	if r.States[0].Result != Changed || h.read("app/f") != "two" {
		t.Errorf("%+v; the file is %q", r.States[0], h.read("app/f"))
	}
}
