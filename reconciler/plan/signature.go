package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/top"
)

// MaxAuthor is the greatest length in bytes of an author in the origin of an entry; a longer one is cut.
const MaxAuthor = 512

// maxStateAuthor is the same for the origin of a state, as a peel may have a thousand states.
const maxStateAuthor = 64

// withShortAuthors returns origins whose authors have the length for which the size of documents is checked.
func withShortAuthors(origins map[string]settings.Origin) map[string]settings.Origin {
	short, copied := origins, false
	for name, o := range origins {
		most := MaxAuthor
		if strings.HasPrefix(name, settings.StateOrigin) {
			most = maxStateAuthor
		}
		if len(o.Author) <= most {
			continue
		}
		if !copied {
			short, copied = maps.Clone(origins), true
		}
		o.Author = strings.ToValidUTF8(o.Author[:most-len("…")], "") + "…"
		short[name] = o
	}
	return short
}

// longestKey has the length of every key.
var longestKey = settings.Key(strings.Repeat("X", settings.KeySize))

// A compilation is the result of compiling a signature.
type compilation struct {
	files  []*File
	policy *File      // zester.yaml, as result depends on its calendars; nil if there is none
	sum    any        // of the contents that states name; nil if they name none
	result *Effective // nil if there are errors
	reason Reason
	errs   strictyaml.Errors
}

// compile gives each peel the result of its signature.
func (p *pass) compile() {
	a, now := p.assign(), map[string]compilation{}
	results, mistakes := make([]*Effective, len(a.signatures)), make([]strictyaml.Error, len(a.signatures))
	for i, s := range a.signatures {
		if p.ended != nil {
			if err := p.ended(); err != nil {
				p.unreadable = err
				return
			}
		}
		results[i], mistakes[i] = p.signature(s, now)
	}
	p.give(a, results, mistakes)
	p.compiled = [2]map[string]compilation{now, p.compiled[0]}
	for _, w := range a.warnings {
		p.warnings[w] = true
	}
}

func (p *pass) behind(peel target.PeelID, mistake strictyaml.Error) {
	if p.plan.Behind == nil {
		p.plan.Behind = map[target.PeelID]strictyaml.Error{}
	}
	p.plan.Behind[peel] = mistake
}

// signature returns the settings for the peels of a signature; nil and the first mistake if there is one.
func (p *pass) signature(s top.Signature, now map[string]compilation) (*Effective, strictyaml.Error) {
	files := make([]*File, len(s.Refs))
	for i, ref := range s.Refs {
		f := p.files[SettingsPath(ref)]
		switch { // these mistakes are already in problems
		case f == nil || f.Oddity != "":
			return nil, strictyaml.Error{Pos: p.places[ref], Msg: ref + " has no file that can be used"}
		case len(f.Errs) > 0:
			return nil, f.Errs[0]
		}
		files[i] = f
	}
	key := strings.Join(s.Refs, " ")
	c, ok := p.compiled[0][key]
	if !ok || !p.current(c, files) {
		c, ok = p.compiled[1][key]
	}
	if ok && p.current(c, files) {
		c.checked(p.contentsSum)
	} else {
		before := c
		c = p.evaluate(s, files)
		if c.policy = p.rules.sources[0]; c.isSame(before) {
			c.result = before.result // other contents have changed
		}
	}
	if c.result != nil {
		now[key] = c
	}
	p.problems.add(c.reason, c.errs...)
	if c.result == nil {
		return nil, c.errs[0]
	}
	return c.result, strictyaml.Error{}
}

// isSame reports whether two compilations of one signature gave the same settings from the same files.
func (c compilation) isSame(before compilation) bool {
	return c.result != nil && before.result != nil && c.result.Digest == before.result.Digest &&
		slices.Equal(c.files, before.files) && c.policy == before.policy
}

// current reports whether a compilation was made from files as they are in this revision.
func (p *pass) current(c compilation, files []*File) bool {
	return slices.Equal(c.files, files) && c.policy == p.rules.sources[0] &&
		(c.sum == nil || c.sum == p.contentsSum || p.hasContents(c.result))
}

// hasContents reports whether the states of e name the same contents in this revision.
func (p *pass) hasContents(e *Effective) bool {
	if e == nil {
		return false
	}
	seen := make(map[string]bool, len(e.Compiled.Files))
	for _, s := range e.States {
		for _, source := range s.Sources() {
			all, err := p.plan.read.All(source)
			if err != nil {
				return false // the compilation reports it
			}
			for _, c := range all {
				if f, ok := e.Compiled.Files[c.Path]; !ok || c.Problem != "" || f != c.File {
					return false
				}
				seen[c.Path] = true
			}
		}
	}
	return len(seen) == len(e.Compiled.Files)
}

// checked records that the contents are those of a revision with this sum.
func (c *compilation) checked(sum any) {
	if c.sum != nil && sum != nil {
		c.sum = sum
	}
}

// evaluate merges the files of a signature and checks the result.
func (p *pass) evaluate(s top.Signature, files []*File) compilation {
	c := compilation{files: files}
	node := &strictyaml.Node{Kind: strictyaml.Map}
	for _, f := range files {
		node = Merge(displaced(node, f.Node), f.Node)
	}
	e := &Effective{Refs: s.Refs, files: files, Entries: map[string]strictyaml.Pos{}, Schedule: schedule.Set{}}
	if section := p.expand(node); section != nil {
		if err := e.parse(section); err != nil {
			c.reason, c.errs = Invalid, AsErrors(SettingsDir, err)
			return c
		}
	}
	node, bad, err := p.addStates(e, node)
	if len(bad.errs) > 0 || err != nil {
		p.unreadable = errors.Join(p.unreadable, err)
		c.reason, c.errs = bad.reason, bad.errs
		return c
	}
	if len(e.Compiled.Files) > 0 {
		if c.sum = p.contentsSum; c.sum == nil {
			c.sum = new(int) // equal to nothing
		}
	}
	err = e.encode(node)
	if err == nil {
		err = e.fits(s.Peels[0])
	}
	if err != nil {
		c.reason = TooLarge
		c.errs = strictyaml.Errors{
			{
				Pos: p.places[s.Refs[len(s.Refs)-1]],
				Msg: fmt.Sprintf("%v; they come from %s", err, strings.Join(paths(files), ", ")),
			},
		}
		return c
	}
	c.result = e
	return c
}

// expand returns the schedule of merged settings, nil if they have none. It first replaces the names of the repo's
// calendars by their days.
func (p *pass) expand(merged *strictyaml.Node) *strictyaml.Node {
	i := slices.IndexFunc(merged.Map, func(pair strictyaml.Pair) bool { return pair.Key == "schedule" })
	if i < 0 {
		return nil
	}
	section := &merged.Map[i].Value
	if len(p.rules.calendars) > 0 {
		*section = p.rules.calendars.Expand(*section)
	}
	return *section
}

// parse reads the merged schedule. An entry of a single file is parsed once for all signatures.
func (e *Effective) parse(section *strictyaml.Node) error {
	sources := make(map[string]*File, len(e.files))
	for _, f := range e.files {
		sources[f.Path] = f
	}
	own := func(p strictyaml.Pair) *File { // the single file that p comes from, nil if it was merged
		if f := sources[p.KeyPos.File]; f != nil && f.Entries[p.Key].Value == p.Value {
			return f
		}
		return nil
	}
	rest := strictyaml.Node{Kind: section.Kind, Pos: section.Pos}
	for _, p := range section.Map {
		e.Entries[p.Key] = p.KeyPos
		if f := own(p); f != nil && f.Parsed[p.Key] != nil && len(section.Map) <= schedule.MaxEntries {
			e.Schedule[p.Key] = f.Parsed[p.Key]
		} else {
			rest.Map = append(rest.Map, p)
		}
	}
	set, err := schedule.ParseEntries(&rest)
	if err != nil {
		return err
	}
	maps.Copy(e.Schedule, set)
	if err := schedule.Check(e.Schedule, section); err != nil {
		return err
	}
	for _, p := range rest.Map {
		if f := own(p); f != nil {
			f.Parsed[p.Key] = set[p.Key]
		}
	}
	return nil
}

// encode encodes merged settings, and also with their secrets if there are any.
func (e *Effective) encode(merged *strictyaml.Node) (err error) {
	if e.Settings, err = canon.Marshal(merged.Any()); err != nil {
		return err
	}
	e.Digest = settings.DigestOf(e.Settings)
	if e.secret = merged.FirstSecret(); e.secret != nil {
		e.merged = merged
		e.plain, err = canon.Marshal(merged.Reveal())
	}
	return err
}

func paths(files []*File) []string {
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = f.Path
	}
	return out
}

// SourceName returns the key in [File.Source] of an entry or state named as [Effective.OriginNames] does.
func (e *Effective) SourceName(name string) string {
	if made, isState := strings.CutPrefix(name, settings.StateOrigin); isState {
		return settings.StateOrigin + e.StateSource(made)
	}
	return name
}

// Layers returns the files of e that set a part of an entry, or of a state named as [Effective.OriginNames] does, in
// merge order.
func (e *Effective) Layers(name string) []*File {
	var out []*File
	name = e.SourceName(name)
	for _, f := range e.files {
		if _, ok := f.Source[name]; ok {
			out = append(out, f)
		}
	}
	return out
}

// fits returns an error if a document with the longest possible origins would exceed its limit.
func (e *Effective) fits(peel target.PeelID) error {
	longest := 0
	for _, f := range e.files {
		longest = max(longest, len(f.Path))
	}
	if len(e.Settings)+len(e.plain)+(len(e.Entries)+len(e.States)*len(e.files))*(longest+
		2*MaxAuthor) < settings.MaxDocument/2 {
		return nil
	}
	origin := settings.Origin{
		File: strings.Repeat("x", longest), Line: 1 << 30, Author: strings.Repeat("x", MaxAuthor),
		Commit: settings.Commit(strings.Repeat("x", 40)), Time: time.Unix(1<<40, 1),
	}
	origins := make(map[string]settings.Origin, len(e.Entries))
	for name := range e.Entries {
		origins[name] = origin
	}
	origin.Author = origin.Author[:maxStateAuthor]
	for _, s := range e.States {
		if layers := e.Layers(settings.StateOrigin + s.Name); len(layers) > 1 {
			origin.Files = paths(layers)
		}
		origins[settings.StateOrigin+s.Name] = origin
		origin.Files = nil
	}
	doc := e.Document(peel, origin.Commit, 1<<60, origins)
	doc.ProveOrigins(&settings.ProofKey{}, nil)
	if e.secret != nil {
		doc.Sealed = &settings.Sealed{
			To:   longestKey,
			From: longestKey,
			Box:  make([]byte, len(e.plain)+settings.SealOverhead),
		}
	}
	_, err := doc.Encode()
	return err
}
