package control

import (
	"context"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// nameApproved has an approval that waits for a second person name the revision that it lets go on now, and what holds
// it. The hash of a plan is of what changes, and a wave has the same name in each rollout, so another revision could
// come in between; another plan or commit may begin with the same digits.
func (s *Service) nameApproved(_ context.Context, c *service.Call) error {
	var q status.ApproveRequest
	if err := read(c, &q); err != nil {
		return err
	}
	var commit settings.Commit
	switch sync := s.Newest().Sync; {
	case q.Override:
		return nameFrozen(c, q, &sync)
	case q.Wave != "" && sync.Rollout == nil:
		return record.Refuse("cannot open the gate after %.100q: no revision goes out in waves", q.Wave)
	case q.Wave != "":
		commit = sync.Rollout.Commit
	case len(q.Hash) < status.MinHash:
		return record.Refuse("cannot approve plan %q: give %d digits of its hash or more", q.Hash, status.MinHash)
	case sync.Facts != nil && strings.HasPrefix(sync.Facts.Hash, q.Hash):
		commit, q.Hash = sync.LastGood.Commit, sync.Facts.Hash
	case strings.HasPrefix(sync.Blocked, q.Hash):
		commit, q.Hash = sync.LastAttempted, sync.Blocked
	default:
		return record.Refuse("cannot approve plan %.64s: no such plan waits", q.Hash)
	}
	if err := checkRevision(q.Revision, commit); err != nil {
		return err
	}
	q.Revision = string(commit)
	return setData(c, q)
}

// nameFrozen has an order to override a freeze name the whole commit, and the end of the freeze.
func nameFrozen(c *service.Call, q status.ApproveRequest, sync *status.Sync) error {
	f := sync.Frozen
	switch {
	case len(q.Hash) < status.MinHash:
		return record.Refuse("cannot override the freeze for %q: give %d digits of the commit or more", q.Hash,
			status.MinHash)
	case strings.TrimSpace(q.Reason) == "":
		return record.Refuse("cannot override the freeze for %.64q: give a reason", q.Hash)
	case f != nil && strings.HasPrefix(string(f.Commit), q.Hash):
		q.Hash = string(f.Commit)
		if q.Until.IsZero() || !f.Until.IsZero() && q.Until.After(f.Until) {
			q.Until = f.Until
		}
	default:
		return record.Refuse("cannot override the freeze for %.64q: no freeze holds such a revision", q.Hash)
	}
	return setData(c, q)
}

// nameRetried has an order to try a revision again name it in full.
func (s *Service) nameRetried(_ context.Context, c *service.Call) error {
	var q status.RetryRequest
	err := read(c, &q)
	observed := string(s.Newest().Sync.Observed)
	if err != nil || !strings.HasPrefix(observed, q.Revision) { // only the newest is tried again
		return err
	}
	q.Revision = observed
	return setData(c, q)
}

// namePinned has an order to pin a revision name it in full.
func (s *Service) namePinned(ctx context.Context, c *service.Call) error {
	var q status.PinRequest
	if err := read(c, &q); err != nil {
		return err
	}
	commit, err := s.stored(ctx, q.Revision)
	if err != nil {
		return err
	}
	q.Revision = string(commit)
	return setData(c, q)
}

// nameResumed has an order to resume name the pause that there is now.
func (s *Service) nameResumed(_ context.Context, c *service.Call) error {
	p := s.Newest().Sync.Paused
	if p == nil {
		return record.Refuse("cannot resume: nothing is paused")
	}
	return nameSince(c, "resume", "pause", p.By, p.Time)
}

// nameUnpinned has an order to unpin name the pin that there is now.
func (s *Service) nameUnpinned(_ context.Context, c *service.Call) error {
	p := s.Newest().Sync.Pinned
	if p == nil {
		return record.Refuse("cannot unpin: nothing is pinned")
	}
	return nameSince(c, "unpin", "pin", p.By, p.Time)
}

func nameSince(c *service.Call, verb, noun, by string, began time.Time) error {
	var q status.ReleaseRequest
	err := read(c, &q)
	if err == nil {
		err = checkSince(verb, noun, q.Since, by, began)
	}
	if err != nil {
		return err
	}
	q.Since = began
	return setData(c, q)
}

// read decodes the request of a call.
func read(c *service.Call, into any) error {
	if len(c.Data) == 0 {
		return nil
	}
	if err := canon.Unmarshal(c.Data, into); err != nil {
		return &api.Error{Code: api.CodeInvalid, Msg: "cannot read the request: " + err.Error(), Err: err}
	}
	return nil
}

// setData replaces the request of a call.
func setData(c *service.Call, q any) (err error) {
	c.Data, err = canon.Marshal(q)
	return err
}
