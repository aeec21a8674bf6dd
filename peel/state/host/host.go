//go:build linux

// Package host is a host as the functions of states see it: as it is, or as it would be after steps that were only
// planned. Begin with [New].
//
// A function of a state reads a [World] and returns [Step]s. Applying runs [Step.Apply] of each. In test mode
// [Step.Predict] changes the World instead, so that later states see what the step would have done.
//
// Guarantees: a World never changes the host; what a planned step would have done hides what the host has.
package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/safefs"
)

// A Change is what a step does, as people see it.
type Change struct {
	Do      string `json:"do"`   // "create", "write", "mode", "owner", "remove", "install", "start", …
	What    string `json:"what"` // the path, package, unit or account
	Before  string `json:"before,omitempty"`
	After   string `json:"after,omitempty"`
	Diff    string `json:"diff,omitempty"` // unified, of text files
	Deletes bool   `json:"deletes,omitempty"`
}

// A Step is one change to the host.
type Step struct {
	Change
	Apply   func(ctx context.Context) error
	Predict func(w *World)
}

// An UnknownError says why a plan cannot be made before other steps are done. It occurs in test mode alone.
type UnknownError struct{ Why string }

func (e *UnknownError) Error() string { return e.Why }

// A World is a host with the effects of planned steps. It is not safe for concurrent use.
type World struct {
	files  map[string]planned // by path
	users  map[string]User    // that planned steps make, or remove if !Exists
	groups map[string]Group
}

// planned is a file as planned steps leave it.
type planned struct {
	info    safefs.Info
	content []byte
	unknown bool // the content is not known
}

// New returns the host as it is.
func New() *World {
	return &World{files: map[string]planned{}, users: map[string]User{}, groups: map[string]Group{}}
}

// Planned reports whether the World differs from the host.
func (w *World) Planned() bool { return len(w.files)+len(w.users)+len(w.groups) > 0 }

// SetFile plans a file. A nil content of a regular file means that it is not known.
func (w *World) SetFile(name string, info safefs.Info, content []byte) {
	if info.Kind != safefs.Directory {
		for other := range w.files {
			if strings.HasPrefix(other, name+"/") {
				delete(w.files, other)
			}
		}
	}
	w.files[name] = planned{info, content, info.Kind == safefs.File && content == nil}
}

// SetInfo plans the owner and mode of a file and keeps its content.
func (w *World) SetInfo(name string, info safefs.Info) {
	p, ok := w.files[name]
	if !ok && info.Kind == safefs.File {
		content, err := w.Read(name, info.Size)
		p = planned{content: content, unknown: err != nil}
	}
	p.info = info
	w.files[name] = p
}

// overlaid returns the planned state of a path: its own, or that of a directory above it that was removed or made.
func (w *World) overlaid(name string) (planned, bool) {
	if p, ok := w.files[name]; ok {
		return p, true
	}
	for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
		if p, ok := w.files[dir]; ok {
			// Below a directory that exists on the host as well, the host has the rest.
			return planned{}, p.info.Kind != safefs.Directory || p.content != nil
		}
	}
	return planned{}, false
}

// Stat describes a file without following it. A missing one, also for lack of its directory, is [safefs.Absent].
func (w *World) Stat(name string) (safefs.Info, error) {
	if p, ok := w.overlaid(name); ok {
		return p.info, nil
	}
	if name == "/" {
		return safefs.Info{Kind: safefs.Directory, Mode: 0o755}, nil
	}
	d, base, err := safefs.Parent(name)
	if errors.Is(err, fs.ErrNotExist) {
		return safefs.Info{}, nil
	}
	if err != nil {
		return safefs.Info{}, err
	}
	defer d.Close()
	return d.Stat(base)
}

// Read returns the content of a regular file. More than limit bytes are an error.
func (w *World) Read(name string, limit int64) ([]byte, error) {
	if p, ok := w.overlaid(name); ok {
		switch {
		case p.info.Kind == safefs.Absent:
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		case p.unknown:
			return nil, &UnknownError{fmt.Sprintf("the content of %s is not known before it is written", name)}
		}
		return p.content, nil
	}
	d, base, err := safefs.Parent(name)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Read(base, limit)
}

// List returns the names in a directory, sorted. A missing directory has none.
func (w *World) List(name string) ([]string, error) {
	names := map[string]bool{}
	if p, ok := w.overlaid(name); !ok || p.info.Kind == safefs.Directory && p.content == nil {
		d, err := safefs.Open(name)
		if err == nil {
			defer d.Close()
			var list []string
			if list, err = d.List(); err == nil {
				for _, n := range list {
					names[n] = true
				}
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	for other, p := range w.files {
		if path.Dir(other) == name {
			names[path.Base(other)] = p.info.Kind != safefs.Absent
		}
	}
	var out []string
	for n, there := range names {
		if there {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// NewDirectory plans a directory that the host does not have.
func (w *World) NewDirectory(name string, info safefs.Info) {
	w.files[name] = planned{info: info, content: []byte{}} // content marks it as new: the host has nothing below
}
