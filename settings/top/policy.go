package top

import (
	"errors"
	"maps"
	"slices"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Policy is zester.yaml: what the repo says about itself.
type Policy struct {
	// Groups are the node groups for N@, under nodegroups: each an expression
	// or the list of its words.
	Groups target.Groups
	// Words are the groups as they were written, for [target.ParseGroups].
	Words map[string][]string
	// Calendars are sets of days that schedule entries refer to by name, as package schedule reads them; nil if
	// there are none.
	Calendars *strictyaml.Node
	// Isolate tells that a mistake holds back only the peels that depend on it, and the rest of the fleet moves on
	// (on_error: isolate). Otherwise it holds back the revision (on_error: refuse).
	Isolate bool
	// Waves are the steps in which a revision goes out, none where it goes to all peels at once.
	Waves []Wave
	// Freezes are the times in which revisions wait.
	Freezes []Freeze
	// Limits are [DefaultLimits] where the repo names none.
	Limits Limits
}

// policyKeys are all keys of zester.yaml.
type policyKeys struct {
	Nodegroups *strictyaml.Node `yaml:"nodegroups"`
	Waves      *strictyaml.Node `yaml:"waves"`
	OnError    *strictyaml.Node `yaml:"on_error"`
	Calendars  *strictyaml.Node `yaml:"calendars"`
	Limits     *strictyaml.Node `yaml:"limits"`
	Freeze     *strictyaml.Node `yaml:"freeze"`
}

// ParsePolicy reads zester.yaml; doc is nil where the repo has none. All
// mistakes are reported, as a strictyaml.Errors.
func ParsePolicy(doc *strictyaml.Node) (*Policy, error) {
	var keys policyKeys
	if doc == nil {
		return &Policy{Limits: DefaultLimits}, nil
	}
	if err := strictyaml.Decode(doc, &keys); err != nil {
		return nil, err
	}
	var errs strictyaml.Errors
	isolate, bad := onError(keys.OnError)
	errs = append(errs, bad...)
	limits, bad := readLimits(keys.Limits)
	errs = append(errs, bad...)
	defs, more := readGroups(keys.Nodegroups)
	groups, unreadable := target.ParseGroups(defs.words)
	waves, bad := readWaves(keys.Waves, groups)
	errs = append(errs, bad...)
	freezes, bad := readFreezes(keys.Freeze, keys.Calendars, groups)
	errs = append(errs, bad...)
	for _, e := range unreadable {
		more = append(more, strictyaml.Error{Pos: defs.places[e.Name], Path: groupsPath + "." + e.Name, Msg: e.Err.Error()})
	}
	if err := append(errs, more...).Err(); err != nil {
		return nil, err
	}
	return &Policy{Groups: groups, Words: defs.words, Calendars: keys.Calendars, Isolate: isolate, Waves: waves, Freezes: freezes, Limits: limits}, nil
}

// onError reads the word under on_error; n may be nil.
func onError(n *strictyaml.Node) (isolate bool, errs strictyaml.Errors) {
	switch {
	case n == nil || n.Value == "refuse":
		return false, nil
	case n.Value == "isolate":
		return true, nil
	}
	return false, strictyaml.Errors{{Pos: n.Pos, Path: "on_error", Msg: n.Mismatch("refuse or isolate")}}
}

const groupsPath = "nodegroups"

// groupDefs are node groups as they are written, by name.
type groupDefs struct {
	words  map[string][]string
	places map[string]strictyaml.Pos
}

// readGroups reads a map of node groups; n may be nil.
func readGroups(n *strictyaml.Node) (groupDefs, strictyaml.Errors) {
	defs := groupDefs{map[string][]string{}, map[string]strictyaml.Pos{}}
	if n == nil || n.Kind == strictyaml.Null {
		return defs, nil
	}
	if n.Kind != strictyaml.Map {
		return defs, strictyaml.Errors{{Pos: n.Pos, Path: groupsPath, Msg: n.Mismatch("a map of node groups")}}
	}
	var errs strictyaml.Errors
	for _, p := range n.Map {
		words, err := groupWords(p.Value)
		switch {
		case p.Key == "":
			errs = append(errs, strictyaml.Error{Pos: p.KeyPos, Path: groupsPath, Msg: "the group has no name"})
		case err != nil:
			errs = append(errs, strictyaml.Error{Pos: p.Value.Pos, Path: groupsPath + "." + p.Key, Msg: err.Error()})
		default:
			defs.words[p.Key], defs.places[p.Key] = words, p.Value.Pos
		}
	}
	return defs, errs
}

// groupWords reads an expression or a list of words.
func groupWords(n *strictyaml.Node) ([]string, error) {
	list := n.List
	if n.Kind != strictyaml.List {
		list = []*strictyaml.Node{n}
	}
	words := make([]string, len(list))
	for i, e := range list {
		s, ok := e.Value.(string)
		if !ok {
			return nil, errors.New(e.Mismatch("an expression or a list of its words"))
		}
		words[i] = s
	}
	return words, nil
}

// Fleet is a fleet that a file describes, to try expressions and plans on
// without the live one.
type Fleet struct {
	Peels  []target.Peel // by ID
	Groups target.Groups
}

// fleetPeel is one peel of a fleet's file.
type fleetPeel struct {
	Facts    map[string]any `yaml:"facts"`
	Settings map[string]any `yaml:"settings"`
}

// ParseFleet reads a document of the form
//
//	peels: {<id>: {facts: {…}, settings: {…}}}
//	nodegroups: {<name>: <expression or list of words>}
//
// IDs are taken as they are, for the file need not describe peels that could
// enroll. A node group with a mistake is reported by the expression that uses
// it, not here.
func ParseFleet(doc *strictyaml.Node) (Fleet, error) {
	var keys struct {
		Peels      map[string]*fleetPeel `yaml:"peels"`
		Nodegroups *strictyaml.Node      `yaml:"nodegroups"`
	}
	if err := strictyaml.Decode(doc, &keys); err != nil {
		return Fleet{}, err
	}
	defs, errs := readGroups(keys.Nodegroups)
	if err := errs.Err(); err != nil {
		return Fleet{}, err
	}
	var fleet Fleet
	for _, id := range slices.Sorted(maps.Keys(keys.Peels)) {
		peel := target.Peel{ID: target.PeelID(id)}
		if p := keys.Peels[id]; p != nil {
			peel.Facts, peel.Settings = p.Facts, p.Settings
		}
		fleet.Peels = append(fleet.Peels, peel)
	}
	fleet.Groups, _ = target.ParseGroups(defs.words)
	return fleet, nil
}
