// File commit.go answers sync.commit: what a revision changed against the revision that was in force before it. Both
// are read from the repo or from the archive, and compiled for the present fleet.

package control

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/reconciler/plan/review"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

const (
	commitsWait  = 16               // requests of sync.commit that wait
	commitsEach  = 4                // of one caller
	comparedMost = 8                // answers that are kept
	comparedTime = 10 * time.Minute // for which an answer is kept; the fleet may change meanwhile
	mistakesTold = 3                // of a revision that does not compile
)

// errNoCommit: the history has no such revision.
var errNoCommit = &api.Error{Code: api.CodeNotFound, Msg: "cannot show what a revision changed"}

// comparisons keeps the newest answers, as pages ask for one again and again.
type comparisons struct {
	mu   sync.Mutex // guards what follows
	kept map[[2]settings.Commit]comparison
}

type comparison struct {
	answer *status.CommitChange
	until  time.Time
}

// at returns the answer about a revision and its base; nil: none is kept.
func (k *comparisons) at(pair [2]settings.Commit, now time.Time) *status.CommitChange {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c, ok := k.kept[pair]; ok && now.Before(c.until) {
		return c.answer
	}
	return nil
}

func (k *comparisons) keep(pair [2]settings.Commit, answer *status.CommitChange, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil || len(k.kept) >= comparedMost {
		k.kept = map[[2]settings.Commit]comparison{}
	}
	k.kept[pair] = comparison{answer, now.Add(comparedTime)}
}

// commit answers with what a revision of the history changed, or why that is not known.
func (s *Service) commit(ctx context.Context, _ *service.Call, q status.CommitRequest) (*status.CommitChange, error) {
	if len(q.Revision) < status.MinRevision {
		return nil, record.Refuse("cannot show what %q changed: give %d digits of a commit or more", q.Revision,
			status.MinRevision)
	}
	commit, base, ok := pairOf(s.Newest().Attempts, q.Revision)
	if !ok {
		return nil, fmt.Errorf("%w: no revision of the history begins with %.64s", errNoCommit, q.Revision)
	}
	pair := [2]settings.Commit{commit, base}
	if known := s.compared.at(pair, time.Now()); known != nil {
		return known, nil
	}
	answer := &status.CommitChange{Commit: commit, Base: base, Files: []status.FileChange{}, Blocks: []status.Block{}}
	if err := s.compare(ctx, answer); err != nil {
		return nil, err
	}
	if answer.Lacks == "" {
		s.compared.keep(pair, answer, time.Now())
	}
	return answer, nil
}

// pairOf returns the revision of the newest attempt whose commit begins with digits, and the revision that was in force
// before that attempt, empty if none was.
func pairOf(attempts []status.Attempt, digits string) (commit, base settings.Commit, ok bool) {
	for _, a := range attempts {
		switch {
		case commit == "" && strings.HasPrefix(string(a.Commit), digits):
			commit = a.Commit
		case commit != "" && a.Commit != commit && a.Outcome == status.OutcomeApplied:
			return commit, a.Commit, true
		}
	}
	return commit, "", commit != ""
}

// compare fills in what a revision changed. What makes that unknown is no error.
func (s *Service) compare(ctx context.Context, answer *status.CommitChange) error {
	head, lacks, err := s.tree(ctx, answer.Commit)
	if err != nil || lacks != "" {
		answer.Lacks = lacks
		return err
	}
	base, lacks, err := s.tree(ctx, answer.Base)
	if err != nil || lacks != "" {
		answer.Lacks = lacks
		return err
	}
	if answer.Files, answer.MoreFiles, err = filesOf(base, head); err != nil {
		return err
	}
	before, lacks, err := s.planOf(ctx, answer.Base, base)
	if err != nil || lacks != "" {
		answer.Lacks = lacks
		return err
	}
	after, lacks, err := s.planOf(ctx, answer.Commit, head)
	if err != nil || lacks != "" {
		answer.Lacks = lacks
		return err
	}
	return describe(answer, before, after)
}

// tree returns the files of a revision; none for an empty commit.
func (s *Service) tree(ctx context.Context, commit settings.Commit) (tree fs.FS, lacks string, err error) {
	if commit == "" {
		return embed.FS{}, "", nil
	}
	r, err := s.Read(ctx, commit)
	switch {
	case err != nil:
		return nil, "", err
	case r == nil:
		return nil, fmt.Sprintf("neither the clone of the repo nor the bus has the files of %s any more",
			commit.Short()), nil
	}
	return r.Tree, "", nil
}

// planOf compiles a revision for the present fleet, with placeholders for secrets.
func (s *Service) planOf(ctx context.Context, commit settings.Commit, tree fs.FS) (*plan.Plan, string, error) {
	compiler := plan.NewCompiler()
	compiler.Until(ctx)
	p, err := compiler.Compile(tree, s.Fleet.Index())
	if refused, ok := review.Refusal(err); ok {
		texts := review.Errors(refused)
		texts = texts[:min(mistakesTold, len(texts))]
		return nil, commit.Short() + " does not compile: " + strings.Join(texts, "; "), nil
	}
	return p, "", err
}

// describe adds what differs between two plans, within the bounds of [status.CommitChange].
func describe(answer *status.CommitChange, before, after *plan.Plan) error {
	d, err := diff.Make(diff.Of(before), after)
	if err != nil {
		return err
	}
	change := ChangeOf(d)
	answer.Change = &change
	r, err := review.Make(before, after, review.Options{From: time.Now(), Zone: time.UTC})
	if err != nil {
		return err
	}
	answer.Load = &status.LoadChange{Before: r.Load.Before.Runs, After: r.Load.After.Runs}
	if w := r.Load.Before.Worst; w != nil {
		answer.Load.WorstBefore = w.Runs
	}
	if w := r.Load.After.Worst; w != nil {
		answer.Load.WorstAfter = w.Runs
	}
	room := status.MaxLines
	for _, b := range r.Blocks() {
		lines := b.Lines()
		shown := lines[:min(room, len(lines))]
		room -= len(shown)
		answer.MoreLines += len(lines) - len(shown)
		if len(shown) == 0 || len(answer.Blocks) >= status.MaxGroups {
			answer.MoreLines += len(shown)
			continue
		}
		block := status.Block{Peels: firstOf(b.Peels), Count: len(b.Peels)}
		for _, line := range shown {
			block.Lines = append(block.Lines, string(rune(line.Mark))+" "+line.Text)
		}
		answer.Blocks = append(answer.Blocks, block)
	}
	return nil
}

// filesOf returns the files of the fleet that differ between two trees, the first [status.MaxFiles], and how many more
// there are. Other files of the repo do not count: the bus does not store them.
func filesOf(before, after fs.FS) (files []status.FileChange, more int, err error) {
	old, err := blobsOf(before)
	if err != nil {
		return nil, 0, err
	}
	latest, err := blobsOf(after)
	if err != nil {
		return nil, 0, err
	}
	var paths []string
	for path, blob := range latest {
		if was, ok := old[path]; !ok || was == nil || was != blob {
			paths = append(paths, path)
		}
	}
	for path := range old {
		if _, ok := latest[path]; !ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	files = []status.FileChange{}
	for _, path := range paths {
		if len(files) == status.MaxFiles {
			more++
			continue
		}
		f, differs, err := fileChange(before, after, path)
		if err != nil {
			return nil, 0, err
		}
		if differs {
			files = append(files, f)
		}
	}
	return files, more, nil
}

// blobsOf returns the files of a tree with what is equal for equal contents; nil where that is not known.
func blobsOf(tree fs.FS) (map[string]any, error) {
	blobs := map[string]any{}
	err := archive.Walk(tree, func(path string, info fs.FileInfo) error {
		blobs[path] = info.Sys()
		return nil
	})
	return blobs, err
}

// fileChange counts the lines in which a file differs.
func fileChange(before, after fs.FS, path string) (f status.FileChange, differs bool, err error) {
	old, err := readFile(before, path)
	if err != nil {
		return f, false, err
	}
	latest, err := readFile(after, path)
	if err != nil {
		return f, false, err
	}
	f.Path = path
	for _, line := range diff.Unified(old, latest) {
		switch {
		case strings.HasPrefix(line, "+"):
			f.Added++
		case strings.HasPrefix(line, "-"):
			f.Removed++
		}
	}
	return f, old == nil != (latest == nil) || !bytes.Equal(old, latest), nil
}

// readFile returns a file, nil if there is none.
func readFile(tree fs.FS, path string) ([]byte, error) {
	text, err := fs.ReadFile(tree, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}
