package console

import (
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/master/console/view"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// dataPages are the pages about what should have run: Now, Timeline, entries, Alerts and Approvals.
var dataPages = []route{
	{path: "/{$}", name: "now", nav: "now", noun: "now", verb: "show", shared: true, show: showNow},
	{
		path: "/timeline", name: "timeline", nav: "timeline", noun: "timeline", verb: "show", shared: true,
		show: showTimeline,
	},
	{path: "/entries/{entry}", name: "entry", nav: "timeline", noun: "coverage", verb: "show", show: showEntry},
	{path: "/entries/{entry}/why", name: "why", nav: "timeline", noun: "coverage", verb: "explain", show: showWhy},
	{path: "/alerts", name: "alerts", nav: "alerts", noun: "alert", verb: "list", show: showAlerts},
	{path: "/approvals", name: "approvals", nav: "approvals", noun: "approval", verb: "list", show: showApprovals},
}

func showNow(v *visit) (*shown, error) {
	now, err := view.NowOf(v.r.Context(), v.ask)
	if err != nil {
		return nil, err
	}
	v.now = now.Now
	title := "Now"
	if worst := now.Worst(); worst != nil {
		title = strings.TrimSpace(worst.Entry + " " + string(worst.Class))
	}
	return &shown{title: title, body: page.Now(now, v.request), data: now.Now}, nil
}

func showTimeline(v *visit) (*shown, error) {
	skip, _ := strconv.Atoi(v.query("cursor"))
	all, err := view.TimelineOf(v.r.Context(), v.ask, view.TimelineQuery{
		Target: v.query("target"), Entry: v.query("entry"), Span: v.query("span"), Sort: v.query("sort"), Skip: skip,
		Open: v.query("open"),
	})
	if err != nil {
		return nil, err
	}
	return &shown{title: "Timeline", body: page.Timeline(all, v.request), data: all}, nil
}

// entryCrumbs lead from an entry to all entries.
func entryCrumbs(entry string) []page.Link {
	return []page.Link{{Text: "Timeline", Href: "/timeline"}, {Text: entry, Code: true}}
}

func showEntry(v *visit) (*shown, error) {
	name := v.r.PathValue("entry")
	entry, err := view.EntryOf(v.r.Context(), v.ask, name, target.PeelID(v.query("cursor")))
	if err != nil {
		return nil, err
	}
	return &shown{title: name, crumbs: entryCrumbs(name), body: page.Entry(entry), data: entry}, nil
}

func showWhy(v *visit) (*shown, error) {
	name := v.r.PathValue("entry")
	answer, err := view.WhyOf(v.r.Context(), v.ask, api.WhyRequest{
		Entry: name, Peel: target.PeelID(v.query("peel")), Time: v.query("time"),
	})
	if err != nil {
		return nil, err
	}
	return &shown{title: "Why " + name, crumbs: entryCrumbs(name), body: page.Why(answer), data: answer}, nil
}

func showAlerts(v *visit) (*shown, error) {
	all, err := view.AlertsOf(v.r.Context(), v.ask)
	if err != nil {
		return nil, err
	}
	return &shown{title: "Alerts", body: page.Alerts(all, v.request), data: all}, nil
}

func showApprovals(v *visit) (*shown, error) {
	all, err := api.ApprovalList.Ask(v.r.Context(), v.ask, api.None{})
	if err != nil {
		return nil, err
	}
	return &shown{title: "Approvals", body: page.Approvals(all), data: all}, nil
}
