package console

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/master/console/view"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/shell"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// peelOrders are the pages that remove peels.
var peelOrders = []order{
	{
		path: "/peels/{id}/decommission", name: "peel-decommission", nav: "peels", noun: "sync", verb: "remove",
		form: decommissionForm, run: decommission,
	},
	{
		path: "/peels/{id}/wipe", name: "peel-wipe", nav: "peels", noun: "sync", verb: "remove",
		form: wipeForm, run: wipe,
	},
}

// accessOrders are the pages that make and end credentials. A secret is shown once, in the answer to the form.
var accessOrders = []order{
	{
		path: "/system/access/users/{name}/revoke", name: "user-revoke", nav: "system", noun: "user", verb: "revoke",
		form: revokeUserForm, run: revokeUser,
	},
	{
		path: "/system/access/tokens/new", name: "token-new", nav: "system", noun: "token", verb: "create",
		form: newTokenForm, run: newToken,
	},
	{
		path: "/system/access/join/new", name: "join-new", nav: "system", noun: "join", verb: "create",
		form: newJoinForm, run: newJoin,
	},
	{
		path: "/system/access/join/{name}/revoke", name: "join-revoke", nav: "system", noun: "join", verb: "revoke",
		form: revokeJoinForm, run: revokeJoin,
	},
}

func decommissionForm(v *visit) (*page.Form, error) {
	id := v.r.PathValue("id")
	p, err := view.PeelNamed(v.r.Context(), v.ask, target.PeelID(id))
	if err != nil {
		return nil, err
	}
	state := "it is offline"
	if p.Online {
		state = "it is online: stop zester-peel on the host first"
	}
	return &page.Form{
		Title: "Remove " + id + " for good?", Typed: id, Button: "Remove " + id, Hard: true,
		What: [][2]string{
			{"now", state},
			{"ends", "its credential: its key is never accepted again"},
			{"removed", "its facts, its settings and its last report"},
			{"stays", "its data directory on the host, and its jobs, for 7 days"},
			{"who sees it", "the audit log, as " + v.session.User},
		},
		Back: "/peels/" + url.PathEscape(id), Command: "zester peel remove " + shell.Word(id),
	}, nil
}

func decommission(v *visit) (string, error) {
	d, err := api.Decommission(v.r.Context(), v.ask, target.PeelID(v.r.PathValue("id")))
	if err != nil && (d == nil || !d.Removed) {
		return "", err
	}
	v.made = remains(d, err)
	return "/peels", nil
}

// remains says with which codes a host can still join under the ID of a peel that was removed; nil: with none. unread
// is why the codes are not known, nil if they are.
func remains(d *api.Decommissioned, unread error) *page.Form {
	id := string(d.Peel)
	f := &page.Form{Title: id + " is removed", Back: "/system/access"}
	if unread != nil {
		text := "whether a host can still join as " + id + " is not known, look at the list of codes: " + unread.Error()
		f.What = append(f.What, [2]string{"codes", text})
		return f
	}
	for _, name := range d.JoinTokens {
		text := "the code " + name + " still lets a host join as " + id + ", with a new key: revoke it if none should"
		f.What = append(f.What, [2]string{"remains", text})
	}
	if len(f.What) == 0 {
		return nil
	}
	return f
}

func wipeForm(v *visit) (*page.Form, error) {
	id := v.r.PathValue("id")
	p, err := view.PeelNamed(v.r.Context(), v.ask, target.PeelID(id))
	if err != nil {
		return nil, err
	}
	f := &page.Form{
		Title: "Delete what zester has on " + id + ", and remove it for good?", Typed: id, Hard: true,
		Button: "Delete and remove " + id,
		What: [][2]string{
			{"first", "the peel is asked to end its schedule, to stop what runs, and to delete its data directory"},
			{"then", "its credential ends, and its facts, its settings and its last report are removed"},
			{"if it does not answer", "nothing is removed: its credential is as it was"},
			{"stays", "zester-peel and its peel.yaml on the host; its jobs, for 7 days"},
			{"who sees it", "the audit log, as " + v.session.User},
		},
		Fields: []page.Field{{Name: "jid", Value: string(wire.NewJID()), Kind: "hidden"}},
		Back:   "/peels/" + url.PathEscape(id), Command: "zester peel remove --wipe " + shell.Word(id),
	}
	if !p.Online {
		f.Button, f.Typed = "", ""
		f.Refused = id + " is offline: it cannot delete its data"
		f.Other = &page.Link{Text: "Remove it without that…", Href: "/peels/" + url.PathEscape(id) + "/decommission"}
	}
	return f, nil
}

// wipe removes a peel that has answered that it deletes its data. The ID of the job is in the form, so a form that is
// sent twice asks the peel once.
func wipe(v *visit) (string, error) {
	id := target.PeelID(v.r.PathValue("id"))
	p, err := view.PeelNamed(v.r.Context(), v.ask, id)
	if err != nil {
		return "", err
	}
	if !p.Online {
		return "", conflict("%s is offline: it cannot delete its data, and nothing was done", id)
	}
	jid, err := wire.ParseJID(v.r.PostFormValue("jid"))
	if err != nil {
		return "", invalid("the form has no ID of a job: open it again")
	}
	if _, err := api.JobDispatch.Ask(v.r.Context(), v.ask, api.WipeJob(jid, id)); err != nil {
		return "", err
	}
	r, err := view.Returned(v.r.Context(), v.ask, jid)
	if err != nil {
		return "", err
	}
	switch {
	case r == nil:
		return "", conflict("%s may have deleted its data: it has not answered; its credential is as it was", id)
	case !r.Success && (r.Outcome == "" || r.Outcome == wire.Rejected):
		return "", conflict("%s does not delete its data: %s; its credential is as it was", id, r.Error)
	case !r.Success:
		return "", conflict("%s may have deleted its data: %s; its credential is as it was", id, r.Error)
	}
	return decommission(v)
}

func revokeUserForm(v *visit) (*page.Form, error) {
	all, err := api.All(v.r.Context(), v.ask, api.UserList, (*api.UsersAnswer).Page)
	if err != nil {
		return nil, err
	}
	name := v.r.PathValue("name")
	for i := range all {
		if all[i].Name == name {
			return &page.Form{
				Title: "Revoke " + name + "?", Typed: name, Button: "Revoke " + name, Hard: true,
				Back: "/system/access",
				What: [][2]string{
					{"ends", "all credentials and sessions of " + name + ", within a second, and open jobs"},
					{"also ends", "tokens, join tokens, credentials and users that " + name + " made"},
					{"stays", "what is in the config repo: schedule entries, silences, pins and pauses"},
					{"who sees it", "the audit log, as " + v.session.User},
				},
				Command: "zester auth user revoke " + shell.Word(name),
			}, nil
		}
	}
	return nil, &api.Error{Code: api.CodeNotFound, Msg: "there is no person " + strconv.Quote(name)}
}

func revokeUser(v *visit) (string, error) {
	_, err := api.UserRevoke.Ask(v.r.Context(), v.ask, api.RevokeRequest{Name: v.r.PathValue("name")})
	return "/system/access", err
}

// withdrawn takes back what waits for a second person and has a secret: the secret is in this request alone, so the
// approval would make something that nobody can use. It returns other errors as they are.
func (v *visit) withdrawn(err error, command string) error {
	id, waits := api.HeldAs(err)
	if !waits {
		return err
	}
	if _, err := api.HoldReject.Ask(v.r.Context(), v.ask, api.HoldRequest{ID: id}); err != nil {
		return fmt.Errorf("the action %s should be rejected, because nobody would see the secret: %w", id, err)
	}
	return conflict("this needs a second person, and a page cannot wait for one: nothing was done. "+
		"%s waits, and then prints the secret", command)
}

// shownOnce makes the answer to a form show a secret, which is stored nowhere.
func (v *visit) shownOnce(title, word, secret string) {
	v.made = &page.Form{
		Title: title, Back: "/system/access",
		What: [][2]string{
			{word, secret},
			{"copy it", "it is shown only here and only now; masters keep a digest of it"},
		},
	}
}

func newTokenForm(v *visit) (*page.Form, error) {
	return &page.Form{
		Title: "Make a token for a program?", Button: "Make it", Back: "/system/access",
		What: [][2]string{
			{"opens", "the REST API and this console, as far as its scopes and limits say; it approves nothing"},
			{"who sees it", "the audit log, as " + v.session.User},
		},
		Fields: []page.Field{
			{Name: "name", Label: "Name", Kind: "code"},
			{
				Name: "scopes", Label: "Scopes", Value: "read", Kind: "code",
				Hint: "of read, dispatch, sync, admin; metrics alone opens /metrics",
			},
			{Name: "ttl", Label: "Ends after", Value: "90d", Kind: "code", Hint: "such as 90d; empty: it does not end"},
			{Name: "target", Label: "Peels", Kind: "code", Hint: "a target that it may use; empty: all"},
			{Name: "functions", Label: "Functions", Kind: "code", Hint: "globs, such as test.*, cmd.run; empty: all"},
		},
		Command: "zester auth token create NAME --scope SCOPES --ttl TIME",
	}, nil
}

// listOf returns the words between commas.
func listOf(text string) (list []string) {
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			list = append(list, word)
		}
	}
	return list
}

// timeOf returns a duration of a form; empty: 0.
func (v *visit) timeOf(name string) (d time.Duration, err error) {
	text := strings.TrimSpace(v.field(name))
	if text == "" {
		return 0, nil
	}
	if d, err = strictyaml.ParseDuration(text); err != nil {
		return 0, invalid("%s: %v", name, err)
	}
	return d, nil
}

func newToken(v *visit) (string, error) {
	ends, err := v.timeOf("ttl")
	if err != nil {
		return "", err
	}
	q := credential.TokenRequest{
		Name: strings.TrimSpace(v.field("name")), TTL: ends,
		Limits: grants.Limits{Target: strings.TrimSpace(v.field("target")), Functions: listOf(v.field("functions"))},
	}
	for _, scope := range listOf(v.field("scopes")) {
		q.Scopes = append(q.Scopes, credential.Scope(scope))
	}
	var text string
	text, q.Hash = credential.NewSecret(q.Name)
	if _, err := api.TokenCreate.Ask(v.r.Context(), v.ask, q); err != nil {
		return "", v.withdrawn(err, "zester auth token create")
	}
	v.shownOnce("The token "+q.Name+" is made", "token", text)
	return "", nil
}

func newJoinForm(v *visit) (*page.Form, error) {
	return &page.Form{
		Title: "Make a code with which hosts join?", Button: "Make it", Back: "/system/access",
		What: [][2]string{
			{"lets in", "each host that has it, without an approval, under an ID that the glob matches"},
			{"who sees it", "the audit log, as " + v.session.User},
		},
		Fields: []page.Field{
			{Name: "name", Label: "Name", Kind: "code"},
			{Name: "peel", Label: "IDs", Kind: "code", Hint: "a glob, such as web-*"},
			{Name: "uses", Label: "Hosts", Value: "1", Kind: "code", Hint: "how many may join"},
			{Name: "ttl", Label: "Ends after", Value: "1h", Kind: "code", Hint: "such as 1h or 7d"},
		},
		Command: "zester auth join-token create --peel GLOB --uses N --ttl TIME",
	}, nil
}

func newJoin(v *visit) (string, error) {
	ends, err := v.timeOf("ttl")
	if err != nil {
		return "", err
	}
	uses, err := strconv.Atoi(strings.TrimSpace(v.field("uses")))
	if err != nil {
		return "", invalid("cannot let %q hosts join: want a number, such as 10", v.field("uses"))
	}
	q := credential.JoinRequest{
		Name: strings.TrimSpace(v.field("name")), Peel: strings.TrimSpace(v.field("peel")), Uses: uses, TTL: ends,
	}
	var text string
	text, q.Hash = credential.NewSecret(q.Name)
	a, err := api.JoinCreate.Ask(v.r.Context(), v.ask, q)
	if err != nil {
		return "", v.withdrawn(err, "zester auth join-token create")
	}
	if a.Pin != "" {
		text += "." + a.Pin
	}
	v.shownOnce("The code "+q.Name+" is made", "code", text)
	return "", nil
}

func revokeJoinForm(v *visit) (*page.Form, error) {
	all, err := api.JoinList.Ask(v.r.Context(), v.ask, api.None{})
	if err != nil {
		return nil, err
	}
	name := v.r.PathValue("name")
	for _, t := range all.Tokens {
		if t.Name == name {
			return &page.Form{
				Title: "Revoke the code " + name + "?", Typed: name, Button: "Revoke " + name, Hard: true,
				What: [][2]string{
					{"ends", "no host joins with it any more"},
					{"stays", page.Plural(t.Used, "host") + " that joined with it"},
					{"who sees it", "the audit log, as " + v.session.User},
				},
				Back: "/system/access", Command: "zester auth join-token revoke " + shell.Word(name),
			}, nil
		}
	}
	return nil, &api.Error{Code: api.CodeNotFound, Msg: "there is no code " + strconv.Quote(name)}
}

func revokeJoin(v *visit) (string, error) {
	_, err := api.JoinRevoke.Ask(v.r.Context(), v.ask, api.TokenName{Name: v.r.PathValue("name")})
	return "/system/access", err
}
