// Package state reads the states of a host: what its packages, files, services and accounts should be.
//
// [CheckFields] checks the map under `states` of one settings file; [Normalize] and [Displace] prepare files to be
// merged. [Parse] reads the merged map of a peel and puts it in order. A peel calls [FromSettings]. [Functions] lists
// what a state can say.
//
// Guarantees:
//   - A [Set] that Parse returned without an error can be run: each state has one function with valid arguments, each
//     requisite exists, there is no cycle, and two states that own the same path, package, service, user or group say
//     the same of it.
//   - The order of a Set depends on the merged map and the order of its keys alone.
//   - Every error is a [strictyaml.Errors] with file, line, column and the state's name.
//
// Nothing here reads a host. Known gaps: whether a source exists in the config repo is checked by the compiler, which
// has the files ([State.Sources]).
package state

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Limits of a peel's states.
const (
	MaxStates = 2000
	MaxRetry  = 10 // attempts
)

// Key is the key of the settings that holds states.
const Key = "states"

var validName = newShape(`^[A-Za-z0-9_./@+-]([A-Za-z0-9_./@+ -]*[A-Za-z0-9_./@+-])?$`, 256)

const nameRule = "letters, digits, _ . / @ + - and blanks between them, at most 256"

// A State is one thing that should hold on a host.
type State struct {
	Name     string
	Function string    // "file.managed"
	Args     Arguments // a pointer to the struct of the function, such as [*FileManaged]
	Fields
	Pos strictyaml.Pos

	written *strictyaml.Node // the arguments
	fields  *strictyaml.Node // the fields
}

// Fields are what a state of any function may have.
type Fields struct {
	Require   []string `yaml:"require"`    // states, or file:REF for those of a settings file: none failed
	Watch     []string `yaml:"watch"`      // as require, and reacts once if one changed
	OnChanges []string `yaml:"onchanges"`  // runs only if one changed
	OnFail    []string `yaml:"onfail"`     // runs only if one failed
	RequireIn []string `yaml:"require_in"` // states that get this one into their require
	WatchIn   []string `yaml:"watch_in"`   // states that get this one into their watch

	OnChangesIn []string `yaml:"onchanges_in"` // states that get this one into their onchanges

	OnlyIf   []string      `yaml:"onlyif"` // shell commands, or one; all must end with 0
	Unless   []string      `yaml:"unless"` // shell commands, or one; none may end with 0
	Retry    *Retry        `yaml:"retry"`
	Timeout  time.Duration `yaml:"timeout"` // 0: 1h, pkg 30m
	FailHard bool          `yaml:"failhard"`
	Enabled  *bool         `yaml:"enabled"` // nil: true

	Each string `yaml:"each"` // path of a list or map of the settings; [Expand] replaces it
}

// GuardAfterChange is the comment of a test on a state whose guard was not run.
const GuardAfterChange = "its guard may depend on a predicted change"

// Retry says how often a state that failed is tried again.
type Retry struct {
	Attempts int           `yaml:"attempts"` // 1 to MaxRetry
	Interval time.Duration `yaml:"interval"`
}

// IsEnabled reports whether the state is to run.
func (s *State) IsEnabled() bool { return s.Enabled == nil || *s.Enabled }

// Hash identifies the function and the arguments, secrets included.
func (s *State) Hash() (string, error) {
	data, err := canon.Marshal([]any{s.Function, s.Name, s.written.Reveal()})
	if err != nil {
		return "", fmt.Errorf("cannot hash the state %s: %w", s.Name, err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// HasSecret reports whether an argument holds a secret. On a host [Set.MarkSecrets] has to be called before.
func (s *State) HasSecret(arg string) bool {
	n := s.written.Get(arg)
	return n != nil && n.FirstSecret() != nil
}

// Follows reports whether the author of the state lets it go through links and directories of other users.
func (s *State) Follows() bool {
	n := s.written.Get("follow")
	return n != nil && n.Value == true
}

// MarkSecrets takes the arguments of the states from the map of states n. The set has the same states, with each secret
// in the place of its node.
func (s Set) MarkSecrets(n *strictyaml.Node) {
	for _, x := range s {
		written := n.Get(x.Name).Get(x.Function)
		if written == nil || written.Kind != strictyaml.Map {
			continue
		}
		x.written = written
		switch a := x.Args.(type) {
		case *FileManaged:
			a.Vars = written.Get("vars")
		case *FileRecurse:
			a.Vars = written.Get("vars")
		}
	}
}

// Paths returns the paths that the state owns or shares.
func (s *State) Paths() []string { return s.owned("path") }

// Packages returns the packages that the state is about.
func (s *State) Packages() []string { return s.owned("package") }

func (s *State) owned(kind string) (names []string) {
	for _, r := range s.Args.owns() {
		if r.kind == kind {
			names = append(names, r.name)
		}
	}
	return names
}

// A Source is a file or directory of the config repo that a state needs.
type Source struct {
	Path     string // below files/, with that prefix
	Dir      bool
	Template bool
	Pos      strictyaml.Pos
}

// A Set holds the states of a peel in the order in which they run.
type Set []*State

// Get returns the state of a name, nil if there is none.
func (s Set) Get(name string) *State {
	if i := slices.IndexFunc(s, func(x *State) bool { return x.Name == name }); i >= 0 {
		return s[i]
	}
	return nil
}

// Options are what Parse needs beside the merged map.
type Options struct {
	// Order lists the names in the order of their first mention; states that it lacks come last, in the order of the
	// map. If it is nil, the order of the map counts.
	Order []string
	// Files returns the names of the states to which the settings file of a reference contributed, for requisites such
	// as file:web.nginx. If it is nil, such a requisite is an error.
	Files func(ref string) []string

	broken map[string]bool // states that are left out, and that requisites may name
}

// Parse reads the states of a peel from the merged map n and puts them in order. States with an error are missing from
// the result; the error is a [strictyaml.Errors] of everything that is wrong.
func Parse(n *strictyaml.Node, o Options) (Set, error) {
	pairs, errs := entries(n)
	pairs = inOrder(pairs, o.Order)
	var set Set
	for _, p := range pairs {
		s, bad := parseState(p, true)
		errs = append(errs, bad...)
		if s != nil && len(bad) == 0 {
			set = append(set, s)
		}
	}
	all := make(map[string]bool, len(pairs))
	for _, p := range pairs {
		all[p.Key] = true
	}
	maps.Copy(all, o.broken)
	errs = append(errs, set.checkOwners()...)
	g, bad := set.graph(all, o.Files)
	errs = append(errs, bad...)
	if len(bad) == 0 {
		if bad = g.checkCycles(); len(bad) == 0 {
			set = g.sorted()
		}
		errs = append(errs, bad...)
	}
	return set, errs.Err()
}

// CheckFields checks the map under the key `states` of one settings file: names, functions, arguments and fields must
// be right, but a state need not be complete. The error is a [strictyaml.Errors].
func CheckFields(n *strictyaml.Node) error {
	pairs, errs := entries(n)
	for _, p := range pairs {
		if p.Value.Kind != strictyaml.Null {
			_, bad := parseState(p, false)
			errs = append(errs, bad...)
		}
	}
	return errs.Err()
}

// Displace returns the states base, with nothing in the states that over gives another function and so replaces.
func Displace(base, over *strictyaml.Node) *strictyaml.Node {
	if base == nil || over == nil {
		return base
	}
	kept := make([]strictyaml.Pair, 0, len(base.Map))
	for _, p := range base.Map {
		before, after := functionIn(p.Value), functionIn(over.Get(p.Key))
		if before != "" && after != "" && before != after {
			p.Value = &strictyaml.Node{Kind: strictyaml.Map, Pos: p.Value.Pos}
		}
		kept = append(kept, p)
	}
	return &strictyaml.Node{Kind: base.Kind, Pos: base.Pos, Map: kept}
}

// Normalize returns a settings file in which the function of each state has a map of arguments: a null would remove the
// function when files are merged.
func Normalize(doc *strictyaml.Node) *strictyaml.Node {
	return replaced(doc, func(section strictyaml.Pair) *strictyaml.Node {
		if section.Key != Key {
			return section.Value
		}
		return replaced(section.Value, func(state strictyaml.Pair) *strictyaml.Node {
			return replaced(state.Value, func(field strictyaml.Pair) *strictyaml.Node {
				if field.Value.Kind == strictyaml.Null && strings.Contains(field.Key, ".") {
					return &strictyaml.Node{Kind: strictyaml.Map, Pos: field.Value.Pos}
				}
				return field.Value
			})
		})
	})
}

// replaced returns a map with other values; any other node as it is.
func replaced(n *strictyaml.Node, value func(strictyaml.Pair) *strictyaml.Node) *strictyaml.Node {
	if n.Kind != strictyaml.Map {
		return n
	}
	out := *n
	out.Map = make([]strictyaml.Pair, len(n.Map))
	for i, p := range n.Map {
		p.Value = value(p)
		out.Map[i] = p
	}
	return &out
}

// functionIn returns the key of a state that names its function, empty if there is none.
func functionIn(n *strictyaml.Node) string {
	if n == nil {
		return ""
	}
	for _, p := range n.Map {
		if strings.Contains(p.Key, ".") {
			return p.Key
		}
	}
	return ""
}

// entries returns the states of a map that have a valid name.
func entries(n *strictyaml.Node) ([]strictyaml.Pair, strictyaml.Errors) {
	switch {
	case n == nil || n.Kind == strictyaml.Null:
		return nil, nil
	case n.Kind != strictyaml.Map:
		return nil, strictyaml.Errors{{Pos: n.Pos, Path: Key, Msg: n.Mismatch("a map of states")}}
	case len(n.Map) > MaxStates:
		return nil, strictyaml.Errors{
			{
				Pos:  n.Map[MaxStates].KeyPos,
				Path: Key,
				Msg:  fmt.Sprintf("%d states; a peel has at most %d", len(n.Map), MaxStates),
			},
		}
	}
	var errs strictyaml.Errors
	pairs := make([]strictyaml.Pair, 0, len(n.Map))
	for _, p := range n.Map {
		if !validName.MatchString(p.Key) {
			errs = append(errs, strictyaml.Error{
				Pos:  p.KeyPos,
				Path: Key,
				Msg:  fmt.Sprintf("%q is not a name of a state: %s", p.Key, nameRule),
			})
			continue
		}
		pairs = append(pairs, p)
	}
	return pairs, errs
}

// inOrder sorts pairs by the place of their names in order.
func inOrder(pairs []strictyaml.Pair, order []string) []strictyaml.Pair {
	if order == nil {
		return pairs
	}
	byName := make(map[string]strictyaml.Pair, len(pairs))
	for _, p := range pairs {
		byName[p.Key] = p
	}
	out := make([]strictyaml.Pair, 0, len(pairs))
	take := func(name string) {
		if p, ok := byName[name]; ok {
			delete(byName, name)
			out = append(out, p)
		}
	}
	for _, name := range order {
		take(name)
	}
	for _, p := range pairs {
		take(p.Key)
	}
	return out
}

// at returns the position of a value below n, and of one in it if it is a list; the position of the state if it is not
// known.
func (s *State) at(n *strictyaml.Node, key string, index int) strictyaml.Pos {
	value := n.Get(key)
	switch {
	case value == nil:
		return s.Pos
	case index < len(value.List):
		return value.List[index].Pos
	}
	return value.Pos
}

// Sources returns the files of the config repo that the state needs.
func (s *State) Sources() []Source {
	switch a := s.Args.(type) {
	case *FileManaged:
		if a.Source != "" && !IsRemote(a.Source) {
			return []Source{{Path: a.Source, Template: a.Template, Pos: s.at(s.written, "source", 0)}}
		}
	case *FileRecurse:
		return []Source{{Path: a.Source, Dir: true, Template: a.Template, Pos: s.at(s.written, "source", 0)}}
	case *ArchiveExtracted:
		if a.Source != "" && !IsRemote(a.Source) {
			return []Source{{Path: a.Source, Pos: s.at(s.written, "source", 0)}}
		}
	case *PkgRepoManaged:
		if a.Key != "" {
			return []Source{{Path: a.Key, Pos: s.at(s.written, "key", 0)}}
		}
	}
	return nil
}
