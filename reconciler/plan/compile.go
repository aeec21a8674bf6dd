package plan

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/sops"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/top"
)

// MaxAuthor is the length in bytes of an origin's author for which the limit of a document is checked. A longer one
// may make a document of a compiled plan too large to be written.
const MaxAuthor = 512

const maxWarnings = 50

// longestKey is as long as any.
var longestKey = settings.Key(strings.Repeat("X", settings.KeySize))

// A Compiler makes plans. It remembers what the last two revisions used. It is not safe for concurrent use.
type Compiler struct {
	dirs     [2]map[string]*dir        // newest first
	compiled [2]map[string]compilation // by signature
	rules    rules
	last     *Plan // that was good

	identified bool // ring is to be used
	ring       *sops.Ring
}

// compilation is what became of a signature.
type compilation struct {
	files  []*file
	policy *file      // zester.yaml, whose calendars are in result; nil if there is none
	result *Effective // nil if there are errors
	reason Reason
	errs   strictyaml.Errors
}

// NewCompiler returns a compiler that has seen nothing yet.
func NewCompiler() *Compiler { return new(Compiler) }

// UseRing has secrets decrypted with the identities of ring, which may be nil, from the next revision on. A compiler that
// was never given any leaves secrets as they are; what it makes can be looked at and not be published.
func (c *Compiler) UseRing(ring *sops.Ring) { *c = Compiler{identified: true, ring: ring} }

// Compile reads the revision in tree and says what each member of the fleet is to run. An [*Error] lists all that is
// wrong with the revision; any other error is about reading the tree. Where tree tells by [fs.FileInfo.Sys] which
// files and directories are equal to those of an earlier revision, with a comparable value, they are not read again.
func (c *Compiler) Compile(tree fs.FS, fleet *target.Index) (*Plan, error) {
	return c.pass(tree, fleet, false)
}

// Retarget compiles a revision that is in force already, for a fleet that has changed since. It differs from Compile in
// that mistakes are always isolated: that the facts of one peel put files together that do not merge holds back that
// peel alone.
func (c *Compiler) Retarget(tree fs.FS, fleet *target.Index) (*Plan, error) {
	return c.pass(tree, fleet, true)
}

func (c *Compiler) pass(tree fs.FS, fleet *target.Index, isolate bool) (*Plan, error) {
	p := pass{Compiler: c, fleet: fleet, plan: &Plan{}, warnings: map[Warning]bool{}}
	p.reader = reader{tree: tree, before: []map[string]*dir{c.dirs[0], c.dirs[1]}, now: map[string]*dir{}}
	sources, err := p.read()
	if err != nil {
		return nil, err
	}
	c.dirs = [2]map[string]*dir{p.reader.now, c.dirs[0]}
	complete := p.resolve(sources)
	if complete {
		p.compile()
	}
	if err := p.problems.err(); err != nil {
		if !complete || p.lost || !isolate && !p.rules.isolate {
			return nil, err
		}
		p.plan.Mistakes = err
	}
	p.plan.Warnings = p.sortedWarnings()
	c.last = p.plan
	return p.plan, nil
}

// pass is one run of a compiler.
type pass struct {
	*Compiler
	reader   reader
	fleet    *target.Index
	plan     *Plan
	lost     bool                      // there is no top file
	files    map[string]*file          // of the settings directory, by path
	places   map[string]strictyaml.Pos // of the first mention of each reference
	problems problems
	warnings map[Warning]bool
}

// read reads all files of the revision and returns zester.yaml (nil if there is none) and the top files.
func (p *pass) read() ([]*file, error) {
	policy, err := p.reader.single(policyFile, loadPlain)
	if err != nil {
		return nil, err
	}
	sources := []*file{policy}
	first, err := p.reader.single(topFile, loadPlain)
	if err != nil {
		return nil, err
	}
	if first == nil {
		err = p.withoutTop()
	} else {
		sources = append(sources, first)
	}
	if err != nil {
		return nil, err
	}
	more, err := p.reader.dir(topDir, loadPlain)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(more.files)) {
		sources = append(sources, more.files[name])
	}
	all, err := p.reader.dir(settingsDir, p.loadSettings)
	if err != nil {
		return nil, err
	}
	p.files = make(map[string]*file, len(all.all))
	p.plan.files = p.files
	for _, f := range all.all {
		p.files[f.path] = f
		p.problems.add(f.reason, f.errs...)
		if len(f.errs) == 0 && !nameable(f.path) {
			p.warn(strictyaml.Pos{File: f.path}, "no reference can name this file: its path holds other characters than letters, digits, - and _")
		}
	}
	return sources, nil
}

// withoutTop tells a revision that has lost its top file from one that is empty altogether: the latter says that
// nothing is wanted, which is for [Difference.Guard] to judge.
func (p *pass) withoutTop() error {
	entries, err := fs.ReadDir(p.reader.tree, ".")
	if err != nil {
		return cannotRead("the root directory", err)
	}
	if len(entries) == 0 {
		return nil
	}
	msg := "there is no top file"
	if i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "top.yml" || strings.EqualFold(e.Name(), topFile) }); i >= 0 {
		msg += "; rename " + entries[i].Name() + " to " + topFile
	}
	p.lost = true
	p.problems.add(TopMissing, strictyaml.Error{Pos: strictyaml.Pos{File: topFile}, Msg: msg})
	return nil
}

// resolve reads the rules and finds the file of each reference. It reports whether the rules are complete.
func (p *pass) resolve(sources []*file) (complete bool) {
	if !slices.Equal(p.rules.sources, sources) {
		p.rules = readRules(sources)
	}
	p.problems.add(p.rules.reason, p.rules.errs...)
	p.places = map[string]strictyaml.Pos{}
	for _, rule := range p.rules.top.Rules {
		for _, ref := range rule.Refs {
			if _, again := p.places[ref.Name]; !again {
				p.places[ref.Name] = ref.Pos
			}
			f := p.files[settingsPath(ref.Name)]
			switch {
			case f == nil:
				p.problems.add(Invalid, strictyaml.Error{Pos: ref.Pos, Msg: p.missing(ref.Name)})
			case f.odd != "":
				p.problems.add(Invalid, strictyaml.Error{Pos: ref.Pos, Msg: fmt.Sprintf("cannot use %s: %s %s", ref.Name, f.path, f.odd)})
			}
		}
	}
	p.plan.TopEmpty = len(p.rules.top.Rules) == 0
	p.plan.Groups, p.plan.Waves = p.rules.groups, p.rules.waves
	return len(p.rules.errs) == 0
}

// missing says that a reference has no file, and why that may be.
func (p *pass) missing(ref string) string {
	name := settingsPath(ref)
	for i, c := range name {
		if c != '/' {
			continue
		}
		if info, err := fs.Lstat(p.reader.tree, name[:i]); err == nil && !info.IsDir() {
			return fmt.Sprintf("%s has no file: %s is not a directory", ref, name[:i])
		}
	}
	var near []string
	for other := range maps.Keys(p.files) {
		if ref := referenceTo(other); nameable(other) && max(len(other), len(name))-min(len(other), len(name)) <= 3 {
			near = append(near, ref)
		}
	}
	slices.Sort(near)
	return fmt.Sprintf("%s has no file: there is no %s%s", ref, name, strictyaml.Suggest(ref, near))
}

// compile gives each peel the result of its signature.
func (p *pass) compile() {
	a, now := p.assign(), map[string]compilation{}
	results, mistakes := make([]*Effective, len(a.signatures)), make([]strictyaml.Error, len(a.signatures))
	for i, s := range a.signatures {
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

// signature returns what the peels of a signature run, nil and the first mistake if that has errors.
func (p *pass) signature(s top.Signature, now map[string]compilation) (*Effective, strictyaml.Error) {
	files := make([]*file, len(s.Refs))
	for i, ref := range s.Refs {
		f := p.files[settingsPath(ref)]
		switch { // each is an error by itself, and known
		case f == nil || f.odd != "":
			return nil, strictyaml.Error{Pos: p.places[ref], Msg: ref + " has no file that can be used"}
		case len(f.errs) > 0:
			return nil, f.errs[0]
		}
		files[i] = f
	}
	key := strings.Join(s.Refs, " ")
	c, ok := p.compiled[0][key]
	policy := p.rules.sources[0]
	if !ok || !slices.Equal(c.files, files) || c.policy != policy {
		c, ok = p.compiled[1][key]
	}
	if !ok || !slices.Equal(c.files, files) || c.policy != policy {
		c = p.evaluate(s, files)
		c.policy = policy
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

// evaluate merges the files of a signature and checks what comes out.
func (p *pass) evaluate(s top.Signature, files []*file) compilation {
	c := compilation{files: files}
	node := &strictyaml.Node{Kind: strictyaml.Map}
	for _, f := range files {
		node = merge(node, f.node)
	}
	e := &Effective{Refs: s.Refs, files: files, Entries: map[string]strictyaml.Pos{}, Schedule: schedule.Set{}}
	if section := p.expand(node); section != nil {
		if err := e.parse(section); err != nil {
			c.reason, c.errs = Invalid, asErrors(settingsDir, err)
			return c
		}
	}
	err := e.encode(node)
	if err == nil {
		err = e.fits(s.Peels[0])
	}
	if err != nil {
		c.reason = TooLarge
		c.errs = strictyaml.Errors{{Pos: p.places[s.Refs[len(s.Refs)-1]], Msg: fmt.Sprintf("%v; they come from %s", err, strings.Join(paths(files), ", "))}}
		return c
	}
	c.result = e
	return c
}

// expand returns the schedule of merged settings, nil if they have none, after it has put the days of the repo's
// calendars in place of their names.
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

// parse reads the merged schedule. An entry that one file alone makes is parsed once for all signatures.
func (e *Effective) parse(section *strictyaml.Node) error {
	sources := make(map[string]*file, len(e.files))
	for _, f := range e.files {
		sources[f.path] = f
	}
	own := func(p strictyaml.Pair) *file { // the file that p is taken from as it is
		if f := sources[p.KeyPos.File]; f != nil && f.entries[p.Key].Value == p.Value {
			return f
		}
		return nil
	}
	rest := strictyaml.Node{Kind: section.Kind, Pos: section.Pos}
	for _, p := range section.Map {
		e.Entries[p.Key] = p.KeyPos
		if f := own(p); f != nil && f.parsed[p.Key] != nil && len(section.Map) <= schedule.MaxEntries {
			e.Schedule[p.Key] = f.parsed[p.Key]
		} else {
			rest.Map = append(rest.Map, p)
		}
	}
	set, err := schedule.ParseEntries(&rest)
	if err != nil {
		return err
	}
	maps.Copy(e.Schedule, set)
	if err := e.Schedule.Check(section); err != nil {
		return err
	}
	for _, p := range rest.Map {
		if f := own(p); f != nil {
			f.parsed[p.Key] = set[p.Key]
		}
	}
	return nil
}

// encode makes the bytes of merged settings, and those with the secrets if there are any.
func (e *Effective) encode(merged *strictyaml.Node) (err error) {
	if e.Settings, err = canon.Marshal(merged.Any()); err != nil {
		return err
	}
	e.Digest = settings.DigestOf(e.Settings)
	if e.secret = merged.FirstSecret(); e.secret != nil {
		e.plain, err = canon.Marshal(merged.Reveal())
	}
	return err
}

func paths(files []*file) []string {
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = f.path
	}
	return out
}

// fits checks that a document stays within its limit, whatever its origins will be.
func (e *Effective) fits(peel target.PeelID) error {
	longest := 0
	for _, f := range e.files {
		longest = max(longest, len(f.path))
	}
	if len(e.Settings)+len(e.plain)+len(e.Entries)*(longest+2*MaxAuthor) < settings.MaxDocument/2 {
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
	doc := e.Document(peel, origin.Commit, 1<<60, origins)
	if e.secret != nil {
		doc.Sealed = &settings.Sealed{To: longestKey, From: longestKey, Box: make([]byte, len(e.plain)+settings.SealOverhead)}
	}
	_, err := doc.Encode()
	return err
}

func (p *pass) warn(at strictyaml.Pos, format string, args ...any) {
	p.warnings[warningf(at, format, args...)] = true
}

func (p *pass) sortedWarnings() []Warning {
	all := slices.SortedFunc(maps.Keys(p.warnings), func(a, b Warning) int {
		if c := a.Pos.Compare(b.Pos); c != 0 {
			return c
		}
		return strings.Compare(a.Msg, b.Msg)
	})
	if n := len(all) - maxWarnings; n > 0 {
		all = append(all[:maxWarnings], Warning{Pos: all[maxWarnings].Pos, Msg: fmt.Sprintf("and %d warnings more", n)})
	}
	return all
}
