package rollout

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// gatePrefix begins the text of the approval of a gate; the name of the wave follows.
const gatePrefix = "gate "

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

// OpenGate returns the record after a person has approved the wave under way, so that the rollout continues. a says who
// approves, why and when. The error is a *[record.Refusal] if another wave is under way, or it has no manual gate, or
// it has not passed.
func OpenGate(r record.Record, wave string, a status.Approval) (record.Record, error) {
	if r.Rollout == nil {
		return r, record.Refuse("cannot approve wave %.64q: no revision goes out in waves", wave)
	}
	next := *r.Rollout
	w := next.Wave()
	switch {
	case w.Name != wave:
		return r, record.Refuse("cannot approve wave %.64q: wave %s is under way", wave, w.Name)
	case w.Gate != policy.GateManual:
		return r, record.Refuse("cannot approve wave %s: it has no manual gate", wave)
	case next.Stage.OpenedBy != "":
		return r, record.Refuse("cannot approve wave %s: %s has approved it", wave, next.Stage.OpenedBy)
	case next.Stage.Phase != record.Passed:
		return r, record.Refuse("cannot approve wave %s: it has not passed; zester sync status shows how far it is",
			wave)
	}
	if err := checkReason(a.Reason); err != nil {
		return r, err
	}
	next.Stage.OpenedBy = a.By
	r.Rollout = &next
	a.What = gatePrefix + wave
	return r.NotedApproval(next.Commit, a), nil
}

// A Frozen is a revision that a freeze holds.
type Frozen struct {
	Commit settings.Commit
	Until  time.Time // when the freeze ends; zero if it lasts for more than two years
}

// OverrideFreeze returns the record after a person has let a revision through a freeze. frozen are the revisions that a
// freeze holds: the one under way and the newest. digits are the beginning of the commit of one. a says who lets it
// through, why and when. The override ends with the freeze. The error is a *[record.Refusal] if digits name no such
// revision, or the reason is empty or too long.
func OverrideFreeze(r record.Record, frozen []Frozen, digits string, a status.Approval) (record.Record, error) {
	const cannot = "cannot override the freeze for %.64q: "
	var held []string
	for _, f := range frozen {
		held = append(held, f.Commit.Short())
	}
	i := slices.IndexFunc(frozen, func(f Frozen) bool { return strings.HasPrefix(string(f.Commit), digits) })
	switch {
	case len(frozen) == 0:
		return r, record.Refuse(cannot+"no freeze holds a revision", digits)
	case len(digits) < status.MinHash:
		return r, record.Refuse(cannot+"give %d digits of the commit or more", digits, status.MinHash)
	case i < 0:
		return r, record.Refuse(cannot+"the freeze holds %s", digits, strings.Join(held, " and "))
	case strings.TrimSpace(a.Reason) == "":
		return r, record.Refuse(cannot+"give a reason", digits)
	}
	if err := checkReason(a.Reason); err != nil {
		return r, err
	}
	commit, override := frozen[i].Commit, record.Override{Reason: a.Reason, Until: frozen[i].Until}
	if r.Rollout != nil && r.Rollout.Commit == commit {
		next := *r.Rollout
		next.Override = &override
		r.Rollout = &next
	} else {
		given := record.Approval{Commit: commit, By: a.By, Time: a.Time, Override: &override}
		if r.Approved != nil && r.Approved.Commit == commit {
			given.Hash = r.Approved.Hash // the approval of its plan stays
		}
		r.Approved = &given
	}
	a.What = "freeze"
	return r.NotedApproval(commit, a), nil
}
