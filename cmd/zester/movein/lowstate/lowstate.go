// Package lowstate turns what Salt would apply to its minions into a config repo. [Read] and [Hosts] read what Salt
// prints, and [Convert] returns the files of the repo with a report.
//
// Salt renders its own templates, includes and pillars: the lowstate of a host has none of them. Each declaration
// becomes one state or several, or a state with enabled: false and the declaration in a comment.
//
// Guarantees:
//   - Each written state was read as lint reads it.
//   - The states of a file keep the order that they have in Salt. [Result.Reordered] has the hosts on which files run
//     in another order.
//   - The next hundred times of each entry of the schedule, in UTC, are those by Salt's rule.
//   - No text or number of 6 bytes or more that the pillar of a host names as a secret is in the files of the repo, and
//     no text that has the shape of a secret.
//
// Known gaps: a template becomes one here only if it has names, if and for over texts, with values of the context, the
// pillar and the grains; these values become vars of the state. Loops over maps, filters and macros need the text that
// Salt rendered. A secret that the pillar has in less than 6 bytes is not found in texts, nor one that a state has in
// another form: encoded, hashed, or with other blanks before its lines.
package lowstate

import (
	"cmp"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// Input is what Convert reads.
type Input struct {
	Hosts  []Host
	Roots  []fs.FS // the directories that Salt serves as salt://, the first first
	Pushed fs.FS   // MINION/files/PATH, which the master has of cp.push; may be nil
	Now    time.Time
}

// A Row counts declarations that have no counterpart, or that have a note.
type Row struct {
	Function string // of Salt
	Reason   string
	Count    int // of declarations, equal ones of several hosts counted once
	Hosts    []string
}

// A Result is what became of the hosts.
type Result struct {
	Files        map[string][]byte // of the repo, by path
	Secrets      map[string][]byte // settings files with secrets in plain text, by their path in the repo
	Declarations int               // equal ones of several hosts are counted once
	Converted    int
	Refused      []Row // the most frequent first
	Notes        []Row
	Reordered    []string // hosts on which states run in another order than in Salt
}

// Convert returns the config repo that does what Salt does.
func Convert(in Input) (Result, error) {
	for _, h := range in.Hosts {
		turnAround(h.Low)
	}
	src := newSources(in)
	n := newNaming(in.Hosts, src.hidden)
	report := tally{seen: map[string]bool{}, rows: map[[3]string]map[string]bool{}, counts: map[[3]string]int{}}
	made := make([]host, len(in.Hosts))
	for i := range in.Hosts {
		h := &in.Hosts[i]
		states, err := n.convert(h, src, &report)
		if err != nil {
			return Result{}, err
		}
		made[i] = host{Host: h, states: states}
	}
	files, err := group(made)
	if err != nil {
		return Result{}, err
	}
	if files, err = schedules(files, made, src.hidden, in.Now, &report); err != nil {
		return Result{}, err
	}
	result := Result{
		Files: src.copied, Secrets: map[string][]byte{},
		Declarations: len(report.seen), Converted: len(report.seen) - report.refused,
		Refused: report.list("refused"), Notes: report.list("note"),
	}
	err = result.write(files, made)
	return result, err
}

// A host is a host with its states, by declaration.
type host struct {
	*Host
	states [][]made
}

// A tally counts declarations.
type tally struct {
	seen    map[string]bool // equal declarations
	refused int
	rows    map[[3]string]map[string]bool // hosts, by kind, function and reason
	counts  map[[3]string]int
}

func (t *tally) add(kind string, d Declaration, reason, host string, isNew bool) {
	key := [3]string{kind, d.Function(), reason}
	if t.rows[key] == nil {
		t.rows[key] = map[string]bool{}
	}
	t.rows[key][host] = true
	if isNew {
		t.counts[key]++
	}
}

func (t *tally) list(kind string) []Row {
	var rows []Row
	for key, hosts := range t.rows {
		if key[0] == kind {
			rows = append(rows, Row{key[1], key[2], t.counts[key], slices.Sorted(maps.Keys(hosts))})
		}
	}
	sorting.Stable(rows, func(a, b Row) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Function, b.Function), cmp.Compare(a.Reason, b.Reason))
	})
	return rows
}
