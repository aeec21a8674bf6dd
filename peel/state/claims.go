//go:build linux

package state

import (
	"path"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/archive"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// claims returns what the states of the peel decide of the files below a directory that an archive is extracted into.
func (x *run) claims(dir string) archive.Claims {
	c := claims{archive.Claims{At: map[string]archive.Claim{}, Below: map[string]archive.Claim{}}, dir}
	for _, s := range slices.Concat(x.q.Set, x.q.Others) {
		switch a := s.Args.(type) {
		case *state.FileDirectory:
			c.directory(a)
		case *state.FileRecurse:
			x.claimTree(c, a)
		case *state.FileLine:
			c.At[a.Path] |= archive.Content
		case *state.FileReplace:
			c.At[a.Path] |= archive.Content
		case *state.FileBlock:
			c.At[a.Path] |= archive.Content
		case *state.ArchiveExtracted:
			c.whole(a.Path)
		default:
			c.whole(s.Paths()...)
		}
	}
	for _, b := range slices.Concat(x.q.Broken, x.q.OthersBroken) {
		c.whole(b.Paths...)
	}
	return c.Claims
}

type claims struct {
	archive.Claims
	dir string
}

// whole claims all of the paths that are below the directory of the archive.
func (c claims) whole(paths ...string) {
	for _, p := range paths {
		if p = path.Clean(p); p != c.dir && strings.HasPrefix(p, strings.TrimSuffix(c.dir, "/")+"/") {
			c.At[p] |= archive.Whole
			c.Below[p] |= archive.Whole
		}
	}
}

func (c claims) directory(a *state.FileDirectory) {
	c.At[a.Path] |= claimOf(a.User, a.Group, a.Mode)
	var below archive.Claim
	for _, what := range a.Recurse {
		below |= map[string]archive.Claim{"user": archive.User, "group": archive.Group, "mode": archive.Mode}[what]
	}
	c.Below[a.Path] |= below
}

// claimTree claims the files that file.recurse copies, and what it sets of their directories. If the names of the files
// are not known, it claims the whole tree.
func (x *run) claimTree(c claims, a *state.FileRecurse) {
	names, err := x.o.Files.Tree(a.Source)
	if err != nil {
		c.whole(a.Path)
	}
	c.At[a.Path] |= claimOf(a.User, a.Group, a.DirMode)
	for _, name := range names {
		at := path.Join(a.Path, name)
		c.whole(at)
		for at = path.Dir(at); at != a.Path; at = path.Dir(at) {
			c.At[at] |= claimOf(a.User, a.Group, a.DirMode)
		}
	}
}

// claimOf returns what a state with these arguments sets.
func claimOf(user, group, mode string) (c archive.Claim) {
	if user != "" {
		c |= archive.User
	}
	if group != "" {
		c |= archive.Group
	}
	if mode != "" {
		c |= archive.Mode
	}
	return c
}
