package policy

import (
	"errors"
	"maps"
	"slices"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Policy is the parsed zester.yaml.
type Policy struct {
	// Groups are the node groups for N@, under nodegroups: each an expression
	// or the list of its words.
	Groups target.Groups
	// GroupWords are the groups as written, for [target.ParseGroups].
	GroupWords map[string][]string
	// Calendars are the sets of days that schedule entries name, for package schedule; nil if there are none.
	Calendars *strictyaml.Node
	// Isolate: a mistake stops only the peels that depend on it (on_error: isolate). Otherwise it stops the whole
	// revision (on_error: refuse).
	Isolate bool
	// Waves are the steps of a rollout. Without waves, all peels get a revision at once.
	Waves []Wave
	// Freezes are the times in which revisions wait.
	Freezes []Freeze
	// Limits are [DefaultLimits] if the repo sets none.
	Limits Limits
	// Alerts are the rules that say what is worth a message, by name. Without rules, [DefaultAlerts] apply.
	Alerts []Alert
}

// policyKeys are all keys of zester.yaml.
type policyKeys struct {
	Nodegroups *strictyaml.Node `yaml:"nodegroups"`
	Waves      *strictyaml.Node `yaml:"waves"`
	OnError    *strictyaml.Node `yaml:"on_error"`
	Calendars  *strictyaml.Node `yaml:"calendars"`
	Limits     *strictyaml.Node `yaml:"limits"`
	Freeze     *strictyaml.Node `yaml:"freeze"`
	Alerts     *strictyaml.Node `yaml:"alerts"`
}

// ParsePolicy parses zester.yaml; doc is nil if the repo has none. The error is a [strictyaml.Errors] with all
// mistakes.
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
	alerts, bad := readAlerts(keys.Alerts, groups)
	errs = append(errs, bad...)
	for _, e := range unreadable {
		more = append(more, strictyaml.Error{
			Pos:  defs.positions[e.Name],
			Path: groupsPath + "." + e.Name,
			Msg:  e.Err.Error(),
		})
	}
	if err := append(errs, more...).Err(); err != nil {
		return nil, err
	}
	return &Policy{
		Groups:     groups,
		GroupWords: defs.words,
		Calendars:  keys.Calendars,
		Isolate:    isolate,
		Waves:      waves,
		Freezes:    freezes,
		Limits:     limits,
		Alerts:     alerts,
	}, nil
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

// groupDefs are node groups as written, by name.
type groupDefs struct {
	words     map[string][]string
	positions map[string]strictyaml.Pos
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
			defs.words[p.Key], defs.positions[p.Key] = words, p.Value.Pos
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

// Fleet is a fleet described by a file, to try expressions and plans without the live fleet.
type Fleet struct {
	Peels  []target.Peel // sorted by ID
	Groups target.Groups
}

// fleetPeel is one peel in the file of a fleet.
type fleetPeel struct {
	Facts    map[string]any `yaml:"facts"`
	Settings map[string]any `yaml:"settings"`
}

// ParseFleet parses a document of the form
//
//	peels: {<id>: {facts: {…}, settings: {…}}}
//	nodegroups: {<name>: <expression or list of words>}
//
// It does not check IDs, as the file may describe peels that do not exist. A mistake in a node group is reported by the
// expression that uses the group, not here.
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
