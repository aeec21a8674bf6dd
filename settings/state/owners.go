package state

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// checkOwners refuses two states that own the same thing, unless both say the same of it. States that share a file may
// not meet one that owns the whole.
func (s Set) checkOwners() strictyaml.Errors {
	type owner struct {
		state  *State
		shared bool
	}
	owners := map[[2]string][]owner{} // of each function the first
	var errs strictyaml.Errors
	for _, x := range s {
		for _, r := range x.Args.owns() {
			key := [2]string{r.kind, r.name}
			isFirst := true
			for _, before := range owners[key] {
				isFirst = isFirst && before.state.Function != x.Function
				if before.shared && r.shared {
					continue
				}
				if contrast := before.state.contrast(x); contrast != "" {
					errs = append(errs, strictyaml.Error{
						Pos: x.Pos, Path: Key + "." + x.Name,
						Msg: fmt.Sprintf("the %s %s belongs to the state %s already (%s), with %s", r.kind, r.name,
							before.state.Name, before.state.Pos, contrast),
					})
					break
				}
			}
			if isFirst {
				owners[key] = append(owners[key], owner{x, r.shared})
			}
		}
	}
	return errs
}

// contrast returns in what two states differ that own the same thing, empty if both say the same of it.
func (s *State) contrast(other *State) string {
	switch {
	case s.Function != other.Function && slices.Contains([]string{s.Function, other.Function}, "file.absent") &&
		slices.Contains([]string{s.Function, other.Function}, "file.symlink"):
		return "another function; file.symlink with force: true replaces a file, so take file.absent out"
	case s.isTreeIn(other), other.isTreeIn(s):
		return ""
	case s.Function != other.Function:
		return "another function"
	case !reflect.DeepEqual(s.statement(), other.statement()):
		return "other arguments"
	}
	return ""
}

// isTreeIn reports whether a state makes the files below the directory of another state, and no owner or mode that the
// other one does not want.
func (s *State) isTreeIn(other *State) bool {
	tree, isTree := s.Args.(*FileRecurse)
	dir, isDir := other.Args.(*FileDirectory)
	if !isTree || !isDir {
		return false
	}
	for _, what := range dir.Recurse {
		if what == "mode" || what == "user" && tree.User != dir.User || what == "group" && tree.Group != dir.Group {
			return false
		}
	}
	agree := func(a, b string) bool { return a == "" || b == "" || fmt.Sprintf("%04s", a) == fmt.Sprintf("%04s", b) }
	return agree(tree.User, dir.User) && agree(tree.Group, dir.Group) && agree(tree.DirMode, dir.Mode)
}

// statement returns the arguments of the state, secrets in plain text and modes with four digits. Those that only list
// the things that the state owns are left out: a state of several packages says the same of each.
func (s *State) statement() map[string]any {
	written, _ := s.written.Reveal().(map[string]any) // nil without arguments
	args := maps.Clone(written)
	if args == nil {
		args = map[string]any{}
	}
	for _, name := range []string{"mode", "file_mode", "dir_mode"} {
		if mode, isText := args[name].(string); isText {
			args[name] = fmt.Sprintf("%04s", mode)
		}
	}
	main := catalogue[s.Function].Main
	switch s.Args.(type) {
	case *PkgInstalled, *PkgLatest, *PkgRemoved, *HostPresent:
		delete(args, main)
		delete(args, "names")
	default:
		if args[main] == nil || args[main] == "" {
			args[main] = s.Name
		}
	}
	return args
}
