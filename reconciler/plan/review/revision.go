// File revision.go compiles the revision that a fleet has for a commit, also if the commit itself is refused. Call
// [Compile] for the base of a comparison, and [Refusal] for the error of its head.
//
// Known gap: after 50 commits in a row that do not compile it gives up with an error.

package review

import (
	"embed"
	"errors"
	"fmt"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// maxTried bounds the commits that are read, at the commit itself and before it.
const maxTried = 50

// A Repo opens commits. It is a [gitrepo.Repo] or a [gitrepo.Checkout].
type Repo interface {
	Snapshot(at gitrepo.Hash) (*gitrepo.Snapshot, error)
}

// A Compiled is the revision that the fleet has.
type Compiled struct {
	Plan   *plan.Plan
	Commit gitrepo.Commit // zero if no commit compiles; then the plan has no settings
}

// Compile compiles a commit for a fleet. If it does not compile, the fleet has the newest earlier commit that compiles,
// along first parents and within 50 commits. Peels that mistakes hold back have the settings of the newest earlier
// commit that has some for them. The plan has no settings if no commit compiles, or the folder of the fleet does not
// exist yet.
func Compile(repo Repo, compiler *plan.Compiler, fleet *peelindex.Index, at gitrepo.Hash) (Compiled, error) {
	for range maxTried {
		made, commit, err := compile(repo, compiler, fleet, at)
		switch {
		case err == nil:
			return Compiled{made, commit}, fillBehind(made, repo, compiler, fleet, commit.Parents)
		case isPathMissing(err), isRefused(err) && len(commit.Parents) == 0:
			made, err := compiler.Compile(embed.FS{}, fleet)
			return Compiled{Plan: made}, err
		case !isRefused(err):
			return Compiled{}, err
		}
		at = commit.Parents[0]
	}
	return Compiled{}, fmt.Errorf("neither it nor the %d commits before it compile", maxTried)
}

// fillBehind gives the peels that mistakes hold back the settings of earlier commits.
func fillBehind(base *plan.Plan, repo Repo, compiler *plan.Compiler, fleet *peelindex.Index,
	parents []gitrepo.Hash,
) error {
	for range maxTried {
		if len(base.Behind) == 0 || len(parents) == 0 {
			return nil
		}
		older, commit, err := compile(repo, compiler, fleet, parents[0])
		if isPathMissing(err) {
			return nil
		}
		parents = commit.Parents
		if isRefused(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot find the settings of the peels that mistakes hold back: %w", err)
		}
		for id := range base.Behind {
			if e := older.Peels[id]; e != nil {
				base.Peels[id] = e
				delete(base.Behind, id)
			}
		}
	}
	return nil
}

func compile(repo Repo, compiler *plan.Compiler, fleet *peelindex.Index,
	at gitrepo.Hash,
) (*plan.Plan, gitrepo.Commit, error) {
	s, err := repo.Snapshot(at)
	if err != nil {
		return nil, gitrepo.Commit{}, err
	}
	made, err := compiler.Compile(s.Tree, fleet)
	return made, s.Commit, err
}

func isRefused(err error) bool {
	_, ok := errors.AsType[*plan.Error](err)
	return ok
}

func isPathMissing(err error) bool {
	e, ok := errors.AsType[*gitrepo.Error](err)
	return ok && e.Reason == gitrepo.PathNotFound
}

// Refusal converts an error to the one with which a master refuses a revision; ok is false if the error is not the
// fault of the revision.
func Refusal(err error) (refused *plan.Error, ok bool) {
	if refused, ok = errors.AsType[*plan.Error](err); ok {
		return refused, true
	}
	if e, isGit := errors.AsType[*gitrepo.Error](err); isGit && e.Reason.Stalled() {
		at := strictyaml.Pos{File: e.Subject}
		return &plan.Error{Reason: plan.Reason(e.Reason), Errors: strictyaml.Errors{{Pos: at, Msg: e.Msg}}}, true
	}
	return nil, false
}
