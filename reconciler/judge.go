package reconciler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/control"
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

// A refused revision does not go to the fleet, whatever people approve.
type refused struct {
	kind     status.Type // CompileFailed, GuardBlocked or SourceVerified
	reason   string
	where    string   // path:line of the first mistake
	messages []string // one for each mistake, one at least
}

func (r *refused) message() string { return strings.Join(r.messages, "\n") }

// judge finds out whether a commit may go to the fleet. Its error says nothing about the commit.
func (w *worker) judge(ctx context.Context, j task) (*judgement, error) {
	out := &judgement{commit: j.commit, made: j.basis, attempt: j.attempt}
	signer, err := w.verify(out, &j.record)
	if err == nil && j.record.IsSent(j.commit) {
		out.info = w.reader.Info(j.commit)
		return out, nil
	}
	var revision *archive.Revision
	if err == nil {
		revision, err = w.reader.Fetched(j.commit)
	}
	var p *plan.Plan
	if err == nil {
		p, err = w.compiler.Compile(revision.Tree, w.fleet.Index())
	}
	if err == nil {
		p = publish.HoldBack(p, w.fleet)
		w.judged = compiled{revision, p, j.basis.changes}
		err = w.guard(ctx, out, j, p, signer)
	}
	if err == nil {
		out.moved, err = w.ancestry(&j.record, j.commit)
	}
	if err != nil {
		if out.refused = refusal(err); out.refused == nil {
			return nil, err
		}
	}
	if out.refused != nil && out.refused.kind == status.SourceVerified {
		out.signed = status.Condition{Type: status.SourceVerified, Reason: out.refused.reason, Message: err.Error(), ObservedRevision: j.commit}
	}
	out.info = w.reader.Info(j.commit)
	for _, c := range w.reader.Passed(j.commit, j.record.HasTried) {
		out.passed = append(out.passed, attemptOn(c, w.o.Owner, status.OutcomeSuperseded, "by "+j.commit.Short()+", before it was tried"))
	}
	return out, nil
}

// refusal returns why an error refuses a revision, nil if it says nothing about the revision.
func refusal(err error) *refused {
	if bad, ok := errors.AsType[*plan.Error](err); ok {
		out := &refused{kind: status.CompileFailed, reason: string(bad.Reason), where: bad.Errors[0].Pos.String()}
		for _, e := range bad.Errors {
			out.messages = append(out.messages, e.Error())
		}
		return out
	}
	out := &refused{messages: []string{err.Error()}}
	e, git := errors.AsType[*gitrepo.Error](err)
	switch {
	case errors.Is(err, errForbidden):
		out.kind, out.reason = status.GuardBlocked, "HistoryForbidden"
	case git && e.Reason.Stalled():
		out.kind, out.reason = status.CompileFailed, string(e.Reason)
	case git && e.Reason == gitrepo.Untrusted:
		out.kind, out.reason = status.SourceVerified, string(e.Reason)
	default:
		return nil
	}
	return out
}

// verify returns the signer of a commit. Its error refuses the commit. A revision that was sent before stays in force: the
// keys of that time accepted it.
func (w *worker) verify(out *judgement, r *record.Record) (who signature.Signer, err error) {
	if !w.reader.Signed() {
		return who, nil
	}
	c := status.Condition{Type: status.SourceVerified, ObservedRevision: out.commit}
	who, err = w.reader.Verify(out.commit, time.Now())
	switch e, _ := errors.AsType[*gitrepo.Error](err); {
	case err == nil:
		c.Status, c.Reason, c.Message = true, "Signed", fmt.Sprintf("by %s with the key %s", who.Principal, who.Fingerprint)
	case r.IsSent(out.commit) && e != nil:
		c.Reason, c.Message = string(e.Reason), err.Error()+"; it stays in force, as it was accepted before"
	default:
		return who, err
	}
	out.signed = c
	return who, nil
}

// mayAllow reports whether the Zester-Allow line of a commit counts, by its signer. Where commits need not be signed it
// always does.
func (w *worker) mayAllow(who signature.Signer) bool {
	names := w.o.MayAllow
	return !w.reader.Signed() || len(names) == 0 || slices.Contains(names, who.Principal) || slices.Contains(names, who.Fingerprint)
}

// guard compares a plan with what peels were given.
func (w *worker) guard(ctx context.Context, out *judgement, j task, p *plan.Plan, who signature.Signer) error {
	r := &j.record
	base, next := w.inForce(ctx, j)
	given := w.published.Base(ctx)
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
	out.out = w.outgoing(r, base, p, difference)
	g := record.Judgement{Hash: difference.Hash}
	if exceeded, ok := errors.AsType[*diff.BlockedError](extent.Guard(out.out.both.LimitsOrDefault())); ok {
		message := w.judged.revision.Commit.Message
		g.Exceeded, g.RemovesAll, g.Allowed = exceeded.Reason, exceeded.RemovesAll, exceeded.AllowedBy(message)
		if g.Allowed && !w.mayAllow(who) {
			g.Allowed = false
			g.Exceeded += fmt.Sprintf("; the line %s does not count, as verify.allow of the master does not name its signer, %s", exceeded.Trailer(), who.Principal)
		}
	}
	if g.Rewritten, err = w.rewritten(r, j.commit); err != nil {
		return err
	}
	if g.Rewritten != "" {
		g.Hash = hashOfRewrite(r.Commit, j.commit, g.Hash)
	}
	out.guard = g
	out.change = &control.Judged{Commit: j.commit, Hash: g.Hash, Change: control.ChangeOf(difference)}
	return nil
}

// outgoing returns how a plan would go to the fleet.
func (w *worker) outgoing(r *record.Record, base, p *plan.Plan, d *diff.Difference) outgoing {
	out := outgoing{own: p.Safety(), base: base != nil, fleet: w.fleet.Index()}
	out.both = r.Safety
	if base != nil {
		out.both = out.both.Stricter(base.Safety())
	}
	out.both = out.both.Stricter(out.own)
	for _, g := range d.Groups {
		out.peels = append(out.peels, g.Peels...)
	}
	return out
}

// inForce returns the plans of the revision in force and of the rollout under way; nil for one that cannot be read or
// compiled, or that does not exist.
func (w *worker) inForce(ctx context.Context, j task) (base, next *plan.Plan) {
	r := &j.record
	if r.Commit == "" {
		return nil, nil
	}
	c, err := w.compile(ctx, r.Commit, j.basis.changes)
	if err != nil {
		return nil, nil
	}
	if base = c.plan; r.Rollout == nil {
		return base, nil
	}
	if c, err = w.compile(ctx, r.Rollout.Commit, j.basis.changes); err != nil {
		return base, nil
	}
	return base, c.plan
}

// rewritten says how the history of the branch was rewritten, empty if it was not or HistoryAllow permits it. Its error
// refuses the revision.
func (w *worker) rewritten(r *record.Record, head settings.Commit) (how string, err error) {
	if w.o.History == HistoryAllow {
		return "", nil
	}
	for _, last := range r.Sent() {
		after, err := w.reader.Descends(head, last)
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
func (w *worker) ancestry(r *record.Record, head settings.Commit) (c status.Condition, err error) {
	c.Type = status.HistoryRewritten
	if r.Commit == "" {
		return c, nil
	}
	after, err := w.reader.Descends(head, r.Commit)
	if err != nil || after {
		return c, err
	}
	c.Status, c.Reason = true, "ForcePushed"
	c.Message = fmt.Sprintf("the branch moved from %s to %s, which does not come after it", r.Commit.Short(), head.Short())
	if back, err := w.reader.Descends(r.Commit, head); err == nil && back {
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
