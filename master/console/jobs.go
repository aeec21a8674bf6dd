package console

import (
	"cmp"
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
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/shell"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// manyPeels is from how many peels on their number has to be typed before a job runs on them.
const manyPeels = 500

// jobPages are the pages about jobs.
var jobPages = []route{
	{path: "/jobs", name: "jobs", nav: "jobs", noun: "job", verb: "list", show: showJobs},
	{path: "/jobs/new", name: "job-new", nav: "jobs", noun: "job", verb: "dispatch", form: true, show: showNewJob},
	{path: "/jobs/{jid}", name: "job", nav: "jobs", noun: "job", verb: "show", show: showJob},
}

var jobOrders = []order{
	{
		path: "/jobs/{jid}/cancel", name: "job-cancel", nav: "jobs", noun: "job", verb: "cancel",
		form: cancelForm, run: cancelJob,
	},
}

func showJobs(v *visit) (*shown, error) {
	q := job.Query{Status: job.Status(v.query("status")), Cursor: wire.JID(v.query("cursor"))}
	if q.Status != "" && !q.Status.Known() {
		return nil, &api.Error{Code: api.CodeInvalid, Msg: "there is no status " + strconv.Quote(string(q.Status))}
	}
	all, err := view.JobsOf(v.r.Context(), v.ask, v.query("who"), q)
	if err != nil {
		return nil, err
	}
	return &shown{title: "Jobs", body: page.Jobs(all, v.may("job", "dispatch")), data: all}, nil
}

func jobCrumbs(last string) []page.Link {
	return []page.Link{{Text: "Jobs", Href: "/jobs"}, {Text: last, Code: true}}
}

func showJob(v *visit) (*shown, error) {
	jid, err := wire.ParseJID(v.r.PathValue("jid"))
	if err != nil {
		return nil, &api.Error{Code: api.CodeNotFound, Msg: err.Error(), Err: err}
	}
	from, err := strconv.Atoi(cmp.Or(v.query("from"), "0"))
	if err != nil {
		return nil, invalid("cannot read from=%s: want the number of a line", v.query("from"))
	}
	j, err := view.JobOf(v.r.Context(), v.ask, api.ReturnGroupsRequest{JID: jid, Group: v.query("group"), From: from})
	if err != nil {
		return nil, err
	}
	body := page.Job(j, v.mayCancel(&j.Job))
	return &shown{title: j.Job.Function, crumbs: jobCrumbs(string(jid)), body: body, data: j}, nil
}

// mayCancel reports whether the session may cancel a job: with limits, own jobs alone.
func (v *visit) mayCancel(j *job.Job) bool {
	return v.may("job", "cancel") && (!v.session.Role.IsNarrow() || j.User == v.session.User)
}

func cancelForm(v *visit) (*page.Form, error) {
	j, err := api.JobShow.Ask(v.r.Context(), v.ask, api.JobRequest{JID: wire.JID(v.r.PathValue("jid"))})
	if err != nil {
		return nil, err
	}
	return &page.Form{
		Title: "Stop " + j.Function + " on " + page.Plural(j.TargetCount, "peel") + "?",
		What: [][2]string{
			{"stops", "peels that run it are asked to stop; peels that have not begun do not begin"},
			{"stays", "what they have done, and returns that came"},
			{"who sees it", "the audit log, as " + v.session.User},
		},
		Button: "Stop the job", Hard: true,
		Back: "/jobs/" + string(j.JID), Command: "zester job cancel " + string(j.JID),
	}, nil
}

func cancelJob(v *visit) (string, error) {
	jid := v.r.PathValue("jid")
	_, err := api.JobCancel.Ask(v.r.Context(), v.ask, api.JobRequest{JID: wire.JID(jid)})
	return "/jobs/" + url.PathEscape(jid), err
}

// A dispatch is the form of a new job, as it was filled in.
type dispatch struct {
	target, function, args, batch, reason string
	note                                  string // what else happens, for the form alone
}

func readDispatch(get func(string) string) dispatch {
	return dispatch{
		target: get("target"), function: get("function"), args: get("args"), batch: get("batch"), reason: get("reason"),
	}
}

func (d dispatch) fields() []page.Field {
	return []page.Field{
		{Name: "target", Label: "Target", Value: d.target, Kind: "code", Hint: "such as web-* and G@os:debian"},
		{Name: "function", Label: "Function", Value: d.function, Kind: "code", Hint: "such as test.ping or cmd.run"},
		{
			Name: "args", Label: "Arguments", Value: d.args, Kind: "lines",
			Hint: "one name=value a line; a line without = is the ID argument",
		},
		{
			Name: "batch", Label: "At a time", Value: d.batch, Kind: "code",
			Hint: "how many peels work at a time; empty: all",
		},
		{Name: "reason", Label: "Why", Value: d.reason},
	}
}

// command returns the line for a shell that runs the same.
func (d dispatch) command() string {
	words := []string{"zester", shell.Word(d.target), cmp.Or(d.function, "FUNCTION")}
	if d.function != "" {
		words[2] = shell.Word(d.function)
	}
	for line := range strings.Lines(d.args) {
		if line = strings.TrimSpace(line); line != "" {
			words = append(words, shell.Word(line))
		}
	}
	if d.batch != "" {
		words = append(words, "--batch", shell.Word(d.batch))
	}
	return strings.Join(words, " ")
}

// spec returns the job that the form asks for, without its ID and targets.
func (d dispatch) spec() (job.Spec, error) {
	spec := job.Spec{Function: d.function, TargetExpr: d.target, Args: map[string]any{}}
	if d.reason != "" {
		spec.Metadata = map[string]string{job.MetaReason: d.reason}
	}
	for line := range strings.Lines(d.args) {
		line = strings.TrimSpace(line)
		name, value, named := strings.Cut(line, "=")
		switch {
		case line == "":
		case !named || strings.ContainsAny(name, " \"'"):
			spec.StateID = line
		default:
			node, err := strictyaml.Parse(name, []byte(value))
			if err != nil {
				return spec, invalid("cannot read the argument %s: %v", name, err)
			}
			spec.Args[name] = node.Any()
		}
	}
	if d.batch != "" {
		size, err := strconv.Atoi(d.batch)
		if err != nil || size < 1 {
			return spec, invalid("cannot run on %q peels at a time: want a number, such as 10", d.batch)
		}
		spec.Batch = &job.Batch{Size: size}
	}
	return spec, nil
}

func invalid(format string, args ...any) error {
	return &api.Error{Code: api.CodeInvalid, Msg: fmt.Sprintf(format, args...)}
}

// showNewJob asks what to run. With a target it shows the peels, and with a function too it can be run:
// the second form carries the hash of the peels.
func showNewJob(v *visit) (*shown, error) { return newJob(v, readDispatch(v.r.URL.Query().Get), nil) }

func newJob(v *visit, d dispatch, refused error) (*shown, error) {
	f := page.NewJob{Fields: d.fields(), Title: "Run something on peels", Command: d.command()}
	if d.target != "" {
		preview, err := view.PreviewOf(v.r.Context(), v.ask, d.target)
		switch {
		case err == nil:
			f.Preview = preview
			f.Title = "Run " + cmp.Or(d.function, "something") + " on " + page.Plural(preview.Total, "peel") + "?"
			if known, ok := catalogue.Lookup(d.function); ok {
				f.Does = known.Doc
			}
			f.Note, f.Outside = d.note, "it depends on the function"
			if d.function != "" {
				f.Typed, f.Outside = typedFor(d, preview), v.outside(d)
			}
		case refused == nil:
			refused = err
		case statusOf(refused) == http.StatusServiceUnavailable:
			return nil, refused // a form without the job's ID could run the job twice
		}
	}
	if f.Preview != nil && d.function != "" {
		f.Hidden = []page.Field{
			{Name: "jid", Value: v.jobID(refused), Kind: "hidden"},
			{Name: "peels_hash", Value: audit.PeelsHash(f.Preview.Peels), Kind: "hidden"},
		}
		for _, field := range d.fields() {
			f.Hidden = append(f.Hidden, page.Field{Name: field.Name, Value: field.Value, Kind: "hidden"})
		}
	}
	s := &shown{title: f.Title, crumbs: jobCrumbs("new"), data: f.Preview}
	if refused != nil {
		f.Refused = refused.Error()
		s.status = refusal(refused)
	}
	s.body = page.Dispatch(f)
	return s, nil
}

// outside says what the rules about the user leave out of a job.
func (v *visit) outside(d dispatch) string {
	const atDispatch = "masters check your limits once more when it runs"
	spec, err := d.spec()
	if err != nil {
		return atDispatch
	}
	q := api.AccessRequest{
		Name: v.session.User, Verb: api.JobDispatch.Noun + "." + api.JobDispatch.Verb, Target: d.target,
		Function: d.function, StateID: spec.StateID, Args: spec.Args,
	}
	access := api.UserExplain.Extra(v.r.Context(), v.ask, q).Value
	switch {
	case access == nil:
		return atDispatch
	case !access.Allowed:
		return "it is not allowed: " + access.Rule
	case access.Second != "":
		return "nothing; a second person decides: " + access.Second
	}
	return "nothing: all are within your limits"
}

// typedFor returns the number that has to be typed before a job runs on many peels, or on all; empty: none.
func typedFor(d dispatch, p *view.Preview) string {
	if p.Total < manyPeels && strings.TrimSpace(d.target) != "*" {
		return ""
	}
	return strconv.Itoa(p.Total)
}

// dispatchJob runs a job on exactly the peels that were shown. Its ID is in the form, so a form that is sent twice runs
// once.
func (c *Console) dispatchJob(v *visit) {
	r := jobPages[1]
	if !v.may("job", "dispatch") {
		c.refuse(v, "job", "dispatch")
		return
	}
	d := readDispatch(v.r.PostFormValue)
	jid, err := c.submit(v, d)
	if err == nil {
		http.Redirect(v.w, v.r, "/jobs/"+string(jid), http.StatusSeeOther)
		return
	}
	s, failed := newJob(v, d, err)
	if failed != nil {
		c.fail(v, r, failed)
		return
	}
	c.write(v, r, s)
}

func (c *Console) submit(v *visit, d dispatch) (wire.JID, error) {
	spec, err := d.spec()
	if err != nil {
		return "", err
	}
	if spec.JID, err = wire.ParseJID(v.r.PostFormValue("jid")); err != nil {
		return "", invalid("the form has no ID of a job: show the peels again")
	}
	preview, err := view.PreviewOf(v.r.Context(), v.ask, d.target)
	if err != nil {
		return "", err
	}
	if audit.PeelsHash(preview.Peels) != v.r.PostFormValue("peels_hash") {
		const moved = "the target selects other peels than were shown: look at them again"
		return "", &api.Error{Code: api.CodeConflict, Msg: moved}
	}
	if typed := typedFor(d, preview); typed != "" && v.r.PostFormValue("typed") != typed {
		return "", errTyped
	}
	spec.Targets = preview.Peels
	_, err = api.JobDispatch.Ask(v.r.Context(), v.ask, spec)
	return spec.JID, err
}
