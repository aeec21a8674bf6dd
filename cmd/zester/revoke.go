package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/spf13/pflag"

	"github.com/seed-c01c3da5/zester/master/api"
)

// leftovers are the things of revoked people and tokens that the revocation does not end.
type leftovers struct {
	Left    []leftover `json:"left,omitempty"`
	Unknown []string   `json:"left_unknown,omitempty"` // what could not be looked for, and why
	// Removed is the commit that removed their schedule entries, nil unless that was requested.
	Removed *api.ScheduleChanged `json:"schedules,omitempty"`
}

// A leftover goes on after its maker was revoked.
type leftover struct {
	Kind string `json:"kind"` // schedule, silence, pause, pin or override
	Name string `json:"name"`
	By   string `json:"by"`
	End  string `json:"end"` // the command that ends it
}

func schedulesFlag(flags *pflag.FlagSet, remove *bool) {
	flags.BoolVar(remove, "schedules", false, "also remove their schedule entries from the config repo, in one commit")
}

// tokenAuthor is the author of what a request with a token makes.
func tokenAuthor(name string) string { return "token:" + name }

// authorsOf returns the people and tokens that a revocation has ended.
func authorsOf(r *api.Revoked) []string {
	by := []string{r.Name}
	for _, m := range r.Made {
		switch {
		case r.Kept:
		case m.Kind == api.MadeUser:
			by = append(by, m.Name)
		case m.Kind == api.MadeToken:
			by = append(by, tokenAuthor(m.Name))
		}
	}
	return by
}

// leftBy finds what people and tokens left, after they were revoked, and removes their schedule entries if remove is
// set. An error says that the removal failed.
func (a *app) leftBy(ctx context.Context, client *api.Client, by []string, remove bool) (l leftovers, err error) {
	if remove {
		l.Removed, err = askSchedule(ctx, client, api.ScheduleRemove, api.ScheduleChange{By: by, Reason: "revoked"})
		if api.CodeOf(err) == api.CodeNotFound { // they made none
			err = nil
		}
	}
	var found [3][]leftover
	var failed [3]error
	var all sync.WaitGroup
	for i, find := range []func(context.Context, *api.Client) ([]leftover, error){
		entriesLeft, silencesLeft, holdsLeft,
	} {
		all.Go(func() { found[i], failed[i] = find(ctx, client) })
	}
	all.Wait()
	for i, what := range []string{"schedule entries", "silences", "pauses, pins and overrides"} {
		if failed[i] != nil {
			l.Unknown = append(l.Unknown, fmt.Sprintf("%s: %v", what, failed[i]))
		}
		for _, f := range found[i] {
			if slices.Contains(by, f.By) {
				l.Left = append(l.Left, f)
			}
		}
	}
	return l, err
}

// entriesLeft returns the schedule entries of the config repo that requests made.
func entriesLeft(ctx context.Context, client *api.Client) (all []leftover, err error) {
	for q := (api.ScheduleQuery{}); ; {
		page, err := askSchedule(ctx, client, api.ScheduleList, q)
		if err != nil {
			return nil, err
		}
		for _, s := range page.Schedules {
			if s.ID > 0 {
				all = append(all, leftover{"schedule", s.Entry, s.By, fmt.Sprintf("zester schedule remove %d", s.ID)})
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return all, nil
		}
	}
}

func silencesLeft(ctx context.Context, client *api.Client) (all []leftover, err error) {
	alerts, err := api.AlertList.Ask(ctx, client, api.AlertsRequest{})
	if err != nil {
		return nil, err
	}
	for _, s := range alerts.Silences {
		all = append(all, leftover{"silence", s.Match, s.By, "zester alert unsilence " + s.ID})
	}
	return all, nil
}

// holdsLeft returns what people decided about revisions and what holds now.
func holdsLeft(ctx context.Context, client *api.Client) (all []leftover, err error) {
	s, err := api.SyncStatus.Ask(ctx, client, api.None{})
	if err != nil {
		return nil, err
	}
	if p := s.Paused; p != nil {
		all = append(all, leftover{"pause", "of new commits", p.By, "zester sync resume"})
	}
	if p := s.Pinned; p != nil {
		all = append(all, leftover{"pin", p.Commit.Short(), p.By, "zester sync unpin"})
	}
	tried, err := attempts(ctx, client)
	if err != nil {
		return nil, err
	}
	for _, t := range tried {
		for _, given := range t.Approvals {
			if given.What == "freeze" && !t.Outcome.Final() {
				all = append(all, leftover{
					"override", "of a freeze for " + t.Commit.Short(), given.By, "zester sync pause",
				})
			}
		}
	}
	return all, nil
}

// printLeft says what a revocation left, and how it is ended.
func (a *app) printLeft(l leftovers) {
	if r := l.Removed; r != nil {
		switch {
		case r.Patch != "":
			fmt.Fprintf(
				a.errOut,
				"%s: the master may not write to the config repo; this patch removes what was to be removed:\n%s",
				plain(r.Entry), plain(r.Patch),
			)
		case r.Proposed:
			fmt.Fprintf(a.errOut, "branch %s removes %s when somebody merges it\n", plain(r.Branch), plain(r.Entry))
		default:
			fmt.Fprintf(a.errOut, "commit %.8s removes %s\n", r.Commit, plain(r.Entry))
		}
	}
	for _, f := range l.Left {
		fmt.Fprintf(a.errOut, "the %s %s, made by %s, goes on; to end it: %s\n", f.Kind, plain(f.Name), plain(f.By),
			plain(f.End))
	}
	for _, why := range l.Unknown {
		fmt.Fprintf(a.errOut, "not looked for: %s\n", plain(why))
	}
}
