package reconciler

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
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/reconciler/publish"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// History is the policy for a branch that moves to a commit which does not descend from the last revision that was sent
// to the fleet.
type History string

// The policies. The repo cannot set one, only the master's configuration: a person with the right to force-push can
// commit as well.
const (
	HistoryForbid  History = "forbid"  // the revision is refused, and cannot be approved
	HistoryApprove History = "approve" // the revision waits for approval; the default
	HistoryAllow   History = "allow"   // the revision is judged as any other
)

// errForbidden: the branch moved to a commit that does not descend from the last revision.
var errForbidden = errors.New(
	"history: forbid in this master's configuration refuses that; move the branch back, " +
		"or choose a revision with zester sync pin",
)

// judge verifies, compiles and compares a commit, and returns whether it may go to the fleet. An error is not the fault
// of the commit.
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
		out.Signed = status.Condition{
			Type:             status.SourceVerified,
			Reason:           out.Refused.Reason,
			Message:          err.Error(),
			ObservedRevision: j.Commit,
		}
	}
	out.Info = w.o.Reader.Info(j.Commit)
	out.Passed = w.o.Reader.Passed(j.Commit, j.Record.HasTried)
	return out, nil
}

// refusal converts an error to the refusal of a revision, and returns nil if the error is not the fault of the
// revision.
func refusal(err error) *decide.Refused {
	if bad, ok := errors.AsType[*plan.Error](err); ok {
		out := &decide.Refused{
			Kind:   status.CompileFailed,
			Reason: string(bad.Reason),
			Where:  bad.Errors[0].Pos.String(),
		}
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

// verify returns the signer of a commit, if the commits since the last revision are signed too. Its error refuses the
// commit. A revision that was sent before stays in force, as it was accepted with the keys at that time.
func (w *Worker) verify(out *decide.Judgement, r *record.Record) (signer gitrepo.Signer, err error) {
	if !w.o.Reader.Signed() {
		return signer, nil
	}
	c := status.Condition{Type: status.SourceVerified, ObservedRevision: out.Commit}
	signer, err = w.o.Reader.Verify(out.Commit, r.Sent(), time.Now())
	switch e, _ := errors.AsType[*gitrepo.Error](err); {
	case err == nil:
		c.Status, c.Reason, c.Message = true, "Signed", fmt.Sprintf("by %s with the key %s", signer.Principal,
			signer.Fingerprint)
	case r.IsSent(out.Commit) && e != nil:
		c.Reason, c.Message = string(e.Reason), err.Error()+"; it stays in force, as it was accepted before"
	default:
		return signer, err
	}
	out.Signed = c
	return signer, nil
}

// mayAllow reports whether the Zester-Allow line of a commit counts. It depends on the signer, unless commits need not
// be signed. A master signs what others ask for, so its own key allows nothing.
func (w *Worker) mayAllow(signer gitrepo.Signer) bool {
	names := w.o.MayAllow
	if w.o.OwnKey != "" && signer.Fingerprint == w.o.OwnKey {
		return false
	}
	return !w.o.Reader.Signed() || len(names) == 0 || slices.Contains(names, signer.Principal) ||
		slices.Contains(names, signer.Fingerprint)
}

// guard compares a plan with the settings that peels have, and fills in the judgement.
func (w *Worker) guard(ctx context.Context, out *decide.Judgement, j Task, p *plan.Plan, signer gitrepo.Signer) error {
	r := &j.Record
	base, next, err := w.inForce(ctx, j)
	if err != nil {
		return err
	}
	given := w.o.Published.Base(ctx)
	given.Targets = base
	difference, err := diff.Make(given, p)
	if err != nil {
		return err
	}
	from, extent := given, difference
	// What a rollout replaces, or what not all peels have yet, is no loss: the fleet is to have the revision in force.
	if next != nil || base != nil && !r.Done {
		from = diff.Of(base)
		if extent, err = diff.Make(from, p); err != nil {
			return err
		}
	}
	out.Out = w.outgoing(base, p, difference)
	g := record.Judgement{Hash: difference.Hash}
	if weakens := r.Weakened(p.Safety()); r.Commit != "" && len(weakens) > 0 {
		g.Weakened, g.Hash = diff.SafetyReason(weakens), diff.SafetyHash(g.Hash, weakens)
	}
	if r.Commit != "" && base == nil && len(r.Waves) > 0 {
		g.Unreadable = fmt.Sprintf(
			"the revision in force, %s, cannot be read or compiled, so no wave can go back to it: approved, "+
				"this one goes to all peels at once",
			r.Commit.Short(),
		)
	}
	exceeded, err := w.exceeded(ctx, j, from, extent, p)
	if err != nil {
		return err
	}
	if exceeded != nil {
		message := w.judged.Revision.Commit.Message
		g.Exceeded, g.RemovesAll, g.Allowed = exceeded.Reason, exceeded.RemovesAll, exceeded.AllowedBy(message)
		if g.Allowed && !w.mayAllow(signer) {
			g.Allowed = false
			why := "verify.allow of the master does not name its signer, " + signer.Principal
			if signer.Fingerprint == w.o.OwnKey {
				why = "the key of the master signed it"
			}
			g.Exceeded += fmt.Sprintf("; the line %s does not count, as %s", exceeded.Trailer(), why)
		}
	}
	if g.Facts, err = w.bringsAlong(ctx, r, [2]*plan.Plan{base, next}, difference); err != nil {
		return err
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

// exceeded returns how a change d from a base to a plan exceeds the limits in force, nil if it does not. The entries
// that masters removed since the revision in force, by their own notes, do not count.
func (w *Worker) exceeded(ctx context.Context, j Task, from diff.Base, d *diff.Difference,
	p *plan.Plan,
) (*diff.BlockedError, error) {
	limits := j.Record.LimitsOrDefault()
	exceeded, ok := errors.AsType[*diff.BlockedError](d.Guard(limits))
	if !ok {
		return nil, nil
	}
	kv, err := w.o.JetStream.KeyValue(ctx, record.BucketRemovals)
	if err != nil {
		return nil, fmt.Errorf("cannot open the bucket %s: %w", record.BucketRemovals, err)
	}
	from.Removed = map[string]bool{}
	for _, c := range w.o.Reader.Since(j.Commit, j.Record.IsSent) {
		entries, err := record.Removal(ctx, kv, c)
		if err != nil {
			return nil, err
		}
		for _, name := range entries {
			from.Removed[name] = true
		}
	}
	if len(from.Removed) == 0 {
		return exceeded, nil
	}
	if d, err = diff.Make(from, p); err != nil {
		return nil, err
	}
	exceeded, _ = errors.AsType[*diff.BlockedError](d.Guard(limits))
	return exceeded, nil
}

// outgoing returns the rules, peels and fleet for sending a plan.
func (w *Worker) outgoing(base, p *plan.Plan, d *diff.Difference) decide.Outgoing {
	out := decide.Outgoing{Own: p.Safety(), Base: base != nil, Fleet: w.o.Fleet.Index()}
	var marks []record.Mark
	for _, g := range d.Groups {
		out.Peels = append(out.Peels, g.Peels...)
		for _, id := range g.Peels {
			marks = append(marks, record.MarkSettings(id, g.New))
		}
	}
	out.Guarded = &record.Guarded{Settings: record.NewMarks(marks)}
	return out
}

// inForce returns the plans of the revision in force and of the rollout under way; nil for a plan that does not exist,
// or whose revision is lost or no longer compiles. An error of the bus or of the disk is returned.
func (w *Worker) inForce(ctx context.Context, j Task) (base, next *plan.Plan, err error) {
	plans := [2]*plan.Plan{}
	for i, commit := range j.Record.Sent() {
		c, err := w.compile(ctx, commit, j.Basis.Changes)
		if isUnreadable(err) {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("cannot read revision %s, with which the newest one is compared: %w",
				commit.Short(), err)
		}
		plans[i] = c.Plan
	}
	return plans[0], plans[1], nil
}

// isUnreadable reports whether err says that a revision is lost, or is one that this version of zester does not accept.
func isUnreadable(err error) bool {
	_, bad := errors.AsType[*plan.Error](err)
	e, git := errors.AsType[*gitrepo.Error](err)
	return bad || errors.Is(err, errLost) ||
		git && (e.Reason == gitrepo.PathNotFound || e.Reason == gitrepo.UnsafePath || e.Reason == gitrepo.TooLarge)
}

// rewritten describes how the history of the branch was rewritten, empty if it was not or HistoryAllow permits it. Its
// error refuses the revision.
func (w *Worker) rewritten(r *record.Record, head settings.Commit) (how string, err error) {
	if w.o.History == HistoryAllow {
		return "", nil
	}
	for _, last := range r.Ancestors() {
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

// ancestry returns the condition HistoryRewritten: true if the commit does not descend from the revision in force.
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
	c.Message = fmt.Sprintf("the branch moved from %s to %s, which does not come after it", r.Commit.Short(),
		head.Short())
	if back, err := w.o.Reader.Descends(r.Commit, head); err == nil && back {
		c.Reason = "Rewound"
	}
	return c, nil
}

// hashOfRewrite returns a hash of a plan and of the two revisions. So an approval of the same change does not count if
// the branch was not rewritten, or was rewritten to another commit.
func hashOfRewrite(from, to settings.Commit, plan string) string {
	sum := sha256.Sum256([]byte(string(from) + " " + string(to) + " " + plan))
	return hex.EncodeToString(sum[:])
}
