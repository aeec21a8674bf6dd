//go:build linux

package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/account"
	"github.com/seed-c01c3da5/zester/peel/state/archive"
	"github.com/seed-c01c3da5/zester/peel/state/file"
	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/pkg"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/peel/state/system"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// plan returns the steps that are missing. With react a service or command reacts as well.
func (x *run) plan(ctx context.Context, s *state.State, react bool) ([]host.Step, error) {
	x.noted = sha256.New()
	x.world.Links = safefs.TrustedLinks
	if s.Follows() {
		x.world.Links = safefs.UserLinks
	}
	switch a := s.Args.(type) {
	case *state.FileManaged:
		return file.Managed(ctx, x.world, a, x.inputs(s))
	case *state.FileDirectory:
		return file.Directory(ctx, x.world, a, x.owned)
	case *state.FileRecurse:
		return file.Recurse(ctx, x.world, a, x.inputs(s), x.owned)
	case *state.FileSymlink:
		return file.Link(x.world, a)
	case *state.FileAbsent:
		return file.Missing(x.world, a)
	case *state.FileLine:
		return file.Line(x.world, a)
	case *state.FileBlock:
		return file.Block(ctx, x.world, a, x.inputs(s))
	case *state.FileReplace:
		return file.Replace(x.world, a)
	case *state.SSHAuthPresent:
		return file.Keys(ctx, x.world, a)
	case *state.SSHAuthAbsent:
		return file.KeysMissing(ctx, x.world, a)
	case *state.HostPresent:
		return file.Host(x.world, a)
	case *state.CronPresent:
		return file.Cron(ctx, x.world, a)
	case *state.CronAbsent:
		return file.CronMissing(x.world, a)
	case *state.CmdRun:
		return x.command(ctx, s, a, react)
	case *state.ServiceRunning:
		return x.services.Running(ctx, a, react)
	case *state.ServiceDead:
		return x.services.Dead(ctx, a)
	case *state.ServiceEnabled:
		return x.services.AtBoot(ctx, a.Name, true)
	case *state.ServiceDisabled:
		return x.services.AtBoot(ctx, a.Name, false)
	case *state.UserPresent:
		return account.UserPresent(ctx, x.world, a)
	case *state.UserAbsent:
		return account.UserAbsent(ctx, x.world, a)
	case *state.GroupPresent:
		return account.GroupPresent(ctx, x.world, a)
	case *state.GroupAbsent:
		return account.GroupAbsent(ctx, x.world, a)
	case *state.PkgInstalled, *state.PkgLatest, *state.PkgRemoved:
		return x.packages.Plan(ctx, a)
	case *state.PkgRepoManaged:
		return x.packages.Repository(ctx, a, x.inputs(s))
	}
	return x.planSystem(ctx, s)
}

// planSystem returns the missing steps of a function that is about none of files, services, accounts and packages.
func (x *run) planSystem(ctx context.Context, s *state.State) ([]host.Step, error) {
	switch a := s.Args.(type) {
	case *state.GitLatest:
		return x.git.Latest(ctx, a)
	case *state.ArchiveExtracted:
		return x.archives().Extracted(ctx, x.world, a, x.inputs(s), x.claims(a.Path))
	case *state.PipInstalled:
		return system.Pip(ctx, x.world, x.program, a)
	case *state.SysctlPresent:
		return system.KernelParameter(ctx, x.world, a)
	case *state.TimezoneSystem:
		return system.Zone(ctx, x.world, a)
	case *state.MountMounted:
		return system.Mount(ctx, x.world, a)
	case *state.DebconfSet:
		return system.Answers(ctx, x.world, a, s.HasSecret("content"))
	}
	return nil, fmt.Errorf("this peel cannot do %s", s.Function)
}

func (x *run) archives() archive.Store { return archive.Store{Dir: filepath.Join(x.o.Dir, "archives")} }

// program runs a program as a user.
func (x *run) program(ctx context.Context, user string, env map[string]string, argv ...string) (string, error) {
	end, err := x.o.Exec(ctx, Command{Argv: argv, Env: env, User: user})
	if err == nil && end.Code != 0 {
		err = fmt.Errorf("it ended with %d: %.2000s", end.Code, strings.TrimSpace(end.Output))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return end.Output, nil
}

// inputs returns what the file of a state is made from.
func (x *run) inputs(s *state.State) file.Inputs {
	in := x.o.Files
	in.Secret = s.HasSecret("content")
	in.Note = func(name string, content []byte) {
		for _, part := range [][]byte{[]byte(name), content} {
			sum := sha256.Sum256(part)
			x.noted.Write(sum[:])
		}
	}
	return in
}

// join plans one transaction for the first of states and the neighbours that can be part of it, and returns how many
// these are. What the transaction will owe is stored, because it changes the packages of all of them.
func (x *run) join(ctx context.Context, states state.Set) int {
	first := states[0]
	n := 0
	for n < len(states) && (n == 0 || pkg.CanJoin(first.Args, states[n].Args)) && x.isPlain(states[n], states[:n]) {
		n++
	}
	if n < 2 || !pkg.CanJoin(first.Args, first.Args) {
		return 1
	}
	args := make([]state.Arguments, n)
	for i, s := range states[:n] {
		args[i] = s.Args
	}
	ctx, cancel := context.WithTimeout(ctx, packageTimeout)
	defer cancel()
	pending := x.packages.Join(ctx, args)
	if x.q.Test {
		return n
	}
	for _, s := range states[:n] {
		if slices.Contains(pending, s.Args) {
			x.memory.owe(s.Name, x.reactors[s.Name])
		}
	}
	return n
}

// isPlain reports whether a state runs for sure if the states before it do, and in any way that they do.
func (x *run) isPlain(s *state.State, before state.Set) bool {
	if len(s.OnlyIf)+len(s.Unless)+len(x.onchanges[s.Name])+len(s.OnFail) > 0 || s.Timeout != 0 || s.Retry != nil ||
		s.FailHard {
		return false
	}
	for _, name := range slices.Concat(x.require[s.Name], x.watch[s.Name]) {
		if before.Get(name) != nil {
			return false
		}
	}
	reason, unknown := x.mayRun(s)
	return reason == "" && unknown == ""
}

// owned reports whether a state of the peel owns a path, or something below it. One that cannot be used may own all
// that is below its paths.
func (x *run) owned(name string) bool {
	if x.owns == nil {
		x.owns = map[string]bool{}
		for _, s := range slices.Concat(x.q.Set, x.q.Others) {
			x.own(x.paths(s))
		}
		for _, b := range slices.Concat(x.q.Broken, x.q.OthersBroken) {
			x.own(b.Paths)
			x.trees = append(x.trees, b.Paths...)
		}
	}
	return slices.ContainsFunc(host.Spellings(name), func(name string) bool {
		return x.owns[name] || slices.ContainsFunc(x.trees, func(tree string) bool {
			return strings.HasPrefix(name, tree+"/")
		})
	})
}

// own notes that paths belong to states, and so do the directories that they are in.
func (x *run) own(paths []string) {
	for _, name := range paths {
		for _, p := range host.Spellings(name) {
			for ; p != "/" && !x.owns[p]; p = path.Dir(p) {
				x.owns[p] = true
			}
		}
	}
}

// paths returns the paths that a state owns. If the names of the files of a tree are not known, the state owns the
// whole tree.
func (x *run) paths(s *state.State) []string {
	all := s.Paths()
	switch a := s.Args.(type) {
	case *state.PkgRepoManaged:
		all = append(all, pkg.RepositoryPaths(a)...)
	case *state.GitLatest:
		x.trees = append(x.trees, a.Path)
	case *state.ArchiveExtracted:
		x.trees = append(x.trees, a.Path)
	case *state.PipInstalled:
		x.trees = append(x.trees, a.Venv)
	case *state.FileRecurse:
		names, err := x.o.Files.Tree(a.Source)
		if err != nil {
			x.trees = append(x.trees, a.Path)
		}
		for _, name := range names {
			all = append(all, path.Join(a.Path, name))
		}
	}
	return all
}

// wanted identifies what a state wants: its arguments, and the contents that its last plan noted. It is empty if that
// has no encoding.
func (x *run) wanted(s *state.State) string {
	h, err := s.Hash()
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(x.noted.Sum([]byte(h)))
	return hex.EncodeToString(sum[:16])
}
