package state

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/content"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// CompiledKey is the key of a peel's settings with what the compiler adds to its states. Files of the config repo
// cannot have it.
const CompiledKey = "_states"

// Compiled is what a peel needs beside the map of its states: canonical settings have no order and do not say which
// file set a state.
type Compiled struct {
	Order []string `yaml:"order"` // names in the order of their first mention
	// names of the states to which each settings file contributed, by its reference
	Refs  map[string][]string     `yaml:"refs"`
	Files map[string]content.File `yaml:"-"` // contents that the states need, by path, "files/" included
}

// file is a content.File as it stands in settings.
type file struct {
	SHA256 string `yaml:"sha256"`
	Size   int64  `yaml:"size"`
	Mode   string `yaml:"mode"`
	Blob   string `yaml:"blob"`
	Key    string `yaml:"key"`
}

// Node returns c as a part of settings. If secret knows the path of a file, its hash and its key are masked with shown.
func (c Compiled) Node(secret func(path string) (shown string, ok bool)) *strictyaml.Node {
	text := func(s string) *strictyaml.Node { return &strictyaml.Node{Kind: strictyaml.String, Value: s} }
	texts := func(list []string) *strictyaml.Node {
		n := &strictyaml.Node{Kind: strictyaml.List}
		for _, s := range list {
			n.List = append(n.List, text(s))
		}
		return n
	}
	refs, files := &strictyaml.Node{Kind: strictyaml.Map}, &strictyaml.Node{Kind: strictyaml.Map}
	for _, ref := range slices.Sorted(maps.Keys(c.Refs)) {
		refs.Map = append(refs.Map, strictyaml.Pair{Key: ref, Value: texts(c.Refs[ref])})
	}
	for _, path := range slices.Sorted(maps.Keys(c.Files)) {
		f := c.Files[path]
		sum, key := text(f.SHA256), text(f.Key)
		if shown, ok := secret(path); ok {
			for _, n := range []*strictyaml.Node{sum, key} {
				n.Value, n.Secret, n.Pos = shown, n.Value, strictyaml.Pos{File: path}
			}
		}
		files.Map = append(files.Map, strictyaml.Pair{
			Key: path,
			Value: &strictyaml.Node{Kind: strictyaml.Map, Map: []strictyaml.Pair{
				{Key: "sha256", Value: sum},
				{Key: "size", Value: &strictyaml.Node{Kind: strictyaml.Int, Value: f.Size}},
				{Key: "mode", Value: text(f.Mode)},
				{Key: "blob", Value: text(f.Blob)},
				{Key: "key", Value: key},
			}},
		})
	}
	return &strictyaml.Node{Kind: strictyaml.Map, Map: []strictyaml.Pair{
		{Key: "order", Value: texts(c.Order)}, {Key: "refs", Value: refs}, {Key: "files", Value: files},
	}}
}

// ReadCompiled reads what the compiler added to the settings of a peel. Settings without states give the zero Compiled.
func ReadCompiled(settings map[string]any) (Compiled, error) {
	var c Compiled
	value, ok := settings[CompiledKey]
	if !ok {
		return c, nil
	}
	var read struct {
		Order []string            `yaml:"order"`
		Refs  map[string][]string `yaml:"refs"`
		Files map[string]file     `yaml:"files"`
	}
	if err := strictyaml.Decode(strictyaml.FromValue(CompiledKey, value), &read); err != nil {
		return c, fmt.Errorf("cannot read %s of the settings: %w", CompiledKey, err)
	}
	c = Compiled{Order: read.Order, Refs: read.Refs, Files: make(map[string]content.File, len(read.Files))}
	var size int64
	for path, f := range read.Files {
		file := content.File(f)
		if err := file.Check(); err != nil {
			return Compiled{}, fmt.Errorf("%s of the settings: files: %q: %w", CompiledKey, path, err)
		}
		if size += file.Size; size > content.MaxPeel {
			return Compiled{}, fmt.Errorf("%s of the settings: the files have more than %d bytes together",
				CompiledKey, int64(content.MaxPeel))
		}
		c.Files[path] = file
	}
	return c, nil
}

// A Broken state is one in the settings of a peel that this build cannot use.
type Broken struct {
	Name     string
	Function string   // empty if it has none
	Paths    []string // that it may own: each absolute path in its name and arguments
	Before   []string // of its require_in, watch_in and onchanges_in
	Err      error
}

// Found is what the settings of a peel have of states.
type Found struct {
	Set      Set // in order
	Broken   []Broken
	Compiled Compiled
}

// FromSettings returns the states in the settings of a peel, and apart those that cannot be used, such as one of a
// function that a later version knows. The settings have their secrets in plain text. The error is about the states as
// a whole.
func FromSettings(settings map[string]any) (Found, error) {
	c, err := ReadCompiled(settings)
	if err != nil {
		return Found{}, err
	}
	n := strictyaml.FromValue("settings", settings[Key])
	o := Options{Order: c.Order, Files: func(ref string) []string { return c.Refs[ref] }, broken: map[string]bool{}}
	var broken []Broken
	for {
		set, err := Parse(n, o)
		if err == nil {
			return Found{set, broken, c}, nil
		}
		errs, _ := errors.AsType[strictyaml.Errors](err)
		usable := &strictyaml.Node{Kind: strictyaml.Map, Pos: n.Pos}
		for _, p := range n.Map {
			if bad := errorsOf(p.Key, errs); bad != nil {
				o.broken[p.Key] = true
				broken = append(broken, brokenState(p, bad))
			} else {
				usable.Map = append(usable.Map, p)
			}
		}
		if len(usable.Map) == len(n.Map) {
			return Found{}, err
		}
		n = usable
	}
}

// errorsOf returns the errors about a state. One about the state a.b is taken for one about a too.
func errorsOf(name string, errs strictyaml.Errors) (bad strictyaml.Errors) {
	for _, e := range errs {
		if path := Key + "." + name; e.Path == path || strings.HasPrefix(e.Path, path+".") {
			bad = append(bad, e)
		}
	}
	return bad
}

func brokenState(p strictyaml.Pair, bad strictyaml.Errors) Broken {
	b := Broken{Name: p.Key, Function: functionIn(p.Value), Err: bad.Err()}
	addPaths(&b.Paths, &strictyaml.Node{Kind: strictyaml.String, Value: p.Key})
	addPaths(&b.Paths, p.Value)
	for _, field := range []string{"require_in", "watch_in", "onchanges_in"} {
		list := p.Value.Get(field)
		if list == nil {
			continue
		}
		for _, n := range list.List {
			if name, isText := n.Value.(string); isText {
				b.Before = append(b.Before, name)
			}
		}
	}
	return b
}

// addPaths adds the absolute paths in the texts of a node.
func addPaths(paths *[]string, n *strictyaml.Node) {
	if text, isText := n.Value.(string); isText && path.IsAbs(text) {
		*paths = append(*paths, path.Clean(text))
	}
	for _, e := range n.List {
		addPaths(paths, e)
	}
	for _, p := range n.Map {
		addPaths(paths, p.Value)
	}
}
