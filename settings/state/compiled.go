package state

import (
	"fmt"
	"maps"
	"slices"

	"github.com/seed-c01c3da5/zester/settings/content"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// CompiledKey is the key of a peel's settings with what the compiler adds to its states. Files of the config repo cannot
// have it.
const CompiledKey = "_states"

// Compiled is what a peel needs beside the map of its states: canonical settings have no order and do not say which file
// set a state.
type Compiled struct {
	Order []string                `yaml:"order"` // names in the order of their first mention
	Refs  map[string][]string     `yaml:"refs"`  // names of the states to which each settings file contributed, by its reference
	Files map[string]content.File `yaml:"-"`     // contents that the states need, by path, "files/" included
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
		files.Map = append(files.Map, strictyaml.Pair{Key: path, Value: &strictyaml.Node{Kind: strictyaml.Map, Map: []strictyaml.Pair{
			{Key: "sha256", Value: sum},
			{Key: "size", Value: &strictyaml.Node{Kind: strictyaml.Int, Value: f.Size}},
			{Key: "mode", Value: text(f.Mode)},
			{Key: "blob", Value: text(f.Blob)},
			{Key: "key", Value: key},
		}}})
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
			return Compiled{}, fmt.Errorf("%s of the settings: the files have more than %d bytes together", CompiledKey, int64(content.MaxPeel))
		}
		c.Files[path] = file
	}
	return c, nil
}

// FromSettings returns the states in the settings of a peel, in order. The settings have their secrets in plain text.
func FromSettings(settings map[string]any) (Set, Compiled, error) {
	c, err := ReadCompiled(settings)
	if err != nil {
		return nil, c, err
	}
	set, err := Parse(strictyaml.FromValue("settings", settings[Key]), Options{Order: c.Order, Files: func(ref string) []string { return c.Refs[ref] }})
	return set, c, err
}
