package movein

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/seed-c01c3da5/zester/peel/survey"
	"github.com/seed-c01c3da5/zester/settings/private"
	"github.com/seed-c01c3da5/zester/settings/schedule/crontab"
	"github.com/seed-c01c3da5/zester/settings/sops"
)

// A Host is a host with its tables of cron.
type Host struct {
	HostFacts
	Cron survey.Cron
}

// Moved is what became of the tables of hosts.
type Moved struct {
	Files   map[string][]byte // of a config repo, by path
	Tables  int               // equal ones of several hosts counted once
	Entries int
	Times   int       // that were compared and are equal
	Lines   []HostRow // that became no entry
	Notes   []HostRow // about files; they have no line
}

// A HostRow is a row about a file of several hosts.
type HostRow struct {
	Row
	Hosts []string
}

// errSecret: a line is not written, because everybody who has the repo would know its secret.
var errSecret = errors.New("the line looks as if it had a secret, which does not belong in plain text in a repo: " +
	"keep it in a file of sops (zester guide repo), and write the entry by hand")

// hasSecret reports whether a line, or a variable that the table sets above it, looks as if it had a secret.
func hasSecret(j crontab.Job) bool {
	if looksSecret(j.Text) {
		return true
	}
	for name, value := range j.Env {
		if looksSecret(name + "=" + value) {
			return true
		}
	}
	return false
}

// looksSecret reports whether a text has a secret, or the mask of one of the settings.
func looksSecret(text string) bool {
	return private.Hide(text) != text || strings.Contains(text, sops.Shown)
}

// Hosts turns the tables of hosts into the files of a config repo. Tables that the same hosts have are in one settings
// file. all is a target expression for the hosts, or empty to have lists of them, see [newTargets]; now is where the
// proof begins. A line that looks as if it had a secret becomes no entry, and no file has it.
func Hosts(hosts []Host, all string, now time.Time) (Moved, error) {
	m := Moved{Files: map[string][]byte{}, Notes: notesOn(hosts)}
	ids := make([]HostFacts, len(hosts))
	for i, h := range hosts {
		ids[i] = h.HostFacts
	}
	targets := newTargets(ids, all)
	entries, words := map[string]bool{}, map[string]bool{}
	top := &yaml.Node{Kind: yaml.MappingNode}
	for _, g := range groupsOf(hosts) {
		expr, word := targets.Of(g.hosts)
		names := g.names(hosts)
		w := newWriter(entries)
		for i := range g.tables {
			g.tables[i].hosts = some(names)
			if err := w.table(g.tables[i], now); err != nil {
				return Moved{}, fmt.Errorf("%w, on %s", err, some(names))
			}
		}
		m.Tables += len(g.tables)
		m.Entries += w.count()
		m.Times += w.times
		for _, row := range w.rows {
			m.Lines = append(m.Lines, HostRow{row, names})
		}
		text, err := w.file(g.tables)
		if err != nil {
			return Moved{}, err
		}
		word = free(word, words)
		words[word] = true
		m.Files["settings/cron/"+word+".yaml"] = text
		if w.count() > 0 {
			set(top, expr, []string{"cron." + word})
		}
	}
	text, err := encode("base", top)
	m.Files["top.yaml"] = text
	return m, err
}

// A group is the tables that the same hosts have.
type group struct {
	hosts  map[int]bool
	tables []Table
}

func (g group) names(hosts []Host) (ids []string) {
	for _, i := range slices.Sorted(maps.Keys(g.hosts)) {
		ids = append(ids, hosts[i].ID)
	}
	return ids
}

// groupsOf groups the tables of hosts: equal tables are one group. The group with the most hosts comes first.
func groupsOf(hosts []Host) (groups []*group) {
	with := map[survey.Table]map[int]bool{} // the hosts that have a table
	var tables []survey.Table
	for i, h := range hosts {
		for _, t := range h.Cron.Tables {
			if with[t] == nil {
				with[t] = map[int]bool{}
				tables = append(tables, t)
			}
			with[t][i] = true
		}
	}
	for _, t := range tables {
		at := slices.IndexFunc(groups, func(g *group) bool { return maps.Equal(g.hosts, with[t]) })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &group{hosts: with[t]})
		}
		groups[at].tables = append(groups[at].tables, Table{Name: t.File, Text: t.Text, User: t.User, isGuarded: true})
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return len(b.hosts) - len(a.hosts) })
	return groups
}

// notesOn returns what hosts have beside their tables, with the reason why it was not read.
func notesOn(hosts []Host) (notes []HostRow) {
	at := map[survey.Skip]int{}
	add := func(s survey.Skip, id string) {
		if _, ok := at[s]; !ok {
			at[s] = len(notes)
			notes = append(notes, HostRow{Row: Row{File: s.File, Reason: s.Reason}})
		}
		notes[at[s]].Hosts = append(notes[at[s]].Hosts, id)
	}
	for _, h := range hosts {
		for _, s := range h.Cron.Skipped {
			add(s, h.ID)
		}
		for _, unit := range h.Cron.Timers {
			add(survey.Skip{File: unit, Reason: "a timer of systemd is left as it is"}, h.ID)
		}
	}
	slices.SortStableFunc(notes, func(a, b HostRow) int {
		return cmp.Or(len(b.Hosts)-len(a.Hosts), strings.Compare(a.File, b.File))
	})
	return notes
}

// some returns the first hosts, and how many there are.
func some(ids []string) string {
	const most = 20
	if len(ids) <= most {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], ", "), len(ids)-most)
}
