package propose

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/edit"
)

// removeMade removes the entries that requests of some people and tokens made, in one commit. It removes none if one of
// them cannot be removed.
func (on *session) removeMade(ctx context.Context, c *service.Call,
	q api.ScheduleChange,
) (*api.ScheduleChanged, error) {
	switch err := checkReason(q.Reason); {
	case err != nil:
		return nil, err
	case q.Ref != "":
		return nil, refuse("400", "ref and by exclude each other")
	case slices.ContainsFunc(q.By, func(by string) bool {
		return len(by) > api.ScheduleMaxName || strings.ContainsFunc(by, misleads)
	}):
		return nil, refuse("400", "by has names of one line and at most %d bytes", api.ScheduleMaxName)
	}
	var removed []string
	out, err := on.make(ctx, intent{
		user:    c.From.User,
		of:      verbOf(api.ScheduleRemove),
		by:      c.By(),
		wait:    c.Wait,
		request: append([]byte("remove"), c.Data...),
		propose: q.Propose,
		dry:     q.Dry,
		title:   "remove entries by their authors",
		body:    strings.TrimSpace("Made by " + cut(strings.Join(q.By, ", ")) + ".\n" + because(q.Reason)),
		on: func(r *edit.Repo) (change edited, err error) {
			removed, change.files, err = withoutMade(ctx, r, q.By)
			change.entry = strings.Join(removed, ", ")
			return change, err
		},
	})
	if out != nil {
		out.Removed = removed
	}
	return out, err
}

// withoutMade returns the names of the entries that some people and tokens made, and the files of the revision without
// them.
func withoutMade(ctx context.Context, r *edit.Repo,
	by []string,
) (removed []string, files map[string][]byte, err error) {
	files = map[string][]byte{}
	for left := r; ; {
		i := slices.IndexFunc(left.Entries, func(e *plan.DeclaredEntry) bool {
			return e.Entry.API.ID > 0 && slices.Contains(by, e.Entry.API.By)
		})
		switch {
		case i < 0 && len(removed) == 0:
			return nil, nil, refuse("404", "no request of %s made an entry of the config repo",
				cut(strings.Join(by, ", ")))
		case i < 0:
			return removed, files, nil
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		}
		e := left.Entries[i]
		without, err := left.Remove(e)
		if err != nil {
			return nil, nil, err
		}
		removed = append(removed, e.Entry.Name)
		maps.Copy(files, without)
		if left, err = edit.Read(r.With(files)); err != nil {
			return nil, nil, err
		}
	}
}
