package console

import (
	"net/url"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/settings/shell"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// keyEnd is how many characters of a key have to be typed.
const keyEnd = 6

func endOf(key string) string { return key[max(0, len(key)-keyEnd):] }

// hostThatAsks returns the key with which a host asks for the ID of the path, and from where.
func hostThatAsks(v *visit) (public, from string, err error) {
	id := target.PeelID(v.r.PathValue("id"))
	all, err := api.EnrollList.Ask(v.r.Context(), v.ask, api.EnrollQuery{ID: id})
	if err != nil {
		return "", "", err
	}
	for _, e := range all.Peels {
		switch {
		case e.ID != id:
		case e.State == credential.Pending:
			return e.Public, e.From, nil
		default:
			return "", "", conflict("%s does not wait for approval now: it is %s", id, e.State)
		}
	}
	return "", "", &api.Error{Code: api.CodeNotFound, Msg: "no host asks for the ID " + string(id)}
}

func enrollForm(v *visit) (*page.Form, error) {
	public, from, err := hostThatAsks(v)
	if err != nil {
		return nil, err
	}
	id := v.r.PathValue("id")
	return &page.Form{
		Title: "Let " + id + " join?", Typed: endOf(public), Button: "Let it join", Seen: public,
		What: [][2]string{
			{"its key", public},
			{"asks from", from},
			{"compare", "the key that zester-peel on the host logs; type its last characters as they are there"},
			{"then", "it gets a credential, and the settings and secrets of this ID"},
			{"who sees it", "the audit log, as " + v.session.User},
		},
		Back: "/approvals", Command: "zester auth peel approve " + shell.Word(id) + " --key " + shell.Word(public),
		Other: &page.Link{Text: "Reject it…", Href: "/approvals/enroll/" + url.PathEscape(id) + "/reject"},
	}, nil
}

func approveHost(v *visit) (string, error) {
	q := api.EnrollName{ID: target.PeelID(v.r.PathValue("id")), Public: v.seen()}
	_, err := api.EnrollApprove.Ask(v.r.Context(), v.ask, q)
	return "/approvals", err
}

func rejectHostForm(v *visit) (*page.Form, error) {
	public, from, err := hostThatAsks(v)
	if err != nil {
		return nil, err
	}
	id := v.r.PathValue("id")
	return &page.Form{
		Title: "Reject the host that asks for " + id + "?", Button: "Reject it", Hard: true, Seen: public,
		What: [][2]string{
			{"its key", public + ", which is never accepted again"},
			{"asks from", from},
			{"who sees it", "the audit log, as " + v.session.User},
		},
		Back: "/approvals", Command: "zester auth peel reject " + shell.Word(id),
	}, nil
}

func rejectHost(v *visit) (string, error) {
	_, err := api.EnrollReject.Ask(v.r.Context(), v.ask, api.EnrollName{ID: target.PeelID(v.r.PathValue("id"))})
	return "/approvals", err
}

func rekeyForm(v *visit) (*page.Form, error) {
	id := v.r.PathValue("id")
	p, err := api.PeelShow.Ask(v.r.Context(), v.ask, api.PeelRequest{Peel: target.PeelID(id)})
	if err != nil {
		return nil, err
	}
	if p.PendingKey == "" {
		return nil, conflict("no new key of %s waits for approval", id)
	}
	return &page.Form{
		Title: "Seal the secrets of " + id + " to its new key?", Typed: endOf(p.PendingKey), Button: "Use the new key",
		Hard: true, Seen: p.PendingKey,
		What: [][2]string{
			{"new key", p.PendingKey},
			{"key until now", p.Key},
			{"then", "the holder of the new key can read the secrets of this peel: be sure that it was set up again"},
			{"who sees it", "the audit log, as " + v.session.User},
		},
		Back:    "/peels/" + url.PathEscape(id),
		Command: "zester peel rekey " + shell.Word(id) + " --key " + shell.Word(p.PendingKey),
	}, nil
}

func rekey(v *visit) (string, error) {
	id := v.r.PathValue("id")
	_, err := api.PeelRekey.Ask(v.r.Context(), v.ask, api.PeelKey{Peel: target.PeelID(id), Key: v.seen()})
	return "/peels/" + url.PathEscape(id), err
}
