package access

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Second names requests that a second person has to approve. It is about everybody, whatever role it is written in.
type Second struct {
	From  string   `json:"-"` // what the rule belongs to, for people
	Verbs []string `json:"verbs"`
	// Target, Functions and Peels narrow the verb [Dispatch] alone.
	Target    string   `json:"target,omitempty"`    // an expression; empty: all peels
	Functions []string `json:"functions,omitempty"` // globs; empty: all
	// Peels is how many peels of Target a job may run on without a second person, such as "> 25" or "> 10 %". Empty:
	// none.
	Peels string `json:"peels,omitempty"`
	// Paths are patterns for files of the config repo, as in [Actions]; empty: whatever the request is about.
	Paths []string `json:"paths,omitempty"`
}

// unheld are the verbs that never wait for a second person: those about the caller alone, those about held actions, and
// those that only stop something or take power away. A person who was revoked is out within a second.
var unheld = slices.Concat(own, []string{
	"hold.*", "session.*", "job.cancel", "sync.pause", "*.revoke", "enroll.reject", "master.renew",
})

// guardians are the verbs with which one person could get around the rules about two: remove them, or make the second
// person. They need two persons as soon as there is any such rule.
var guardians = []string{"role.set", "role.remove", "user.add"}

// IsHeld reports whether a request of a verb can wait for a second person.
func IsHeld(verb Verb) bool {
	return !reads(verb) && !slices.ContainsFunc(unheld, func(p string) bool { return matches(p, verb) })
}

// Seconds returns the rules about two persons that cover a verb. [Second.Covers] says which jobs those about [Dispatch]
// cover.
func (t *Table) Seconds(verb Verb) (covering []Second) {
	if !IsHeld(verb) || len(t.seconds) == 0 {
		return nil
	}
	for _, s := range append(slices.Clip(t.seconds), Second{From: "the rules about two persons", Verbs: guardians}) {
		if slices.ContainsFunc(s.Verbs, func(pattern string) bool { return matches(pattern, verb) }) {
			covering = append(covering, s)
		}
	}
	return covering
}

// CoversFile reports whether a change of a file needs a second person. Without a file, the question is whether one of
// any file does.
func (s *Second) CoversFile(file string) bool {
	if len(s.Paths) == 0 {
		return true
	}
	return file != "" && slices.ContainsFunc(s.Paths, func(p string) bool { return isBelow(p, file) })
}

// Expr returns the expression for the peels that a rule is about.
func (s *Second) Expr() string {
	if s.Target == "" {
		return allPeels
	}
	return s.Target
}

// Covers reports whether a job needs a second person. selected are the peels that [Second.Expr] selects now, sorted.
func (s *Second) Covers(function string, peels, selected []target.PeelID) bool {
	if len(s.Functions) > 0 && !slices.ContainsFunc(s.Functions, func(glob string) bool {
		ok, _ := path.Match(glob, function)
		return ok
	}) {
		return false
	}
	if s.Target == "" && s.Peels == "" {
		return true
	}
	hit := len(common(peels, selected))
	if s.Target == "" {
		hit = len(peels) // also those that nobody knows
	}
	most, isShare, err := parsePeels(s.Peels)
	if isShare {
		return err != nil || hit*100 > most*len(selected)
	}
	return err != nil || hit > most
}

// parsePeels reads a number of peels, or a share of them in percent. The empty text is 0 peels.
func parsePeels(text string) (most int, isShare bool, err error) {
	if text == "" {
		return 0, false, nil
	}
	number, ok := strings.CutPrefix(text, ">")
	number, isShare = strings.CutSuffix(number, "%")
	most, err = strconv.Atoi(strings.TrimSpace(number))
	if !ok || err != nil || most < 0 || isShare && most >= 100 || most > maxPeels {
		return 0, isShare, fmt.Errorf(`%.40q is no number of peels; write one such as "> 25" or "> 10 %%"`, text)
	}
	return most, isShare, nil
}

const maxPeels = 10_000_000

// seconds reads the rules under two_persons: a list of them, or one.
func (p *roleParser) seconds(n *strictyaml.Node) (all []Second) {
	const key = "two_persons"
	if n == nil {
		return nil
	}
	if n.Kind == strictyaml.Map {
		return []Second{p.second(n, key)}
	}
	for i, e := range p.list(n, key, "a rule, or a list of rules") {
		all = append(all, p.second(e, fmt.Sprintf("%s[%d]", key, i)))
	}
	return all
}

// second reads one rule under two_persons.
func (p *roleParser) second(n *strictyaml.Node, at string) (s Second) {
	if n.Kind != strictyaml.Map {
		p.refuse(n, at, "%s", n.Mismatch("a map with verbs, and perhaps target, functions, peels and paths"))
		return s
	}
	var keys struct {
		Verbs     *strictyaml.Node `yaml:"verbs"`
		Target    *strictyaml.Node `yaml:"target"`
		Functions *strictyaml.Node `yaml:"functions"`
		Peels     *strictyaml.Node `yaml:"peels"`
		Paths     *strictyaml.Node `yaml:"paths"`
	}
	if bad, ok := strictyaml.Decode(n, &keys).(strictyaml.Errors); ok {
		for _, e := range bad {
			e.Path = at + "." + e.Path
			p.errs = append(p.errs, e)
		}
		return s
	}
	if keys.Verbs == nil {
		p.refuse(n, at, "has no verbs; name some, such as [job.dispatch] or [sync.approve]")
		return s
	}
	s.Functions = p.functions(keys.Functions, at+".functions")
	if keys.Target != nil {
		s.Target = p.target(keys.Target, at+".target")
	}
	if keys.Peels != nil {
		s.Peels = p.text(keys.Peels, at+".peels", maxText)
		if _, _, err := parsePeels(s.Peels); err != nil {
			p.refuse(keys.Peels, at+".peels", "%v", err)
		}
	}
	s.Paths = p.paths(keys.Paths, at+".paths")
	s.Verbs = p.verbs(keys.Verbs, at+".verbs", true)
	isNarrow := keys.Target != nil || keys.Functions != nil || keys.Peels != nil
	for i, v := range s.Verbs {
		where := fmt.Sprintf("%s.verbs[%d]", at, i)
		isCovered := func(known string) bool { return matches(v, Verb(known)) && IsHeld(Verb(known)) }
		switch {
		case !slices.ContainsFunc(p.known.Verbs, isCovered):
			p.refuse(keys.Verbs.List[i], where, "%s never waits for a second person: it changes nothing, "+
				"or only stops something or takes power away", v)
		case isNarrow && Verb(v) != Dispatch:
			p.refuse(keys.Verbs.List[i], where, "target, functions and peels are for the verb %s alone; "+
				"put %s into another rule", Dispatch, v)
		case keys.Paths != nil && !OfFile(Verb(v)):
			p.refuse(keys.Verbs.List[i], where, "paths are for the verbs %s alone; put %s into another rule", ofFile, v)
		}
	}
	return s
}
