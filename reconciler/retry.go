package reconciler

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// mayRetry returns the rolled-back revision whose commit begins with digits, the newest one if digits is empty, or a
// *refusal if it would not be tried. head is the newest revision, empty while the branch has not been read.
func (r *record) mayRetry(digits string, head settings.Commit) (settings.Commit, error) {
	found, err := r.findSkipped(digits)
	if err != nil {
		return "", err
	}
	cannot := fmt.Sprintf("cannot retry %s: ", found.Short())
	switch {
	case head == "":
		return "", &refusal{cannot + "this master has not read the branch yet: run zester sync now, then try again"}
	case found != head:
		return "", &refusal{cannot + fmt.Sprintf("the branch has moved to %s, and only its newest commit goes to the fleet", head.Short())}
	case r.Pinned != nil:
		return "", &refusal{cannot + fmt.Sprintf("%s has pinned %s: run zester sync unpin first", r.Pinned.By, r.Pinned.Commit.Short())}
	case r.Suspended != nil:
		return "", &refusal{cannot + fmt.Sprintf("%s has paused new commits: run zester sync resume first", r.Suspended.By)}
	}
	return found, nil
}

// findSkipped returns the one rolled-back revision whose commit begins with digits, the newest one if digits is empty.
func (r *record) findSkipped(digits string) (settings.Commit, error) {
	var found []settings.Commit
	for _, s := range slices.Backward(r.Skipped) {
		if strings.HasPrefix(string(s.Commit), digits) && !slices.Contains(found, s.Commit) {
			found = append(found, s.Commit)
		}
	}
	switch {
	case digits != "" && len(digits) < status.MinRevision:
		return "", &refusal{fmt.Sprintf("cannot retry %q: give %d digits of a commit or more", digits, status.MinRevision)}
	case len(found) == 0 && digits == "":
		return "", &refusal{"cannot retry: no revision was rolled back"}
	case len(found) == 0:
		return "", &refusal{fmt.Sprintf("cannot retry %.64s: no such revision was rolled back; zester sync history shows which were", digits)}
	case len(found) > 1 && digits != "":
		return "", &refusal{fmt.Sprintf("cannot retry %.64s: %d revisions that were rolled back begin so", digits, len(found))}
	}
	return found[0], nil
}

// unskipped returns the record without the note that a revision was rolled back.
func (r record) unskipped(commit settings.Commit) record {
	r.Skipped = slices.DeleteFunc(slices.Clone(r.Skipped), func(s skipped) bool { return s.Commit == commit })
	return r
}

// skippedHead returns the condition HeadSkipped. It is true if head, the newest revision of the branch, was rolled back:
// then the revision in force stays, whichever that is after a pin.
func (r *record) skippedHead(head settings.Commit) status.Condition {
	c := status.Condition{Type: status.HeadSkipped}
	if slices.ContainsFunc(r.Skipped, func(s skipped) bool { return s.Commit == head }) {
		c.Status, c.Reason, c.ObservedRevision = true, "RolledBack", head
		c.Message = fmt.Sprintf("%s, the newest commit, was rolled back and is not tried again; %s stays in force until a newer commit comes or zester sync retry %[1]s", head.Short(), r.Commit.Short())
	}
	return c
}

// retry has a revision tried again that was rolled back: from its first wave, and past the guard as a new commit.
func (t *term) retry(ctx context.Context, req micro.Request) (any, error) {
	var q status.RetryRequest
	if len(req.Data()) > 0 {
		if err := canon.Unmarshal(req.Data(), &q); err != nil {
			return nil, &refusal{err.Error()}
		}
	}
	var commit settings.Commit
	out, err := t.do(ctx, &ask{do: func(ctx context.Context) (err error) {
		if commit, err = t.last.mayRetry(q.Revision, t.newestCommit()); err != nil {
			return err
		}
		r := t.note(t.last.unskipped(commit), t.commitInfo(t.head), status.OutcomeProgressing, "").by(commit, asker(req))
		if err := t.writeRecord(ctx, r); err != nil {
			return err
		}
		t.tried = gitrepo.Hash{}
		t.board.retries()
		t.r.log.Info("revision is tried again", "commit", commit, "by", asker(req))
		return nil
	}})
	if err != nil {
		return nil, err
	}
	return done{out, string(commit)}, nil
}
