package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/control"
	"github.com/seed-c01c3da5/zester/reconciler/decide"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/signature"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/reconciler/publish"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
)

// History says what happens when the branch moves to a commit that does not descend from the last revision that went to
// the fleet.
type History string

// The policies. Whoever can force-push could also commit, so the policy is the master's own configuration and never the
// repo's.
const (
	HistoryForbid  History = "forbid"  // the revision is refused, and cannot be approved
	HistoryApprove History = "approve" // the revision waits for approval; the default
	HistoryAllow   History = "allow"   // the revision is judged as any other
)

// errForbidden: the branch moved to a commit that does not descend from the last revision.
var errForbidden = errors.New("history: forbid in this master's configuration refuses that; move the branch back, or choose a revision with zester sync pin")

// judge finds out whether a commit may go to the fleet. Its error says nothing about the commit.
func (w *Worker) judge(ctx context.Context, j Task) (*decide.Judgement, error) {
	out := &decide.Judgement{Commit: j.Commit, Made: j.Basis, Attempt: j.Attempt}
	signer, err := w.verify(out, &j.Record)
	if err == nil && j.Record.IsSent(j.Commit) {
		out.Info = w.o.Reader.Info(j.Commit)
		return out, nil
	}
	var revision *archive.Revision
	if err == nil {
		revision, err = w.o.Reader.Fetched(j.Commit)
	}
	var p *plan.Plan
	if err == nil {
		p, err = w.compiler.Compile(revision.Tree, w.o.Fleet.Index())
	}
	if err == nil {
		p = publish.HoldBack(p, w.o.Fleet)
		w.judged = decide.Compiled{Revision: revision, Plan: p, Changes: j.Basis.Changes}
		err = w.guard(ctx, out, j, p, signer)
	}
	if err == nil {
		out.Moved, err = w.ancestry(&j.Record, j.Commit)
	}
	if err != nil {
		if out.Refused = refusal(err); out.Refused == nil {
			return nil, err
		}
	}
	if out.Refused != nil && out.Refused.Kind == status.SourceVerified {
		out.Signed = status.Condition{Type: status.SourceVerified, Reason: out.Refused.Reason, Message: err.Error(), ObservedRevision: j.Commit}
	}
	out.Info = w.o.Reader.Info(j.Commit)
	out.Passed = w.o.Reader.Passed(j.Commit, j.Record.HasTried)
	return out, nil
}

// refusal returns why an error refuses a revision, nil if it says nothing about the revision.
func refusal(err error) *decide.Refused {
	if bad, ok := errors.AsType[*plan.Error](err); ok {
		out := &decide.Refused{Kind: status.CompileFailed, Reason: string(bad.Reason), Where: bad.Errors[0].Pos.String()}
		for _, e := range bad.Errors {
			out.Messages = append(out.Messages, e.Error())
		}
		return out
	}
	out := &decide.Refused{Messages: []string{err.Error()}}
	e, git := errors.AsType[*gitrepo.Error](err)
	switch {
	case errors.Is(err, errForbidden):
		out.Kind, out.Reason = status.GuardBlocked, "HistoryForbidden"
	case git && e.Reason.Stalled():
		out.Kind, out.Reason = status.CompileFailed, string(e.Reason)
	case git && e.Reason == gitrepo.Untrusted:
		out.Kind, out.Reason = status.SourceVerified, string(e.Reason)
	default:
		return nil
	}
	return out
}

// verify returns the signer of a commit. Its error refuses the commit. A revision that was sent before stays in force: the
// keys of that time accepted it.
func (w *Worker) verify(out *decide.Judgement, r *record.Record) (who signature.Signer, err error) {
	if !w.o.Reader.Signed() {
		return who, nil
	}
	c := status.Condition{Type: status.SourceVerified, ObservedRevision: out.Commit}
	who, err = w.o.Reader.Verify(out.Commit, time.Now())
	switch e, _ := errors.AsType[*gitrepo.Error](err); {
	case err == nil:
		c.Status, c.Reason, c.Message = true, "Signed", fmt.Sprintf("by %s with the key %s", who.Principal, who.Fingerprint)
	case r.IsSent(out.Commit) && e != nil:
		c.Reason, c.Message = string(e.Reason), err.Error()+"; it stays in force, as it was accepted before"
	default:
		return who, err
	}
	out.Signed = c
	return who, nil
}

// mayAllow reports whether the Zester-Allow line of a commit counts, by its signer. Where commits need not be signed it
// always does.
func (w *Worker) mayAllow(who signature.Signer) bool {
	names := w.o.MayAllow
	return !w.o.Reader.Signed() || len(names) == 0 || slices.Contains(names, who.Principal) || slices.Contains(names, who.Fingerprint)
}

// guard compares a plan with what peels were given.
func (w *Worker) guard(ctx context.Context, out *decide.Judgement, j Task, p *plan.Plan, who signature.Signer) error {
	r := &j.Record
	base, next := w.inForce(ctx, j)
	given := w.o.Published.Base(ctx)
	given.Targets = base
	difference, err := diff.Make(given, p)
	if err != nil {
		return err
	}
	extent := difference
	if next != nil { // the fleet loses nothing by taking back what only some waves have
		if extent, err = diff.Make(diff.Of(base), p); err != nil {
			return err
		}
	}
	out.Out = w.outgoing(r, base, p, difference)
	g := record.Judgement{Hash: difference.Hash}
	if exceeded, ok := errors.AsType[*diff.BlockedError](extent.Guard(out.Out.Both.LimitsOrDefault())); ok {
		message := w.judged.Revision.Commit.Message
		g.Exceeded, g.RemovesAll, g.Allowed = exceeded.Reason, exceeded.RemovesAll, exceeded.AllowedBy(message)
		if g.Allowed && !w.mayAllow(who) {
			g.Allowed = false
			g.Exceeded += fmt.Sprintf("; the line %s does not count, as verify.allow of the master does not name its signer, %s", exceeded.Trailer(), who.Principal)
		}
	}
	if g.Rewritten, err = w.rewritten(r, j.Commit); err != nil {
		return err
	}
	if g.Rewritten != "" {
		g.Hash = hashOfRewrite(r.Commit, j.Commit, g.Hash)
	}
	out.Guard = g
	out.Change = &control.Judged{Commit: j.Commit, Hash: g.Hash, Change: control.ChangeOf(difference)}
	return nil
}

// outgoing returns how a plan would go to the fleet.
func (w *Worker) outgoing(r *record.Record, base, p *plan.Plan, d *diff.Difference) decide.Outgoing {
	out := decide.Outgoing{Own: p.Safety(), Base: base != nil, Fleet: w.o.Fleet.Index()}
	out.Both = r.Safety
	if base != nil {
		out.Both = out.Both.Stricter(base.Safety())
	}
	out.Both = out.Both.Stricter(out.Own)
	for _, g := range d.Groups {
		out.Peels = append(out.Peels, g.Peels...)
	}
	return out
}

// inForce returns the plans of the revision in force and of the rollout under way; nil for one that cannot be read or
// compiled, or that does not exist.
func (w *Worker) inForce(ctx context.Context, j Task) (base, next *plan.Plan) {
	r := &j.Record
	if r.Commit == "" {
		return nil, nil
	}
	c, err := w.compile(ctx, r.Commit, j.Basis.Changes)
	if err != nil {
		return nil, nil
	}
	if base = c.Plan; r.Rollout == nil {
		return base, nil
	}
	if c, err = w.compile(ctx, r.Rollout.Commit, j.Basis.Changes); err != nil {
		return base, nil
	}
	return base, c.Plan
}

// rewritten says how the history of the branch was rewritten, empty if it was not or HistoryAllow permits it. Its error
// refuses the revision.
func (w *Worker) rewritten(r *record.Record, head settings.Commit) (how string, err error) {
	if w.o.History == HistoryAllow {
		return "", nil
	}
	for _, last := range r.Sent() {
		after, err := w.o.Reader.Descends(head, last)
		if err != nil {
			return "", err
		}
		if after {
			continue
		}
		how = fmt.Sprintf("the branch moved from %s to %s, which does not descend from it", last.Short(), head.Short())
		if w.o.History == HistoryForbid {
			return "", fmt.Errorf("%s: %w", how, errForbidden)
		}
		return how, nil
	}
	return "", nil
}

// ancestry returns HistoryRewritten: true if the commit does not descend from the revision in force.
func (w *Worker) ancestry(r *record.Record, head settings.Commit) (c status.Condition, err error) {
	c.Type = status.HistoryRewritten
	if r.Commit == "" {
		return c, nil
	}
	after, err := w.o.Reader.Descends(head, r.Commit)
	if err != nil || after {
		return c, err
	}
	c.Status, c.Reason = true, "ForcePushed"
	c.Message = fmt.Sprintf("the branch moved from %s to %s, which does not come after it", r.Commit.Short(), head.Short())
	if back, err := w.o.Reader.Descends(r.Commit, head); err == nil && back {
		c.Reason = "Rewound"
	}
	return c, nil
}

// hashOfRewrite makes the hash of a plan name the two revisions as well: an approval of the same change on a branch that
// was not rewritten, or that was rewritten to another commit, does not approve it.
func hashOfRewrite(from, to settings.Commit, plan string) string {
	sum := sha256.Sum256([]byte(string(from) + " " + string(to) + " " + plan))
	return hex.EncodeToString(sum[:])
}
