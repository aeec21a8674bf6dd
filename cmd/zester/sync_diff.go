package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A driftKind is the kind of a difference between a peel and its published settings.
type driftKind string

const (
	driftMissing driftKind = "missing" // Git has it, the peel does not
	driftExtra   driftKind = "extra"   // the peel has it, Git does not
	driftChanged driftKind = "changed"
	driftStatic  driftKind = "static" // an entry of the host's peel.yaml
	driftPaused  driftKind = "paused" // by a person, or because its runs failed
	driftInvalid driftKind = "invalid"
	driftSkip    driftKind = "skipped" // the next fire, by a person
)

// A drift is one difference. Git and Live are the values at Path, absent where there is none.
type drift struct {
	Path string    `json:"path"` // keys joined by ":", as settings.get takes them
	Kind driftKind `json:"kind"`
	Git  any       `json:"git,omitempty"`
	Live any       `json:"live,omitempty"`
	Why  string    `json:"why,omitempty"`
}

// drifts is the data of sync diff.
type drifts struct {
	Peel       target.PeelID   `json:"peel"`
	Commit     settings.Commit `json:"commit"`      // of the newest settings published for the peel
	LiveCommit settings.Commit `json:"live_commit"` // of the settings that the peel runs
	Stale      bool            `json:"stale,omitempty"`
	Drifts     []drift         `json:"drifts"`
}

func (a *app) syncDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff PEEL",
		Short: "Compare a peel with the settings that were published for it",
		Long: `diff asks a peel for its settings and its schedule, with two jobs, and compares
them with the newest settings published for it. It shows settings that are
missing, extra or changed, entries of the host's peel.yaml, and entries that are
paused, skipped or invalid on the peel. The exit code is 2 if there is a
difference, and 3 if the peel does not reply.`,
		Args: words("ID of a peel"),
		RunE: a.onPeel(func(cmd *cobra.Command, client *api.Client, id target.PeelID, _ []string) error {
			return a.diffPeel(cmd.Context(), client, id)
		}),
	}
}

func (a *app) diffPeel(ctx context.Context, client *api.Client, id target.PeelID) error {
	doc, err := api.SyncDiff.Ask(ctx, client, status.DocumentRequest{Peel: id})
	if err != nil {
		return err
	}
	known, err := client.Resolve(ctx, "L@"+string(id))
	if err != nil {
		return err
	}
	if slices.Contains(known.Offline, id) {
		return silent(id, "is offline")
	}
	var live struct {
		Commit   settings.Commit `json:"commit"`
		Stale    bool            `json:"stale"`
		Settings map[string]any  `json:"settings"`
	}
	if err := askPeel(ctx, client, id, "settings.items", &live); err != nil {
		return err
	}
	var entries map[string]*scheduler.ListedEntry
	if err := askPeel(ctx, client, id, "schedule.list", &entries); err != nil {
		return err
	}
	// Both sides as JSON: their numbers have been decoded to different types.
	var git map[string]any
	if err := throughJSON(doc.Settings, &git); err != nil {
		return err
	}
	delete(git, state.CompiledKey) // is of the peel alone
	d := drifts{Peel: id, Commit: doc.Commit, LiveCommit: live.Commit, Stale: live.Stale, Drifts: []drift{}}
	compareMaps("", git, live.Settings, func(one drift) { d.Drifts = append(d.Drifts, one) })
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		d.Drifts = append(d.Drifts, entryDrifts(name, entries[name])...)
	}
	return a.showDrifts(doc, &d)
}

func (a *app) showDrifts(doc *status.Document, d *drifts) error {
	t := table{header: []string{"PATH", "DRIFT", "GIT", "LIVE", "WHY"}, narrow: []string{"GIT", "LIVE", "WHY"}}
	names := []string{}
	for _, one := range d.Drifts {
		t.add(one.Path, string(one.Kind), inline(one.Git), inline(one.Live), one.Why)
		names = append(names, one.Path)
	}
	err := a.print(d, names, func() error {
		if len(d.Drifts) == 0 {
			_, err := fmt.Fprintf(a.out, "%s runs what Git says at %s\n", d.Peel, doc.Commit.Short())
			return err
		}
		return a.printTable(t)
	})
	if err == nil && len(d.Drifts) > 0 {
		return &failure{code: exitSomeFailed}
	}
	return err
}

// inline returns a value as one line of JSON, empty for nil.
func inline(v any) string {
	if v == nil {
		return ""
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

// compareMaps reports where two maps differ, in the order of their keys.
func compareMaps(path string, git, live map[string]any, report func(drift)) {
	keys := maps.Clone(git)
	if keys == nil {
		keys = map[string]any{}
	}
	maps.Copy(keys, live)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		at := key
		if path != "" {
			at = path + ":" + key
		}
		g, wanted := git[key]
		l, has := live[key]
		inGit, isMap := g.(map[string]any)
		inLive, both := l.(map[string]any)
		switch {
		case isMap && both:
			compareMaps(at, inGit, inLive, report)
		case !has:
			report(drift{Path: at, Kind: driftMissing, Git: g})
		case !wanted:
			report(drift{Path: at, Kind: driftExtra, Live: l})
		case !reflect.DeepEqual(g, l):
			report(drift{Path: at, Kind: driftChanged, Git: g, Live: l})
		}
	}
}

// entryDrifts returns how an entry in schedule.list differs from what Git says.
func entryDrifts(name string, e *scheduler.ListedEntry) (all []drift) {
	path := "schedule:" + name
	if e.Source == "peel.yaml" {
		all = append(all, drift{
			Path: path,
			Kind: driftStatic,
			Live: e.Timing,
			Why:  "it is an entry of the host's peel.yaml",
		})
	}
	switch e.State {
	case scheduler.StatePaused, scheduler.StateFailing:
		all = append(all, drift{Path: path, Kind: driftPaused, Live: e.State, Why: e.Why})
	case scheduler.StateInvalid:
		all = append(all, drift{Path: path, Kind: driftInvalid, Live: e.State, Why: e.Why})
	}
	if e.Skip != nil {
		all = append(all, drift{Path: path, Kind: driftSkip, Why: e.Skip.By + ": " + e.Skip.Reason})
	}
	return all
}

// askPeel runs a function on one peel and reads what it returns.
func askPeel(ctx context.Context, client *api.Client, id target.PeelID, function string, into any) error {
	replied := false
	spec := job.Spec{TargetExpr: "L@" + string(id), Targets: []target.PeelID{id}, Function: function}
	err := askPeels(ctx, client, spec, func(r *wire.Return) error {
		replied = true
		if !r.Success {
			return &failure{
				code: exitSomeFailed,
				err:  fmt.Errorf("%s failed on %s: %s", function, id, r.Error),
				hint: "zester " + string(id) + " " + function + " shows the same",
			}
		}
		return throughJSON(textual(r.Data), into)
	})
	if err == nil && !replied {
		return silent(id, "does not reply")
	}
	return err
}

// askPeels runs a function on the targets of spec, which has neither an ID nor a timeout, and calls onReturn with each
// return until all have replied or were given up.
func askPeels(ctx context.Context, client *api.Client, spec job.Spec, onReturn func(*wire.Return) error) error {
	spec.JID, spec.Timeout = wire.NewJID(), job.DefaultTimeout
	follower, err := client.Start(ctx, spec)
	if err != nil {
		return err
	}
	defer follower.Close()
	for event, err := range follower.Events(ctx) {
		if err != nil {
			return err
		}
		if event.Return == nil {
			continue
		}
		if err := onReturn(event.Return); err != nil {
			return err
		}
	}
	return nil
}

// silent returns the failure of a command that needs a peel which is offline or does not reply.
func silent(id target.PeelID, what string) error {
	return &failure{
		code: exitSomeSilent,
		err:  fmt.Errorf("%s %s", id, what),
		hint: "zester peel show " + string(id) + " shows when it was last online",
	}
}

func throughJSON(v, into any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
