package console

import (
	"net/http"
	"net/url"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/master/console/view"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// fleetPages are the pages about peels.
var fleetPages = []route{
	{path: "/peels", name: "peels", nav: "peels", noun: "peel", verb: "list", show: showPeels},
	{path: "/peels/{id}", name: "peel", nav: "peels", noun: "peel", verb: "show", show: showPeel},
	{path: "/states", name: "states", nav: "states", noun: "sync", verb: "states", show: showStates},
}

func showStates(v *visit) (*shown, error) {
	var all *view.States
	var err error
	switch by := v.query("by"); by {
	case "", "state":
		all, err = view.StatesOf(v.r.Context(), v.ask)
	case "host":
		all, err = view.StatesByHost(v.r.Context(), v.ask, target.PeelID(v.query("cursor")))
	default:
		err = invalid("cannot list by %s: want by=state or by=host", by)
	}
	if err != nil {
		return nil, err
	}
	return &shown{title: "States", body: page.States(all), data: all}, nil
}

func showPeels(v *visit) (*shown, error) {
	all, err := view.PeelsOf(v.r.Context(), v.ask, api.PeelsRequest{
		Target: v.query("target"), Cursor: target.PeelID(v.query("cursor")), Class: verdict.Kind(v.query("class")),
	})
	if err != nil {
		return nil, err
	}
	return &shown{title: "Peels", body: page.Peels(all, v.may("job", "dispatch")), data: all}, nil
}

func showPeel(v *visit) (*shown, error) {
	id, err := target.ParsePeelID(v.r.PathValue("id"))
	if err != nil {
		return nil, &api.Error{Code: api.CodeNotFound, Msg: err.Error(), Err: err}
	}
	p, err := view.PeelOf(v.r.Context(), v.ask, id)
	if err != nil {
		return nil, err
	}
	crumbs := []page.Link{{Text: "Peels", Href: "/peels"}, {Text: string(id), Code: true}}
	return &shown{title: string(id), crumbs: crumbs, body: page.Peel(p, v.may("job", "dispatch")), data: p}, nil
}

// search leads to the job, commit or peel of a name, else to the peels that it selects as a target.
func search(v *visit) {
	q := v.query("q")
	at := "/peels?target=" + url.QueryEscape(q)
	if _, err := wire.ParseJID(q); err == nil {
		at = "/jobs/" + q
	} else if _, err := view.CommitOf(v.r.Context(), v.ask, q); err == nil {
		at = "/commits/" + q
	} else if _, err := view.PeelNamed(v.r.Context(), v.ask, target.PeelID(q)); err == nil {
		at = "/peels/" + url.PathEscape(q)
	}
	http.Redirect(v.w, v.r, at, http.StatusSeeOther)
}
