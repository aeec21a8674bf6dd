package console

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// An order is a page that asks for a confirmation, and what is done then.
type order struct {
	path       string
	name, nav  string // of the page
	noun, verb string // of the request that is sent
	form       func(*visit) (*page.Form, error)
	run        func(*visit) (next string, err error) // next is the path of what was made
	// previews: the form that was filled in first shows what it leads to, and is then sent once more.
	previews bool
}

// allOrders are the orders of all pages.
func allOrders() []order {
	return slices.Concat(
		jobOrders, systemOrders, approvalOrders, entryOrders(), changeOrders, alertOrders, peelOrders, accessOrders,
	)
}

// errTyped: the confirmation does not have the text that the form names.
var errTyped = &api.Error{Code: api.CodeInvalid, Msg: "the text to confirm is not as shown"}

// errSeen: the form was about something else than there is now.
var errSeen = &api.Error{Code: api.CodeConflict, Msg: "it has changed since it was shown: look at it again"}

// seen stands for what was shown when the form was made.
func (v *visit) seen() string { return v.r.PostFormValue("seen") }

func (c *Console) handleOrder(o order) {
	c.mux.HandleFunc("GET "+o.path, c.within(func(v *visit) { c.ask(v, o) }))
	c.mux.HandleFunc("POST "+o.path, c.within(func(v *visit) { c.carryOut(v, o) }))
}

func (o order) route() route { return route{path: o.path, name: o.name, nav: o.nav} }

// ask shows the form. A page that asks for parts of it gets none: nothing in a form changes while one looks on.
func (c *Console) ask(v *visit, o order) {
	if refreshes(v.r) && v.may(o.noun, o.verb) {
		c.send(v, nil, 0)
		return
	}
	c.askFirst(v, o, nil)
}

// askFirst shows the form. After a refusal it has what was filled in, and why it was refused. If the form cannot be
// made again, why the order was refused is what counts.
func (c *Console) askFirst(v *visit, o order, refused error) {
	if !v.may(o.noun, o.verb) {
		c.fail(v, o.route(), forbidden(v.session, o.noun, o.verb))
		return
	}
	f, err := o.form(v)
	if err != nil {
		c.fail(v, o.route(), cmp.Or(refused, err))
		return
	}
	s := &shown{title: f.Title, crumbs: []page.Link{{Text: "Back", Href: f.Back}}}
	if f.Refused != "" {
		s.status = http.StatusUnprocessableEntity
	}
	if refused != nil {
		f.Refused = refused.Error()
		s.status = refusal(refused)
		for i, field := range f.Fields {
			switch {
			case field.Kind != "hidden":
				f.Fields[i].Value = v.r.PostFormValue(field.Name)
			case field.Name == "jid":
				f.Fields[i].Value = v.jobID(refused)
			}
		}
	}
	s.body = page.Confirm(*f)
	c.write(v, o.route(), s)
}

// jobID returns the ID of the job for a form. If the form was sent and it is not known whether its job runs, it is the
// same ID, with which the job runs once.
func (v *visit) jobID(refused error) string {
	if refused != nil && statusOf(refused) == http.StatusServiceUnavailable {
		if sent, err := wire.ParseJID(v.r.PostFormValue("jid")); err == nil {
			return string(sent)
		}
	}
	return string(wire.NewJID())
}

// refusal returns the status of a form whose order was refused.
func refusal(err error) int {
	if status := statusOf(err); status != http.StatusBadRequest {
		return status
	}
	return http.StatusUnprocessableEntity
}

// carryOut sends an order. What a role may not do is in the audit log.
func (c *Console) carryOut(v *visit, o order) {
	if !v.may(o.noun, o.verb) {
		c.refuse(v, o.noun, o.verb)
		return
	}
	f, err := o.form(v)
	if err != nil {
		c.fail(v, o.route(), err)
		return
	}
	if o.previews && (v.seen() == "" || f.Refused != "") {
		c.askFirst(v, o, nil)
		return
	}
	if f.Seen != v.seen() {
		c.askFirst(v, o, errSeen)
		return
	}
	if f.Typed != "" && v.r.PostFormValue("typed") != f.Typed {
		c.askFirst(v, o, errTyped)
		return
	}
	next, err := o.run(v)
	if id, waits := api.HeldAs(err); waits {
		c.held(v, o, id)
		return
	}
	if err != nil {
		c.o.Log.Info("order refused", "request", v.request, "user", v.session.User, "order", o.path, "err", err)
		c.askFirst(v, o, err)
		return
	}
	if v.made != nil {
		back := []page.Link{{Text: "Back", Href: v.made.Back}}
		c.write(v, o.route(), &shown{title: v.made.Title, crumbs: back, body: page.Confirm(*v.made)})
		return
	}
	http.Redirect(v.w, v.r, next, http.StatusSeeOther)
}

// held answers an order that waits for a second person.
func (c *Console) held(v *visit, o order, id api.HoldID) {
	f := page.Form{
		Title: "It waits for a second person", Back: "/approvals",
		What: [][2]string{
			{"nothing was done", "it is the action " + string(id)},
			{"who decides", "somebody else who may do it, within 24 hours, below Approvals or with zester approve"},
		},
		Command: "zester approvals",
	}
	back := []page.Link{{Text: "Approvals", Href: f.Back}}
	c.write(v, o.route(), &shown{title: f.Title, crumbs: back, body: page.Confirm(f), status: http.StatusAccepted})
}

// refuse answers an order that the session may not send.
func (c *Console) refuse(v *visit, noun, verb string) {
	err := forbidden(v.session, noun, verb)
	refused := audit.Entry{Action: noun + "." + verb, Target: audit.Bounded(v.r.URL.Path, 256)}.Ended(err, true)
	c.record(v.r, c.caller(v), refused)
	c.fail(v, route{name: "refused"}, err)
}
