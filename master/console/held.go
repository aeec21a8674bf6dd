package console

import (
	"fmt"
	"strconv"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/master/console/view"
)

// heldOf returns the action of the path.
func heldOf(v *visit) (*api.HoldShown, error) {
	id, err := api.ParseHoldID(v.r.PathValue("id"))
	if err != nil {
		return nil, &api.Error{Code: api.CodeNotFound, Msg: err.Error(), Err: err}
	}
	return api.HoldShow.Ask(v.r.Context(), v.ask, api.HoldRequest{ID: id})
}

// checkHeld returns an error if the session's person cannot decide an action, or run what that person has approved.
func checkHeld(v *visit, a *api.HoldAction) error {
	switch {
	case a.State == api.HoldOpen:
		return nil
	case a.State == api.HoldApproved && !a.Dispatched && a.DecidedBy == v.session.User && time.Now().Before(a.Expires):
		return nil
	case a.State == api.HoldExpired:
		return conflict("nobody decided in time: it has to be asked for again")
	}
	return conflict("%s has %s it", a.DecidedBy, a.State)
}

// claimOf is what the assistant says about its action.
func claimOf(a *api.HoldAction) [][2]string {
	if a.Kind == api.HoldSecond {
		return nil
	}
	return [][2]string{{"reason", a.Reason}, {"target", a.Target}, {"calls itself", a.Agent}}
}

func heldForm(v *visit) (*page.Form, error) {
	a, err := heldOf(v)
	if err != nil {
		return nil, err
	}
	if err := checkHeld(v, &a.HoldAction); err != nil {
		return nil, err
	}
	if !a.IsJob() {
		return secondForm(v, a), nil
	}
	preview, err := view.PreviewOf(v.r.Context(), v.ask, a.Target)
	if err != nil {
		return nil, err
	}
	spec := a.Spec()
	f := &page.Form{
		Title: "Run " + spec.Function + " on " + page.Plural(preview.Total, "peel") + "?",
		Claim: claimOf(&a.HoldAction), Seen: audit.PeelsHash(preview.Peels), Back: "/approvals",
		Command: "zester approve " + string(a.ID),
		Other:   &page.Link{Text: "Reject it…", Href: "/approvals/held/" + string(a.ID) + "/reject"},
	}
	f.What = append(f.What, [2]string{"runs", spec.Function + " " + spec.StateID + " " + page.ArgLines(spec.Args)})
	if f.Seen != a.Hash {
		const other = "the target selects other peels than the assistant saw: %d then, %d now"
		f.What = append(f.What, [2]string{"cannot run", fmt.Sprintf(other, a.Peels, preview.Total)})
		return f, nil
	}
	f.Button = "Run it as " + v.session.User
	f.What = append(f.What,
		[2]string{"on", someOf(preview.Peels, preview.Total)},
		[2]string{"offline", strconv.Itoa(len(preview.Offline))},
		[2]string{"asked by", a.By},
		[2]string{"who sees it", "the audit log, as " + v.session.User},
	)
	f.Typed, err = heldTyped(v, a.Target, preview)
	return f, err
}

// secondForm is the form of a request that needs two persons and is no job.
func secondForm(v *visit, a *api.HoldShown) *page.Form {
	return &page.Form{
		Title: "Do " + a.Verb + "?", Button: "Do it as " + v.session.User, Back: "/approvals",
		What: [][2]string{
			{"request", page.ArgLines(a.Asked())},
			{"asked by", a.By},
			{"who sees it", "the audit log, as " + v.session.User},
		},
		Command: "zester approve " + string(a.ID),
		Other:   &page.Link{Text: "Reject it…", Href: "/approvals/held/" + string(a.ID) + "/reject"},
	}
}

// heldTyped returns the number that has to be typed before an action runs. An assistant can select all peels in many
// ways, so that the peels count, and not how the target is written.
func heldTyped(v *visit, expr string, p *view.Preview) (string, error) {
	if typed := typedFor(dispatch{target: expr}, p); typed != "" {
		return typed, nil
	}
	all, err := view.PreviewOf(v.r.Context(), v.ask, "*")
	if err != nil || p.Total < all.Total {
		return "", err
	}
	return strconv.Itoa(p.Total), nil
}

// approveHeld approves an action, and runs its job in the name of the person on exactly the peels that were shown.
func approveHeld(v *visit) (string, error) {
	a, err := heldOf(v)
	if err != nil {
		return "", err
	}
	if !a.IsJob() {
		_, err := api.HoldApprove.Ask(v.r.Context(), v.ask, api.HoldRequest{ID: a.ID})
		return "/approvals", err
	}
	preview, err := view.PreviewOf(v.r.Context(), v.ask, a.Target)
	if err != nil {
		return "", err
	}
	if hash := audit.PeelsHash(preview.Peels); hash != a.Hash || hash != v.seen() {
		return "", conflict("the target selects other peels than were shown: nothing was approved")
	}
	approved, err := api.HoldApprove.Ask(v.r.Context(), v.ask, api.HoldRequest{ID: a.ID})
	if err != nil {
		return "", err
	}
	a.JID = approved.JID
	spec := a.Spec()
	spec.Targets = preview.Peels
	_, err = api.JobDispatch.Ask(v.r.Context(), v.ask, spec)
	return "/jobs/" + string(spec.JID), err
}

func rejectHeldForm(v *visit) (*page.Form, error) {
	a, err := heldOf(v)
	if err != nil {
		return nil, err
	}
	if a.State != api.HoldOpen {
		return nil, conflict("it is %s, and waits for nobody", a.State)
	}
	return &page.Form{
		Title: "Reject " + a.Spec().Function + "?", Claim: claimOf(&a.HoldAction), Button: "Reject it", Hard: true,
		What: [][2]string{
			{"effect", "nothing runs; who asked is told, and may ask again"},
			{"asked by", a.By},
			{"who sees it", "the audit log, as " + v.session.User},
		},
		Back: "/approvals", Command: "zester approve " + string(a.ID) + " --reject",
	}, nil
}

func rejectHeld(v *visit) (string, error) {
	_, err := api.HoldReject.Ask(v.r.Context(), v.ask, api.HoldRequest{ID: api.HoldID(v.r.PathValue("id"))})
	return "/approvals", err
}
