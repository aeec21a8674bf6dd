package console

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/settings/shell"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// approvalOrders are decisions of people that something waits for.
var approvalOrders = []order{
	{
		path: "/commits/{sha}/approve", name: "commit-approve", nav: "approvals", noun: "sync", verb: "approve",
		form: planForm, run: approvePlan,
	},
	{
		path: "/commits/{sha}/gate", name: "commit-gate", nav: "approvals", noun: "sync", verb: "approve",
		form: gateForm, run: openGate,
	},
	{
		path: "/commits/{sha}/freeze", name: "commit-freeze", nav: "approvals", noun: "sync", verb: "approve",
		form: freezeForm, run: overrideFreeze,
	},
	{
		path: "/sync/facts", name: "sync-facts", nav: "approvals", noun: "sync", verb: "approve",
		form: factsForm, run: approveFacts,
	},
	{
		path: "/sync/adopt", name: "sync-adopt", nav: "approvals", noun: "sync", verb: "adopt",
		form: adoptForm, run: adopt,
	},
	{
		path: "/approvals/held/{id}/approve", name: "held-approve", nav: "approvals", noun: "hold", verb: "approve",
		form: heldForm, run: approveHeld,
	},
	{
		path: "/approvals/held/{id}/reject", name: "held-reject", nav: "approvals", noun: "hold", verb: "reject",
		form: rejectHeldForm, run: rejectHeld,
	},
	{
		path: "/approvals/enroll/{id}/approve", name: "enroll-approve", nav: "approvals",
		noun: "enroll", verb: "approve", form: enrollForm, run: approveHost,
	},
	{
		path: "/approvals/enroll/{id}/reject", name: "enroll-reject", nav: "approvals", noun: "enroll", verb: "reject",
		form: rejectHostForm, run: rejectHost,
	},
	{
		path: "/approvals/rekey/{id}/approve", name: "rekey-approve", nav: "approvals", noun: "peel", verb: "rekey",
		form: rekeyForm, run: rekey,
	},
}

// conflict: what a page showed is no longer so.
func conflict(format string, args ...any) error {
	return &api.Error{Code: api.CodeConflict, Msg: fmt.Sprintf(format, args...)}
}

// reasonField asks why. The reason is in the audit log.
func reasonField() page.Field {
	return page.Field{Name: "reason", Label: "Why", Hint: "one line for the audit log"}
}

// orderReason returns the reason in a form.
func (v *visit) orderReason() string { return audit.Bounded(v.r.PostFormValue("reason"), 300) }

// planOf returns the plan of the commit of the path, which has to wait for approval.
func planOf(v *visit) (*status.Plan, error) {
	p, err := api.SyncPlan.Ask(v.r.Context(), v.ask, status.PlanRequest{Revision: v.r.PathValue("sha")})
	switch {
	case err != nil:
		return nil, err
	case p.Waits != status.WaitApproval:
		return nil, conflict("%s waits for no approval now: it waits for %s", page.Short(string(p.Commit)), p.Waits)
	}
	return p, nil
}

func planForm(v *visit) (*page.Form, error) {
	p, err := planOf(v)
	if err != nil {
		return nil, err
	}
	short := page.Short(string(p.Commit))
	f := &page.Form{
		Title: "Let " + short + " go out?", Button: "Let it go out", Hard: true, Seen: p.Hash,
		What:   [][2]string{{"held because", p.Reason}},
		Fields: []page.Field{reasonField()}, Back: "/commits/" + string(p.Commit),
		Command: "zester sync approve " + status.ShortHash(p.Hash),
	}
	if c := p.Change; c != nil {
		removed := c.Removed + c.StatesRemoved
		f.Typed = strconv.Itoa(removed)
		if removed == 0 {
			f.Typed = strconv.Itoa(c.Peels)
		}
		f.What = append(f.What, changeOf(c)...)
	}
	f.What = append(f.What, [2]string{"who sees it", "the audit log, as " + v.session.User})
	return f, nil
}

// shownGroups is how many groups of peels a form of a plan has.
const shownGroups = 10

// changeOf says what a plan changes, on which peels.
func changeOf(c *status.Change) [][2]string {
	what := [][2]string{
		{"who", page.Counted(c.Peels, "peel gets", "peels get") + " other settings"},
		{"entries", fmt.Sprintf("%d added, %d changed, %d removed of %d", c.Added, c.Changed, c.Removed, c.Before)},
	}
	if n := c.StatesAdded + c.StatesChanged + c.StatesRemoved; n > 0 {
		text := fmt.Sprintf("%d added, %d changed, %d removed", c.StatesAdded, c.StatesChanged, c.StatesRemoved)
		what = append(what, [2]string{"states", text})
	}
	for _, g := range c.Groups[:min(shownGroups, len(c.Groups))] {
		var parts []string
		for _, kind := range []struct {
			word  string
			names []string
		}{{"removes", g.Removed}, {"changes", g.Changed}, {"adds", g.Added}} {
			if len(kind.names) > 0 {
				parts = append(parts, kind.word+" "+strings.Join(kind.names, ", "))
			}
		}
		text := strings.Join(parts, "; ") + " on " + someOf(g.Peels, g.Count)
		what = append(what, [2]string{page.Plural(g.Count, "peel"), text})
	}
	if rest := c.More + max(0, len(c.Groups)-shownGroups); rest > 0 {
		what = append(what, [2]string{"and", page.Plural(rest, "group") + " more"})
	}
	return what
}

// shownPeels is how many peels a form names.
const shownPeels = 20

// someOf names the first of total peels.
func someOf(peels []target.PeelID, total int) string {
	var names []string
	for _, id := range peels[:min(shownPeels, len(peels))] {
		names = append(names, string(id))
	}
	text := strings.Join(names, ", ")
	if rest := total - len(names); rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}

func approvePlan(v *visit) (string, error) {
	sha := v.r.PathValue("sha")
	q := status.ApproveRequest{Hash: v.seen(), Revision: sha, Reason: v.orderReason()}
	_, err := api.SyncApprove.Ask(v.r.Context(), v.ask, q)
	return "/commits/" + sha, err
}

// statusNow returns the state of the reconciler.
func statusNow(v *visit) (*status.Sync, error) {
	return api.SyncStatus.Ask(v.r.Context(), v.ask, api.None{})
}

// isOfPath reports whether a commit is the one that the path names.
func (v *visit) isOfPath(commit string) bool {
	sha := v.r.PathValue("sha")
	return len(sha) >= status.MinRevision && strings.HasPrefix(commit, sha)
}

func gateForm(v *visit) (*page.Form, error) {
	s, err := statusNow(v)
	if err != nil {
		return nil, err
	}
	r := s.Rollout
	if r == nil || r.State != "gate" || !v.isOfPath(string(r.Commit)) {
		return nil, conflict("no gate of %s waits now", v.r.PathValue("sha"))
	}
	return &page.Form{
		Title: "Open the gate after the wave " + r.Name + "?", Typed: r.Name, Button: "Open the gate", Hard: true,
		Seen: gateSeen(r),
		What: [][2]string{
			{"commit", page.Short(string(r.Commit))},
			{"this wave", fmt.Sprintf("%d of its %s have it, %d failed, %d offline",
				r.Applied, page.Plural(r.Peels, "peel"), r.Failed, r.Offline)},
			{"then", afterGate(r)},
			{"who sees it", "the audit log and the history of the commit, as " + v.session.User},
		},
		Fields: []page.Field{reasonField()}, Back: "/commits/" + string(r.Commit),
		Command: "zester sync approve " + shell.Word(r.Name) + " --revision " + page.Short(string(r.Commit)),
	}, nil
}

// afterGate says what opening the gate of a rollout begins.
func afterGate(r *status.Rollout) string {
	if r.Wave < 1 || r.Wave >= len(r.Steps) {
		return "no wave follows"
	}
	w := r.Steps[r.Wave-1]
	rest := max(0, w.Changes-w.Peels)
	return fmt.Sprintf("wave %s begins, %d of %d; %s", r.Steps[r.Wave].Name, r.Wave+1, r.Waves,
		page.Counted(rest, "peel to change does not have it yet", "peels to change do not have it yet"))
}

func openGate(v *visit) (string, error) {
	sha := v.r.PathValue("sha")
	wave := waveOf(v.seen())
	q := status.ApproveRequest{Wave: wave, Revision: sha, Reason: v.orderReason()}
	_, err := api.SyncApprove.Ask(v.r.Context(), v.ask, q)
	return "/commits/" + sha, err
}

// first returns the first n bytes of a text.
func first(text string, n int) string { return text[:min(n, len(text))] }

// gateSeen stands for a gate as it is shown: it is another one after a new start, and once more peels have failed.
func gateSeen(r *status.Rollout) string {
	return fmt.Sprintf("%s %d %d %s", r.Commit, r.Started.UnixNano(), r.Failed, r.Name)
}

// waveOf returns the name of the wave in what [gateSeen] returned; empty: it has none.
func waveOf(seen string) string {
	parts := strings.SplitN(seen, " ", 4)
	if len(parts) < 4 {
		return ""
	}
	return parts[3]
}

func freezeForm(v *visit) (*page.Form, error) {
	s, err := statusNow(v)
	if err != nil {
		return nil, err
	}
	if s.Frozen == nil || !v.isOfPath(string(s.Frozen.Commit)) {
		return nil, conflict("no freeze holds %s now", v.r.PathValue("sha"))
	}
	short := page.Short(string(s.Frozen.Commit))
	return &page.Form{
		Title: "Let " + short + " through the freeze?", Typed: short, Button: "Let it through", Hard: true,
		Seen: string(s.Frozen.Commit),
		What: [][2]string{
			{"the freeze", s.Frozen.String()},
			{"goes out", short + " now, in its waves; other commits stay frozen"},
			{"who sees it", "the audit log and the history of the commit, as " + v.session.User},
		},
		Fields: []page.Field{reasonField()}, Back: "/commits/" + string(s.Frozen.Commit),
		Command: "zester sync approve " + first(string(s.Frozen.Commit), 8) + " --override-freeze REASON",
	}, nil
}

func overrideFreeze(v *visit) (string, error) {
	sha := v.r.PathValue("sha")
	q := status.ApproveRequest{Hash: v.seen(), Override: true, Reason: v.orderReason(), Revision: sha}
	_, err := api.SyncApprove.Ask(v.r.Context(), v.ask, q)
	return "/commits/" + sha, err
}

func factsForm(v *visit) (*page.Form, error) {
	s, err := statusNow(v)
	if err != nil {
		return nil, err
	}
	if s.Facts == nil {
		return nil, conflict("no facts of peels wait for approval now")
	}
	return &page.Form{
		Title: "Let new facts change " + page.Plural(s.Facts.Peels, "peel") + "?", Typed: strconv.Itoa(s.Facts.Peels),
		Button: "Let them change", Hard: true, Seen: s.Facts.Hash,
		What: [][2]string{
			{"held because", s.Facts.Reason},
			{"changes", page.Counted(s.Facts.Peels, "peel gets", "peels get") + " the settings that new facts select"},
			{"who sees it", "the audit log, as " + v.session.User},
		},
		Fields: []page.Field{reasonField()}, Back: "/approvals",
		Command: "zester sync approve " + status.ShortHash(s.Facts.Hash),
	}, nil
}

func approveFacts(v *visit) (string, error) {
	_, err := api.SyncApprove.Ask(v.r.Context(), v.ask, status.ApproveRequest{Hash: v.seen(), Reason: v.orderReason()})
	return "/approvals", err
}

func adoptForm(v *visit) (*page.Form, error) {
	s, err := statusNow(v)
	if err != nil {
		return nil, err
	}
	if s.Adopt == nil {
		return nil, conflict("the fleet follows the repo of its masters: there is nothing to adopt")
	}
	return &page.Form{
		Title: "Let the fleet follow another repo?", Typed: "adopt", Button: "Follow it", Hard: true, Seen: s.Adopt.To,
		What: [][2]string{
			{"from", s.Adopt.From},
			{"to", s.Adopt.To},
			{"then", "its newest commit goes out, after the checks of a commit"},
			{"who sees it", "the audit log, as " + v.session.User},
		},
		Back: "/approvals", Command: "zester sync adopt",
	}, nil
}

func adopt(v *visit) (string, error) {
	s, err := statusNow(v)
	if err != nil {
		return "", err
	}
	if s.Adopt == nil || s.Adopt.To != v.seen() {
		return "", conflict("the fleet is asked to follow another repo than was shown")
	}
	_, err = api.SyncAdopt.Ask(v.r.Context(), v.ask, *s.Adopt)
	return "/commits", err
}
