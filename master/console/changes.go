package console

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/settings/shell"
)

// changeOrders are the pages that change entries in the config repo. Each shows the commit before it is made.
var changeOrders = []order{
	{
		path: "/entries/new", name: "entry-new", nav: "timeline", noun: "schedule", verb: "add",
		previews: true, form: newEntryForm, run: newEntry,
	},
	{
		path: "/entries/{entry}/edit", name: "entry-edit", nav: "timeline", noun: "schedule", verb: "replace",
		previews: true, form: editForm, run: editEntry,
	},
	{
		path: "/entries/{entry}/remove", name: "entry-remove", nav: "timeline", noun: "schedule", verb: "remove",
		form: removeForm, run: removeEntry,
	},
}

// shows makes a form show the commit that it leads to, and hold for the head of the branch and the change alone. The
// patch of a new entry has the time, so the change is told by what was filled in.
func shows(f *page.Form, out *api.ScheduleChanged, change string) {
	sum := sha256.Sum256([]byte(out.Commit + "\x00" + change))
	f.Seen = hex.EncodeToString(sum[:])
	f.Diff = out.Patch
	f.What = append(f.What, [2]string{"file", out.File}, [2]string{"made on", page.Short(out.Commit)})
	if !out.Next.IsZero() {
		f.What = append(f.What, [2]string{"next fire", out.Next.UTC().Format(time.RFC3339)})
	}
}

// changed leads to what a change has become: a commit of the branch, a pull request, or a patch for a person to commit.
func (v *visit) changed(out *api.ScheduleChanged) string {
	made := &page.Form{Back: "/commits"}
	switch {
	case out.Proposed:
		made.Title = "The change waits for a merge"
		made.What = [][2]string{{"branch", out.Branch}, {"pull request", out.URL}}
	case out.Commit == "" || out.Patch != "":
		made.Title = "Nothing was committed: the masters may not write to the repo"
		made.What = [][2]string{{"to do", "commit this patch; git apply applies it"}}
		made.Diff = out.Patch
	default:
		return "/commits"
	}
	v.made = made
	return ""
}

// previewing returns a form that first shows the commit of a change. dry makes it of the change that was filled in.
func previewing(v *visit, f *page.Form, change string, dry func() (*api.ScheduleChanged, error)) (*page.Form, error) {
	button := f.Button
	f.Button = "Show the commit"
	if change == "" {
		return f, nil
	}
	out, err := dry()
	switch code := api.CodeOf(err); {
	case code == api.CodeInvalid || code == api.CodeConflict || code == api.CodeNotFound:
		f.Refused = err.Error()
		return f, nil
	case err != nil:
		return nil, err
	case out.Patch == "":
		f.Refused = "this changes nothing"
		return f, nil
	}
	f.Button = button
	shows(f, out, change)
	f.What = append(f.What, [2]string{"who sees it", "the commit and the audit log, as " + v.session.User})
	return f, nil
}

// addRequest returns the request of the form of a new entry.
func addRequest(v *visit) (api.ScheduleAddRequest, error) {
	fields := map[string]any{}
	for _, name := range []string{"name", "target", "function", "schedule"} {
		if text := strings.TrimSpace(v.field(name)); text != "" {
			fields[name] = text
		}
	}
	d := dispatch{function: v.field("function"), args: v.field("args")}
	spec, err := d.spec()
	if err != nil {
		return api.ScheduleAddRequest{}, err
	}
	if len(spec.Args) > 0 {
		fields["args"] = spec.Args
	}
	q, err := api.NewScheduleAdd(fields)
	if err != nil {
		return q, invalid("%v", err)
	}
	return q, nil
}

func newEntryForm(v *visit) (*page.Form, error) {
	f := &page.Form{
		Title: "Add an entry to the schedule?", Button: "Add it", Back: "/timeline",
		Fields: []page.Field{
			{Name: "name", Label: "Name", Value: v.field("name"), Kind: "code"},
			{Name: "target", Label: "Target", Value: v.field("target"), Kind: "code", Hint: "such as web-*"},
			{Name: "function", Label: "Function", Value: v.field("function"), Kind: "code", Hint: "such as cmd.run"},
			{Name: "args", Label: "Arguments", Value: v.field("args"), Kind: "lines", Hint: "one name=value a line"},
			{Name: "schedule", Label: "When", Value: v.field("schedule"), Hint: "such as every monday at 9am"},
		},
		Command: "zester schedule add",
	}
	change := ""
	if v.field("name") != "" {
		change = fmt.Sprint(f.Fields)
	}
	return previewing(v, f, change, func() (*api.ScheduleChanged, error) {
		q, err := addRequest(v)
		if err != nil {
			return nil, err
		}
		q.Dry = true
		return api.ScheduleAdd.Ask(v.r.Context(), v.ask, q)
	})
}

func newEntry(v *visit) (string, error) {
	q, err := addRequest(v)
	if err != nil {
		return "", err
	}
	q.Key = v.seen() // a form that is sent twice makes one commit
	out, err := api.ScheduleAdd.Ask(v.r.Context(), v.ask, q)
	if err != nil {
		return "", err
	}
	return v.changed(out), nil
}

// editRequest returns the request of the form in which a file was edited.
func editRequest(v *visit) api.ScheduleReplaceRequest {
	return api.ScheduleReplaceRequest{
		Ref: v.r.PathValue("entry"), Was: v.r.PostFormValue("was"), Reason: v.orderReason(),
		Text: strings.ReplaceAll(v.r.PostFormValue("text"), "\r\n", "\n"), // as browsers send lines
	}
}

func editForm(v *visit) (*page.Form, error) {
	entry := v.r.PathValue("entry")
	q := editRequest(v)
	f := &page.Form{
		Title: "Change " + entry + "?", Button: "Commit it", Back: "/entries/" + url.PathEscape(entry),
		Command: "zester schedule edit " + shell.Word(entry),
	}
	if q.Was == "" {
		file, err := api.ScheduleFile.Ask(v.r.Context(), v.ask, api.ScheduleFileQuery{Ref: entry})
		if err != nil {
			return nil, err
		}
		q.Was = file.Digest
		q.Text = file.Text
		f.What = [][2]string{{"file", file.File}, {"at", page.Short(file.Commit)}}
	}
	reason := reasonField()
	reason.Value = q.Reason
	f.Fields = []page.Field{
		{Name: "was", Value: q.Was, Kind: "hidden"},
		{Name: "text", Label: "Its settings file", Value: q.Text, Kind: "lines", Hint: "only entries may change"},
		reason,
	}
	change := ""
	if v.r.PostFormValue("was") != "" {
		change = q.Was + q.Text
	}
	return previewing(v, f, change, func() (*api.ScheduleChanged, error) {
		q.Dry = true
		return api.ScheduleReplace.Ask(v.r.Context(), v.ask, q)
	})
}

func editEntry(v *visit) (string, error) {
	out, err := api.ScheduleReplace.Ask(v.r.Context(), v.ask, editRequest(v))
	if err != nil {
		return "", err
	}
	return v.changed(out), nil
}

func removeForm(v *visit) (*page.Form, error) {
	entry := v.r.PathValue("entry")
	out, err := api.ScheduleRemove.Ask(v.r.Context(), v.ask, api.ScheduleChange{Ref: entry, Dry: true})
	if err != nil {
		return nil, err
	}
	f := &page.Form{
		Title: "Remove " + entry + "?", Typed: entry, Button: "Remove " + entry, Hard: true,
		What: [][2]string{
			{"ends", "it does not fire any more on any peel; a run in flight goes on"},
			{"way back", "revert the commit"},
		},
		Fields: []page.Field{reasonField()}, Back: "/entries/" + url.PathEscape(entry),
		Command: "zester schedule remove " + shell.Word(entry),
	}
	shows(f, out, out.Patch)
	return f, nil
}

func removeEntry(v *visit) (string, error) {
	q := api.ScheduleChange{Ref: v.r.PathValue("entry"), Reason: v.orderReason()}
	out, err := api.ScheduleRemove.Ask(v.r.Context(), v.ask, q)
	if err != nil {
		return "", err
	}
	return v.changed(out), nil
}
