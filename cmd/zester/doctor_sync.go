package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// A symptom is a condition of the reconciler that doctor reports.
type symptom struct {
	bad   bool // the value of the condition that is reported
	state severity
	next  string
}

// symptoms holds every condition. Those without a state are never reported.
var symptoms = map[status.Type]symptom{
	status.Ready:       {false, broken, "zester sync status"},
	status.Reconciling: {},
	status.Stalled: {
		true, broken, "trying again does not help: correct the cause in the message, then zester sync now",
	},
	status.FetchFailed: {true, warning, "zester sync now tries again at once"},
	status.CompileFailed: {
		true, broken, "zester lint in a checkout shows all mistakes; a commit that corrects them goes out by itself",
	},
	status.GuardBlocked:       {true, warning, "zester sync plan shows what waits"},
	status.Suspended:          {true, warning, "zester sync resume after a pause, zester sync unpin after a pin"},
	status.RolloutProgressing: {},
	status.SourceVerified:     {false, broken, "sign the commit with a key of verify: in the master's configuration"},
	status.HistoryRewritten:   {true, warning, "zester sync status"},
	status.Frozen:             {true, warning, "wait for the end of the freeze; zester sync status shows when that is"},
	status.BusRestored:        {true, warning, "zester guide backup says what to do again after a restore"},
	status.HeadSkipped:        {true, warning, "commit a newer revision, or zester sync retry"},
}

// reconciler reports the conditions of the reconciler that are symptoms.
func (d *doctor) reconciler(s *status.Sync) {
	if s.LastGood.Commit != "" {
		d.found("settings", sound, "", "%s: %s", s.LastGood.Commit.Short(), countLine(s.Counts))
	}
	for _, c := range s.Conditions {
		look := symptoms[c.Type]
		if look.state == "" || c.Status != look.bad || isMoot(s, c) {
			continue
		}
		if c.Reason == "NoRevision" || c.Reason == "Isolated" {
			look.state = warning // NoRevision: nothing was read yet; Isolated: the other peels are served
		}
		d.found("settings", look.state, look.next, "%s", conditionLine(c))
	}
}

// isMoot reports whether a condition is about an older commit, or repeats the condition Stalled.
func isMoot(s *status.Sync, c status.Condition) bool {
	switch c.Type {
	case status.SourceVerified:
		return !s.Distrusted()
	case status.FetchFailed:
		return s.Is(status.Stalled)
	}
	return false
}

// conditionLine returns the text "Type: Reason message".
func conditionLine(c status.Condition) string { return fmt.Sprintf("%s: %s", c.Type, trouble(c)) }

// settings checks the reconciler, paused entries and the reports of peels.
func (d *doctor) settings(ctx context.Context, client *api.Client) {
	s, err := api.SyncStatus.Ask(ctx, client, api.None{})
	if err != nil {
		d.found("settings", warning, "set repo: in the configuration of a master", "%v", err)
		return
	}
	d.reconciler(s)
	for _, p := range s.PausedErrors {
		d.found("entries", warning, fmt.Sprintf("zester schedule history %s %s, then zester schedule resume %s %s",
			p.Peel, p.Entries[0], p.Peel, p.Entries[0]), "%s", pausedLine(p))
	}
	for _, state := range []status.HostState{status.HostFailed, status.HostDrifted} {
		if n := s.HostCounts[state]; n > 0 {
			d.found("states", warning, "zester state status names the peels and the states", "%s on %s", state,
				count(n, "peel"))
		}
	}
	if len(s.Outdated) > 0 {
		d.found("states", warning, "upgrade zester-peel there, or keep its states from the peel in top.yaml", "%s",
			outdatedLine(s.Outdated))
	}
	peels, err := client.SyncPeels(ctx)
	if err != nil {
		d.found("applied settings", warning, "", "%v", err)
		return
	}
	d.applied(peels)
}

const (
	errorsShown = 3   // peels whose errors doctor shows
	errorShown  = 200 // columns of each error
)

// applied shows the first errors that peels report about their settings, such as a full disk.
func (d *doctor) applied(peels []status.Peel) {
	all, wrong, shown := 0, 0, []string{}
	for i := range peels {
		p := &peels[i]
		if p.State == status.Decommissioned {
			continue
		}
		all++
		if len(p.Errors) == 0 {
			continue
		}
		if wrong++; wrong > errorsShown {
			continue
		}
		text := fmt.Sprintf("%s: %s", p.Peel, cut(p.Errors[0], errorShown))
		if more := len(p.Errors) - 1; more > 0 {
			text += fmt.Sprintf(" (%d more)", more)
		}
		shown = append(shown, text)
	}
	if wrong == 0 {
		return
	}
	if more := wrong - errorsShown; more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more peels", more))
	}
	d.found("applied settings", warning, "zester sync peels shows all of them", "%d of %d report errors: %s", wrong,
		all, strings.Join(shown, "; "))
}
