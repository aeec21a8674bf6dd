package console

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/master/console/view"
	"github.com/seed-c01c3da5/zester/settings/shell"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// systemPages are the pages about commits, the masters, access and the reader.
var systemPages = []route{
	{path: "/commits", name: "commits", nav: "commits", noun: "sync", verb: "history", show: showCommits},
	{path: "/commits/{sha}", name: "commit", nav: "commits", noun: "sync", verb: "history", show: showCommit},
	{path: "/system", name: "system", nav: "system", noun: "master", verb: "show", show: showSystem},
	{path: "/system/access", name: "access", nav: "system", noun: "user", verb: "list", show: showAccess},
	{path: "/system/audit", name: "audit", nav: "system", noun: "audit", verb: "list", show: showAudit},
	{path: "/me", name: "me", show: showMe},
}

var systemOrders = []order{
	syncOrder("pause", "Pause the sync?", "new commits wait until somebody resumes", api.SyncPause),
	syncOrder("resume", "Resume the sync?", "commits that waited go out", api.SyncResume),
	syncOrder("now", "Read the branch now?", "the branch is read at once", api.SyncNow),
	{
		path: "/sync/unpin", name: "sync-unpin", nav: "commits", noun: "sync", verb: "unpin", form: unpinForm,
		run: func(v *visit) (string, error) {
			_, err := api.SyncUnpin.Ask(v.r.Context(), v.ask, status.ReleaseRequest{})
			return "/commits", err
		},
	},
	{
		path: "/commits/{sha}/pin", name: "commit-pin", nav: "commits", noun: "sync", verb: "pin", form: pinForm,
		run: func(v *visit) (string, error) {
			_, err := api.SyncPin.Ask(v.r.Context(), v.ask, status.PinRequest{Revision: v.r.PathValue("sha")})
			return "/commits", err
		},
	},
	{
		path: "/commits/{sha}/retry", name: "commit-retry", nav: "commits", noun: "sync", verb: "retry",
		form: retryForm,
		run: func(v *visit) (string, error) {
			_, err := api.SyncRetry.Ask(v.r.Context(), v.ask, status.RetryRequest{Revision: v.r.PathValue("sha")})
			return "/commits", err
		},
	},
	{
		path: "/system/access/sessions/{id}/end", name: "session-end", nav: "system", noun: "session", verb: "end",
		form: endForm,
		run: func(v *visit) (string, error) {
			_, err := api.SessionEnd.Ask(v.r.Context(), v.ask, api.SessionEndRequest{ID: v.r.PathValue("id")})
			return "/me", err
		},
	},
	{
		path: "/system/access/tokens/{name}/revoke", name: "token-revoke", nav: "system", noun: "token", verb: "revoke",
		form: revokeForm,
		run: func(v *visit) (string, error) {
			_, err := api.TokenRevoke.Ask(v.r.Context(), v.ask, api.TokenName{Name: v.r.PathValue("name")})
			return "/system/access", err
		},
	},
}

// syncOrder is an order to the master that leads, without parameters.
func syncOrder[Q any](verb, title, effect string, e api.Endpoint[Q, status.Sync]) order {
	return order{
		path: "/sync/" + verb, name: "sync-" + verb, nav: "commits", noun: "sync", verb: verb,
		form: func(v *visit) (*page.Form, error) {
			return &page.Form{
				Title:  title,
				What:   [][2]string{{"effect", effect}, {"who sees it", "the audit log, as " + v.session.User}},
				Button: title[:len(title)-1], Back: "/commits", Command: "zester sync " + verb,
			}, nil
		},
		run: func(v *visit) (string, error) {
			var q Q
			_, err := e.Ask(v.r.Context(), v.ask, q)
			return "/commits", err
		},
	}
}

// unpinForm names the commit that goes out at the end of the pin. A newer one changes what was seen.
func unpinForm(v *visit) (*page.Form, error) {
	s, err := api.SyncStatus.Ask(v.r.Context(), v.ask, api.None{})
	if err != nil {
		return nil, err
	}
	if s.Pinned == nil {
		return nil, conflict("the fleet is not pinned")
	}
	pinned := page.Short(string(s.Pinned.Commit))
	f := &page.Form{
		Title: "End the pin?", Seen: string(s.Pinned.Commit + " " + s.Observed), Button: "End the pin", Hard: true,
		Back: "/commits", Command: "zester sync unpin",
	}
	out := [2]string{"goes out", "the newest commit of the branch, which is not read yet"}
	f.Typed = pinned
	switch s.Observed {
	case "":
	case s.Pinned.Commit:
		out[1] = "nothing new: it is the newest commit of the branch"
	default:
		f.Typed = page.Short(string(s.Observed))
		out[1] = f.Typed
	}
	f.What = append(f.What, [2]string{"pinned", "to " + pinned + " by " + s.Pinned.By}, out)
	if f.Typed != pinned {
		f.What = append(f.What, knownOf(v, string(s.Observed))...)
	}
	f.What = append(f.What, [2]string{"who sees it", "the audit log, as " + v.session.User})
	return f, nil
}

// knownOf says what is known of a commit before it goes out: its subject, and what failed with it.
func knownOf(v *visit, hash string) (what [][2]string) {
	c, err := view.CommitOf(v.r.Context(), v.ask, hash)
	if err != nil {
		return [][2]string{{"it is", "not tried yet"}}
	}
	what = append(what, [2]string{"it is", c.Attempt.Message + ", of " + c.Attempt.Author})
	if words := failedWith(v, c); words != "" {
		what = append(what, [2]string{"failed with it", words})
	}
	return what
}

func failedWith(v *visit, c *view.Commit) string {
	c.AddProblems(v.r.Context(), v.ask)
	if v.may("sync", "commit") {
		c.AddChange(v.r.Context(), v.ask)
	}
	return page.FailedWith(c)
}

func pinForm(v *visit) (*page.Form, error) {
	c, err := view.CommitOf(v.r.Context(), v.ask, v.r.PathValue("sha"))
	if err != nil {
		return nil, err
	}
	short := page.Short(string(c.Attempt.Commit))
	title := "Go back to " + short
	var what [][2]string
	if page.LeftBehind(c) {
		title = "Send " + short + " out again"
		if words := failedWith(v, c); words != "" {
			what = append(what, [2]string{"failed with it", words})
		}
	}
	return &page.Form{
		Title: title + "?", Typed: short, Button: title, Hard: true,
		What: append(what, [][2]string{
			{"changes", "the whole fleet gets this revision at once"},
			{"waits", "new commits, until somebody ends the pin"},
			{"who sees it", "the audit log, as " + v.session.User},
		}...),
		Back: "/commits/" + string(c.Attempt.Commit), Command: "zester sync pin " + short,
	}, nil
}

func retryForm(v *visit) (*page.Form, error) {
	c, err := view.CommitOf(v.r.Context(), v.ask, v.r.PathValue("sha"))
	if err != nil {
		return nil, err
	}
	short := page.Short(string(c.Attempt.Commit))
	return &page.Form{
		Title: "Try " + short + " again?", Button: "Try it again",
		What: [][2]string{{"effect", "the revision that was rolled back goes out again, from its first wave"}},
		Back: "/commits/" + string(c.Attempt.Commit), Command: "zester sync retry " + short,
	}, nil
}

func endForm(v *visit) (*page.Form, error) {
	return &page.Form{
		Title: "End this session?", Button: "End the session", Hard: true, Back: "/me",
		What: [][2]string{
			{"session", v.r.PathValue("id")},
			{"effect", "its browser has to sign in again, within a second"},
		},
	}, nil
}

func revokeForm(v *visit) (*page.Form, error) {
	name := v.r.PathValue("name")
	return &page.Form{
		Title: "Revoke the token " + name + "?", Typed: name, Button: "Revoke " + name, Hard: true,
		Back: "/system/access",
		What: [][2]string{
			{"ends", "the token, its sessions and its open jobs, within a second"},
			{"who sees it", "the audit log, as " + v.session.User},
		},
		Command: "zester auth token revoke " + shell.Word(name),
	}, nil
}

func showCommits(v *visit) (*shown, error) {
	all, err := view.CommitsOf(v.r.Context(), v.ask)
	if err != nil {
		return nil, err
	}
	return &shown{title: "Commits", body: page.Commits(all, v.may), data: all}, nil
}

func showCommit(v *visit) (*shown, error) {
	c, err := view.CommitOf(v.r.Context(), v.ask, v.r.PathValue("sha"))
	if err != nil {
		return nil, err
	}
	c.AddProblems(v.r.Context(), v.ask)
	c.AddBehind(v.r.Context(), v.ask, target.PeelID(v.query("cursor")))
	if v.may("sync", "commit") {
		c.AddChange(v.r.Context(), v.ask)
	}
	crumbs := []page.Link{{Text: "Commits", Href: "/commits"}, {Text: page.Short(string(c.Attempt.Commit)), Code: true}}
	return &shown{title: "Commit", crumbs: crumbs, body: page.CommitPage(c, v.may, v.request), data: c}, nil
}

func showSystem(v *visit) (*shown, error) {
	s, err := view.SystemOf(v.r.Context(), v.ask)
	if err != nil {
		return nil, err
	}
	return &shown{title: "System", body: page.System(s), data: s}, nil
}

func showAccess(v *visit) (*shown, error) {
	a := view.AccessOf(v.r.Context(), v.ask, v.query("people"), v.query("tokens"))
	a.Role = v.query("role")
	a.May = view.May{
		Name: v.query("name"), Verb: v.query("verb"), On: v.query("on"),
		Function: v.query("function"), Args: v.query("args"),
	}
	if a.May.Name == "" && v.session.Role.IsNarrow() {
		a.May.Name = v.session.User // who may not ask about others
	}
	if a.May.Verb != "" {
		askMay(v, &a.May)
	}
	return &shown{title: "Access", body: page.Access(a, v.session.User, v.may), data: a}, nil
}

// askMay reads a question about who may do something, and asks the masters.
func askMay(v *visit, m *view.May) {
	q := api.AccessRequest{Name: m.Name, Verb: m.Verb, Function: m.Function}
	if access.OfFile(access.Verb(m.Verb)) {
		q.Path = m.On
	} else {
		q.Target = m.On
	}
	if m.Args != "" {
		spec, err := dispatch{args: m.Args}.spec()
		if err != nil {
			m.Problem = err.Error()
			return
		}
		q.StateID, q.Args = spec.StateID, spec.Args
	}
	if err := q.Check(); err != nil {
		m.Problem = err.Error()
		return
	}
	m.Ask(v.r.Context(), v.ask, q)
}

func showAudit(v *visit) (*shown, error) {
	q := audit.Query{User: v.query("user"), Action: v.query("action")}
	q.NoLogins = v.query("logins") == "" && q.Action == ""
	if before := v.query("before"); before != "" {
		var err error
		if q.Before, err = strconv.ParseUint(before, 10, 64); err != nil {
			return nil, invalid("cannot read before=%s: want the number of an entry", before)
		}
	}
	a, err := view.AuditOf(v.r.Context(), v.ask, q)
	if err != nil {
		return nil, err
	}
	return &shown{title: "Audit log", body: page.Audit(a), data: a}, nil
}

func showMe(v *visit) (*shown, error) {
	all := api.SessionList.Extra(v.r.Context(), v.ask, api.None{})
	if all.Value != nil {
		own := all.Value.Sessions[:0:0]
		for _, s := range all.Value.Sessions {
			if s.User == v.session.User {
				own = append(own, s)
			}
		}
		all.Value.Sessions = own
	}
	body := page.Me(v.session, all, theme(v.r), keysOn(v.r))
	return &shown{title: "Me", body: body, data: v.session}, nil
}

// saveMe keeps the reader's wishes in cookies of this browser.
func (c *Console) saveMe(v *visit) {
	keys := "on"
	if v.r.PostFormValue("keys") == "" {
		keys = "off"
	}
	for name, value := range map[string]string{themeCookie: v.r.PostFormValue("theme"), keysCookie: keys} {
		http.SetCookie(v.w, &http.Cookie{
			Name: name, Value: url.QueryEscape(audit.Bounded(value, 16)), Path: "/", MaxAge: 365 * 24 * 3600,
			HttpOnly: true, Secure: v.r.TLS != nil, SameSite: http.SameSiteStrictMode,
		})
	}
	http.Redirect(v.w, v.r, "/me", http.StatusSeeOther)
}

// logoutAll ends all sessions of the user.
func (c *Console) logoutAll(v *visit) {
	_, err := api.SessionEnd.Ask(v.r.Context(), v.ask, api.SessionEndRequest{User: v.session.User})
	if err != nil {
		c.fail(v, route{name: "me"}, err)
		return
	}
	setCookie(v.w, v.r, "")
	http.Redirect(v.w, v.r, "/login", http.StatusSeeOther)
}
