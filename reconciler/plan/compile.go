package plan

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/sops"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

const maxWarnings = 50 // of a plan

// A Compiler makes plans. It caches the files and signatures of the last two revisions. It is not safe for concurrent
// use.
type Compiler struct {
	cache    FileCache
	compiled [2]map[string]compilation // by signature
	rules    rules
	last     *Plan // the last plan without an error

	load     LoadFiles // of settings files, with or without identities
	ring     *sops.Ring
	masked   bool // there are no identities
	contents ContentCache
	ended    func() error // see Until
}

// NewCompiler returns a compiler with an empty cache, which shows secrets as placeholders.
func NewCompiler() *Compiler { return &Compiler{load: Veiled, masked: true} }

// UseRing decrypts secrets with the identities of ring, which may be nil, from the next revision on. Without a call of
// UseRing secrets are not decrypted: the plans can be compared and shown, but not published.
func (c *Compiler) UseRing(ring *sops.Ring) { *c = Compiler{load: Decrypted(ring), ring: ring} }

// Until ends each later compile with the error of ctx when ctx ends, between two files or signatures. Nothing of such a
// compile is kept. UseRing ends the effect of Until.
func (c *Compiler) Until(ctx context.Context) { c.ended = ctx.Err }

// Compile reads the revision in tree and returns the settings of each member of the fleet. An [*Error] lists all
// mistakes of the revision; any other error is about reading the tree. If [fs.FileInfo.Sys] of a file or directory is a
// comparable value that an earlier revision had too, it counts as equal and is not read again.
func (c *Compiler) Compile(tree fs.FS, fleet *peelindex.Index) (*Plan, error) {
	return c.pass(tree, fleet, false)
}

// Retarget compiles a revision that is already in force, for a fleet that has changed since. Unlike in Compile,
// mistakes are always isolated: if the facts of one peel select files that do not merge, only that peel is held back.
func (c *Compiler) Retarget(tree fs.FS, fleet *peelindex.Index) (*Plan, error) {
	return c.pass(tree, fleet, true)
}

// Read reads the files of a revision before [Compiler.Compile], while the fleet is not known yet. Compile reports
// mistakes in them; an error of Read is about reading the tree.
func (c *Compiler) Read(tree fs.FS) error {
	_, _, err := c.begin(tree, nil)
	return err
}

// ReadSafety returns the limits, waves and freezes of zester.yaml. Its error is the one with which [Compiler.Retarget]
// would refuse the revision. It reads no settings file, so its cost does not depend on the size of the revision.
func ReadSafety(tree fs.FS) (policy.Safety, error) {
	p := &pass{revision: new(FileCache).Begin(tree)}
	sources, err := p.readSources()
	if err != nil {
		return policy.Safety{}, p.tooLarge(err)
	}
	r := readRules(sources)
	p.problems.add(r.reason, r.errs...)
	if err := p.problems.err(); err != nil && (p.lost || len(r.errs) > 0) {
		return policy.Safety{}, err
	}
	return policy.Safety{Limits: &r.limits, Waves: r.waves, Freezes: r.freezes}, nil
}

// begin reads the files of a revision and returns the pass and the result of [pass.readSources].
func (c *Compiler) begin(tree fs.FS, fleet *peelindex.Index) (*pass, []*File, error) {
	p := &pass{Compiler: c, revision: c.cache.Begin(tree), fleet: fleet, plan: &Plan{}, warnings: map[Warning]bool{}}
	p.revision.Ended = c.ended
	p.plan.read = c.contents.Begin(tree, c.ring, c.masked)
	sources, err := p.readSources()
	if err == nil {
		err = p.readSettings()
	}
	if err == nil {
		p.contentsSum, err = p.plan.read.Sum()
	}
	if err != nil {
		return nil, nil, p.tooLarge(err)
	}
	c.cache.Keep(p.revision)
	return p, sources, nil
}

// tooLarge makes a mistake of the revision from the error of one that is too large to be read.
func (p *pass) tooLarge(err error) error {
	if e, ok := errors.AsType[*BudgetError](err); ok {
		p.problems.add(TooLarge, e.Mistake)
		return p.problems.err()
	}
	return err
}

func (c *Compiler) pass(tree fs.FS, fleet *peelindex.Index, isolate bool) (*Plan, error) {
	p, sources, err := c.begin(tree, fleet)
	if err != nil {
		return nil, err
	}
	complete := p.resolve(sources)
	if complete {
		p.compile()
	}
	if p.unreadable != nil {
		return nil, p.unreadable
	}
	p.checkContents()
	c.contents.Keep(p.plan.read)
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
	revision *Revision
	fleet    *peelindex.Index
	plan     *Plan
	lost     bool                      // there is no top file
	files    map[string]*File          // of the settings directory, by path
	places   map[string]strictyaml.Pos // of the first mention of each reference
	problems problems
	warnings map[Warning]bool

	contentsSum any   // of the contents of the revision
	unreadable  error // of reading the tree while signatures were compiled
}

// readSources returns zester.yaml (nil if there is none) and the top files.
func (p *pass) readSources() ([]*File, error) {
	policy, err := p.revision.File(PolicyFile, Plain)
	if err != nil {
		return nil, err
	}
	first, err := p.revision.File(TopFile, Plain)
	if err != nil {
		return nil, err
	}
	more, err := p.revision.Dir(TopDir, Plain)
	if err != nil {
		return nil, err
	}
	misnamed, empty, err := p.revision.CheckNames(more)
	if err != nil {
		return nil, err
	}
	p.problems.add(Invalid, misnamed...)
	sources := []*File{policy}
	switch {
	case first != nil:
		sources = append(sources, first)
	case !empty: // an empty tree is valid; the guard of package diff blocks it
		p.lost = true
		p.problems.add(TopMissing, strictyaml.Error{Pos: strictyaml.Pos{File: TopFile}, Msg: "there is no top file"})
	}
	for _, name := range slices.Sorted(maps.Keys(more.Files)) {
		sources = append(sources, more.Files[name])
	}
	return sources, nil
}

// readSettings reads all settings files.
func (p *pass) readSettings() error {
	all, err := p.revision.Dir(SettingsDir, p.load)
	if err != nil {
		return err
	}
	p.files = make(map[string]*File, len(all.All))
	p.plan.files = p.files
	folded := make(map[string]string, len(all.All))
	for _, f := range all.All {
		p.files[f.Path] = f
		p.problems.add(f.Reason, f.Errs...)
		p.warnOfOddity(f, folded)
	}
	return nil
}

// warnOfOddity warns of a settings file that cannot be used or mistaken for another. folded holds the paths of the
// others, by their lower case.
func (p *pass) warnOfOddity(f *File, folded map[string]string) {
	at, lower := strictyaml.Pos{File: f.Path}, strings.ToLower(f.Path)
	switch other, clash := folded[lower]; {
	case f.Oddity != "":
		p.warn(at, "it %s", f.Oddity)
	case clash:
		p.warn(at, "its path differs from %s only in case", other)
	case len(f.Errs) == 0 && !IsNameable(f.Path):
		p.warn(at, "no reference can name this file: its path holds other characters than letters, digits, - and _")
	}
	folded[lower] = f.Path
}

// resolve reads the rules and finds the file of each reference. It reports whether the rules are complete.
func (p *pass) resolve(sources []*File) (complete bool) {
	if !slices.Equal(p.rules.sources, sources) {
		p.rules = readRules(sources)
	}
	p.problems.add(p.rules.reason, p.rules.errs...)
	for _, w := range p.rules.warnings {
		p.warnings[w] = true
	}
	p.places = map[string]strictyaml.Pos{}
	for _, rule := range p.rules.top.Rules {
		for _, ref := range rule.Refs {
			if _, again := p.places[ref.Name]; !again {
				p.places[ref.Name] = ref.Pos
			}
			f := p.files[SettingsPath(ref.Name)]
			switch {
			case f == nil:
				p.problems.add(Invalid, strictyaml.Error{Pos: ref.Pos, Msg: p.missing(ref.Name)})
			case f.Oddity != "":
				p.problems.add(Invalid, strictyaml.Error{
					Pos: ref.Pos,
					Msg: fmt.Sprintf("cannot use %s: %s %s", ref.Name, f.Path, f.Oddity),
				})
			}
		}
	}
	if len(p.rules.errs) == 0 {
		p.unused()
	}
	p.plan.TopEmpty = len(p.rules.top.Rules) == 0
	p.plan.rules, p.plan.fleet = p.rules.top, p.fleet
	p.plan.Groups = p.rules.groups
	p.plan.Waves = p.rules.waves
	p.plan.Freezes = p.rules.freezes
	p.plan.Limits = p.rules.limits
	p.plan.Alerts = p.rules.alerts
	return len(p.rules.errs) == 0
}

// unused warns of settings files that no target uses.
func (p *pass) unused() {
	used := make(map[string]bool, len(p.places))
	for ref := range p.places {
		used[SettingsPath(ref)] = true
	}
	for name, f := range p.files {
		if !used[name] && f.Oddity == "" && len(f.Errs) == 0 && IsNameable(name) {
			p.warn(strictyaml.Pos{File: name}, "no target uses this file: top.yaml names it as %s", ReferenceTo(name))
		}
	}
}

// missing returns the message about a reference without a file, with a hint.
func (p *pass) missing(ref string) string {
	name := SettingsPath(ref)
	for i, c := range name {
		if c != '/' {
			continue
		}
		if info, err := fs.Lstat(p.revision.Tree, name[:i]); err == nil && !info.IsDir() {
			return fmt.Sprintf("%s has no file: %s is not a directory", ref, name[:i])
		}
	}
	var near []string
	for other := range maps.Keys(p.files) {
		if ref := ReferenceTo(other); IsNameable(other) && max(len(other), len(name))-min(len(other), len(name)) <= 3 {
			near = append(near, ref)
		}
	}
	slices.Sort(near)
	return fmt.Sprintf("%s has no file: there is no %s%s", ref, name, strictyaml.Suggest(ref, near))
}

func (p *pass) warn(at strictyaml.Pos, format string, args ...any) {
	p.warnings[warningf(at, format, args...)] = true
}

func (p *pass) sortedWarnings() []Warning {
	all := sorting.Values(maps.Keys(p.warnings), func(a, b Warning) int {
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
