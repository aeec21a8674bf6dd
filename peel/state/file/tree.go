//go:build linux

package file

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// maxEntries bounds what one state looks at below a directory.
const maxEntries = 100_000

// Directory plans file.directory. owned reports whether a state owns a path below it, or something below that path.
func Directory(ctx context.Context, w *host.World, a *state.FileDirectory,
	owned func(name string) bool,
) ([]host.Step, error) {
	attrs, err := resolve(ctx, w, a.User, a.Group, a.Mode)
	if err != nil {
		return nil, err
	}
	info, isLink, err := directory(w, a.Path, a.Follow)
	if err != nil {
		return nil, err
	}
	var steps []host.Step
	switch {
	case isLink:
		steps = targetOwnership(w, a.Path, info, attrs.over(info, 0o755))
	case info.Kind == safefs.Directory:
		steps = ownership(w, a.Path, info, attrs.over(info, 0o755))
	case info.Kind == safefs.Absent:
		if steps, err = parents(w, a.Path, a.MakeDirs, attrs); err != nil {
			return nil, err
		}
		return append(steps, makeDirectory(w, a.Path, attrs.over(safefs.Info{}, 0o755))), nil
	}
	if len(a.Recurse) == 0 && !a.Clean {
		return steps, nil
	}
	if len(a.Recurse) > 0 {
		if err := w.MustKeep(a.Path); err != nil {
			return nil, err
		}
	}
	files, err := resolve(ctx, w, "", "", a.FileMode)
	if err != nil {
		return nil, err
	}
	below := walker{w: w, attributes: attrs, recurse: a.Recurse, fileMode: files.mode}
	if a.Clean {
		below.owned = owned
	}
	if err := below.walk(a.Path); err != nil {
		return nil, err
	}
	return append(below.steps, steps...), nil
}

// directory describes the directory of a state, or with follow the one that a link at its path leads to. Anything else
// that is there is an error.
func directory(w *host.World, name string, follow bool) (info safefs.Info, isLink bool, err error) {
	info, err = w.Stat(name)
	switch {
	case err != nil || info.Kind == safefs.Absent || info.Kind == safefs.Directory:
		return info, false, err
	case info.Kind != safefs.Symlink:
		return info, false, fmt.Errorf("%s is %s, not a directory", name, info.Kind)
	case !follow:
		const text = "%s is a link to %s; follow: true accepts a link to a directory"
		return info, false, fmt.Errorf(text, name, info.Target)
	}
	to, err := w.Target(name)
	if err == nil && to.Kind != safefs.Directory {
		err = fmt.Errorf("%s is a link to %s, which is %s and no directory", name, info.Target, to.Kind)
	}
	return to, true, err
}

// targetOwnership plans the owner and mode of the directory that a link leads to.
func targetOwnership(w *host.World, link string, info safefs.Info, want safefs.Attributes) []host.Step {
	steps := ownership(w, link, info, want)
	for i := range steps {
		steps[i].Apply = func(context.Context) error {
			d, err := w.Links.Open(link)
			if err != nil {
				return err
			}
			defer d.Close()
			return d.Own(".", want)
		}
		steps[i].Predict = func(w *host.World) {
			info.HasACL = info.HasACL && !want.ModeOnly
			info.Mode, info.UID, info.GID = want.Mode, want.UID, want.GID
			w.SetTarget(link, info)
		}
	}
	return steps
}

// A walker plans what a state does to all that is below a directory.
type walker struct {
	w          *host.World
	attributes attributes
	recurse    []string
	fileMode   *uint32                // nil: the mode of attributes without its x bits
	owned      func(name string) bool // nil: nothing is removed
	seen       int
	steps      []host.Step
}

// walk plans what is in a directory before the directory: once that has another owner, root does not go where it leads.
func (k *walker) walk(dir string) error {
	names, err := k.w.List(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if k.seen++; k.seen > maxEntries {
			return fmt.Errorf("there are more than %d files below the directory", maxEntries)
		}
		name := path.Join(dir, n)
		info, err := k.w.Stat(name)
		if err != nil {
			return err
		}
		if k.owned != nil && !k.owned(name) {
			if err := k.w.MustKeep(name); err != nil {
				return err
			}
			k.steps = append(k.steps, remove(k.w, name, info))
			continue
		}
		if info.Kind == safefs.Directory {
			if err := k.walk(name); err != nil {
				return err
			}
		}
		if info.Kind == safefs.File || info.Kind == safefs.Directory {
			k.steps = append(k.steps, ownership(k.w, name, info, k.below(info))...)
		}
	}
	return nil
}

// below returns the attributes that recurse asks for. The mode of a directory is given to files without its x bits.
func (k *walker) below(info safefs.Info) safefs.Attributes {
	var a attributes
	if slices.Contains(k.recurse, "user") {
		a.uid = k.attributes.uid
	}
	if slices.Contains(k.recurse, "group") {
		a.gid = k.attributes.gid
	}
	switch {
	case !slices.Contains(k.recurse, "mode"):
	case info.Kind == safefs.File && k.fileMode != nil:
		a.mode = k.fileMode
	case k.attributes.mode != nil:
		mode := *k.attributes.mode
		if info.Kind == safefs.File {
			mode = mode&0o666 | info.Mode&0o111
		}
		a.mode = &mode
	}
	return a.over(info, info.Mode)
}

// remove plans the removal of a path and all below it.
func remove(w *host.World, name string, info safefs.Info) host.Step {
	return host.Step{
		Change: host.Change{Do: "remove", What: name, Before: describe(info), Deletes: true},
		Apply: func(context.Context) error {
			if err := w.KeepOld(name); err != nil {
				return err
			}
			return inParent(w, name, func(d *safefs.Dir, base string) error { return d.RemoveAll(base) })
		},
		Predict: func(w *host.World) { w.SetFile(name, safefs.Info{}, nil) },
	}
}

// Missing plans file.absent.
func Missing(w *host.World, a *state.FileAbsent) ([]host.Step, error) {
	info, err := w.Stat(a.Path)
	if err != nil || info.Kind == safefs.Absent {
		return nil, err
	}
	if err := w.MustKeep(a.Path); err != nil {
		return nil, err
	}
	return []host.Step{remove(w, a.Path, info)}, nil
}

// Link plans file.symlink.
func Link(w *host.World, a *state.FileSymlink) ([]host.Step, error) {
	info, err := w.Stat(a.Path)
	if err != nil {
		return nil, err
	}
	switch {
	case info.Kind == safefs.Symlink && info.Target == a.Target:
		return nil, nil
	case info.Kind == safefs.File && a.Force:
	case info.Kind == safefs.File:
		return nil, fmt.Errorf("%s is %s; force: true replaces it by the link", a.Path, info.Kind)
	case info.Kind != safefs.Absent && info.Kind != safefs.Symlink:
		return nil, fmt.Errorf("%s is %s, which a link never replaces", a.Path, info.Kind)
	}
	steps, err := parents(w, a.Path, a.MakeDirs, attributes{})
	if err != nil {
		return nil, err
	}
	change := host.Change{Do: "write", What: a.Path, Before: describe(info), After: "link to " + a.Target}
	if info.Kind == safefs.Absent {
		change.Do = "create"
	}
	return append(steps, host.Step{
		Change: change,
		Apply: func(context.Context) error {
			if err := w.KeepOld(a.Path); err != nil {
				return err
			}
			return inParent(w, a.Path, func(d *safefs.Dir, base string) error {
				return d.Symlink(base, a.Target, info.Kind)
			})
		},
		Predict: func(w *host.World) {
			w.SetFile(a.Path, safefs.Info{Kind: safefs.Symlink, Mode: 0o777, Target: a.Target}, nil)
		},
	}), nil
}

// Recurse plans file.recurse. owned is as for [Directory].
func Recurse(ctx context.Context, w *host.World, a *state.FileRecurse, in Inputs,
	owned func(name string) bool,
) ([]host.Step, error) {
	names, err := in.Tree(a.Source)
	if err != nil {
		return nil, err
	}
	dirs, err := resolve(ctx, w, a.User, a.Group, a.DirMode)
	if err != nil {
		return nil, err
	}
	files, err := resolve(ctx, w, a.User, a.Group, a.FileMode)
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{a.Path: true}
	for _, name := range names {
		for at := path.Join(a.Path, name); at != a.Path; at = path.Dir(at) {
			wanted[at] = true
		}
	}
	r := recursion{ctx: ctx, w: w, in: in, args: a, dirs: dirs, files: files, seen: map[string]bool{}}
	if err := r.directory(a.Path); err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := r.file(name); err != nil {
			return nil, err
		}
	}
	if a.Clean && !r.isNew {
		below := walker{w: w, owned: func(name string) bool { return wanted[name] || owned(name) }}
		if err := below.walk(a.Path); err != nil {
			return nil, err
		}
		r.steps = append(r.steps, below.steps...)
	}
	return r.steps, nil
}

// A recursion plans the copies of the files of a directory.
type recursion struct {
	ctx         context.Context
	w           *host.World
	in          Inputs
	args        *state.FileRecurse
	dirs, files attributes
	seen        map[string]bool // directories that are planned
	isNew       bool            // the directory of the state does not exist yet
	steps       []host.Step
}

// directory plans a directory and those above it, down from the one of the state.
func (r *recursion) directory(name string) error {
	if name != r.args.Path && !strings.HasPrefix(name, r.args.Path+"/") || r.seen[name] {
		return nil
	}
	if err := r.directory(path.Dir(name)); err != nil {
		return err
	}
	info, isLink, err := directory(r.w, name, r.args.Follow)
	if err != nil {
		return err
	}
	switch {
	case isLink:
		r.steps = append(r.steps, targetOwnership(r.w, name, info, r.dirs.over(info, 0o755))...)
	case info.Kind == safefs.Directory:
		if name == r.args.Path || r.args.DirMode != "" || r.args.User != "" || r.args.Group != "" {
			r.steps = append(r.steps, ownership(r.w, name, info, r.dirs.over(info, 0o755))...)
		}
	default:
		if name == r.args.Path {
			r.isNew = true
			above, err := parents(r.w, name, true, r.dirs)
			if err != nil {
				return err
			}
			r.steps = append(r.steps, above...)
		}
		r.steps = append(r.steps, makeDirectory(r.w, name, r.dirs.over(safefs.Info{}, 0o755)))
	}
	r.seen[name] = true
	return nil
}

func (r *recursion) file(name string) error {
	source, to := path.Join(r.args.Source, name), path.Join(r.args.Path, name)
	if err := r.directory(path.Dir(to)); err != nil {
		return err
	}
	content, err := r.in.Source(r.ctx, source)
	if err != nil {
		return err
	}
	if r.args.Template {
		var used bool
		if content.Data, used, err = render(source, content.Data, r.in.Data, r.args.Vars); err != nil {
			return err
		}
		content.Secret = content.Secret || used
	}
	r.in.note(name, content.Data)
	info, err := r.w.Stat(to)
	if err != nil {
		return err
	}
	if info.Kind == safefs.Directory || info.Kind == safefs.Other {
		return fmt.Errorf("%s is %s", to, info.Kind)
	}
	f := wanted{path: to, content: content.Data, secret: content.Secret, diff: true, attributes: r.files}
	mode := uint32(0o644)
	if content.Executable {
		mode = 0o755
	}
	if content.Secret {
		mode &^= 0o077
	}
	if f.attributes.mode == nil && (info.Kind != safefs.File || info.Mode&0o111 != mode&0o111) {
		f.attributes.mode = &mode
	}
	steps, err := f.plan(r.w, info, mode)
	r.steps = append(r.steps, steps...)
	return err
}
