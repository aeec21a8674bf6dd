package plan

import (
	"io/fs"
	"maps"
	"slices"

	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// A DeclaredEntry is an entry of a revision, for all peels that have it with the same value from the same place.
type DeclaredEntry struct {
	Entry *schedule.Entry
	Pos   strictyaml.Pos // of its key, in the last file that sets a part of it
	Peels int            // 0 if the revision was checked without a fleet

	layers []*strictyaml.Node // in merge order
}

// Field returns the position of the last value of a field, by its name in the file; ok is false if no file sets it.
func (w *DeclaredEntry) Field(name string) (at strictyaml.Pos, ok bool) {
	for _, layer := range slices.Backward(w.layers) {
		if v := layer.Get(name); v != nil {
			return v.Pos, true
		}
	}
	return w.Pos, false
}

// DeclaredEntries lists the entries of all peels, by position.
func (p *Plan) DeclaredEntries() []*DeclaredEntry {
	if p.Peels == nil {
		return p.loose
	}
	type place struct {
		pos  strictyaml.Pos
		hash string
	}
	var all []*DeclaredEntry
	places := map[place]*DeclaredEntry{}
	shared := map[*schedule.Entry]*DeclaredEntry{} // signatures share entries of a single file
	for e, peels := range p.Effectives() {
		for name, entry := range e.Schedule {
			w := shared[entry]
			if w == nil {
				at := place{e.Entries[name], entry.Hash()}
				if w = places[at]; w == nil {
					w = &DeclaredEntry{Entry: entry, Pos: at.pos, layers: e.values(name)}
					places[at], all = w, append(all, w)
				}
				shared[entry] = w
			}
			w.Peels += peels
		}
	}
	sortDeclared(all)
	return all
}

// Files returns the readable settings files, sorted by path, also those that no peel uses.
func (p *Plan) Files() []*File {
	var all []*File
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		if f := p.files[name]; f.Node != nil {
			all = append(all, f)
		}
	}
	return all
}

// PlainFiles returns the documents of the readable settings files that are not encrypted, sorted by path.
func (p *Plan) PlainFiles() []*strictyaml.Node {
	var all []*strictyaml.Node
	for _, f := range p.Files() {
		if !f.Encrypted {
			all = append(all, f.Node)
		}
	}
	return all
}

// UncheckedFiles returns the sorted paths of the encrypted settings files whose MAC was not checked because the
// compiler has no identity.
func (p *Plan) UncheckedFiles() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		if p.files[name].Unchecked {
			all = append(all, name)
		}
	}
	return all
}

func sortDeclared(all []*DeclaredEntry) {
	sorting.Func(all, func(a, b *DeclaredEntry) int {
		if c := a.Pos.Compare(b.Pos); c != 0 {
			return c
		}
		return b.Peels - a.Peels
	})
}

// Effectives returns the settings of the peels, each with the number of its peels.
func (p *Plan) Effectives() map[*Effective]int {
	count := map[*Effective]int{}
	if p.assigned != nil {
		for i, s := range p.assigned.signatures {
			if e := p.results[i]; e != nil {
				count[e] += len(s.Peels)
			}
		}
		return count
	}
	for _, e := range p.Peels {
		count[e]++
	}
	return count
}

// values returns the values of an entry in the files of e, in merge order.
func (e *Effective) values(name string) []*strictyaml.Node {
	var out []*strictyaml.Node
	for _, f := range e.Layers(name) {
		out = append(out, f.Entries[name].Value)
	}
	return out
}

// Check reads a revision without a fleet, so it is not known which files a peel combines. It finds the mistakes in each
// file, in the rules, and in entries and states that no other file could complete. The plan has no Peels;
// [Plan.DeclaredEntries] lists the entries that can be parsed.
func (c *Compiler) Check(tree fs.FS) (*Plan, error) {
	p, sources, err := c.begin(tree, peelindex.New())
	if err != nil {
		return nil, err
	}
	if p.resolve(sources) {
		files := p.named()
		p.gather(files)
		if err := p.checkFiles(files); err != nil {
			return nil, err
		}
	}
	if err := p.problems.err(); err != nil {
		return nil, err
	}
	p.plan.Warnings = p.sortedWarnings()
	return p.plan, nil
}

// named returns the valid files that rules name, in the order in which they are named first.
func (p *pass) named() (files []*File) {
	named := map[string]bool{}
	for _, rule := range p.rules.top.Rules {
		for _, ref := range rule.Refs {
			if f := p.files[SettingsPath(ref.Name)]; f != nil && !named[f.Path] && f.Node != nil && len(f.Errs) == 0 {
				named[f.Path] = true
				files = append(files, f)
			}
		}
	}
	return files
}

// gather reads the entries of files, merged in their order.
func (p *pass) gather(files []*File) {
	layers := map[string][]strictyaml.Pair{}
	for _, f := range files {
		for name, pair := range f.Entries {
			layers[name] = append(layers[name], pair)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(layers)) {
		p.checkStandalone(name, layers[name])
	}
	sortDeclared(p.plan.loose)
}

// checkStandalone parses an entry that is merged from all files that declare it. Only an entry of a single file can be
// invalid here: several files that declare parts of one entry need not apply to the same peel.
func (p *pass) checkStandalone(name string, layers []strictyaml.Pair) {
	w := &DeclaredEntry{}
	section := &strictyaml.Node{Kind: strictyaml.Map}
	for _, pair := range layers {
		section = Merge(section, &strictyaml.Node{Kind: strictyaml.Map, Pos: pair.KeyPos, Map: []strictyaml.Pair{pair}})
		w.Pos, w.layers = pair.KeyPos, append(w.layers, pair.Value)
	}
	if section.Get(name) == nil {
		return
	}
	if len(p.rules.calendars) > 0 {
		section = p.rules.calendars.Expand(section)
	}
	set, err := schedule.ParseEntries(section)
	switch {
	case err == nil:
		w.Entry = set[name]
		p.plan.loose = append(p.plan.loose, w)
	case len(layers) == 1:
		p.problems.add(Invalid, AsErrors(w.Pos.File, err)...)
	}
}
