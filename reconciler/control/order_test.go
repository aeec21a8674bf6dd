package control

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/status"
)

const (
	one = "1111111111111111111111111111111111111111"
	two = "2222222222222222222222222222222222222222"
)

var plan64 = strings.Repeat("f", 64)

func revision(t *testing.T, commit string) *archive.Revision {
	t.Helper()
	h, err := gitrepo.ParseHash(commit)
	if err != nil {
		t.Fatal(err)
	}
	return &archive.Revision{Commit: gitrepo.Commit{Hash: h, Author: "Ada", Email: "ada@example.com"}, Safety: &policy.Safety{}}
}

// TestOrders holds what each order makes of a record, one line each, and that it changes nothing in place.
func TestOrders(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	by := &record.Approval{By: "ann", Time: now}
	waits := record.Record{Commit: one, Done: true, Blocked: &record.Blocked{Commit: two, Hash: plan64}, History: []status.Attempt{{Commit: two, Outcome: status.OutcomeBlocked}}}
	facts := record.Record{Commit: one, Done: true, Facts: record.Facts{Hash: plan64}}
	rolls := record.Record{Commit: one, Done: true, Rollout: &record.Rollout{Commit: two}}
	gate := record.Record{Commit: one, History: []status.Attempt{{Commit: two, Outcome: status.OutcomeProgressing}}, Rollout: &record.Rollout{
		Commit: two, Waves: []policy.Wave{{Name: "canary", Gate: policy.GateManual}}, Stage: record.Stage{Phase: record.Passed},
	}}
	skipped := record.Record{Commit: one, Skipped: []record.Skipped{{Commit: two}}, History: []status.Attempt{{Commit: two, Author: "Ada", Outcome: status.OutcomeRolledBack}}}
	for _, c := range []struct {
		name   string
		r      record.Record
		change Change
		head   settings.Commit
		want   func(record.Record) bool
		refuse string
	}{
		{"pause", record.Record{}, Pause("ann"), one, func(r record.Record) bool { return *r.Suspended == *by }, ""},
		{"pause again", record.Record{Suspended: by}, Pause("bob"), one, nil, "ann has done so"},
		{"pause before the branch is read", record.Record{}, Pause("ann"), "", func(r record.Record) bool { return r.Suspended != nil }, ""},
		{"resume", record.Record{Suspended: by}, Resume(time.Time{}), one, func(r record.Record) bool { return r.Suspended == nil }, ""},
		{"resume what is not paused", record.Record{}, Resume(time.Time{}), one, nil, "nothing is paused"},
		{"resume the pause that was seen", record.Record{Suspended: by}, Resume(now.UTC()), one, func(r record.Record) bool { return r.Suspended == nil }, ""},
		{"resume another pause", record.Record{Suspended: by}, Resume(now.Add(-1)), one, nil, "ann has made another one"},
		{"approve", waits, Approve(status.ApproveRequest{Hash: plan64[:8]}, "ann"), two, func(r record.Record) bool {
			return r.Blocked == nil && *r.Approved == record.Approval{Commit: two, Hash: plan64, By: "ann", Time: now} && r.History[0].By == "ann"
		}, ""},
		{"approve another plan", waits, Approve(status.ApproveRequest{Hash: "eeeeeeee"}, "ann"), two, nil, "that waits is now " + plan64},
		{"approve after the branch moved", waits, Approve(status.ApproveRequest{Hash: plan64}, "ann"), one, nil, "the branch has moved"},
		{"approve before the branch is read", waits, Approve(status.ApproveRequest{Hash: plan64}, "ann"), "", nil, "not read the branch"},
		{"approve what facts take", facts, Approve(status.ApproveRequest{Hash: plan64[:8]}, "ann"), two, func(r record.Record) bool {
			return *r.Facts.Approved == record.Approval{Commit: one, Hash: plan64, By: "ann", Time: now}
		}, ""},
		{"approve what facts take with no digits", facts, Approve(status.ApproveRequest{}, "ann"), two, nil, "give 8 digits"},
		{"approve what facts take with few digits", facts, Approve(status.ApproveRequest{Hash: plan64[:7]}, "ann"), two, nil, "give 8 digits"},
		{"open a gate", gate, OpenGate(status.ApproveRequest{Wave: "canary", Reason: "fine"}, "ann"), two, func(r record.Record) bool {
			return r.Rollout.Stage.OpenedBy == "ann" && r.History[0].Approvals[0] == status.Approval{What: "gate canary", By: "ann", Reason: "fine", Time: now}
		}, ""},
		{"open the gate of the revision that was shown", gate, OpenGate(status.ApproveRequest{Wave: "canary", Revision: two[:8]}, "ann"), two, func(r record.Record) bool {
			return r.Rollout.Stage.OpenedBy == "ann"
		}, ""},
		{"open the gate of another revision", gate, OpenGate(status.ApproveRequest{Wave: "canary", Revision: one[:8]}, "ann"), two, nil, "the order would let " + two[:8] + " go on"},
		{"open a gate for few digits", gate, OpenGate(status.ApproveRequest{Wave: "canary", Revision: two[:3]}, "ann"), two, nil, "give 4 digits"},
		{"approve the plan of another revision", waits, Approve(status.ApproveRequest{Hash: plan64, Revision: one[:8]}, "ann"), two, nil, "the order would let " + two[:8] + " go on"},
		{"open another gate", gate, OpenGate(status.ApproveRequest{Wave: "half"}, "ann"), two, nil, "wave canary is under way"},
		{"override a freeze", waits, OverrideFreeze(status.ApproveRequest{Hash: two[:8], Reason: "outage"}, "ann"), two, func(r record.Record) bool {
			return r.Approved.Commit == two && r.Approved.By == "ann" && *r.Approved.Override == record.Override{Reason: "outage", Until: now} && r.History[0].Approvals[0].What == "freeze"
		}, ""},
		{"override a freeze that has become shorter", waits, OverrideFreeze(status.ApproveRequest{Hash: two[:8], Reason: "outage", Until: now.Add(1)}, "ann"), two, func(r record.Record) bool {
			return r.Approved.Override.Until.Equal(now)
		}, ""},
		{"override a freeze that has become longer", waits, OverrideFreeze(status.ApproveRequest{Hash: two[:8], Reason: "outage", Until: now.Add(-1)}, "ann"), two, nil, "the freeze has become longer"},
		{"override the freeze of another revision", waits, OverrideFreeze(status.ApproveRequest{Hash: one[:8], Reason: "outage"}, "ann"), two, nil, "the freeze holds"},
		{"pin", rolls, Pin(revision(t, two), "ann", true), two, func(r record.Record) bool {
			return r.Commit == two && !r.Done && r.Rollout == nil && r.Pinned.Head == two && r.Pinned.UntilNewer && r.History[0].By == "ann"
		}, ""},
		{"pin what waves replace", rolls, Pin(revision(t, one), "ann", false), two, func(r record.Record) bool {
			return r.Commit == one && !r.Done && r.Rollout == nil && r.Pinned.Commit == one
		}, ""},
		{"pin what is in force", waits, Pin(revision(t, one), "ann", false), two, func(r record.Record) bool {
			return r.Done && len(r.History) == 1 && r.Blocked == nil
		}, ""},
		{"pin before the branch is read", waits, Pin(revision(t, one), "ann", true), "", func(r record.Record) bool { return r.Pinned.Head == two }, ""},
		{"unpin", record.Record{Pinned: &record.Pin{}}, Unpin(time.Time{}), one, func(r record.Record) bool { return r.Pinned == nil }, ""},
		{"unpin another pin", record.Record{Pinned: &record.Pin{By: "bob", Time: now}}, Unpin(now.Add(-1)), one, nil, "bob has made another one"},
		{"unpin what is not pinned", record.Record{}, Unpin(time.Time{}), one, nil, "nothing is pinned"},
		{"retry", skipped, Retry("", "ann"), two, func(r record.Record) bool {
			last := r.LastAttempt()
			return len(r.Skipped) == 0 && last.By == "ann" && last.Author == "Ada" && last.Outcome == status.OutcomeProgressing
		}, ""},
		{"retry after the branch moved", skipped, Retry("", "ann"), one, nil, "the branch has moved"},
	} {
		before := c.r
		got, err := c.change(c.r, Seen{Now: now, Owner: "m1", Head: c.head, Frozen: []rollout.Frozen{{Commit: two, Until: now}}})
		_, refused := errors.AsType[*record.Refusal](err)
		switch {
		case c.refuse != "" && (!refused || !strings.Contains(err.Error(), c.refuse)):
			t.Errorf("%s: %v, want %q", c.name, err, c.refuse)
		case c.refuse == "" && (err != nil || !c.want(got)):
			t.Errorf("%s: %v, %+v", c.name, err, got)
		}
		if len(before.History) > 0 && before.History[0].By != "" || len(before.Skipped) != len(c.r.Skipped) {
			t.Errorf("%s: it changed the record that it was given", c.name)
		}
	}
}
