// Package access decides who may send which requests to masters. Call [Decide] with the rules, the person and the
// request. [Builtin] has the rules of the roles that every fleet has, and [ParseRole] reads a role that people write.
//
// A rule is about people, verbs, and for jobs also about peels, functions and arguments. What no rule allows is denied,
// and a rule that denies holds over all that allow. [Reach] says about which peels a person may read.
//
// Guarantees: a decision follows from its arguments alone. A rule that names functions or arguments is about [Dispatch]
// alone, and one that names peels about [Dispatch] and reading, so it never allows a change of the whole fleet.
//
// Known gap: a target with facts trusts what each host says about itself, also in a rule that denies.
package access

import (
	"path"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Verb names a request by its noun and its verb, as the audit log does, such as job.cancel.
type Verb string

// Dispatch is the verb of a request to run a function on peels.
const Dispatch Verb = "job.dispatch"

// Who is a person with all groups and roles; in a rule, everybody who has the name, one of the groups or one of the
// roles.
type Who struct {
	Name   string
	Names  []string // of a rule alone: further names
	Groups []string
	Roles  []string
}

// includes reports whether a person is one of those whom w means in a rule.
func (w *Who) includes(person *Who) bool {
	return person.Name != "" && (w.Name == person.Name || slices.Contains(w.Names, person.Name)) ||
		slices.ContainsFunc(w.Roles, func(role string) bool { return slices.Contains(person.Roles, role) }) ||
		slices.ContainsFunc(w.Groups, func(group string) bool { return slices.Contains(person.Groups, group) })
}

// Actions are the requests that a rule is about.
type Actions struct {
	// Verbs are verbs, patterns of them such as job.* and *.list, "*" for all, or names of [Groups].
	Verbs []string `json:"verbs" yaml:"verbs"`
	// Target is an expression for the peels of a job, and for the peels about which [Read] shows something. If empty,
	// these are all peels of a job; what Read shows then follows from the other rules of the person.
	Target    string   `json:"target,omitempty" yaml:"target"`
	Functions []string `json:"functions,omitempty" yaml:"functions"` // globs such as test.*; empty: all
	// Arguments has a pattern for each argument of the function; a call must have exactly these. Empty: any arguments.
	Arguments map[string]string `json:"arguments,omitempty" yaml:"arguments"`
	// Paths are patterns for files of the config repo, as [path.Match] reads them; one that matches a folder is about
	// all files below it. They are for the verbs of [OfFile] alone. Empty: all files.
	Paths []string `json:"paths,omitempty" yaml:"paths"`
}

// ofJobs reports whether the actions are jobs that are not all jobs.
func (a *Actions) ofJobs() bool {
	return a.Target != "" || len(a.Functions) > 0 || len(a.Arguments) > 0
}

// A Rule allows actions to people, or denies them.
type Rule struct {
	From string // what the rule belongs to, for people, such as "the role operator"
	Who  Who
	Deny bool
	Actions
	Except []Verb // which the patterns of Verbs leave out
}

// has reports whether the rule is about a verb, perhaps only on some peels.
func (r *Rule) has(verb Verb) bool {
	if len(r.Paths) > 0 && !OfFile(verb) || slices.Contains(r.Except, verb) ||
		r.ofJobs() && verb != Dispatch && !(r.showsSome() && reads(verb)) {
		return false
	}
	return slices.ContainsFunc(r.Verbs, func(pattern string) bool { return matches(pattern, verb) })
}

// reads reports whether a request with the verb changes nothing.
func reads(verb Verb) bool {
	_, what, _ := strings.Cut(string(verb), ".")
	return wire.Reads(what)
}

// showsSome reports whether the rule says what is shown about the peels that it names.
func (r *Rule) showsSome() bool {
	return r.Target != "" && len(r.Functions) == 0 && len(r.Arguments) == 0 && slices.Contains(r.Verbs, Read)
}

// On says what a request is about: a job for [Dispatch], a file for the verbs of [OfFile], and nothing for others.
type On struct {
	// Path is the file of the config repo that the request changes or shows. If empty, the question is whether any file
	// at all may be allowed.
	Path string
	// Function is what runs. If empty, the question is whether any job at all may be allowed.
	Function string
	Args     map[string]any
	Peels    []target.PeelID // sorted
	// Selected has the peels that each of [Targets] selects now, sorted.
	Selected map[string][]target.PeelID
}

// A Verdict is a decision.
type Verdict struct {
	Allowed bool
	Rule    *Rule           // that decided; nil: no rule allows the verb
	Outside []target.PeelID // peels of the job that are not allowed, sorted
	// Wanted are the targets or functions of the rules that allow some such jobs, if this one is not allowed.
	Wanted []string
	Reason Reason
}

// A Reason says why a request is not allowed.
type Reason string

// The reasons.
const (
	NoRule     Reason = "no rule"      // allows the verb
	Denied     Reason = "denied"       // by Verdict.Rule
	NoFunction Reason = "no function"  // is allowed but Verdict.Wanted
	NoPath     Reason = "no path"      // is allowed but Verdict.Wanted
	NoArgument Reason = "no arguments" // of the function are allowed but those of Verdict.Rule
	OutOfReach Reason = "out of reach" // are Verdict.Outside; Verdict.Wanted select what is allowed
)

// Decide decides about a request of a person.
func Decide(rules []Rule, who Who, verb Verb, on On) Verdict {
	allowing := make([]*Rule, 0, 8)
	var denied []target.PeelID
	var denying *Rule
	miss := Verdict{Reason: NoRule}
	for i := range rules {
		r := &rules[i]
		if !r.Who.includes(&who) || !r.has(verb) {
			continue
		}
		switch {
		case !r.runs(&on, &miss), !r.covers(&on, &miss):
		case !r.Deny:
			allowing = append(allowing, r)
		case r.Target == "" && (on.Function != "" || !r.ofJobs()):
			return Verdict{Rule: r, Reason: Denied}
		case on.Function != "":
			if hit := common(on.Peels, on.Selected[r.Target]); len(hit) > 0 {
				denying = r
				denied = append(denied, hit...)
			}
		}
	}
	if len(allowing) == 0 {
		return miss
	}
	v := reach(allowing, on)
	if denying == nil {
		return v
	}
	v.Outside = append(denied, v.Outside...)
	slices.Sort(v.Outside)
	v.Outside = slices.Compact(v.Outside)
	if v.Allowed {
		v = Verdict{Rule: denying, Reason: Denied, Outside: v.Outside}
	}
	return v
}

// runs reports whether a rule is about the function and the arguments of a job. If an allowing rule is not, runs notes
// why.
func (r *Rule) runs(on *On, miss *Verdict) bool {
	if on.Function == "" {
		return true
	}
	if len(r.Functions) > 0 && !slices.ContainsFunc(r.Functions, func(glob string) bool {
		ok, _ := path.Match(glob, on.Function)
		return ok
	}) {
		if !r.Deny && miss.Reason != NoArgument {
			miss.Reason = NoFunction
			miss.Wanted = append(miss.Wanted, r.Functions...)
		}
		return false
	}
	if len(r.Arguments) > 0 && !fits(r.Arguments, on.Args) {
		if !r.Deny {
			*miss = Verdict{Rule: r, Reason: NoArgument}
		}
		return false
	}
	return true
}

// covers reports whether a rule is about the file of a request. If an allowing rule is not, covers notes why.
func (r *Rule) covers(on *On, miss *Verdict) bool {
	switch {
	case len(r.Paths) == 0:
		return true
	case on.Path == "":
		return !r.Deny
	case slices.ContainsFunc(r.Paths, func(pattern string) bool { return isBelow(pattern, on.Path) }):
		return true
	case !r.Deny:
		miss.Reason = NoPath
		miss.Wanted = append(miss.Wanted, r.Paths...)
	}
	return false
}

// reach decides about the peels of a request by rules that allow it on some.
func reach(allowing []*Rule, on On) Verdict {
	if on.Function == "" {
		return Verdict{Allowed: true, Rule: allowing[0]}
	}
	var targets []string
	outside := on.Peels
	for _, r := range allowing {
		if r.Target == "" {
			return Verdict{Allowed: true, Rule: r}
		}
		targets = append(targets, r.Target)
		outside = without(outside, on.Selected[r.Target])
	}
	if len(outside) > 0 {
		return Verdict{Reason: OutOfReach, Rule: allowing[0], Outside: outside, Wanted: targets}
	}
	return Verdict{Allowed: true, Rule: allowing[0]}
}

// A Table finds the rules about a person among many. The zero value has none.
type Table struct {
	byName, byGroup, byRole map[string][]Rule
	seconds                 []Second
}

// NewTable returns a table of rules, and of those about two persons.
func NewTable(rules []Rule, seconds ...Second) *Table {
	t := &Table{
		byName: map[string][]Rule{}, byGroup: map[string][]Rule{}, byRole: map[string][]Rule{}, seconds: seconds,
	}
	for _, r := range rules {
		if r.Who.Name != "" {
			t.byName[r.Who.Name] = append(t.byName[r.Who.Name], r)
		}
		for _, name := range r.Who.Names {
			t.byName[name] = append(t.byName[name], r)
		}
		for _, g := range r.Who.Groups {
			t.byGroup[g] = append(t.byGroup[g], r)
		}
		for _, role := range r.Who.Roles {
			t.byRole[role] = append(t.byRole[role], r)
		}
	}
	return t
}

// Of returns the rules about a person; one that is about the person for two reasons is there twice.
func (t *Table) Of(who Who) (rules []Rule) {
	rules = append(rules, t.byName[who.Name]...)
	for _, g := range who.Groups {
		rules = append(rules, t.byGroup[g]...)
	}
	for _, role := range who.Roles {
		rules = append(rules, t.byRole[role]...)
	}
	return rules
}

// allPeels is the target that selects all peels.
const allPeels = "*"

// Targets returns the target expressions of the rules about jobs and reading of a person, each once. [On] and [Reach]
// need what they select.
func Targets(rules []Rule, who Who) []string {
	var targets []string
	add := func(expr string) {
		if !slices.Contains(targets, expr) {
			targets = append(targets, expr)
		}
	}
	for i := range rules {
		r := &rules[i]
		if r.Target == "" || !r.Who.includes(&who) {
			continue
		}
		add(r.Target)
		if r.Deny && r.showsSome() {
			add(allPeels) // Reach leaves out some
		}
	}
	return targets
}

// Peels are the peels about which a person may read.
type Peels struct {
	All bool
	IDs []target.PeelID // sorted; meaningless with All
}

// Has reports whether a peel is one of p.
func (p Peels) Has(id target.PeelID) bool {
	_, found := slices.BinarySearch(p.IDs, id)
	return found || p.All
}

// Only returns those of sorted IDs that are in p.
func (p Peels) Only(ids []target.PeelID) []target.PeelID {
	if p.All {
		return ids
	}
	return common(ids, p.IDs)
}

// Reach returns the peels about which a person may read. They are the peels of the rules that allow [Read] with a
// target, and the peels on which the person may run something, without the peels of the rules that deny Read. selected
// has what each of [Targets] selects.
func Reach(rules []Rule, who Who, selected map[string][]target.PeelID) (p Peels) {
	var denied []target.PeelID
	isDenied := false
	for i := range rules {
		r := &rules[i]
		switch {
		case !r.Who.includes(&who):
		case r.Deny && r.showsSome():
			isDenied = true
			denied = append(denied, selected[r.Target]...)
		case r.Deny:
		case r.reachesAll():
			p.All = true
		case r.showsSome(), r.has(Dispatch):
			p.IDs = append(p.IDs, selected[r.Target]...)
		}
	}
	switch {
	case p.All && isDenied:
		p = Peels{IDs: slices.Clone(selected[allPeels])}
	case p.All:
		return Peels{All: true}
	}
	slices.Sort(p.IDs)
	slices.Sort(denied)
	p.IDs = without(slices.Compact(p.IDs), denied)
	return p
}

// reachesAll reports whether a rule that allows something shows all peels.
func (r *Rule) reachesAll() bool {
	return r.has(Dispatch) && (r.Target == "" || r.Target == allPeels) || r.showsSome() && r.Target == allPeels
}

// ReachesAll reports whether [Reach] returns all peels, whatever the targets select.
func ReachesAll(rules []Rule, who Who) (all bool) {
	for i := range rules {
		r := &rules[i]
		switch {
		case !r.Who.includes(&who):
		case r.Deny && r.showsSome():
			return false
		case !r.Deny && r.reachesAll():
			all = true
		}
	}
	return all
}

// NamesFunctions reports whether a rule about a person names functions or arguments. If not, all functions are decided
// alike.
func NamesFunctions(rules []Rule, who Who) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool {
		return r.Who.includes(&who) && len(r.Functions)+len(r.Arguments) > 0
	})
}

// common returns the elements that two sorted lists share.
func common(a, b []target.PeelID) (both []target.PeelID) {
	for _, id := range a {
		if _, found := slices.BinarySearch(b, id); found {
			both = append(both, id)
		}
	}
	return both
}

// without returns the elements of a sorted list that another one lacks.
func without(a, b []target.PeelID) (rest []target.PeelID) {
	for _, id := range a {
		if _, found := slices.BinarySearch(b, id); !found {
			rest = append(rest, id)
		}
	}
	return rest
}
