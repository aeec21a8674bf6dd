package rollout

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/top"
)

// MaxReason bounds the reason that a person gives, in bytes.
const MaxReason = 300

// checkReason returns a *[record.Refusal] unless reason is one line of at most [MaxReason] bytes.
func checkReason(reason string) error {
	if len(reason) > MaxReason {
		return record.Refuse("cannot record a reason of %d bytes, the limit is %d", len(reason), MaxReason)
	}
	if !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl) {
		return record.Refuse("cannot record the reason %q: write one line of text", reason)
	}
	return nil
}

// OpenGate returns the record after a person has approved the wave under way, so that the rollout continues. The error is a
// *[record.Refusal] if another wave is under way, or it has no manual gate, or it has not passed.
func OpenGate(r record.Record, wave, by, reason string, now time.Time) (record.Record, error) {
	if r.Rollout == nil {
		return r, record.Refuse("cannot approve wave %.64q: no revision goes out in waves", wave)
	}
	next := *r.Rollout
	w := next.Wave()
	switch {
	case w.Name != wave:
		return r, record.Refuse("cannot approve wave %.64q: wave %s is under way", wave, w.Name)
	case w.Gate != top.GateManual:
		return r, record.Refuse("cannot approve wave %s: it has no manual gate", wave)
	case next.Stage.OpenedBy != "":
		return r, record.Refuse("cannot approve wave %s: %s has approved it", wave, next.Stage.OpenedBy)
	case next.Stage.Phase != record.Passed:
		return r, record.Refuse("cannot approve wave %s: it has not passed; zester sync status shows how far it is", wave)
	}
	if err := checkReason(reason); err != nil {
		return r, err
	}
	next.Stage.OpenedBy = by
	r.Rollout = &next
	return r.NotedApproval(next.Commit, status.Approval{What: "gate " + wave, By: by, Reason: reason, Time: now}), nil
}

// OverrideFreeze returns the record after a person has let a revision through a freeze. frozen is the revision that a freeze
// holds, empty if there is none, and digits are the beginning of its commit. The error is a *[record.Refusal] if digits name
// another revision, or the reason is empty or too long.
func OverrideFreeze(r record.Record, frozen settings.Commit, digits, by, reason string, now time.Time) (record.Record, error) {
	const cannot = "cannot override the freeze for %.64q: "
	switch {
	case frozen == "":
		return r, record.Refuse(cannot+"no freeze holds a revision", digits)
	case len(digits) < status.MinHash:
		return r, record.Refuse(cannot+"give %d digits of the commit or more", digits, status.MinHash)
	case !strings.HasPrefix(string(frozen), digits):
		return r, record.Refuse(cannot+"the freeze holds %s", digits, frozen.Short())
	case strings.TrimSpace(reason) == "":
		return r, record.Refuse(cannot+"give a reason", digits)
	}
	if err := checkReason(reason); err != nil {
		return r, err
	}
	if r.Rollout != nil && r.Rollout.Commit == frozen {
		next := *r.Rollout
		next.Override = reason
		r.Rollout = &next
	} else {
		given := record.Approval{Commit: frozen, By: by, Time: now, Override: reason}
		if r.Approved != nil && r.Approved.Commit == frozen {
			given.Hash = r.Approved.Hash // the approval of its plan stays
		}
		r.Approved = &given
	}
	return r.NotedApproval(frozen, status.Approval{What: "freeze", By: by, Reason: reason, Time: now}), nil
}
