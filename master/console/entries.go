package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/master/console/view"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/shell"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// An entryAction is a function of the schedule that people run on the peels of one entry.
type entryAction struct {
	verb   string // of the path and of the function
	title  string // with the entry and the number of peels
	effect string
	stays  string // what goes on
	within string // label of the field of a time; empty: there is none
	reason bool
}

var entryActions = []entryAction{
	{
		verb: "run", title: "Run %s now on %s?",
		effect: "a run begins at once, whatever its windows and its breaker say",
		stays:  "its next fire comes at its time",
	},
	{
		verb: "pause", title: "Pause %s on %s?", effect: "it does not fire, also after a restart or a commit",
		stays: "runs in flight go on", within: "How long", reason: true,
	},
	{
		verb: "resume", title: "Resume %s on %s?", effect: "it fires at its next time, also if failures had paused it",
		stays: "fires that the pause has skipped are not made up",
	},
	{
		verb: "skip", title: "Skip the next fire of %s on %s?", effect: "its next fire does not run",
		stays: "the fires after it come at their times", within: "Only if it comes within", reason: true,
	},
}

// entryOrders are the pages of [entryActions].
func entryOrders() (orders []order) {
	for _, a := range entryActions {
		orders = append(orders, order{
			path: "/entries/{entry}/" + a.verb, name: "entry-" + a.verb, nav: "timeline", noun: "job", verb: "dispatch",
			form: a.form, run: a.run,
		})
	}
	return orders
}

// field returns a value of the form that was sent, else of the query. It is whole, as it may become part of a commit:
// maxForm bounds it.
func (v *visit) field(name string) string {
	if v.r.Method == http.MethodPost {
		return v.r.PostFormValue(name)
	}
	return v.r.URL.Query().Get(name)
}

// on returns the peels of the target that have the entry of the path.
func (a *entryAction) on(v *visit) ([]target.PeelID, error) {
	entry := v.r.PathValue("entry")
	peels, err := view.EntryPeels(v.r.Context(), v.ask, entry, v.field("target"))
	if err == nil && len(peels) == 0 {
		err = &api.Error{Code: api.CodeNotFound, Msg: "no peel of this target has the entry " + strconv.Quote(entry)}
	}
	return peels, err
}

func (a *entryAction) form(v *visit) (*page.Form, error) {
	peels, err := a.on(v)
	if err != nil {
		return nil, err
	}
	entry := v.r.PathValue("entry")
	expr := v.field("target")
	f := &page.Form{
		Title: fmt.Sprintf(a.title, entry, page.Plural(len(peels), "peel")), Seen: audit.PeelsHash(peels),
		Button: strings.ToUpper(a.verb[:1]) + a.verb[1:] + " it on " + page.Plural(len(peels), "peel"),
		What: [][2]string{
			{"on", someOf(peels, len(peels))},
			{"effect", a.effect},
			{"stays", a.stays},
			{"who sees it", "the audit log and the job, as " + v.session.User},
		},
		Fields: []page.Field{
			{Name: "jid", Value: string(wire.NewJID()), Kind: "hidden"},
			{Name: "target", Label: "Target", Value: expr, Kind: "code", Hint: "empty: all peels that have the entry"},
		},
		Hard: a.verb == "pause", Back: "/entries/" + url.PathEscape(entry),
		Command: strings.Join([]string{"zester schedule", a.verb, shell.Word(orAll(expr)), shell.Word(entry)}, " "),
	}
	if a.within != "" {
		within := page.Field{Name: "for", Label: a.within, Kind: "code", Hint: "such as 90m or 2d; empty: no limit"}
		f.Fields = append(f.Fields, within)
	}
	if a.reason {
		f.Fields = append(f.Fields, reasonField())
	}
	if len(peels) >= manyPeels {
		f.Typed = strconv.Itoa(len(peels))
	}
	return f, nil
}

func orAll(expr string) string {
	if strings.TrimSpace(expr) == "" {
		return "*"
	}
	return expr
}

// run runs the function on exactly the peels that were shown. The ID of the job is in the form, so that a form that is
// sent twice runs once.
func (a *entryAction) run(v *visit) (string, error) {
	peels, err := a.on(v)
	if err != nil {
		return "", err
	}
	if audit.PeelsHash(peels) != v.seen() {
		return "", errSeen
	}
	jid, err := wire.ParseJID(v.field("jid"))
	if err != nil {
		return "", invalid("the form has no ID of a job: show it again")
	}
	spec := job.Spec{
		JID: jid, Function: "schedule." + a.verb, Targets: peels, TargetExpr: orAll(v.field("target")),
		Args: map[string]any{"entry": v.r.PathValue("entry")},
	}
	if text := strings.TrimSpace(v.field("for")); text != "" && a.within != "" {
		spec.Args["for"] = text
	}
	if reason := v.orderReason(); reason != "" && a.reason {
		spec.Args["reason"] = reason
		spec.Metadata = map[string]string{job.MetaReason: reason}
	}
	spec.Timeout = job.TimeoutOf(spec.Function)
	_, err = api.JobDispatch.Ask(v.r.Context(), v.ask, spec)
	return "/jobs/" + string(jid), err
}

// alertOrders are the pages of silences and of tests of receivers.
var alertOrders = []order{
	{
		path: "/alerts/silence", name: "alert-silence", nav: "alerts", noun: "alert", verb: "silence",
		form: silenceForm, run: silence,
	},
	{
		path: "/alerts/silences/{id}/end", name: "silence-end", nav: "alerts", noun: "alert", verb: "unsilence",
		form: unsilenceForm, run: unsilence,
	},
	{
		path: "/alerts/receivers/{name}/test", name: "receiver-test", nav: "alerts", noun: "alert", verb: "test",
		form: receiverForm, run: testReceiver,
	},
}

func silenceForm(v *visit) (*page.Form, error) {
	match := v.field("match")
	f := &page.Form{
		Title: "Keep alerts from being sent?", Button: "Silence them", Hard: true, Back: "/alerts",
		What: [][2]string{
			{"effect", "alerts that match are not sent; one that still lasts at the end is sent then"},
			{"who sees it", "the audit log and the list of silences, as " + v.session.User},
		},
		Fields: []page.Field{
			{
				Name: "match", Label: "Which alerts", Value: match, Kind: "code",
				Hint: "a glob of RULE/ENTRY, a rule or an entry; peel:web-* is about peels",
			},
			{Name: "for", Label: "How long", Value: "2h", Kind: "code", Hint: "such as 2h or 1d, at most 30d"},
			reasonField(),
		},
		Command: "zester alert silence " + shell.Word(match) + " --for 2h --reason WHY",
	}
	if match == "" {
		f.Command = "zester alert silence MATCH --for 2h --reason WHY"
		return f, nil
	}
	names, err := view.Silenced(v.r.Context(), v.ask, match)
	if err != nil {
		return nil, err
	}
	text := "no alert of the last day matches"
	if len(names) > 0 {
		text = strings.Join(names[:min(shownPeels, len(names))], ", ")
	}
	f.What = append([][2]string{{"of today", text}}, f.What...)
	return f, nil
}

func silence(v *visit) (string, error) {
	length, err := strictyaml.ParseDuration(strings.TrimSpace(v.field("for")))
	if err != nil {
		return "", invalid("how long: %v", err)
	}
	q := api.SilenceRequest{Match: v.field("match"), For: length, Reason: v.orderReason()}
	if q.Reason == "" {
		return "", invalid("say why: the reason is in the audit log")
	}
	_, err = api.AlertSilence.Ask(v.r.Context(), v.ask, q)
	return "/alerts", err
}

func unsilenceForm(v *visit) (*page.Form, error) {
	all, err := api.AlertList.Ask(v.r.Context(), v.ask, api.AlertsRequest{})
	if err != nil {
		return nil, err
	}
	id := v.r.PathValue("id")
	for _, s := range all.Silences {
		if s.ID == id {
			return &page.Form{
				Title: "End the silence of " + s.Match + "?", Button: "End it", Back: "/alerts",
				What: [][2]string{
					{"silenced by", s.By + ": " + s.Reason},
					{"effect", "alerts that match and last are sent at once"},
					{"who sees it", "the audit log, as " + v.session.User},
				},
				Command: "zester alert unsilence " + shell.Word(id),
			}, nil
		}
	}
	return nil, &api.Error{Code: api.CodeNotFound, Msg: "there is no silence " + strconv.Quote(id) + " now"}
}

func unsilence(v *visit) (string, error) {
	_, err := api.AlertUnsilence.Ask(v.r.Context(), v.ask, api.SilenceID{ID: v.r.PathValue("id")})
	return "/alerts", err
}

func receiverForm(v *visit) (*page.Form, error) {
	all, err := api.AlertReceivers.Ask(v.r.Context(), v.ask, api.None{})
	if err != nil {
		return nil, err
	}
	name := v.r.PathValue("name")
	for _, r := range all.Receivers {
		if r.Name == name {
			return &page.Form{
				Title: "Send a test message to " + name + "?", Button: "Send it", Back: "/alerts",
				What: [][2]string{
					{"receiver", name + ", " + r.Provider},
					{"it gets", "one message that says that it is a test"},
					{"who sees it", "the people behind the receiver, and the audit log, as " + v.session.User},
				},
				Command: "zester alert test " + shell.Word(name),
			}, nil
		}
	}
	return nil, &api.Error{Code: api.CodeNotFound, Msg: "there is no receiver " + strconv.Quote(name)}
}

func testReceiver(v *visit) (string, error) {
	_, err := api.AlertTest.Ask(v.r.Context(), v.ask, api.ReceiverName{Name: v.r.PathValue("name")})
	return "/alerts", err
}
