package propose

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/push"
	"github.com/seed-c01c3da5/zester/reconciler/notify/forge"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/lint"
	"github.com/seed-c01c3da5/zester/reconciler/propose/edit"
	"github.com/seed-c01c3da5/zester/reconciler/propose/schedules"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
)

const (
	tries    = 3 // of a change that loses a race
	pageSize = 200
)

// an intent is a change that is made on the newest head, and again on the next one if it loses a race.
type intent struct {
	user    string
	propose bool
	title   string // of the commit
	body    string
	// on returns the entry and the files of the change for a revision. done is set if the revision has the change already.
	on func(*edit.Repo) (entry string, files map[string][]byte, done *plan.DeclaredEntry, err error)
}

func (on *session) add(ctx context.Context, req micro.Request) (any, string, error) {
	var q schedules.Add
	if err := decode(req, &q); err != nil {
		return nil, "", err
	}
	by := user(req)
	if q.Target == "" {
		q.Target = on.o.Target
	}
	switch {
	case strings.TrimSpace(q.Name) == "" || len(q.Name) > schedules.MaxName:
		return nil, "", refuse("400", "name has 1 to %d bytes, not %d", schedules.MaxName, len(q.Name))
	case len(q.Key) > schedules.MaxKey:
		return nil, q.Name, refuse("400", "an idempotency key of %d bytes, the limit is %d", len(q.Key), schedules.MaxKey)
	case q.Target == "":
		return nil, q.Name, refuse("400", "target is missing: name the peels, or set schedules.target in master.yaml")
	case q.Fields["api"] != nil:
		return nil, q.Name, refuse("400", "the field api is written by masters alone")
	}
	if q.Key != "" {
		out, err := on.once(ctx, by, q.Key, req.Data(), func(id int) (*schedules.Changed, error) { return on.added(ctx, by, q, id) })
		return out, q.Name, err
	}
	out, err := on.added(ctx, by, q, 0)
	return out, q.Name, err
}

// added adds an entry with a number; 0: the next one.
func (on *session) added(ctx context.Context, by string, q schedules.Add, id int) (*schedules.Changed, error) {
	known := id != 0
	out, err := on.make(ctx, intent{
		user: by, propose: q.Propose, title: "add " + edit.EntryName(q.Name), body: "Requested as " + strconv.Quote(q.Name) + " for " + q.Target + ".",
		on: func(r *edit.Repo) (string, map[string][]byte, *plan.DeclaredEntry, error) {
			if known {
				if e := r.ByID(id); e != nil {
					return e.Entry.Name, nil, e, nil // by an earlier try
				}
			}
			n, last := r.Made()
			if n >= on.o.Max {
				return "", nil, nil, refuse("409", "%d schedules were made over the API, and no more are allowed (schedules.max): remove one", n)
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
	if out != nil {
		out.ID = id
	}
	return out, err
}

func (on *session) remove(ctx context.Context, req micro.Request) (any, string, error) {
	return on.changeEntry(ctx, req, "remove", func(r *edit.Repo, e *plan.DeclaredEntry) (map[string][]byte, error) { return r.Remove(e) })
}

func (on *session) enable(ctx context.Context, req micro.Request) (any, string, error) {
	return on.changeEntry(ctx, req, "enable", func(r *edit.Repo, e *plan.DeclaredEntry) (map[string][]byte, error) { return r.SetEnabled(e, true) })
}

func (on *session) disable(ctx context.Context, req micro.Request) (any, string, error) {
	return on.changeEntry(ctx, req, "disable", func(r *edit.Repo, e *plan.DeclaredEntry) (map[string][]byte, error) { return r.SetEnabled(e, false) })
}

// changeEntry makes a change of one entry.
func (on *session) changeEntry(ctx context.Context, req micro.Request, verb string, change func(*edit.Repo, *plan.DeclaredEntry) (map[string][]byte, error)) (any, string, error) {
	var q schedules.Change
	if err := decode(req, &q); err != nil {
		return nil, "", err
	}
	if len(q.Reason) > schedules.MaxName || strings.ContainsFunc(q.Reason, unicode.IsControl) {
		return nil, q.Ref, refuse("400", "reason is one line of at most %d bytes", schedules.MaxName)
	}
	out, err := on.make(ctx, intent{user: user(req), propose: q.Propose, title: verb + " " + cut(q.Ref), body: q.Reason, on: func(r *edit.Repo) (string, map[string][]byte, *plan.DeclaredEntry, error) {
		e, err := lookup(r, q.Ref)
		if err != nil {
			return "", nil, nil, err
		}
		files, err := change(r, e)
		return e.Entry.Name, files, nil, err
	}})
	return out, q.Ref, err
}

func cut(s string) string { return strings.ToValidUTF8(s[:min(len(s), schedules.MaxName)], "") }

// lookup returns the entry of a number or name.
func lookup(r *edit.Repo, ref string) (*plan.DeclaredEntry, error) {
	if id, err := strconv.Atoi(ref); err == nil {
		if e := r.ByID(id); e != nil {
			return e, nil
		}
	}
	switch all := r.ByName(ref); len(all) {
	case 0:
		return nil, refuse("404", "there is no schedule %q", cut(ref))
	case 1:
		return all[0], nil
	default:
		return nil, refuse("409", "%d files have an entry %s: edit them by hand", len(all), ref)
	}
}

// make makes a change: a commit on the newest head, three times if others are faster.
func (on *session) make(ctx context.Context, w intent) (*schedules.Changed, error) {
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

func (on *session) try(ctx context.Context, w intent) (*schedules.Changed, error) {
	head, repo, err := on.writer.read(ctx)
	if err != nil {
		return nil, err
	}
	entry, files, done, err := w.on(repo)
	if err != nil {
		return nil, err
	}
	if done != nil {
		return on.describe(ctx, done, head.Commit.Hash.String())
	}
	result, err := on.check(repo, files, entry)
	if err != nil {
		return nil, err
	}
	if on.o.Mode == Off {
		text, err := patch(repo.With(nil), on.writer.path, files)
		if err != nil {
			return nil, err
		}
		return &schedules.Changed{Entry: entry, Patch: text}, nil
	}
	if on.o.Check != nil {
		if err := on.o.Check(ctx, on.js, w.user); err != nil {
			return nil, refuse("403", "%w", err)
		}
	}
	c := push.Change{
		Files: on.writer.inRepo(files), Author: on.author(w.user), Message: strings.TrimSpace("schedules: "+w.title+"\n\n"+w.body) + "\n",
	}
	direct := on.o.Mode == Direct && !w.propose
	if !direct {
		c.Branch = fmt.Sprintf("zester/%s-%s", strings.ReplaceAll(w.title, " ", "-"), strconv.FormatInt(time.Now().UnixNano(), 36))
	}
	commit, err := on.writer.pusher.Commit(ctx, head, c)
	if err != nil {
		return nil, pushError(err)
	}
	out := &schedules.Changed{Entry: entry, Commit: commit.String(), Branch: cmp.Or(c.Branch, on.o.Branch)}
	if e := result.ByName(entry); len(e) == 1 {
		out.File, out.Next = e[0].Pos.File, next(e[0].Entry)
	}
	if !direct && on.o.Forge != nil {
		out.URL, err = on.o.Forge.OpenPull(ctx, forge.NewPull{Branch: c.Branch, Into: on.o.Branch, Title: "schedules: " + w.title, Body: strings.TrimSpace(w.body + "\n\nRequested by " + w.user + ".")})
		if err != nil {
			return nil, refuse("503", "branch %s has the commit, but the pull request was not opened: %v", c.Branch, err)
		}
	}
	return out, nil
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

// author returns the person of a user name; that of a token is token:NAME.
func (on *session) author(user string) push.Person {
	return push.Person{Name: user, Email: strings.ReplaceAll(user, ":", "+") + "@" + cmp.Or(on.o.Domain, DefaultDomain)}
}

// check compiles the result for the fleet and returns its entries. The error has the messages of lint; mistakes that lint finds
// in other entries do not count.
func (on *session) check(r *edit.Repo, files map[string][]byte, entry string) (*edit.Repo, error) {
	after := r.With(files)
	result, err := edit.Read(after)
	if err != nil {
		return nil, err
	}
	if _, err := plan.NewCompiler().Compile(after, on.fleet.Index()); err != nil {
		return nil, err
	}
	if errs := lint.New(lint.Options{From: time.Now()}).Unknown(result.ByName(entry)); len(errs) > 0 {
		return nil, refuse("400", "%w", errs)
	}
	return result, nil
}

// describe returns what an earlier request changed.
func (on *session) describe(_ context.Context, e *plan.DeclaredEntry, commit string) (*schedules.Changed, error) {
	return &schedules.Changed{
		ID: e.Entry.API.ID, Entry: e.Entry.Name, File: e.Pos.File, Commit: commit, Branch: on.o.Branch, Next: next(e.Entry), Repeated: true,
	}, nil
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

func (on *session) list(ctx context.Context, req micro.Request) (any, string, error) {
	var q schedules.Query
	if err := decode(req, &q); err != nil {
		return nil, "", err
	}
	head, repo, err := on.reader.read(ctx)
	if err != nil {
		return nil, "", err
	}
	commit := head.Commit.Hash
	if q.Ref != "" {
		e, err := lookup(repo, q.Ref)
		if err != nil {
			return nil, "", err
		}
		return schedules.Page{Commit: commit.String(), Schedules: []schedules.Schedule{shown(e, commit)}, Total: 1}, "", nil
	}
	entries := slices.Clone(repo.Entries)
	slices.SortStableFunc(entries, func(a, b *plan.DeclaredEntry) int { return strings.Compare(keyOf(a), keyOf(b)) })
	page := schedules.Page{Commit: commit.String(), Total: len(entries)}
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
	return page, "", nil
}

// keyOf sorts the entries that requests made by number, before all others by name and place.
func keyOf(e *plan.DeclaredEntry) string {
	if id := e.Entry.API.ID; id > 0 {
		return fmt.Sprintf("0 %010d", id)
	}
	return fmt.Sprintf("1 %s %s:%09d", e.Entry.Name, e.Pos.File, e.Pos.Line)
}

const maxShownPrompt = 8 << 10 // bytes

func shown(d *plan.DeclaredEntry, commit gitrepo.Hash) schedules.Schedule {
	e := d.Entry
	s := schedules.Schedule{
		Key: keyOf(d), ID: e.API.ID, Entry: e.Name, Name: cmp.Or(e.API.Name, e.Name), Module: e.Module, Enabled: e.Enabled,
		Meaning: e.Explain(), Next: next(e), Created: e.API.At, By: e.API.By, Origin: fmt.Sprintf("%s:%d@%s", d.Pos.File, d.Pos.Line, commit),
		ManagedBy: schedules.ManagedByGit, Delete: e.Life.DeleteAfterRun,
	}
	if s.ID > 0 {
		s.ManagedBy = schedules.ManagedByAPI
	}
	if text, ok := e.Args["prompt"].(string); ok {
		s.Prompt = strings.ToValidUTF8(text[:min(len(text), maxShownPrompt)], "")
	}
	s.Model, _ = e.Args["model"].(string)
	switch c := e.Clock; {
	case len(c.Cron) > 0:
		s.Type, s.Cron = "cron", c.Cron[0].Text
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

// bucketSchedules keeps the highest number that was given ("last") and requests with a key ("key.<digest>").
const bucketSchedules = "schedules"

// marshal never fails: the value has only texts, numbers and times.
func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
