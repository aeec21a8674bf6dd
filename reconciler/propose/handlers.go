package propose

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/edit"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

const (
	tries    = 3 // of a change while others push to the branch
	pageSize = 200
)

func (on *session) add(ctx context.Context, c *service.Call, q api.ScheduleAddRequest) (*api.ScheduleChanged, error) {
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
		return on.once(ctx, c.From.User, q.Key, c.Data, func(id int) (*api.ScheduleChanged, error) {
			return on.added(ctx, c, q, []byte("key "+q.Key), id)
		})
	}
	return on.added(ctx, c, q, c.Data, 0)
}

// added adds an entry with a number; 0: the next one.
func (on *session) added(ctx context.Context, c *service.Call, q api.ScheduleAddRequest, request []byte,
	id int,
) (*api.ScheduleChanged, error) {
	known := id != 0
	out, err := on.make(ctx, intent{
		user:    c.From.User,
		of:      verbOf(api.ScheduleAdd),
		by:      c.By(),
		wait:    c.Wait,
		request: request,
		propose: q.Propose,
		dry:     q.Dry,
		added:   true,
		title:   "add " + edit.EntryName(q.Name),
		body:    "Requested as " + strconv.Quote(q.Name) + " for " + q.Target + ".",
		on: func(r *edit.Repo) (edited, error) {
			if known {
				if made := r.ByID(id); len(made) > 0 {
					return edited{entry: made[0].Entry.Name, done: made[0]}, nil // by an earlier try
				}
			}
			n, last := r.Made()
			if n >= on.o.Max {
				return edited{}, refuse("409",
					"%d schedules were made over the API, and no more are allowed (schedules.max): remove one", n)
			}
			if q.Dry {
				id = last + 1 // none is given
			}
			if id == 0 {
				var err error
				if id, err = on.nextID(ctx, last); err != nil {
					return edited{}, err
				}
			}
			entry, files, err := r.Add(edit.New{
				Name:   q.Name,
				Target: q.Target,
				Fields: maps.Clone(q.Fields),
				ID:     id,
				By:     c.From.User,
				At:     time.Now(),
			})
			return edited{entry: entry, files: files}, err
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
	return on.changeEntry(ctx, c, q, (*edit.Repo).Remove, verbOf(api.ScheduleRemove))
}

func (on *session) enable(ctx context.Context, c *service.Call, q api.ScheduleChange) (*api.ScheduleChanged, error) {
	return on.changeEntry(ctx, c, q, setEnabled(true, ""), verbOf(api.ScheduleEnable))
}

func (on *session) disable(ctx context.Context, c *service.Call, q api.ScheduleChange) (*api.ScheduleChanged, error) {
	return on.changeEntry(ctx, c, q, setEnabled(false, q.Reason), verbOf(api.ScheduleDisable))
}

func setEnabled(enabled bool, why string) changer {
	return func(r *edit.Repo, e *plan.DeclaredEntry) (map[string][]byte, error) {
		if e.Entry.Enabled == enabled {
			return nil, nil
		}
		return r.SetEnabled(e, enabled, why)
	}
}

// verbOf returns the verb of a request, as rules name it.
func verbOf[Q, A any](e api.Endpoint[Q, A]) access.Verb { return access.Verb(e.Noun + "." + e.Verb) }

// changeEntry makes a change of one entry.
func (on *session) changeEntry(ctx context.Context, c *service.Call, q api.ScheduleChange, change changer,
	of access.Verb,
) (*api.ScheduleChanged, error) {
	c.About.Target = q.Ref
	if err := checkReason(q.Reason); err != nil {
		return nil, err
	}
	_, verb, _ := strings.Cut(string(of), ".")
	return on.make(ctx, intent{
		user:    c.From.User,
		of:      of,
		by:      c.By(),
		wait:    c.Wait,
		request: append([]byte(verb), c.Data...),
		propose: q.Propose,
		dry:     q.Dry,
		title:   verb + " " + cut(q.Ref),
		body:    because(q.Reason),
		on:      changeOf(q.Ref, change),
	})
}

// file returns the settings file of an entry.
func (on *session) file(ctx context.Context, c *service.Call, q api.ScheduleFileQuery) (*api.ScheduleText, error) {
	head, repo, err := on.reader.read(ctx)
	if err != nil {
		return nil, err
	}
	e, err := lookup(repo, q.Ref)
	if err == nil {
		err = on.mayUse(ctx, c.By(), verbOf(api.ScheduleFile), e.Pos.File)
	}
	if err != nil {
		return nil, err
	}
	text, err := repo.Text(e)
	if err != nil {
		return nil, err
	}
	if len(text) > api.ScheduleMaxText {
		return nil, refuse("409", "%s has %d bytes, the limit is %d: edit it in a checkout", e.Pos.File, len(text),
			api.ScheduleMaxText)
	}
	return &api.ScheduleText{
		Entry:  e.Entry.Name,
		File:   e.Pos.File,
		Commit: head.Commit.Hash.String(),
		Text:   string(text),
		Digest: api.ScheduleDigest(string(text)),
	}, nil
}

// replace replaces the settings file of an entry, unless somebody changed it since it was read.
func (on *session) replace(ctx context.Context, c *service.Call,
	q api.ScheduleReplaceRequest,
) (*api.ScheduleChanged, error) {
	c.About.Target = q.Ref
	err := checkReason(q.Reason)
	if err == nil && len(q.Text) > api.ScheduleMaxText {
		err = refuse("400", "a text of %d bytes, the limit is %d", len(q.Text), api.ScheduleMaxText)
	}
	if err != nil {
		return nil, err
	}
	change := func(r *edit.Repo, e *plan.DeclaredEntry) (map[string][]byte, error) {
		if err := on.mayUse(ctx, c.By(), verbOf(api.ScheduleReplace), e.Pos.File); err != nil {
			return nil, err // before it says anything about the text
		}
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
		user:    c.From.User,
		of:      verbOf(api.ScheduleReplace),
		by:      c.By(),
		wait:    c.Wait,
		request: append([]byte("edit"), c.Data...),
		propose: q.Propose,
		dry:     q.Dry,
		title:   "edit " + cut(q.Ref),
		body:    because(q.Reason),
		on:      changeOf(q.Ref, change),
	})
}

// because returns the line of a commit's message with a reason. What a person wrote never begins a line there, so that
// it is no trailer such as Zester-Allow.
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

// misleads reports whether a character ends a line, is not shown, or changes the order of others: a diff would not show
// what it does. YAML knows more line breaks than Go.
func misleads(c rune) bool { return unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

// changeOf returns the change of the entry that ref names.
func changeOf(ref string, change changer) func(*edit.Repo) (edited, error) {
	return func(r *edit.Repo) (edited, error) {
		e, err := lookup(r, ref)
		if err != nil {
			return edited{}, err
		}
		files, err := change(r, e)
		if err == nil && len(files) == 0 {
			return edited{entry: e.Entry.Name, done: e}, nil
		}
		return edited{entry: e.Entry.Name, files: files}, err
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

// describe returns the reply to a request whose change the revision has already.
func (on *session) describe(e *plan.DeclaredEntry, commit string) *api.ScheduleChanged {
	return &api.ScheduleChanged{
		ID:       e.Entry.API.ID,
		Entry:    e.Entry.Name,
		File:     e.Pos.File,
		Commit:   commit,
		Branch:   on.o.Branch,
		Next:     next(e.Entry),
		Repeated: true,
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
	sorting.Stable(entries, func(a, b *plan.DeclaredEntry) int { return strings.Compare(keyOf(a), keyOf(b)) })
	page := &api.SchedulePage{Commit: commit.String(), Total: len(entries)}
	entries = slices.DeleteFunc(entries, func(e *plan.DeclaredEntry) bool {
		return keyOf(e) <= q.Cursor && q.Cursor != ""
	})
	entries = entries[min(max(q.Offset, 0), len(entries)):]
	limit := pageSize
	if q.Limit > 0 {
		limit = min(q.Limit, pageSize)
	}
	if len(entries) > limit {
		entries = entries[:limit]
		page.Next = keyOf(entries[limit-1])
	}
	for _, e := range entries {
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
		Key:       keyOf(d),
		ID:        e.API.ID,
		Entry:     e.Name,
		Name:      cmp.Or(e.API.Name, e.Name),
		Module:    e.Module,
		Enabled:   e.Enabled,
		Meaning:   e.Explain(),
		Next:      next(e),
		Created:   e.API.At,
		By:        e.API.By,
		Origin:    fmt.Sprintf("%s:%d@%s", d.Pos.File, d.Pos.Line, commit),
		ManagedBy: api.ManagedByGit,
		Delete:    e.Life.DeleteAfterRun,
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

// bucketSchedules keeps the highest number that was given ("last"), requests with a key ("key.<digest>"), and what is
// done about entries with delete_after_run ("spent.<digest>").
const bucketSchedules = "schedules"

// marshal never fails: the value has only texts, numbers and times.
func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
