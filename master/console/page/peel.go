package page

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	mostRows   = 40  // entries, and settings
	mostErrors = 5   // of a report
	mostText   = 120 // characters of a value, of an error or of a timing
)

func peelAnswer(p *api.PeelDetail) string {
	id := string(p.ID)
	switch {
	case p.Duplicate:
		return id + " runs twice: two processes have this ID"
	case p.PendingKey != "":
		return id + " has a new key, which waits for approval"
	case p.Unknown:
		return id + " was not heard since this master began"
	case !p.Online:
		return id + " is offline"
	case p.Worst != nil && p.Worst.Entry != "":
		return p.Worst.Entry + " " + kindLooks[p.Worst.Class].one + " " + id
	case p.Worst != nil:
		return fmt.Sprintf("%s: %s", id, problemWord(p.Worst.Class))
	case p.States != nil && p.States.State == status.HostFailed:
		return id + " has states that fail"
	case p.States != nil && p.States.State == status.HostDrifted:
		return id + " was changed by hand"
	case p.State == status.Pending, p.State == status.Failed:
		return id + " does not run its newest settings"
	case len(p.Lacks) > 0, p.Report == nil:
		return id + " is online"
	}
	return id + " runs as it should"
}

// settingsWord says how the settings that a peel runs compare with those that it should run.
func settingsWord(s status.State) string {
	switch s {
	case status.Applied:
		return "as it should"
	case status.Pending:
		return "newer settings wait"
	case status.Failed:
		return "settings refused"
	}
	return string(s)
}

// peelEntryTone returns how an entry of a peel is shown: by its problem now, else by its state. Nothing is known of the
// entries of a peel that is silent.
func peelEntryTone(p *api.PeelDetail, e *api.PeelEntry) (Tone, string) {
	switch {
	case e.Problem != nil:
		return ProblemTone(e.Problem.Class), problemWord(e.Problem.Class)
	case e.NotReporting, !p.Online:
		return Silent, "not reporting"
	case e.State != "" && e.State != "active":
		return Pause, strings.ReplaceAll(e.State, "_", " ")
	case e.Ended.IsZero() && e.Ran == 0:
		return Wait, "not run yet"
	}
	return Ok, "well"
}

// settingsNote says which settings were written; empty: none.
func settingsNote(v *api.PeelDetail) string {
	if v.Settings.Commit == "" {
		return ""
	}
	return Plural(v.Settings.Total, "setting")
}

// reloadWords says what the last reload did with the entries of a peel.
func reloadWords(r status.Reload) string {
	var parts []string
	for _, one := range []struct {
		n    int
		word string
	}{{r.Kept, "kept"}, {r.Changed, "changed"}, {r.Started, "started"}, {r.Stopped, "stopped"}} {
		if one.n > 0 {
			parts = append(parts, Number(one.n)+" "+one.word)
		}
	}
	if len(parts) == 0 {
		return "no entries"
	}
	return "entries: " + strings.Join(parts, ", ")
}

// clockWords says how the clock of a peel compares with those of the masters, to the second.
func clockWords(r *api.PeelReport) string {
	switch d := r.ClockOffset; {
	case r.Schedule.IsZero():
		return "not known yet"
	case d > time.Second:
		return d.String() + " ahead"
	case d < -time.Second:
		return (-d).String() + " behind"
	}
	return "right, to the second"
}

// factOf returns a fact as text, at most 500 characters of it.
func factOf(facts target.Facts, name string) string {
	text := []rune(fmt.Sprint(facts[name]))
	if len(text) > 500 {
		text = append(text[:500], '…')
	}
	return Visible(string(text))
}

// cut returns the first [mostText] characters of a text.
func cut(text string) string {
	runes := []rune(text)
	if len(runes) <= mostText {
		return text
	}
	return string(runes[:mostText-1]) + "…"
}
