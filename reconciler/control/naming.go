package control

import (
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// nameApproved has an approval that waits for a second person name the revision that it lets go on now. The hash of a
// plan is of what changes, and a wave has the same name in each rollout, so another revision could come in between.
func (s *Service) nameApproved(c *service.Call) error {
	var q status.ApproveRequest
	if err := read(c, &q); err != nil || q.Override {
		return err // the freeze is overridden for the commit in Hash
	}
	var commit settings.Commit
	switch sync := s.Newest().Sync; {
	case q.Wave != "" && sync.Rollout == nil:
		return record.Refuse("cannot open the gate after %.100q: no revision goes out in waves", q.Wave)
	case q.Wave != "":
		commit = sync.Rollout.Commit
	case len(q.Hash) < status.MinHash:
		return record.Refuse("cannot approve plan %q: give %d digits of its hash or more", q.Hash, status.MinHash)
	case sync.Facts != nil && strings.HasPrefix(sync.Facts.Hash, q.Hash):
		commit = sync.LastGood.Commit
	case strings.HasPrefix(sync.Blocked, q.Hash):
		commit = sync.LastAttempted
	default:
		return record.Refuse("cannot approve plan %.64s: no such plan waits", q.Hash)
	}
	if err := checkRevision(q.Revision, commit); err != nil {
		return err
	}
	q.Revision = string(commit)
	return setData(c, q)
}

// nameRetried has an order to try the newest revision again name that revision.
func (s *Service) nameRetried(c *service.Call) error {
	var q status.RetryRequest
	if err := read(c, &q); err != nil || q.Revision != "" {
		return err
	}
	q.Revision = string(s.Newest().Sync.Observed)
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
