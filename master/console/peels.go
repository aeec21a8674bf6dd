package console

import (
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/master/console/view"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// fleetPages are the pages about peels.
var fleetPages = []route{
	{path: "/peels", name: "peels", nav: "peels", noun: "peel", verb: "list", show: showPeels},
}

func showPeels(v *visit) (*shown, error) {
	all, err := view.PeelsOf(v.r.Context(), v.ask, v.query("target"), target.PeelID(v.query("cursor")))
	if err != nil {
		return nil, err
	}
	return &shown{title: "Peels", body: page.Peels(all, v.may("job", "dispatch")), data: all}, nil
}
