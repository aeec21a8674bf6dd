package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/cmd/zester/horizon"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	documentsAtOnce  = 16 // requests for documents that are under way
	peelsShown       = 20 // peels that do not run everything, for people
	credentialsShown = 10 // that end first, for people
)

const cutOffManual = `--cut-off instead shows what the peels of a target, or all, do in the next 72
hours if no peel can reach a master from now on: which entries run and how
often, which stop, which peels do not have their settings or the contents of
files that states need, which credential ends first and what that means, and
what masters and peels no longer learn. It cuts nothing and asks masters only.

The state of a peel is runs (all its entries), partly (some are paused or lack
something), older (it runs other settings than the fleet is to have) or nothing.
Entries that name no zone are computed in the zone of this host. An interval
counts from earlier runs, which are not known here, so its number of runs is
about right.

--cut-off -o json:
  {"cut": …, "until": …, "counts": {STATE: peels, …}, "runs": …,
   "entries": [{"entry": …, "peels": …, "runs": …, "about": …, "last": …,
                "stops": …}, …],       runs of one peel
   "peels": [{"peel": …, "state": …, "commit": …, "entries": …, "runs": …,
              "why": [text, …], "credential": …}, …],
   "stale": [{"what": …, "text": …}, …],
   "credentials": [{"kind": …, "name": …, "ends": …, "then": …}, …],
                                       that end, the first one first
   "endless": …}                       credentials that never end`

// cutOff prints what still runs if every link is cut now, on the peels of a target, on all if args has none.
func (a *app) cutOff(cmd *cobra.Command, client *api.Client, args []string) error {
	f, err := a.knownFleet(cmd.Context(), client, args)
	if err != nil {
		return err
	}
	h, err := horizon.Look(f)
	if err != nil {
		return err
	}
	return a.showHorizon(h)
}

// knownFleet asks the masters what they know of the peels of a target, of all peels if args has none.
func (a *app) knownFleet(ctx context.Context, client *api.Client, args []string) (f horizon.Fleet, err error) {
	f = horizon.Fleet{Cut: time.Now(), Zone: time.Local}
	if f.Peels, err = client.SyncPeels(ctx); err != nil {
		return f, err
	}
	f.Peels = slices.DeleteFunc(f.Peels, func(p status.Peel) bool { return p.State == status.Decommissioned })
	if len(args) > 0 {
		ids, err := selected(ctx, client, args[0])
		if err != nil {
			return f, err
		}
		wanted := map[target.PeelID]bool{}
		for _, id := range ids {
			wanted[id] = true
		}
		f.Peels = slices.DeleteFunc(f.Peels, func(p status.Peel) bool { return !wanted[p.Peel] })
	}
	if f.Schedules, err = wantedSchedules(ctx, client, f.Peels); err != nil {
		return f, err
	}
	if f.Sync, err = api.SyncStatus.Ask(ctx, client, api.None{}); err != nil {
		return f, err
	}
	if f.Credentials, err = client.Credentials(ctx); err != nil {
		fmt.Fprintln(a.errOut, "warning: the ends of credentials are not known:", plain(err.Error()))
	}
	if f.Tokens, err = api.All(ctx, client, api.TokenList, (*api.TokensAnswer).Page); err != nil {
		fmt.Fprintln(a.errOut, "warning: the ends of tokens are not known:", plain(err.Error()))
	}
	return f, nil
}

// wantedSchedules returns the entries of the wanted settings of peels. Peels with equal settings cost one request.
func wantedSchedules(ctx context.Context, client *api.Client,
	peels []status.Peel,
) (map[settings.Digest]schedule.Set, error) {
	all, asked := map[settings.Digest]schedule.Set{}, map[settings.Digest]bool{}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(documentsAtOnce)
	for _, p := range peels {
		if p.Wanted == "" || asked[p.Wanted] {
			continue
		}
		asked[p.Wanted] = true
		g.Go(func() error {
			doc, err := api.SyncDiff.Ask(ctx, client, status.DocumentRequest{Peel: p.Peel})
			if api.CodeOf(err) == api.CodeNotFound {
				return nil // nothing was written for it yet
			}
			if err != nil {
				return err
			}
			set, err := publishedSchedule(doc)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			all[p.Wanted] = set
			return nil
		})
	}
	return all, g.Wait()
}

// publishedSchedule returns the entries of a document. One that peels refuse is in it with its error.
func publishedSchedule(doc *status.Document) (schedule.Set, error) {
	entries, found := doc.Settings["schedule"]
	if !found {
		return schedule.Set{}, nil
	}
	n := strictyaml.FromValue("the settings of "+string(doc.Peel.Peel), entries)
	set, err := schedule.ParseSet(n)
	if err != nil {
		schedule.KeepInvalid(set, n, err)
	}
	return set, nil
}

func (a *app) showHorizon(h *horizon.Horizon) error {
	names := []string{}
	for _, p := range h.Peels {
		if p.State != horizon.Runs {
			names = append(names, string(p.Peel))
		}
	}
	return a.print(h, names, func() error { return a.horizonText(h) })
}

func (a *app) horizonText(h *horizon.Horizon) error {
	fmt.Fprintf(a.out, "if every link is cut now, until %s:\n", when(h.Until))
	fmt.Fprintf(a.out, "%s, %s of %s\n", horizonCounts(h), count(h.Runs, "run"), variants(h))
	for _, t := range []table{horizonEntries(h), horizonPeels(h), horizonCredentials(h)} {
		if len(t.rows) == 0 {
			continue
		}
		fmt.Fprintln(a.out)
		if err := a.printTable(t); err != nil {
			return err
		}
	}
	if n := len(h.Credentials) - credentialsShown; n > 0 {
		fmt.Fprintf(a.out, "and %d more that end later\n", n)
	}
	stale := table{}
	for _, s := range h.Stale {
		stale.add(s.What+":", s.Text)
	}
	fmt.Fprintln(a.out)
	return stale.print(a.out, screen{})
}

func horizonCounts(h *horizon.Horizon) string {
	parts := []string{}
	for _, s := range []struct {
		state horizon.State
		text  string
	}{
		{horizon.Runs, "run all their entries"},
		{horizon.Partly, "run some"},
		{horizon.Older, "run older settings"},
		{horizon.Nothing, "run nothing"},
	} {
		if n := h.Counts[s.state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s.text))
		}
	}
	return fmt.Sprintf("%s: %s", count(len(h.Peels), "peel"), strings.Join(parts, ", "))
}

// variants returns the number of different entries.
func variants(h *horizon.Horizon) string {
	names := map[string]bool{}
	for _, e := range h.Entries {
		names[e.Entry] = true
	}
	if len(names) == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", len(names))
}

func horizonEntries(h *horizon.Horizon) table {
	t := table{
		header: []string{"ENTRY", "PEELS", "RUNS EACH", "LAST RUN", "STOPS"},
		narrow: []string{"STOPS"},
		drop:   []string{"LAST RUN"},
	}
	for _, e := range h.Entries {
		runs := fmt.Sprint(e.Runs)
		if e.About {
			runs = "about " + runs
		}
		t.add(e.Entry, fmt.Sprint(e.Peels), runs, clock(e.Last), e.Stops)
	}
	return t
}

// horizonPeels returns the first peels that do not run everything.
func horizonPeels(h *horizon.Horizon) table {
	t := table{
		header: []string{"PEEL", "STATE", "COMMIT", "WHY"},
		narrow: []string{"WHY"},
		drop:   []string{"COMMIT"},
		states: []string{"STATE"},
	}
	left := 0
	for _, p := range h.Peels {
		switch {
		case p.State == horizon.Runs:
		case len(t.rows) == peelsShown:
			left++
		default:
			t.add(string(p.Peel), string(p.State), p.Commit.Short(), strings.Join(p.Why, "; "))
		}
	}
	if left > 0 {
		t.add(fmt.Sprintf("and %d more", left), "", "", "")
	}
	return t
}

func horizonCredentials(h *horizon.Horizon) table {
	t := table{header: []string{"CREDENTIAL", "ENDS", "IN", "THEN"}, narrow: []string{"THEN"}, drop: []string{"IN"}}
	for _, c := range h.Credentials[:min(credentialsShown, len(h.Credentials))] {
		left := "over"
		if c.Ends.After(h.Cut) {
			left = age(c.Ends.Sub(h.Cut))
		}
		t.add(c.Kind+" "+c.Name, clock(c.Ends), left, c.Then)
	}
	return t
}
