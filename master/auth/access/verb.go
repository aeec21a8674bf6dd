package access

import (
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// Read is the group of the verbs that show something.
const Read = "read"

// Groups are names for sets of verbs, as rules use them.
var Groups = map[string][]string{
	Read:  readVerbs(),
	"run": {string(Dispatch), "job.cancel", "target.resolve", "hold.add", "hold.reject"},
}

// readVerbs returns patterns of the verbs that show something. The file of the config repo is not among them, because
// it shows values that other replies hide.
func readVerbs() (patterns []string) {
	for _, verb := range wire.ReadVerbs {
		if verb != "file" && verb != "resolve" {
			patterns = append(patterns, "*."+verb)
		}
	}
	return patterns
}

// own are the verbs about the caller alone: logins and their ends, another credential for the caller's key, and the
// record of what an assistant does in the caller's name.
var own = []string{
	"session.create", "session.end", "user.renew", "user.login", "user.logout", "agent.record",
}

// ofFile are the verbs about one file of the config repo, or about a few.
var ofFile = []Verb{
	"schedule.add", "schedule.remove", "schedule.enable", "schedule.disable", "schedule.replace", "schedule.file",
}

// OfFile reports whether a request of a verb changes or shows files of the config repo that its [On] names.
func OfFile(verb Verb) bool { return slices.Contains(ofFile, verb) }

// Expand replaces the names of groups by their patterns. A result is "*", or a noun and a verb; one of the two may be
// "*".
func Expand(verbs []string) (patterns []string) {
	for _, v := range verbs {
		if group, ok := Groups[v]; ok {
			patterns = append(patterns, group...)
		} else {
			patterns = append(patterns, v)
		}
	}
	return patterns
}

// matches reports whether a pattern or the name of a group covers a verb.
func matches(pattern string, verb Verb) bool {
	if group, ok := Groups[pattern]; ok {
		return slices.ContainsFunc(group, func(p string) bool { return matches(p, verb) })
	}
	if noun, ok := strings.CutSuffix(pattern, ".*"); ok {
		return len(verb) > len(noun) && string(verb[:len(noun)]) == noun && verb[len(noun)] == '.'
	}
	if suffix, ok := strings.CutPrefix(pattern, "*."); ok {
		return len(verb) > len(suffix) && string(verb[len(verb)-len(suffix):]) == suffix &&
			verb[len(verb)-len(suffix)-1] == '.'
	}
	return pattern == "*" || pattern == string(verb)
}

// A builtin is a role that every fleet has.
type builtin struct {
	name  string
	verbs []string
	// readsAll: people of the role read about all peels, although they may run nothing.
	readsAll bool
	// own are verbs that the rules of a person of the role can add.
	own []string
}

// builtins are all such roles.
//
// People of limited read the settings of no peel, and change nothing but jobs: nothing that could widen their limits,
// such as a token, and nothing that concerns the whole fleet. They approve no held action, so an assistant with a
// limited credential cannot approve what it asked for, even if it can run commands.
var builtins = []builtin{
	{name: "operator", verbs: []string{"*"}},
	{name: "direct", verbs: []string{"*"}},
	{name: "auditor", verbs: append([]string{Read}, own...), readsAll: true},
	{
		name: "limited",
		verbs: slices.Concat(
			slices.DeleteFunc(readVerbs(), func(pattern string) bool {
				return pattern == "*.diff" || pattern == "*.commit"
			}),
			[]string{"target.resolve", "job.cancel", "hold.add", "hold.reject"}, own),
		own: []string{string(Dispatch)},
	},
	{name: "member", verbs: own, own: []string{"*"}},
	{name: "master", verbs: []string{"*"}},
}

// Builtin returns the rules of the roles that every fleet has.
func Builtin() (rules []Rule) {
	for _, b := range builtins {
		from := "the role " + b.name
		who := Who{Roles: []string{b.name}}
		rules = append(rules, Rule{From: from, Who: who, Actions: Actions{Verbs: b.verbs}})
		if b.readsAll {
			rules = append(rules, Rule{From: from, Who: who, Actions: Actions{Verbs: []string{Read}, Target: allPeels}})
		}
	}
	return rules
}

// Sent returns patterns of the verbs that the bus carries from people of a role to masters: those of the role, and
// those that the rules of a person can add.
func Sent(role string) []string {
	for _, b := range builtins {
		if b.name == role {
			return Expand(slices.Concat(b.verbs, b.own))
		}
	}
	return nil
}

// Sends reports whether the bus carries a verb from people of a role to masters.
func Sends(role string, verb Verb) bool {
	return slices.ContainsFunc(Sent(role), func(pattern string) bool { return matches(pattern, verb) })
}
