package movein

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// SaltInput is what [Salt] reads.
type SaltInput struct {
	Hosts []Minion
	// Target is the target here that selects these hosts and no others. Without it each target is a list, because the
	// input does not show which hosts a glob or a fact selects too.
	Target string
	Roots  []fs.FS // the directories that Salt serves as salt://, the first first
	Pushed fs.FS   // MINION/files/PATH, which the master has of cp.push; may be nil
	Now    time.Time
}

// A SaltRow counts declarations that have no counterpart, or that have a note.
type SaltRow struct {
	Function string // of Salt
	Reason   string
	Count    int // of declarations, equal ones of several hosts counted once
	Hosts    []string
	First    string // the first of the declarations: its file and ID
}

// A SaltResult is what became of the hosts.
type SaltResult struct {
	Files        map[string][]byte // of the repo, by path
	Programs     map[string]bool   // the paths of executable files
	Secrets      map[string][]byte // settings files with secrets in plain text, by their path in the repo
	Declarations int               // equal ones of several hosts are counted once
	Converted    int
	Refused      []SaltRow // the most frequent first
	Notes        []SaltRow
	Mistakes     strictyaml.Errors // in the files, as lint finds them with the facts of the hosts
	Reordered    []string          // hosts on which states run in another order than in Salt, if there are no mistakes
}

// Salt returns the config repo that does what Salt does.
func Salt(in SaltInput) (SaltResult, error) {
	if err := in.checkTarget(); err != nil {
		return SaltResult{}, err
	}
	for i := range in.Hosts {
		h := &in.Hosts[i]
		turnAround(h.Low)
		h.Low = inOrder(h.Low)
	}
	src := newSources(in)
	n := newNaming(in.Hosts, src)
	report := tally{
		seen: map[string]bool{}, rows: map[[3]string]map[string]bool{}, counts: map[[3]string]int{},
		first: map[[3]string]string{},
	}
	made := make([]minion, len(in.Hosts))
	for i := range in.Hosts {
		h := &in.Hosts[i]
		states, err := n.convert(h, src, &report)
		if err != nil {
			return SaltResult{}, err
		}
		made[i] = minion{Minion: h, states: states}
	}
	files, err := groupStates(made, in.Target, src.hidden)
	if err != nil {
		return SaltResult{}, err
	}
	if files, err = schedules(files, made, src.hidden, in, &report); err != nil {
		return SaltResult{}, err
	}
	result := SaltResult{
		Files: src.copied, Programs: src.programs, Secrets: map[string][]byte{},
		Declarations: len(report.seen), Converted: len(report.seen) - report.refused,
		Refused: report.list("refused"), Notes: report.list("note"),
	}
	if err := result.write(files); err != nil {
		return SaltResult{}, err
	}
	if err := result.addPeels(made); err != nil {
		return SaltResult{}, err
	}
	return result, result.check(made)
}

// checkTarget returns an error unless the target selects all hosts.
func (in SaltInput) checkTarget() error {
	if in.Target == "" {
		return nil
	}
	expr, err := target.Parse(in.Target, target.Options{})
	if err != nil {
		return err
	}
	for i := range in.Hosts {
		h := &in.Hosts[i]
		facts := target.Facts{}
		for name, value := range h.facts() {
			facts[name] = value
		}
		if !expr.Match(target.Peel{ID: target.PeelID(h.ID), Facts: facts}) {
			return fmt.Errorf("the target %s does not select %s, which Salt printed states of", in.Target, h.ID)
		}
	}
	return nil
}

// A minion is a host with its states, by declaration.
type minion struct {
	*Minion
	states [][]made
}

// A tally counts declarations.
type tally struct {
	seen    map[string]bool // equal declarations
	refused int
	rows    map[[3]string]map[string]bool // hosts, by kind, function and reason
	counts  map[[3]string]int
	first   map[[3]string]string
}

func (t *tally) add(kind string, d Declaration, reason, host string, isNew bool) {
	key := [3]string{kind, d.Function(), reason}
	if t.rows[key] == nil {
		t.rows[key] = map[string]bool{}
		t.first[key] = d.place
	}
	t.rows[key][host] = true
	if isNew {
		t.counts[key]++
	}
}

func (t *tally) list(kind string) []SaltRow {
	var rows []SaltRow
	for key, hosts := range t.rows {
		if key[0] == kind {
			rows = append(rows, SaltRow{key[1], key[2], t.counts[key], slices.Sorted(maps.Keys(hosts)), t.first[key]})
		}
	}
	sorting.Stable(rows, func(a, b SaltRow) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Function, b.Function), cmp.Compare(a.Reason, b.Reason))
	})
	return rows
}
