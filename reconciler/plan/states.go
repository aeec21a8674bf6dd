package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/content"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// displaced returns merged settings without the states that the next file gives another function.
func displaced(merged, next *strictyaml.Node) *strictyaml.Node {
	over := next.Get(state.Key)
	if over == nil || merged.Get(state.Key) == nil {
		return merged
	}
	return withStates(merged, state.Displace(merged.Get(state.Key), over))
}

// mistakes are the errors of one signature.
type mistakes struct {
	reason Reason
	errs   strictyaml.Errors
}

func (m *mistakes) add(reason Reason, at strictyaml.Pos, path, format string, args ...any) {
	if len(m.errs) == 0 || m.reason == Invalid {
		m.reason = reason
	}
	m.errs = append(m.errs, strictyaml.Error{Pos: at, Path: path, Msg: fmt.Sprintf(format, args...)})
}

// addStates reads the states of merged settings and returns the settings with what the compiler adds to them. err is
// about reading the tree.
func (p *pass) addStates(e *Effective, merged *strictyaml.Node) (*strictyaml.Node, mistakes, error) {
	section := merged.Get(state.Key)
	if section == nil {
		return merged, mistakes{}, nil
	}
	expanded, err := state.Expand(section, merged)
	if err != nil {
		return nil, mistakes{Invalid, AsErrors(SettingsDir, err)}, nil
	}
	if expanded.States != section {
		merged = withStates(merged, expanded.States)
	}
	section, e.source = expanded.States, expanded.Source
	e.mentions(section)
	set, err := state.Parse(section, state.Options{
		Order: e.Compiled.Order,
		Files: func(ref string) []string { return e.Compiled.Refs[ref] },
	})
	if err != nil {
		return nil, mistakes{Invalid, AsErrors(SettingsDir, err)}, nil
	}
	if len(set) == 0 {
		e.Compiled = state.Compiled{}
		return merged, mistakes{}, nil
	}
	e.States, e.read = set, p.plan.read
	masked, bad, err := p.addContents(e)
	if len(bad.errs) > 0 || err != nil {
		return nil, bad, err
	}
	out := *merged
	out.Map = append(slices.Clone(merged.Map), strictyaml.Pair{
		Key: state.CompiledKey,
		Value: e.Compiled.Node(func(path string) (string, bool) {
			shown, ok := masked[path]
			return shown, ok
		}),
	})
	return &out, mistakes{}, nil
}

// withStates returns merged settings with other states.
func withStates(merged, states *strictyaml.Node) *strictyaml.Node {
	out := *merged
	out.Map = slices.Clone(merged.Map)
	for i, p := range out.Map {
		if p.Key == state.Key {
			out.Map[i].Value = states
		}
	}
	return &out
}

// StateSource returns the name under which the settings files have a state, which may be one that a field each made.
func (e *Effective) StateSource(name string) string {
	if source, isMade := e.source[name]; isMade {
		return source
	}
	return name
}

// mentions sets the order of the states in section and the files that mention them.
func (e *Effective) mentions(section *strictyaml.Node) {
	e.Compiled.Refs = map[string][]string{}
	seen := map[string]bool{}
	made := map[string][]string{} // names of the states in section, by the one that the files have
	for _, p := range section.Map {
		name := e.StateSource(p.Key)
		made[name] = append(made[name], p.Key)
	}
	for i, f := range e.files {
		states := f.Node.Get(state.Key)
		if states == nil {
			continue
		}
		for _, p := range states.Map {
			if !seen[p.Key] {
				seen[p.Key] = true
				e.Compiled.Order = append(e.Compiled.Order, made[p.Key]...)
			}
			if p.Value.Kind != strictyaml.Null {
				e.Compiled.Refs[e.Refs[i]] = append(e.Compiled.Refs[e.Refs[i]], made[p.Key]...)
			}
		}
	}
}

// addContents adds the contents that the states name, and returns the text to show in place of the key of each secret
// one.
func (p *pass) addContents(e *Effective) (masked map[string]string, bad mistakes, err error) {
	masked, e.Compiled.Files = map[string]string{}, map[string]content.File{}
	var size int64
	for _, s := range e.States {
		path := state.Key + "." + s.Name
		for _, source := range s.Sources() {
			all, err := p.plan.read.All(source)
			if err != nil {
				return nil, bad, err
			}
			if len(all) == 0 {
				bad.add(Invalid, source.Pos, path, "%s has no files", source.Path)
			}
			for _, c := range all {
				switch _, again := e.Compiled.Files[c.Path]; {
				case c.Problem != "":
					bad.add(c.Reason, source.Pos, path, "%s %s", c.Path, c.Problem)
				case !again:
					if size += c.Size; size > content.MaxPeel {
						bad.add(TooLarge, source.Pos, path,
							"with %s the files of one peel have %d bytes, the limit is %d", c.Path, size,
							int64(content.MaxPeel))
						return nil, bad, nil
					}
					e.Compiled.Files[c.Path] = c.File
					if c.Masked != "" {
						masked[c.Path] = c.Masked
					}
				}
			}
		}
	}
	return masked, bad, nil
}

// OriginNames returns the names under which a document holds the origins of its entries and states.
func (e *Effective) OriginNames() []string {
	names := make([]string, 0, len(e.Schedule)+len(e.States))
	for name := range e.Schedule {
		names = append(names, name)
	}
	for _, s := range e.States {
		names = append(names, settings.StateOrigin+s.Name)
	}
	return names
}

// Contents returns the contents that the states of all peels name, by path.
func (p *Plan) Contents() map[string]content.File {
	all := map[string]content.File{}
	for e := range p.Effectives() {
		maps.Copy(all, e.Compiled.Files)
	}
	return all
}

// checkContents refuses a revision whose contents are too large together.
func (p *pass) checkContents() {
	var size int64
	for path, f := range p.plan.Contents() {
		if size += f.Size; size > content.MaxAll {
			p.problems.add(TooLarge, strictyaml.Error{
				Pos: strictyaml.Pos{File: path},
				Msg: fmt.Sprintf("the contents of all states have more than %d bytes together", int64(content.MaxAll)),
			})
			return
		}
	}
}

// Content returns a content that a state of e names, and whether it is secret. Without identities a secret one is an
// error.
func (e *Effective) Content(path string) (data []byte, secret bool, err error) {
	if _, ok := e.Compiled.Files[path]; !ok {
		return nil, false, fmt.Errorf("no state of %s names %s", strings.Join(e.Refs, ", "), path)
	}
	var c Content
	data, c, err = e.read.Read(path)
	return data, c.Masked != "", err
}

// Sealed returns a content that a state of the plan names as it is stored on the bus.
func (p *Plan) Sealed(path string) (content.File, []byte, error) { return p.read.Seal(path) }
