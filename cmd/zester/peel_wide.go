package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// presence returns the text of the column ONLINE: also whether two processes share the ID, and whether a key waits for
// approval.
func presence(p *api.Peel) string {
	online := yesNo(p.Online)
	if p.Unknown {
		online = "unknown"
	}
	if p.Duplicate {
		online += ", two processes"
	}
	switch {
	case p.PendingKey != "" && p.Key == "":
		online += ", key not signed"
	case p.PendingKey != "":
		online += ", another key"
	}
	return online
}

// listPeelsWide adds columns from the facts of each peel, and its commit if a master follows a repo. AGE is the time
// since the last heartbeat.
func (a *app) listPeelsWide(ctx context.Context, client *api.Client, expr string) error {
	peels, err := client.PeelsWithFacts(ctx, expr)
	if err != nil {
		return err
	}
	commits := map[target.PeelID]settings.Commit{}
	states, err := client.SyncPeels(ctx)
	if err != nil && api.CodeOf(err) != api.CodeUnavailable {
		return err
	}
	for _, s := range states {
		commits[s.Peel] = s.Commit
	}
	return a.printTable(a.withTroubles(ctx, client, peelsTable(peels, commits)))
}

// peelsTable returns a table of peels. Columns of -o wide need peels with facts.
func peelsTable(peels []api.Peel, commits map[target.PeelID]settings.Commit) table {
	t := table{
		header: []string{"PEEL", "ONLINE", "LAST SEEN", "AGE", "VERSION", "OS", "ADDRESS", "COMMIT"},
		states: []string{"ONLINE"},
		wide:   []string{"AGE", "VERSION", "OS", "ADDRESS", "COMMIT"},
	}
	for _, p := range peels {
		since := ""
		if !p.LastSeen.IsZero() {
			since = age(time.Since(p.LastSeen))
		}
		t.add(string(p.ID), presence(&p), clock(p.LastSeen), since, versionText(p.Facts),
			strings.TrimSpace(factText(p.Facts, "os")+" "+factText(p.Facts, "os_version")),
			cmp.Or(factText(p.Facts, "ipv4"), factText(p.Facts, "ipv6")), commits[p.ID].Short())
	}
	return t
}

// versionText returns the version of a peel, and for what a newer program waits: "0.1.0 → 0.2.0 waits for 2 commands".
func versionText(facts target.Facts) string {
	version := factText(facts, "zester_version")
	if upgrade := factText(facts, "zester_upgrade"); upgrade != "" {
		version += " → " + strings.TrimSpace(upgrade)
	}
	return version
}

// factText returns a fact as text: the first element of a list, empty text for a missing fact.
func factText(facts target.Facts, name string) string {
	v := facts[name]
	if list, ok := v.([]any); ok {
		if len(list) == 0 {
			return ""
		}
		v = list[0]
	}
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}
