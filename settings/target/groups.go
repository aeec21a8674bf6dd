package target

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Groups are parsed node groups by name, for [Options]. An invalid group keeps its error, which N@ reports.
type Groups map[string]group

type group struct {
	expr *Expr
	err  error
}

// GroupError is the error of one node group.
type GroupError struct {
	Name string
	Err  error // often a *SyntaxError in the group's own text
}

func (e *GroupError) Error() string { return fmt.Sprintf("node group %q: %v", e.Name, e.Err) }

// Unwrap returns the reason.
func (e *GroupError) Unwrap() error { return e.Err }

// ParseGroups parses node groups. Each is given as the words of an expression (a whole expression may be one word);
// several words without an operator are IDs. Groups may use each other, but not in a circle. ParseGroups returns one
// error for each invalid group, sorted by name; the other groups are usable.
func ParseGroups(defs map[string][]string) (Groups, []*GroupError) {
	r := groupReader{defs: defs, groups: Groups{}}
	var errs []*GroupError
	for _, name := range slices.Sorted(maps.Keys(defs)) {
		r.read(name)
		if err := r.groups[name].err; err != nil {
			errs = append(errs, &GroupError{name, err})
		}
	}
	return r.groups, errs
}

type groupReader struct {
	defs   map[string][]string
	groups Groups
	path   []string // the groups that are being parsed, outermost first
}

// read sets groups[name] and, before it, the groups that name uses.
func (r *groupReader) read(name string) {
	if _, done := r.groups[name]; done {
		return
	}
	if i := slices.Index(r.path, name); i >= 0 {
		r.groups[name] = group{
			err: fmt.Errorf("it uses itself: %s", strings.Join(append(slices.Clone(r.path[i:]), name), " > ")),
		}
		return
	}
	r.path = append(r.path, name)
	defer func() { r.path = r.path[:len(r.path)-1] }()
	g := group{}
	expr, err := groupText(r.defs[name])
	if err == nil && len(r.path) > MaxDepth {
		err = fmt.Errorf("node groups are nested deeper than %d", MaxDepth)
	}
	if err == nil {
		for _, used := range groupsIn(expr) {
			if _, ok := r.defs[used]; ok {
				r.read(used)
			}
		}
		g.expr, err = Parse(expr, Options{Groups: r.groups})
	}
	g.err = err
	if _, circle := r.groups[name]; !circle {
		r.groups[name] = g
	}
}

// groupsIn returns the node groups in expr, none if expr is invalid; Parse returns its error.
func groupsIn(expr string) []string {
	tokens, _ := lex(expr)
	var names []string
	for _, t := range tokens {
		if name, ok := strings.CutPrefix(t.text, "N@"); ok {
			names = append(names, name)
		}
	}
	return names
}

// groupText returns the expression of a group.
func groupText(words []string) (string, error) {
	if len(words) == 0 {
		return "", errors.New("it is empty")
	}
	if len(words) == 1 || slices.ContainsFunc(words, isOperator) {
		return strings.Join(words, " "), nil
	}
	for _, w := range words {
		if _, err := ParsePeelID(w); err != nil {
			return "", fmt.Errorf("a list without operators is a list of IDs: %w", err)
		}
	}
	return "L@" + strings.Join(words, ","), nil
}

func isOperator(word string) bool {
	return operatorKinds[word] != tokenEnd || word == "(" || word == ")" || strings.ContainsAny(word, blanks)
}
