package propose

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/forge"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/push"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/edit"
	"github.com/seed-c01c3da5/zester/reconciler/plan/lint"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
)

const (
	tries    = 3 // of a change while others push to the branch
	pageSize = 200
)

// An intent is a change to make on the newest commit of the branch, and again if others push meanwhile.
type intent struct {
	user    string
	request []byte // what tells this request from others of the user: its key or itself
	propose bool
	dry     bool   // it is only checked
	added   bool   // it is a new entry
	unasked bool   // it is the master's own, and nobody asked for it
	title   string // of the commit
	body    string
	// on returns the entry and the files of the change for a revision. done is set if the revision has the change already.
	on func(*edit.Repo) (entry string, files map[string][]byte, done *plan.DeclaredEntry, err error)
}

func (on *session) add(ctx context.Context, c *service.Call, q api.ScheduleAddRequest) (*api.ScheduleChanged, error) {
	by := c.From.User
	c.About.Target = cut(q.Name)
	if q.Target == "" {
		q.Target = on.o.Target
	}
	switch {
	case strings.TrimSpace(q.Name) == "" || len(q.Name) > api.ScheduleMaxName:
		return nil, refuse("400", "name has 1 to %d bytes, not %d", api.ScheduleMaxName, len(q.Name))
	case strings.ContainsFunc(q.Name, misleads):
		return nil, refuse("400", "name has a line break or a character that is not shown")
	case strings.ContainsFunc(q.Target, misleads):
		return nil, refuse("400", "target has a line break or a character that is not shown")
	case len(q.Key) > api.ScheduleMaxKey:
		return nil, refuse("400", "an idempotency key of %d bytes, the limit is %d", len(q.Key), api.ScheduleMaxKey)
	case q.Target == "":
		return nil, refuse("400", "target is missing: name the peels, or set schedules.target in master.yaml")
	case q.Fields["api"] != nil:
		return nil, refuse("400", "the field api is written by masters alone")
	}
	if q.Key != "" && !q.Dry {
		return on.once(ctx, by, q.Key, c.Data, func(id int) (*api.ScheduleChanged, error) {
			return on.added(ctx, by, q, []byte("key "+q.Key), id)
		})
	}
	return on.added(ctx, by, q, c.Data, 0)
}

// added adds an entry with a number; 0: the next one.
func (on *session) added(ctx context.Context, by string, q api.ScheduleAddRequest, request []byte, id int) (*api.ScheduleChanged, error) {
	known := id != 0
	out, err := on.make(ctx, intent{
		user: by, request: request, propose: q.Propose, dry: q.Dry, added: true, title: "add " + edit.EntryName(q.Name), body: "Requested as " + strconv.Quote(q.Name) + " for " + q.Target + ".",
		on: func(r *edit.Repo) (string, map[string][]byte, *plan.DeclaredEntry, error) {
			if known {
				if made := r.ByID(id); len(made) > 0 {
					return made[0].Entry.Name, nil, made[0], nil // by an earlier try
				}
			}
			n, last := r.Made()
			if n >= on.o.Max {
				return "", nil, nil, refuse("409", "%d schedules were made over the API, and no more are allowed (schedules.max): remove one", n)
			}
			if q.Dry {
				id = last + 1 // none is given
			}
			if id == 0 {
				var err error
				if id, err = on.nextID(ctx, last); err != nil {
					return "", nil, nil, err
				}
			}
			entry, files, err := r.Add(edit.New{Name: q.Name, Target: q.Target, Fields: maps.Clone(q.Fields), ID: id, By: by, At: time.Now()})
			return entry, files, nil, err
		},
	})
	if out != nil && (known || !out.Repeated) { // else the branch of an earlier request has the number
		out.ID = id
	}
	return out, err
}

// A changer changes the files of one entry. It returns none if there is nothing to change.
type changer func(*edit.Repo, *plan.DeclaredEntry) (map[string][]byte, error)

func (on *session) remove(ctx context.Context, c *service.Call, q api.ScheduleChange) (*api.ScheduleChanged, error) {
	if len(q.By) > 0 {
		c.About.Target = "all made by " + cut(strings.Join(q.By, ", "))
		return on.removeMade(ctx, c, q)
	}
	return on.changeEntry(ctx, c, q, (*edit.Repo).Remove, "remove")
}

func (on *session) enable(ctx context.Context, c *service.Call, q api.ScheduleChange) (*api.ScheduleChanged, error) {
	return on.changeEntry(ctx, c, q, setEnabled(true, ""), "enable")
}

func (on *session) disable(ctx context.Context, c *service.Call, q api.ScheduleChange) (*api.ScheduleChanged, error) {
	return on.changeEntry(ctx, c, q, setEnabled(false, q.Reason), "disable")
}

func setEnabled(enabled bool, why string) changer {
	return func(r *edit.Repo, e *plan.DeclaredEntry) (map[string][]byte, error) {
		if e.Entry.Enabled == enabled {
			return nil, nil
		}
		return r.SetEnabled(e, enabled, why)
	}
}

// changeEntry makes a change of one entry.
func (on *session) changeEntry(ctx context.Context, c *service.Call, q api.ScheduleChange, change changer, verb string) (*api.ScheduleChanged, error) {
	c.About.Target = q.Ref
	if err := checkReason(q.Reason); err != nil {
		return nil, err
	}
	return on.make(ctx, intent{
		user: c.From.User, request: append([]byte(verb), c.Data...), propose: q.Propose, dry: q.Dry, title: verb + " " + cut(q.Ref), body: because(q.Reason),
		on: changeOf(q.Ref, change),
	})
}

// file returns the settings file of an entry.
func (on *session) file(ctx context.Context, _ *service.Call, q api.ScheduleFileQuery) (*api.ScheduleText, error) {
	head, repo, err := on.reader.read(ctx)
	if err != nil {
		return nil, err
	}
	e, err := lookup(repo, q.Ref)
	if err != nil {
		return nil, err
	}
	text, err := repo.Text(e)
	if err != nil {
		return nil, err
	}
	if len(text) > api.ScheduleMaxText {
		return nil, refuse("409", "%s has %d bytes, the limit is %d: edit it in a checkout", e.Pos.File, len(text), api.ScheduleMaxText)
	}
	return &api.ScheduleText{
		Entry: e.Entry.Name, File: e.Pos.File, Commit: head.Commit.Hash.String(), Text: string(text), Digest: api.ScheduleDigest(string(text)),
	}, nil
}

// replace replaces the settings file of an entry, unless somebody changed it since it was read.
func (on *session) replace(ctx context.Context, c *service.Call, q api.ScheduleReplaceRequest) (*api.ScheduleChanged, error) {
	c.About.Target = q.Ref
	err := checkReason(q.Reason)
	if err == nil && len(q.Text) > api.ScheduleMaxText {
		err = refuse("400", "a text of %d bytes, the limit is %d", len(q.Text), api.ScheduleMaxText)
	}
	if err != nil {
		return nil, err
	}
	change := func(r *edit.Repo, e *plan.DeclaredEntry) (map[string][]byte, error) {
		now, err := r.Text(e)
		switch {
		case err != nil:
			return nil, err
		case string(now) == q.Text:
			return nil, nil
		case api.ScheduleDigest(string(now)) != q.Was:
			return nil, refuse("409", "somebody changed %s since you opened it: edit the new text", e.Pos.File)
		}
		return r.Replace(e, []byte(q.Text))
	}
	return on.make(ctx, intent{
		user: c.From.User, request: append([]byte("edit"), c.Data...), propose: q.Propose, dry: q.Dry, title: "edit " + cut(q.Ref), body: because(q.Reason),
		on: changeOf(q.Ref, change),
	})
}

// because returns the line of a commit's message with a reason. What a person wrote never begins a line there, so that it is no
// trailer such as Zester-Allow.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return "Reason: " + reason
}

func checkReason(reason string) error {
	if len(reason) > api.ScheduleMaxName || strings.ContainsFunc(reason, misleads) {
		return refuse("400", "reason is one line of at most %d bytes", api.ScheduleMaxName)
	}
	return nil
}

// misleads reports whether a character ends a line, is not shown, or changes the order of others: a diff would not show what it does.
// YAML knows more line breaks than Go.
func misleads(c rune) bool { return unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

// changeOf returns the change of the entry that ref names.
func changeOf(ref string, change changer) func(*edit.Repo) (string, map[string][]byte, *plan.DeclaredEntry, error) {
	return func(r *edit.Repo) (string, map[string][]byte, *plan.DeclaredEntry, error) {
		e, err := lookup(r, ref)
		if err != nil {
			return "", nil, nil, err
		}
		files, err := change(r, e)
		if err == nil && len(files) == 0 {
			return e.Entry.Name, nil, e, nil
		}
		return e.Entry.Name, files, nil, err
	}
}

func cut(s string) string { return strings.ToValidUTF8(s[:min(len(s), api.ScheduleMaxName)], "") }

// lookup returns the entry of a number or name.
func lookup(r *edit.Repo, ref string) (*plan.DeclaredEntry, error) {
	what := "an entry " + ref
	all := r.ByName(ref)
	if id, err := strconv.Atoi(ref); err == nil {
		if numbered := r.ByID(id); len(numbered) > 0 {
			what, all = "an entry with the number "+ref, numbered
		}
	}
	switch len(all) {
	case 0:
		return nil, refuse("404", "there is no schedule %q", cut(ref))
	case 1:
		return all[0], nil
	default:
		return nil, refuse("409", "%s and %s both have %s: edit them by hand", all[0].Pos, all[1].Pos, what)
	}
}

// make commits a change on the newest commit of the branch. If others push meanwhile, it tries again.
func (on *session) make(ctx context.Context, w intent) (*api.ScheduleChanged, error) {
	for try := 1; ; try++ {
		out, err := on.try(ctx, w)
		if !errors.Is(err, push.ErrMoved) {
			return out, err
		}
		if try == tries {
			return nil, refuse("409", "others pushed to the branch %d times in the meantime; ask again", tries)
		}
	}
}

func (on *session) try(ctx context.Context, w intent) (*api.ScheduleChanged, error) {
	accepted, err := on.accepted(ctx) // read first, as nothing newer than the head may be in it
	if err != nil {
		return nil, err
	}
	head, repo, err := on.writer.read(ctx)
	if err == nil {
		err = on.checkHead(head, accepted, w.unasked)
	}
	if err != nil {
		return nil, err
	}
	entry, files, done, err := w.on(repo)
	if err != nil {
		return nil, err
	}
	if done != nil {
		return on.describe(done, head.Commit.Hash.String()), nil
	}
	result, err := on.check(repo, files)
	if err == nil && w.added {
		err = checkFuture(result.ByName(entry))
	}
	if err != nil {
		return nil, err
	}
	if on.o.Mode == Off || w.dry {
		text, err := patch(repo.With(nil), on.writer.path, files)
		if err != nil {
			return nil, err
		}
		out := &api.ScheduleChanged{Entry: entry, Patch: text, Dry: w.dry}
		if w.dry {
			out.Commit = head.Commit.Hash.String()
		}
		return out, nil
	}
	if on.o.Check != nil && !w.unasked {
		if err := on.o.Check(ctx, on.js, w.user); err != nil {
			return nil, refuse("403", "%w", err)
		}
	}
	c := push.Change{
		Files: on.writer.inRepo(files), Author: on.author(w.user), Message: strings.TrimSpace("schedules: "+w.title+"\n\n"+w.body) + "\n",
	}
	if removed := gone(repo, result); len(removed) > 0 {
		c.Intend = func(ctx context.Context, commit gitrepo.Hash) error {
			return record.NoteRemoval(ctx, on.store, settings.Commit(commit.String()), removed)
		}
	}
	out := &api.ScheduleChanged{Entry: entry, Branch: on.o.Branch, Proposed: on.o.Mode == Propose || w.propose}
	if e := result.ByName(entry); len(e) == 1 {
		out.File, out.Next = e[0].Pos.File, next(e[0].Entry)
	}
	if !out.Proposed {
		commit, err := on.writer.pusher.Commit(ctx, head, c)
		if err != nil {
			return nil, pushError(err)
		}
		out.Commit = commit.String()
		return out, nil
	}
	if err := on.proposeOn(ctx, head, w, c, out); err != nil {
		return nil, err
	}
	return out, nil
}

// gone returns the names of the entries that requests made and that a change removes.
func gone(before, after *edit.Repo) (names []string) {
	for _, e := range before.Entries {
		if e.Entry.API.ID > 0 && len(after.ByName(e.Entry.Name)) == 0 {
			names = append(names, e.Entry.Name)
		}
	}
	return names
}

// accepted returns the revision in force and the one that goes out in waves.
func (on *session) accepted(ctx context.Context) ([]gitrepo.Hash, error) {
	r, err := record.NewStore(on.rollout, "", record.Source{}).Read(ctx)
	if err != nil {
		return nil, err
	}
	return gitrepo.ParseHashes(r.Sent())
}

// errUnsettled: the newest commit of the branch is not the revision in force.
var errUnsettled = errors.New("the newest commit is not in force yet")

// checkHead returns an error if no change may be made on the newest commit: the fleet would not accept it, or it is not in force and
// nobody asked for the change.
func (on *session) checkHead(head *gitrepo.Snapshot, accepted []gitrepo.Hash, unasked bool) error {
	if unasked && (len(accepted) != 1 || accepted[0] != head.Commit.Hash) {
		return errUnsettled
	}
	err := on.writer.pusher.Verify(head, accepted)
	if e, ok := errors.AsType[*gitrepo.Error](err); ok && (e.Reason == gitrepo.Untrusted || e.Reason.Stalled()) {
		return refuse("409", "the newest commit is not accepted: %w", err)
	}
	return err
}

// proposeOn pushes a change to a branch of its own and opens a pull request. The name of the branch follows from the request, so
// that a repeated request finds the branch and only opens the pull request that the first one could not open.
func (on *session) proposeOn(ctx context.Context, head *gitrepo.Snapshot, w intent, c push.Change, out *api.ScheduleChanged) error {
	sum := sha256.Sum256(append([]byte(w.user+"\x00"), w.request...))
	c.Branch = "zester/" + strings.ReplaceAll(w.title, " ", "-") + "-" + hex.EncodeToString(sum[:5])
	commit, merged, err := on.writer.pusher.Tip(ctx, c.Branch, head)
	if err == nil && merged { // the same change was made before, and was undone since
		c.Branch += "-" + head.Commit.Hash.String()[:8]
		commit, _, err = on.writer.pusher.Tip(ctx, c.Branch, head)
	}
	if err != nil {
		return err
	}
	if out.Repeated = !commit.IsZero(); !out.Repeated {
		if commit, err = on.writer.pusher.Commit(ctx, head, c); err != nil {
			return pushError(err)
		}
	}
	out.Commit, out.Branch = commit.String(), c.Branch
	if on.o.Forge == nil {
		return nil
	}
	out.URL, err = on.o.Forge.OpenPull(ctx, forge.NewPull{Branch: c.Branch, Into: on.o.Branch, Title: "schedules: " + w.title, Body: w.about()})
	if err != nil {
		return refuse("503", "branch %s has the commit, but no pull request was opened; the same request opens it: %v", c.Branch, err)
	}
	return nil
}

// about is the text of a pull request.
func (w intent) about() string {
	if w.unasked {
		return w.body
	}
	return strings.TrimSpace(w.body + "\n\nRequested by " + w.user + ".")
}

// pushError makes a refusal of the server final.
func pushError(err error) error {
	switch {
	case errors.Is(err, push.ErrMoved):
		return err
	case push.IsRefused(err):
		return refuse("409", "%w", err)
	}
	return err
}

// author returns the person of a user name; a token's name is token:NAME.
func (on *session) author(user string) push.Person {
	return push.Person{Name: user, Email: strings.ReplaceAll(user, ":", "+") + "@" + cmp.Or(on.o.Domain, DefaultDomain)}
}

// check compiles the result for the fleet and returns its entries. The error has the messages of lint; mistakes that lint finds in
// entries that do not change do not count.
func (on *session) check(r *edit.Repo, files map[string][]byte) (*edit.Repo, error) {
	after := r.With(files)
	result, err := edit.Read(after)
	if err != nil {
		return nil, err
	}
	if _, err := plan.NewCompiler().Compile(after, on.fleet.Index()); err != nil {
		return nil, err
	}
	if errs := lint.New(lint.Options{From: time.Now()}).Unknown(r.Changed(result)); len(errs) > 0 {
		return nil, refuse("400", "%w", errs)
	}
	return result, nil
}

// checkFuture refuses a new entry whose times are all over: it would never run, and delete_after_run would never remove it.
func checkFuture(made []*plan.DeclaredEntry) error {
	for _, e := range made {
		if n := len(e.Entry.Clock.At); n > 0 && e.Entry.Clock.At[n-1].Before(time.Now()) {
			return refuse("400", "at: %s is over, so the entry would never run", e.Entry.Clock.At[n-1].UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// describe returns the reply to a request whose change the revision has already.
func (on *session) describe(e *plan.DeclaredEntry, commit string) *api.ScheduleChanged {
	return &api.ScheduleChanged{
		ID: e.Entry.API.ID, Entry: e.Entry.Name, File: e.Pos.File, Commit: commit, Branch: on.o.Branch, Next: next(e.Entry), Repeated: true,
	}
}

// next returns the next time of an entry's timing, zero if there is none.
func next(e *schedule.Entry) time.Time {
	t, err := e.Timing(time.UTC)
	if err != nil || !e.Enabled {
		return time.Time{}
	}
	now := time.Now()
	if e.Clock.After > 0 {
		t = t.Seen(now)
	}
	for at := range forecast.Fires(e, t, now, time.Time{}) {
		return at
	}
	return time.Time{}
}

func (on *session) list(ctx context.Context, _ *service.Call, q api.ScheduleQuery) (*api.SchedulePage, error) {
	head, repo, err := on.reader.read(ctx)
	if err != nil {
		return nil, err
	}
	commit := head.Commit.Hash
	if q.Ref != "" {
		e, err := lookup(repo, q.Ref)
		if err != nil {
			return nil, err
		}
		return &api.SchedulePage{Commit: commit.String(), Schedules: []api.Schedule{shown(e, commit)}, Total: 1}, nil
	}
	entries := slices.Clone(repo.Entries)
	slices.SortStableFunc(entries, func(a, b *plan.DeclaredEntry) int { return strings.Compare(keyOf(a), keyOf(b)) })
	page := &api.SchedulePage{Commit: commit.String(), Total: len(entries)}
	entries = slices.DeleteFunc(entries, func(e *plan.DeclaredEntry) bool { return keyOf(e) <= q.After && q.After != "" })
	entries = entries[min(max(q.Offset, 0), len(entries)):]
	limit := pageSize
	if q.Limit > 0 {
		limit = min(q.Limit, pageSize)
	}
	page.More = len(entries) > limit
	for _, e := range entries[:min(limit, len(entries))] {
		page.Schedules = append(page.Schedules, shown(e, commit))
	}
	return page, nil
}

// keyOf sorts the entries that requests made by number, before all others by name and place.
func keyOf(e *plan.DeclaredEntry) string {
	if id := e.Entry.API.ID; id > 0 {
		return fmt.Sprintf("0 %010d %s:%09d", id, e.Pos.File, e.Pos.Line)
	}
	return fmt.Sprintf("1 %s %s:%09d", e.Entry.Name, e.Pos.File, e.Pos.Line)
}

const maxShownPrompt = 8 << 10 // bytes

func shown(d *plan.DeclaredEntry, commit gitrepo.Hash) api.Schedule {
	e := d.Entry
	s := api.Schedule{
		Key: keyOf(d), ID: e.API.ID, Entry: e.Name, Name: cmp.Or(e.API.Name, e.Name), Module: e.Module, Enabled: e.Enabled,
		Meaning: e.Explain(), Next: next(e), Created: e.API.At, By: e.API.By, Origin: fmt.Sprintf("%s:%d@%s", d.Pos.File, d.Pos.Line, commit),
		ManagedBy: api.ManagedByGit, Delete: e.Life.DeleteAfterRun,
	}
	if s.ID > 0 {
		s.ManagedBy = api.ManagedByAPI
	}
	if text, ok := e.Args["prompt"].(string); ok {
		s.Prompt = strings.ToValidUTF8(text[:min(len(text), maxShownPrompt)], "")
	}
	s.Model, _ = e.Args["model"].(string)
	switch c := e.Clock; {
	case len(c.Cron) > 0:
		s.Type, s.Cron = "cron", c.Cron[0].String()
	case len(c.At) > 0:
		s.Type, s.At = "at", c.At[0]
	case c.After > 0:
		s.Type = "after"
	case c.Interval.Duration > 0:
		s.Type, s.Interval = "every", c.Interval.Duration.Milliseconds()
	case c.Interval.Months > 0:
		s.Type = "every"
	default:
		s.Type = "needs"
	}
	return s
}

// bucketSchedules keeps the highest number that was given ("last"), requests with a key ("key.<digest>"), and what is done about
// entries with delete_after_run ("spent.<digest>").
const bucketSchedules = "schedules"

// marshal never fails: the value has only texts, numbers and times.
func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
