//go:build linux

package system

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path"
	"regexp"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// A Program runs a program as a user and returns its output; one that ends with another code than 0 is an error.
type Program func(ctx context.Context, user string, env map[string]string, argv ...string) (string, error)

// Git knows the commits of remote repositories during one run, so that a run sees one commit of each. It is not safe
// for concurrent use.
type Git struct {
	world   *host.World
	program Program
	commits map[[2]string]string // by address and revision
}

// NewGit returns what git.latest needs for one run over a world.
func NewGit(w *host.World, program Program) *Git {
	return &Git{world: w, program: program, commits: map[[2]string]string{}}
}

// gitEnvironment keeps git from asking a person, and from protocols that run programs.
var gitEnvironment = map[string]string{
	"GIT_TERMINAL_PROMPT": "0",
	"GIT_ALLOW_PROTOCOL":  "file:git:http:https:ssh",
	"GIT_SSH_COMMAND":     "ssh -oBatchMode=yes",
}

// run runs git as the user of a state. Git itself refuses a clone that belongs to another user.
func (g *Git) run(ctx context.Context, a *state.GitLatest, args ...string) (string, error) {
	return g.program(ctx, a.User, gitEnvironment, append([]string{"git"}, args...)...)
}

// Latest plans git.latest: the directory is a clone with the commit of the revision checked out, on no branch.
func (g *Git) Latest(ctx context.Context, a *state.GitLatest) ([]host.Step, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, g.world.Lacks("git is not installed on this host")
	}
	if a.User == "" {
		if err := checkDirectory(a.Path); err != nil {
			return nil, err
		}
	}
	names, err := g.world.List(a.Path)
	if err != nil {
		return nil, err
	}
	dir, err := g.world.Stat(path.Join(a.Path, ".git"))
	if err != nil {
		return nil, err
	}
	isClone := dir.Kind != safefs.Absent
	if !isClone && len(names) > 0 {
		return nil, fmt.Errorf("%s has files and is no clone of git; move them away, or name another path", a.Path)
	}

	want, err := g.remote(ctx, a)
	switch {
	case err != nil && g.world.Planned() && ctx.Err() == nil:
		return nil, &host.UnknownError{Why: "it may depend on a change that would be made: " + err.Error()}
	case err != nil:
		return nil, err
	}
	change := host.Change{Do: "clone", What: a.Path, After: want}
	if isClone {
		have, url, err := g.local(ctx, a)
		if err != nil || have == want && url == a.URL {
			return nil, err
		}
		change = host.Change{Do: "checkout", What: a.Path, Before: have, After: want}
	}
	return []host.Step{{
		Change:  change,
		Apply:   func(ctx context.Context) error { return g.checkout(ctx, a, isClone, want) },
		Predict: func(w *host.World) { w.Doubt(a.Path, "git would write there") },
	}}, nil
}

// checkDirectory returns an error if another user can put a link at the path of a clone, or above it: git of this user
// would follow it.
func checkDirectory(name string) error {
	for above := path.Dir(name); ; above = path.Dir(above) {
		d, err := safefs.Open(above)
		if errors.Is(err, fs.ErrNotExist) && above != "/" {
			continue // git makes it
		}
		if err != nil {
			return err
		}
		exposed := d.Exposed()
		d.Close()
		if exposed {
			const text = "another user can replace %s, as that user may write to %s; name the user in the argument user"
			return fmt.Errorf(text, name, above)
		}
		return nil
	}
}

var (
	commitID   = regexp.MustCompile(`^[0-9a-f]{40}$`)
	remoteLine = regexp.MustCompile(`(?m)^([0-9a-f]{40})\t(\S+)$`)
)

// remote returns the commit of the revision of a state. git-ls-remote(1) says what its lines are.
func (g *Git) remote(ctx context.Context, a *state.GitLatest) (string, error) {
	if commitID.MatchString(a.Rev) {
		return a.Rev, nil
	}
	rev := a.Rev
	if rev == "" {
		rev = "HEAD"
	}
	if commit := g.commits[[2]string{a.URL, rev}]; commit != "" {
		return commit, nil
	}

	out, err := g.run(ctx, a, "ls-remote", "--", a.URL, rev, rev+"^{}")
	if err != nil {
		return "", err
	}
	found := map[string]string{}
	for _, m := range remoteLine.FindAllStringSubmatch(out, -1) {
		found[m[2]] = m[1]
	}
	for _, ref := range []string{"refs/heads/" + rev, "refs/tags/" + rev + "^{}", "refs/tags/" + rev, rev} {
		if commit := found[ref]; commit != "" {
			g.commits[[2]string{a.URL, rev}] = commit
			return commit, nil
		}
	}
	return "", fmt.Errorf("%s has no branch or tag %s", a.URL, rev)
}

// local returns the commit of a clone, empty if none is checked out, and the address that it was made from.
func (g *Git) local(ctx context.Context, a *state.GitLatest) (commit, url string, err error) {
	// The error says what is wrong with a repository, such as another owner. The calls below would find nothing.
	if _, err = g.run(ctx, a, "-C", a.Path, "rev-parse", "--git-dir"); err != nil {
		return "", "", err
	}
	url, err = g.run(ctx, a, "-C", a.Path, "config", "--default", "", "--get", "remote.origin.url")
	if err != nil {
		return "", "", err
	}
	url = strings.TrimSpace(url)
	// A checkout that ends well leaves HEAD on no branch. On a branch, the first checkout was cut off or failed.
	if _, err = g.run(ctx, a, "-C", a.Path, "symbolic-ref", "--quiet", "HEAD"); err == nil {
		return "", url, nil
	}
	commit, err = g.run(ctx, a, "-C", a.Path, "rev-parse", "--verify", "HEAD")
	return strings.TrimSpace(commit), url, err
}

// checkout brings the clone to a commit.
func (g *Git) checkout(ctx context.Context, a *state.GitLatest, isClone bool, commit string) error {
	calls := [][]string{
		{"-C", a.Path, "config", "remote.origin.url", a.URL},
		{"-C", a.Path, "fetch", "--quiet", "--force", "--tags", "origin", "+refs/heads/*:refs/remotes/origin/*"},
	}
	if !isClone {
		calls = [][]string{{"clone", "--quiet", "--no-checkout", "--", a.URL, a.Path}}
	}
	last := []string{"-C", a.Path, "checkout", "--quiet", "--detach", commit}
	if a.Force {
		last = []string{"-C", a.Path, "checkout", "--quiet", "--force", "--detach", commit}
	}
	for _, args := range append(calls, last) {
		if _, err := g.run(ctx, a, args...); err != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	return nil
}
