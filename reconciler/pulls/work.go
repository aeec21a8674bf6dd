package pulls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/review"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

const (
	maxMemory = 1 << 30  // bytes of the process
	maxFile   = 1 << 30  // bytes of a file that it writes
	maxJob    = 1 << 30  // bytes of the job
	maxPack   = 64 << 20 // bytes of one transfer of a pull request
)

// IsWorker reports whether this process was started to plan one pull request. Then the program has to call [Work] and
// exit.
func IsWorker() bool { return os.Getenv(workerMark) != "" }

// Work reads one job from in, writes its result to out and returns the exit code.
func Work(in io.Reader, out io.Writer) int {
	var j job
	err := json.NewDecoder(io.LimitReader(in, maxJob)).Decode(&j)
	if err == nil {
		err = confine(j.Limit)
	}
	if err == nil {
		err = confineFetch(j.Repo)
	}
	var r result
	if err == nil {
		r = j.result(context.Background())
		err = json.NewEncoder(out).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// confine bounds the resources of this process, and ends it after limit even if the master has ended.
func confine(limit time.Duration) error {
	if limit <= 0 {
		return errors.New("cannot work without a limit")
	}
	time.AfterFunc(limit, func() { os.Exit(1) })
	// if the file exists, so that the kernel kills this process before the master
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	for what, most := range map[int]uint64{
		syscall.RLIMIT_DATA:  maxMemory,
		syscall.RLIMIT_FSIZE: maxFile,
		syscall.RLIMIT_CPU:   uint64(math.Ceil(limit.Seconds())),
		syscall.RLIMIT_CORE:  0,
	} {
		if err := syscall.Setrlimit(what, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("cannot bound a process for pull requests: %w", err)
		}
	}
	return nil
}

// result plans the pull request.
func (j *job) result(ctx context.Context) (r result) {
	text, err := j.plan(ctx)
	e, git := errors.AsType[*gitrepo.Error](err)
	switch {
	case errors.Is(err, errAgain), git && !e.Reason.Stalled():
		r.Again = err.Error()
	case err != nil:
		r.Error = err.Error()
	default:
		r.Markdown = text
	}
	return r
}

// plan fetches the branch and the pull request, and compares the pull request with its merge base, so that later
// commits of the branch are not part of the plan.
func (j *job) plan(ctx context.Context) (text string, err error) {
	tip, err := j.fetch(ctx, "")
	if err != nil {
		return "", err
	}
	head, err := j.fetch(ctx, j.Ref)
	if err != nil {
		return "", err
	}
	if head.String() != j.Head {
		return "", fmt.Errorf("%w: its head is %s, and no longer %s", errAgain, head, j.Head)
	}
	repo, err := gitrepo.Open(j.Repo)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, repo.Close()) }()
	base, ok, err := repo.MergeBase(tip, head)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", fmt.Errorf("its commits share no ancestor with the branch %s", j.Branch)
	}
	fleet := peelindex.New()
	for _, m := range j.Fleet {
		fleet.Put(m.Peel, m.Facts)
	}
	if err := confineReview(j.Repo); err != nil {
		return "", err
	}
	made, err := j.review(repo, base, head, fleet)
	if err != nil {
		return "", err
	}
	text = strings.TrimLeft(strings.TrimPrefix(made.Markdown(), review.Marker), "\n")
	text += fmt.Sprintf("\nPlanned for %d peels at %s, for commit %.8s alone.", fleet.Len(),
		time.Now().UTC().Format("2006-01-02 15:04 MST"), head)
	if base != tip {
		text += " The branch has newer commits, which are not in this plan."
	}
	return text + "\n", nil
}

// fetch fetches a reference into the store, the branch if ref is empty, and returns its commit.
func (j *job) fetch(ctx context.Context, ref string) (at gitrepo.Hash, err error) {
	o := j.Repo
	if o.Branch = j.Branch; ref != "" {
		o.Branch, o.Ref, o.MaxPack = "", ref, maxPack
	}
	repo, err := gitrepo.Open(o)
	if err != nil {
		return at, err
	}
	defer func() { err = errors.Join(err, repo.Close()) }()
	if at, err = repo.Resolve(ctx); err != nil {
		return at, err
	}
	return at, repo.Fetch(ctx, at)
}

// review compares two commits.
func (j *job) review(repo *gitrepo.Repo, base, head gitrepo.Hash, fleet *peelindex.Index) (*review.Review, error) {
	o := review.Options{
		Path: j.Repo.Path,
		Base: review.Revision{Name: j.Branch, Commit: base.String()},
		Head: review.Revision{Name: j.Name},
		From: time.Now(),
	}
	compiler := plan.NewCompiler() // without identities: secrets stay encrypted
	before, err := review.Compile(repo, compiler, fleet, base)
	if err != nil {
		return nil, fmt.Errorf("cannot compare with the branch: %w", err)
	}
	if c := before.Commit; !c.Hash.IsZero() {
		o.Base.Commit, o.Base.Subject = c.Hash.String(), c.Subject()
	}
	after, err := repo.Snapshot(head)
	var made *plan.Plan
	if err == nil {
		o.Head.Commit, o.Head.Subject, o.Message = head.String(), after.Commit.Subject(), after.Commit.Message
		made, err = compiler.Compile(after.Tree, fleet)
	}
	if refused, ok := review.Refusal(err); ok {
		return review.Refuse(refused, o), nil
	}
	if err != nil {
		return nil, err
	}
	return review.Make(before.Plan, made, o)
}
