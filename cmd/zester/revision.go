package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// A place is the location of a fleet's files, as flags name it.
type place struct {
	repo string // a directory, which may be below the top of a repository
	path string // a directory below repo, as --path of zester-master; empty: repo itself
	head string // a revision; empty: the working tree
}

// snapshot reads a revision as a master does. If revision is empty it reads the commit that Git would make of the
// working tree.
func snapshot(ctx context.Context, c *gitrepo.Checkout, revision string) (*gitrepo.Snapshot, error) {
	if revision == "" {
		s, err := c.Working(ctx)
		if errors.Is(err, gitrepo.ErrNoGit) {
			err = &failure{
				code: exitFailed,
				err:  err,
				hint: "install git; zester lint and zester plan read a commit without it: --head REVISION",
			}
		}
		return s, err
	}
	at, err := c.Revision(revision)
	if err != nil {
		return nil, err
	}
	return c.Snapshot(at)
}

// compileAt compiles the files of a place for a fleet. If fleet is nil it checks them without facts.
func compileAt(ctx context.Context, p place, fleet *peelindex.Index) (compiled *plan.Plan, err error) {
	return compiled, p.read(ctx, func(tree fs.FS) (err error) {
		compiled, err = compileTree(tree, fleet)
		return err
	})
}

func compileTree(tree fs.FS, fleet *peelindex.Index) (*plan.Plan, error) {
	if fleet == nil {
		return plan.NewCompiler().Check(tree)
	}
	return plan.NewCompiler().Compile(tree, fleet)
}

// read calls f with the files of a place.
func (p place) read(ctx context.Context, f func(tree fs.FS) error) (err error) {
	if err := p.hasTop(); err != nil {
		return err
	}
	c, err := gitrepo.OpenDirectory(p.repo, p.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	s, err := snapshot(ctx, c, p.head)
	if err != nil {
		return err
	}
	return f(s.Tree)
}

// hasTop returns the error of a compiler if the working tree has no top file. It reads nothing but the top file,
// because a wrong directory, such as /, may be large.
func (p place) hasTop() error {
	if p.head != "" {
		return nil
	}
	const topFile = "top.yaml"
	dir := filepath.Join(p.repo, p.path)

	names, err := os.ReadDir(dir)
	names = slices.DeleteFunc(names, func(e fs.DirEntry) bool { return e.Name() == ".git" })
	if err != nil || len(names) == 0 {
		return nil // what is wrong with it is found when it is opened
	}
	if _, err := os.Lstat(filepath.Join(dir, topFile)); !errors.Is(err, fs.ErrNotExist) {
		return nil // what is wrong with it is found when it is read
	}
	at := strictyaml.Pos{File: topFile}
	return &plan.Error{Reason: plan.TopMissing, Errors: strictyaml.Errors{{Pos: at, Msg: "there is no top file"}}}
}

// topHint returns the hint for a revision without a top file; empty for other mistakes and if a path was given.
func topHint(refused *plan.Error, path string) string {
	if refused == nil || refused.Reason != plan.TopMissing || path != "" {
		return ""
	}
	return "--path DIR names the folder of the fleet's files if top.yaml is not at the top of the repo"
}
