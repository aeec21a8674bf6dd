//go:build linux

// Package file has the functions of states for files, directories and links. Each is a pure plan over a [host.World]:
// [Managed], [Directory], [Recurse], [Link], [Missing], [Line] and [Block] return the steps that are missing.
//
// A content is secret if its source is encrypted in the repo, if the argument is, or if its template used a secret. No
// step has a diff of such a content, and unless the state names a mode no other user can read its file.
package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/state/mustache"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Limits of diffs and files.
const (
	MaxFile  = 8 << 20  // bytes of a file that is read or written
	maxDiff  = 64 << 10 // bytes of a text that is compared
	maxLines = 400      // of a diff
)

// Content is a file of the config repo.
type Content struct {
	Data       []byte
	Executable bool
	Secret     bool // it was encrypted in the repo
}

// Inputs are what files are made from.
type Inputs struct {
	// Source returns the content of a file below files/ of the config repo.
	Source func(ctx context.Context, name string) (Content, error)
	// Tree returns the names of the files below a directory of the config repo, without that directory, sorted.
	Tree func(name string) ([]string, error)
	// Data are the names that templates have: settings, facts and peel. Secrets in it are of the type
	// [mustache.Secret].
	Data   map[string]any
	Secret bool // the argument content of the state is secret
	// Note is called with each content that the state wants, with its templates rendered. It may be nil.
	Note func(name string, content []byte)
}

func (in Inputs) note(name string, content []byte) {
	if in.Note != nil {
		in.Note(name, content)
	}
}

// wanted is a file as it should be.
type wanted struct {
	path       string
	content    []byte
	secret     bool // what the content was made from holds a secret
	diff       bool
	attributes attributes
	check      []string
	isASCII    bool // what an edit writes, so it may be in a file that is not UTF-8

	source, sum string // the address and SHA-256 of a content from https
}

// attributes are the owner and mode that a state names. Nil means: as the old file has it, or the default of a new one.
type attributes struct {
	uid, gid, mode *uint32
	user, group    string // names, for messages
}

// resolve finds the numbers of names.
func resolve(ctx context.Context, w *host.World, user, group, mode string) (attributes, error) {
	a := attributes{user: user, group: group}
	if user != "" {
		u, err := w.User(ctx, user)
		if err != nil {
			return a, err
		}
		if !u.Exists {
			return a, w.Lacks("there is no user %q on this host", user)
		}
		a.uid = &u.UID
	}
	if group != "" {
		g, err := w.Group(ctx, group)
		if err != nil {
			return a, err
		}
		if !g.Exists {
			return a, w.Lacks("there is no group %q on this host", group)
		}
		a.gid = &g.GID
	}
	if mode != "" {
		m, err := strconv.ParseUint(mode, 8, 12)
		if err != nil {
			return a, err
		}
		bits := uint32(m)
		a.mode = &bits
	}
	return a, nil
}

// over returns the attributes for a file that now is as info says; def is the mode of a new one.
func (a attributes) over(info safefs.Info, def uint32) safefs.Attributes {
	out := safefs.Attributes{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Mode: def}
	if info.Kind == safefs.File || info.Kind == safefs.Directory {
		out = safefs.Attributes{UID: info.UID, GID: info.GID, Mode: info.Mode}
	}
	for _, set := range []struct{ from, to *uint32 }{{a.uid, &out.UID}, {a.gid, &out.GID}, {a.mode, &out.Mode}} {
		if set.from != nil {
			*set.to = *set.from
		}
	}
	out.ModeOnly = a.mode != nil
	return out
}

// Managed plans file.managed.
func Managed(ctx context.Context, w *host.World, a *state.FileManaged, in Inputs) ([]host.Step, error) {
	info, err := w.Stat(a.Path)
	if err != nil {
		return nil, err
	}
	if a.Replace != nil && !*a.Replace && info.Kind != safefs.Absent {
		return nil, nil
	}
	if info.Kind == safefs.Directory || info.Kind == safefs.Other {
		return nil, fmt.Errorf("%s is %s", a.Path, info.Kind)
	}
	f := wanted{path: a.Path, check: a.Check, diff: a.Diff == nil || *a.Diff}
	if f.attributes, err = resolve(ctx, w, a.User, a.Group, a.Mode); err != nil {
		return nil, err
	}
	plan := f.plan
	if state.IsRemote(a.Source) {
		f.source, f.sum, plan = a.Source, a.SHA256, f.planRemote
	} else if f.content, f.secret, err = contentOf(ctx, a, in); err != nil {
		return nil, err
	}
	in.note("", f.content)
	var steps []host.Step
	if info.Kind == safefs.Absent {
		if steps, err = parents(w, a.Path, a.MakeDirs, f.attributes); err != nil {
			return nil, err
		}
	}
	own, err := plan(w, info, 0o644)
	return append(steps, own...), err
}

// contentOf returns what file.managed writes, and whether it holds a secret.
func contentOf(ctx context.Context, a *state.FileManaged, in Inputs) (data []byte, secret bool, err error) {
	name := a.Source
	if a.Content != nil {
		name, data, secret = "content", []byte(*a.Content), in.Secret
	} else {
		c, err := in.Source(ctx, a.Source)
		if err != nil {
			return nil, false, err
		}
		data, secret = c.Data, c.Secret
	}
	if !a.Template {
		return data, secret, nil
	}
	data, used, err := render(name, data, in.Data, a.Vars)
	return data, secret || used, err
}

// render renders a template. secret reports whether it used a secret.
func render(name string, text []byte, data map[string]any, vars *strictyaml.Node) (out []byte, secret bool, err error) {
	t, err := mustache.Parse(name, string(text))
	if err != nil {
		return nil, false, err
	}
	all := maps.Clone(data)
	if all == nil {
		all = map[string]any{}
	}
	if vars != nil {
		all["vars"] = vars.RevealAs(mustache.MarkSecret)
	}
	return t.Render(all)
}

// parents plans the missing directories above a path, if make is set.
func parents(w *host.World, name string, make bool, a attributes) (steps []host.Step, err error) {
	dir := path.Dir(name)
	info, err := w.Stat(dir)
	if err != nil {
		return nil, err
	}
	isDir, err := w.IsDirectory(dir)
	switch {
	case err != nil || isDir:
		return nil, err
	case info.Kind != safefs.Absent:
		return nil, fmt.Errorf("%s is %s, not a directory", dir, info.Kind)
	case !make:
		return nil, w.Lacks("the directory %s does not exist; makedirs: true makes it", dir)
	}
	if steps, err = parents(w, dir, true, a); err != nil {
		return nil, err
	}
	return append(steps, makeDirectory(w, dir, attributes{uid: a.uid, gid: a.gid}.over(safefs.Info{}, 0o755))), nil
}

func makeDirectory(w *host.World, name string, a safefs.Attributes) host.Step {
	return host.Step{
		Change: host.Change{Do: "create", What: name, After: fmt.Sprintf("directory %04o", a.Mode)},
		Apply: func(context.Context) error {
			return inParent(w, name, func(d *safefs.Dir, base string) error { return d.Mkdir(base, a) })
		},
		Predict: func(w *host.World) {
			w.NewDirectory(name, safefs.Info{Kind: safefs.Directory, Mode: a.Mode, UID: a.UID, GID: a.GID})
		},
	}
}

// inParent runs f in the directory of a path.
func inParent(w *host.World, name string, f func(d *safefs.Dir, base string) error) error {
	d, base, err := w.Links.Parent(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return f(d, base)
}

// plan returns the steps from what a path is now to the wanted file. mode is the mode of a new file; if the content is
// secret and the state names no mode, a new file is the owner's alone, and an old one is not open to others.
func (f *wanted) plan(w *host.World, info safefs.Info, mode uint32) ([]host.Step, error) {
	want := f.attributes.over(info, mode)
	if f.secret && f.attributes.mode == nil {
		want.Mode, want.ModeOnly = want.Mode&^0o007, true
		if info.Kind != safefs.File {
			want.Mode &^= 0o077
		}
	}
	if len(f.content) > MaxFile {
		return nil, fmt.Errorf("the content has %d bytes, the limit is %d", len(f.content), MaxFile)
	}
	var old []byte
	isLarge := info.Size > MaxFile // and so has another content
	if info.Kind == safefs.File && !isLarge {
		var err error
		if old, err = w.Read(f.path, MaxFile); err != nil {
			return nil, err
		}
		if bytes.Equal(old, f.content) {
			return f.ownership(w, info, want), nil
		}
	} else if info.Kind != safefs.File {
		if err := mayOwn(w, f.path, want); err != nil {
			return nil, err
		}
	}
	change := host.Change{
		Do:     "write",
		What:   f.path,
		Before: describe(info),
		After:  fmt.Sprintf("%d bytes, %04o", len(f.content), want.Mode),
	}
	if info.Kind == safefs.Absent {
		change.Do = "create"
	}
	isPublic := readable(info) && want.Mode&0o004 != 0 && !f.secret
	if f.diff && !isLarge && isPublic && w.MayShow(old, f.content) && w.IsOpen(f.path) {
		change.Diff = diff(f.path, old, f.content)
	}
	return []host.Step{{
		Change: change,
		Apply:  func(ctx context.Context) error { return f.write(ctx, w, want) },
		Check:  f.verifyCopy,
		Predict: func(w *host.World) {
			w.SetFile(f.path, safefs.Info{
				Kind: safefs.File,
				Mode: want.Mode,
				UID:  want.UID,
				GID:  want.GID,
				Size: int64(len(f.content)),
			}, slices.Clone(f.content))
		},
	}}, nil
}

// ownership plans the owner and mode of a file that has the wanted content. Where the state goes through directories of
// other users it replaces the file: package safefs changes no file that a user may have moved there.
func (f *wanted) ownership(w *host.World, info safefs.Info, want safefs.Attributes) []host.Step {
	steps := ownership(w, f.path, info, want)
	if w.Links == safefs.UserLinks {
		for i := range steps {
			steps[i].Apply = func(ctx context.Context) error { return f.write(ctx, w, want) }
		}
	}
	return steps
}

// mayOwn refuses a new file of a third user in the directory of a user, which would not be read again.
func mayOwn(w *host.World, name string, want safefs.Attributes) error {
	d, _, err := w.Links.Parent(name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a planned directory
		}
		return err
	}
	defer d.Close()
	if uid, _, trusted := d.Owner(); !trusted && want.UID != 0 && uid != want.UID && w.Links == safefs.TrustedLinks {
		const text = "%s is in a directory of the user %d; name this user or root in the argument user, " +
			"or give follow: true"
		return fmt.Errorf(text, name, uid)
	}
	return nil
}

func readable(info safefs.Info) bool { return info.Kind != safefs.File || info.Mode&0o004 != 0 }

func describe(info safefs.Info) string {
	switch info.Kind {
	case safefs.Absent:
		return ""
	case safefs.File:
		return fmt.Sprintf("%d bytes, %04o", info.Size, info.Mode)
	case safefs.Symlink:
		return "link to " + info.Target
	}
	return info.Kind.String()
}

// write stages the file, has it checked and puts it at its place.
func (f *wanted) write(ctx context.Context, w *host.World, a safefs.Attributes) error {
	return inParent(w, f.path, func(d *safefs.Dir, base string) error {
		if f.sum != "" && d.Exposed() && f.check != nil {
			return fmt.Errorf("%s cannot be checked before others can replace it; take check out", f.path)
		}
		staged, err := d.StageFrom(base, func(to io.Writer) error { return f.fill(ctx, to) }, a)
		if err != nil {
			return err
		}
		if d.Exposed() {
			err = f.verifyCopy(ctx)
		} else {
			err = f.verify(ctx, staged.Path())
		}
		if err == nil {
			err = w.KeepOld(f.path)
		}
		if err != nil {
			staged.Discard()
			return err
		}
		return staged.Commit()
	})
}

// verifyCopy runs the check command on a copy of the content in a directory that no other user can open.
func (f *wanted) verifyCopy(ctx context.Context) error {
	if f.check == nil {
		return nil
	}
	dir, err := os.MkdirTemp("", "zester-check-") // 0700
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	name := path.Join(dir, path.Base(f.path))
	if err := os.WriteFile(name, f.content, 0o600); err != nil {
		return err
	}
	return f.verify(ctx, name)
}

// verify runs the check command on a file with the new content.
func (f *wanted) verify(ctx context.Context, name string) error {
	if f.check == nil {
		return nil
	}
	words := make([]string, len(f.check))
	for i, w := range f.check {
		words[i] = strings.ReplaceAll(w, "{}", name)
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = host.Environment()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("the check of the new content fails, the old file stays: %s: %w, with the output %.2000q",
			strings.Join(f.check, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// ownership plans the owner and mode of a file or directory that is there.
func ownership(w *host.World, name string, info safefs.Info, want safefs.Attributes) []host.Step {
	hasList := info.HasACL && want.ModeOnly
	if info.Mode == want.Mode && info.UID == want.UID && info.GID == want.GID && !hasList {
		return nil
	}
	change := host.Change{
		Do:     "mode",
		What:   name,
		Before: fmt.Sprintf("%04o", info.Mode),
		After:  fmt.Sprintf("%04o", want.Mode),
	}
	if info.UID != want.UID || info.GID != want.GID {
		change = host.Change{
			Do:     "owner",
			What:   name,
			Before: fmt.Sprintf("%d:%d %04o", info.UID, info.GID, info.Mode),
			After:  fmt.Sprintf("%d:%d %04o", want.UID, want.GID, want.Mode),
		}
	}
	if hasList {
		change.Before += " with an access list"
	}
	return []host.Step{{
		Change: change,
		Apply: func(context.Context) error {
			return inParent(w, name, func(d *safefs.Dir, base string) error { return d.Own(base, want) })
		},
		Predict: func(w *host.World) {
			info.HasACL = info.HasACL && !want.ModeOnly
			info.Mode, info.UID, info.GID = want.Mode, want.UID, want.GID
			w.SetInfo(name, info)
		},
	}}
}

// diff compares two texts, empty if one of them is no text or they are too large.
func diff(name string, before, after []byte) string {
	if len(before) > maxDiff || len(after) > maxDiff || !isText(before) || !isText(after) {
		return ""
	}
	out := udiff.Unified(name, name, string(before), string(after))
	lines := strings.SplitAfter(out, "\n")
	if len(lines) > maxLines {
		out = strings.Join(lines[:maxLines], "") + fmt.Sprintf("… and %d lines more\n", len(lines)-maxLines)
	}
	return out
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

func isText(b []byte) bool { return utf8.Valid(b) && !bytes.ContainsRune(b, 0) }
