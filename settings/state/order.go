package state

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// filePrefix begins a requisite that names all states of a settings file.
const filePrefix = "file:"

// A graph holds for each state the states that come before it.
type graph struct {
	states Set
	index  map[string]int
	before [][]int
}

// graph connects the states by their requisites. known are the names of all states, those with errors included.
func (s Set) graph(known map[string]bool, files func(ref string) []string) (*graph, strictyaml.Errors) {
	g := &graph{states: s, index: make(map[string]int, len(s)), before: make([][]int, len(s))}
	for i, x := range s {
		g.index[x.Name] = i
	}
	var errs strictyaml.Errors
	for i, x := range s {
		for _, list := range []struct {
			field   string
			names   []string
			inverse bool
		}{
			{"require", x.Require, false},
			{"watch", x.Watch, false},
			{"onchanges", x.OnChanges, false},
			{"onfail", x.OnFail, false},
			{"require_in", x.RequireIn, true},
			{"watch_in", x.WatchIn, true},
			{"onchanges_in", x.OnChangesIn, true},
		} {
			for n, name := range list.names {
				at := x.at(x.fields, list.field, n)
				members, msg := g.members(name, x.Name, known, files)
				if msg != "" {
					errs = append(errs, strictyaml.Error{
						Pos:  at,
						Path: Key + "." + x.Name + "." + list.field,
						Msg:  msg,
					})
				}
				for _, m := range members {
					if from, to := m, i; !list.inverse {
						g.connect(from, to)
					} else {
						g.connect(to, from)
					}
					if list.field == "watch_in" && !catalogue[g.states[m].Function].reacts {
						errs = append(errs, strictyaml.Error{
							Pos:  at,
							Path: Key + "." + x.Name + ".watch_in",
							Msg:  fmt.Sprintf("%s does not react to changes", g.states[m].Function),
						})
					}
				}
			}
		}
	}
	return g, errs
}

// members returns the states that a requisite of the state self names.
func (g *graph) members(name, self string, known map[string]bool,
	files func(ref string) []string,
) (members []int, problem string) {
	ref, isFile := strings.CutPrefix(name, filePrefix)
	if !isFile {
		if i, ok := g.index[name]; ok {
			return []int{i}, ""
		}
		if known[name] {
			return nil, "" // it has errors of its own
		}
		return nil, fmt.Sprintf("there is no state %q%s", name, strictyaml.Suggest(name, g.names()))
	}
	var names []string
	if files != nil {
		names = files(ref)
	}
	for _, n := range names {
		if i, ok := g.index[n]; ok && n != self {
			members = append(members, i)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Sprintf("no settings file %q of this peel has states", ref)
	}
	return members, ""
}

func (g *graph) names() []string {
	names := make([]string, len(g.states))
	for i, s := range g.states {
		names[i] = s.Name
	}
	return names
}

func (g *graph) connect(before, after int) {
	if !slices.Contains(g.before[after], before) {
		g.before[after] = append(g.before[after], before)
	}
}

// checkCycles returns one error for each cycle, which names its members.
func (g *graph) checkCycles() (errs strictyaml.Errors) {
	const (
		unseen = iota
		open
		done
	)
	mark := make([]int, len(g.states))
	var way []int
	var visit func(i int)
	visit = func(i int) {
		mark[i] = open
		way = append(way, i)
		for _, b := range g.before[i] {
			switch mark[b] {
			case unseen:
				visit(b)
			case open:
				errs = append(errs, g.cycle(way[slices.Index(way, b):]))
			}
		}
		way = way[:len(way)-1]
		mark[i] = done
	}
	for i := range g.states {
		if mark[i] == unseen {
			visit(i)
		}
	}
	return errs
}

// cycle is the error about states that each need the next.
func (g *graph) cycle(members []int) strictyaml.Error {
	first := g.states[members[0]]
	names := make([]string, 0, len(members)+1)
	for _, m := range members {
		names = append(names, g.states[m].Name)
	}
	return strictyaml.Error{
		Pos:  first.Pos,
		Path: Key + "." + first.Name,
		Msg:  "the requisites form a cycle: " + strings.Join(append(names, first.Name), " needs "),
	}
}

// sorted returns the states in the order in which they run: of those whose requisites are done the first. The graph has
// no cycle.
func (g *graph) sorted() Set {
	g.connectImplicit()
	missing := make([]int, len(g.states)) // states that have to come before and have not
	after := make([][]int, len(g.states))
	for i, before := range g.before {
		missing[i] = len(before)
		for _, b := range before {
			after[b] = append(after[b], i)
		}
	}
	out, done := make(Set, 0, len(g.states)), make([]bool, len(g.states))
	for first := 0; len(out) < len(g.states); {
		i := first
		for done[i] || missing[i] > 0 {
			i++
		}
		out, done[i] = append(out, g.states[i]), true
		for _, a := range after[i] {
			missing[a]--
		}
		for first < len(done) && done[first] {
			first++
		}
	}
	return out
}

// connectImplicit puts a path after the managed directory that it is in, and an owner of a file after the user and the
// group, unless the requisites say otherwise.
func (g *graph) connectImplicit() {
	directories, users, groups := map[string][]int{}, map[string][]int{}, map[string][]int{}
	for i, s := range g.states {
		switch a := s.Args.(type) {
		case *FileDirectory:
			directories[a.Path] = append(directories[a.Path], i)
		case *UserPresent:
			users[a.Name] = append(users[a.Name], i)
		case *GroupPresent:
			groups[a.Name] = append(groups[a.Name], i)
		}
	}
	for i, s := range g.states {
		for _, r := range s.Args.owns() {
			if r.kind != "path" {
				continue
			}
			for dir := path.Dir(r.name); dir != "/" && dir != "."; dir = path.Dir(dir) {
				g.connectUnlessReverse(directories, dir, i)
			}
		}
		user, group := ownerOf(s.Args)
		g.connectUnlessReverse(users, user, i)
		g.connectUnlessReverse(groups, group, i)
		if members, ok := s.Args.(*GroupPresent); ok {
			for _, name := range members.Members {
				g.connectUnlessReverse(users, name, i)
			}
		}
		if u, ok := s.Args.(*UserPresent); ok {
			for _, name := range append([]string{u.Group}, u.Groups...) {
				g.connectUnlessReverse(groups, name, i)
			}
		}
	}
}

// ownerOf returns the user and group that a state's files get.
func ownerOf(a Arguments) (user, group string) {
	switch a := a.(type) {
	case *FileManaged:
		return a.User, a.Group
	case *FileDirectory:
		return a.User, a.Group
	case *FileRecurse:
		return a.User, a.Group
	case *CmdRun:
		return a.User, ""
	case *CronPresent:
		return a.User, ""
	case *GitLatest:
		return a.User, ""
	case *PipInstalled:
		return a.User, ""
	case *ArchiveExtracted:
		return a.User, a.Group
	case *SSHAuthPresent:
		return a.User, ""
	case *SSHAuthAbsent:
		return a.User, ""
	}
	return "", ""
}

// connectUnlessReverse puts each state that has the name before the state after, unless it comes after it.
func (g *graph) connectUnlessReverse(of map[string][]int, name string, after int) {
	if name == "" {
		return
	}
	for _, before := range of[name] {
		if before != after && !g.comesBefore(after, before) {
			g.connect(before, after)
		}
	}
}

// comesBefore reports whether the state first has to come before the state second.
func (g *graph) comesBefore(first, second int) bool {
	seen := make([]bool, len(g.states))
	open := []int{second}
	for len(open) > 0 {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		if i == first {
			return true
		}
		for _, b := range g.before[i] {
			if !seen[b] {
				seen[b] = true
				open = append(open, b)
			}
		}
	}
	return false
}
