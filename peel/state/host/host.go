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
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

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
	Apply func(ctx context.Context) error
	// of what can be checked without a change, in test mode before Predict; may be nil
	Check   func(ctx context.Context) error
	Predict func(w *World)
}

// An UnknownError says why a plan cannot be made before other steps are done. It occurs in test mode alone.
type UnknownError struct{ Why string }

func (e *UnknownError) Error() string { return e.Why }

// A World is a host with the effects of planned steps. It is not safe for concurrent use.
type World struct {
	HasSecret func(text []byte) bool // reports whether a text contains a secret; if nil, no text does
	// Keep keeps what is at a path before a step replaces or removes it. It may be nil.
	Keep  func(links safefs.Links, name string) error
	Own   []string     // paths that this peel needs: its program, data and credential
	Links safefs.Links // that the state which is planned or applied may go through

	files  map[string]planned // by path
	users  map[string]User    // that planned steps make, or remove if !Exists
	groups map[string]Group
	tables map[string]table // of /etc, as they were read

	units  map[string]Unit // by name
	unread map[string]bool // paths of units that changed since systemd read its units
	reread bool            // a planned step has systemd read its units

	warnings []string // of the state that is planned

	mounted map[string]bool   // paths where planned steps mount file systems
	answers map[string]string // of debconf that planned steps give, by question

	packages   map[string]string // versions; empty: removed
	removed    map[string]string // package by path, of the packages that planned steps remove
	unknowable bool
	doubts     map[string]string // paths whose state after the run is not known, and why
}

// planned is a file as planned steps leave it.
type planned struct {
	info    safefs.Info
	content []byte
	unknown bool   // the content is not known
	asIs    bool   // the content is the one that the host has
	sum     string // its SHA-256, if that is all that is known of the content
}

// New returns the host as it is.
func New() *World {
	return &World{
		files: map[string]planned{}, users: map[string]User{}, groups: map[string]Group{},
		tables: map[string]table{}, units: map[string]Unit{}, unread: map[string]bool{},
		mounted: map[string]bool{}, answers: map[string]string{},
		packages: map[string]string{}, removed: map[string]string{}, doubts: map[string]string{},
	}
}

// MayShow reports whether results may show the texts.
func (w *World) MayShow(texts ...[]byte) bool {
	return w.HasSecret == nil || !slices.ContainsFunc(texts, w.HasSecret)
}

// KeepOld keeps what is at a path and below it. A step calls it before it replaces or removes that.
func (w *World) KeepOld(name string) error {
	if w.Keep == nil {
		return nil
	}
	return w.Keep(w.Links, name)
}

// MustKeep returns an error if a path is, holds or is in something that this peel needs.
func (w *World) MustKeep(name string) error {
	for _, own := range w.Own {
		for _, a := range Spellings(own) {
			for _, b := range Spellings(name) {
				if a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/") {
					return fmt.Errorf(
						"%s cannot be removed or get another owner: %s belongs to the peel that runs this", name, own,
					)
				}
			}
		}
	}
	return nil
}

// Spellings returns a path as it is and with the links in its directories followed.
func Spellings(name string) []string {
	all := []string{name}
	if dir, err := filepath.EvalSymlinks(path.Dir(name)); err == nil {
		all = append(all, path.Join(dir, path.Base(name)))
	}
	return all
}

// Planned reports whether the World differs, or may differ, from the host.
func (w *World) Planned() bool {
	accounts := len(w.users) + len(w.groups)
	return w.unknowable || accounts+len(w.files)+len(w.units)+len(w.packages)+len(w.doubts)+len(w.answers) > 0
}

// Environment returns the variables that programs of states get.
func Environment() []string {
	list := []string{"LC_ALL=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	for _, name := range []string{"PATH", "HOME"} {
		if value := os.Getenv(name); value != "" {
			list = append(list, name+"="+value)
		}
	}
	return list
}

// Unknowable notes that a planned step has effects that nobody can predict, such as those of a command.
func (w *World) Unknowable() { w.unknowable = true }

// SetFile plans a file. A nil content of a regular file means that it is not known.
func (w *World) SetFile(name string, info safefs.Info, content []byte) {
	name = w.planned(name)
	if info.Kind != safefs.Directory {
		for other := range w.files {
			if strings.HasPrefix(other, name+"/") {
				delete(w.files, other)
			}
		}
	}
	w.files[name] = planned{info: info, content: content, unknown: info.Kind == safefs.File && content == nil}
}

// SetSum plans a file of whose content the SHA-256 is known.
func (w *World) SetSum(name string, info safefs.Info, sum string) {
	w.SetFile(name, info, nil)
	name = w.planned(name)
	p := w.files[name]
	p.sum = sum
	w.files[name] = p
}

// SetInfo plans the owner and mode of a file and keeps its content.
func (w *World) SetInfo(name string, info safefs.Info) {
	name = w.planned(name)
	p, ok := w.files[name]
	p.info, p.asIs = info, p.asIs || !ok && info.Kind == safefs.File
	w.files[name] = p
}

// SetTarget plans the owner and mode of the directory that a link leads to.
func (w *World) SetTarget(link string, info safefs.Info) {
	if place, err := w.resolve(link + "/."); err == nil {
		w.SetInfo(path.Clean(place), info)
	}
}

// planned returns the path under which the file of a step is kept. The plan of the step has followed the same links.
func (w *World) planned(name string) string {
	if place, err := w.resolve(name); err == nil {
		return place
	}
	return name
}

// overlaid returns the planned state of a path: its own, or the one of a directory above it that was removed or made.
func (w *World) overlaid(name string) (planned, bool) {
	if p, ok := w.files[name]; ok {
		return p, true
	}
	for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
		if p, ok := w.files[dir]; ok {
			if w.isDoubted(name) {
				return planned{}, false
			}
			// Below a directory that exists on the host as well, the host has the rest.
			return planned{}, p.info.Kind != safefs.Directory || p.content != nil
		}
	}
	return planned{}, false
}

// maxLinks bounds the links of one path, as the kernel does.
const maxLinks = 40

// place returns the path without links in its directories, so that a planned file is found by each of its paths. While
// nothing is planned the walk of package safefs follows links.
func (w *World) place(name string) (string, error) {
	if len(w.files)+len(w.doubts) == 0 {
		return name, nil
	}
	return w.resolve(name)
}

// resolve returns the path without links in its directories.
func (w *World) resolve(name string) (string, error) {
	links := 0
	for end := 1; end < len(name); end++ {
		if name[end] != '/' {
			continue
		}
		prefix := name[:end]
		info, err := w.stat(prefix)
		if err != nil {
			return "", err
		}
		if info.Kind != safefs.Symlink {
			continue
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "open", Path: name, Err: errors.New("too many symbolic links")}
		}
		if err := w.mayFollow(prefix); err != nil {
			return "", err
		}
		target := info.Target
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(prefix), target)
		}
		name, end = path.Join(target, name[end:]), 0
	}
	return name, nil
}

// mayFollow refuses a link of the host that package safefs would not follow.
func (w *World) mayFollow(link string) error {
	if _, planned := w.overlaid(link); planned {
		return nil
	}
	d, err := w.Links.Open(link)
	if _, isUnsafe := errors.AsType[*safefs.UnsafeError](err); isUnsafe {
		return err
	}
	if err == nil {
		d.Close()
	}
	return nil
}

// IsDirectory reports whether a path is a directory, or a link to one.
func (w *World) IsDirectory(name string) (bool, error) {
	place, err := w.place(name + "/.") // path.Join removes the dot of a path with a link
	if err != nil {
		return false, err
	}
	info, err := w.stat(path.Clean(place))
	if err != nil || info.Kind != safefs.Symlink {
		return info.Kind == safefs.Directory, err
	}
	d, err := w.Links.Open(name)
	if isMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	d.Close()
	return true, nil
}

// Target describes the directory that a link leads to. A missing one is [safefs.Absent].
func (w *World) Target(link string) (safefs.Info, error) {
	place, err := w.resolve(link + "/.") // path.Join removes the dot
	if err != nil {
		return safefs.Info{}, err
	}
	return w.stat(path.Clean(place))
}

// Stat describes a file without following it. A missing one, also for lack of its directory, is [safefs.Absent].
func (w *World) Stat(name string) (safefs.Info, error) {
	place, err := w.place(name)
	if err != nil {
		return safefs.Info{}, err
	}
	return w.stat(place)
}

func (w *World) stat(name string) (safefs.Info, error) {
	if p, ok := w.overlaid(name); ok {
		return p.info, nil
	}
	if name == "/" {
		return safefs.Info{Kind: safefs.Directory, Mode: 0o755}, nil
	}
	info, err := w.onHost(name)
	if err != nil {
		return safefs.Info{}, err
	}
	return info, w.known(name, info.Kind != safefs.Absent)
}

// IsOpen reports whether every user gets to the directory of a path.
func (w *World) IsOpen(name string) bool {
	place, err := w.resolve(name)
	for err == nil && place != "/" {
		place = path.Dir(place)
		var dir safefs.Info
		if dir, err = w.stat(place); dir.Kind == safefs.Directory && dir.Mode&0o001 == 0 {
			return false
		}
	}
	return err == nil
}

// onHost describes a file of the host.
func (w *World) onHost(name string) (safefs.Info, error) {
	d, base, err := w.Links.Parent(name)
	if isMissing(err) {
		return safefs.Info{}, nil
	}
	if err != nil {
		return safefs.Info{}, err
	}
	defer d.Close()
	return d.Stat(base)
}

// isMissing reports whether there can be no file of a path: a directory above it is missing, or is no directory.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

// Read returns the content of a regular file. More than limit bytes are an error.
func (w *World) Read(name string, limit int64) ([]byte, error) {
	name, err := w.place(name)
	if err != nil {
		return nil, err
	}
	if p, ok := w.overlaid(name); ok && !p.asIs {
		switch {
		case p.info.Kind == safefs.Absent:
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		case p.unknown:
			return nil, &UnknownError{fmt.Sprintf("the content of %s is not known before it is written", name)}
		}
		return p.content, nil
	}
	if err := w.known(name, true); err != nil {
		return nil, err
	}
	d, base, err := w.Links.Parent(name)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Read(base, limit)
}

// Sum returns the SHA-256 of a regular file in hexadecimal digits.
func (w *World) Sum(name string) (string, error) {
	name, err := w.place(name)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	if p, ok := w.overlaid(name); ok && p.sum != "" {
		return p.sum, nil
	} else if ok && !p.asIs {
		content, err := w.Read(name, p.info.Size)
		hash.Write(content)
		return hex.EncodeToString(hash.Sum(nil)), err
	}
	if err := w.known(name, true); err != nil {
		return "", err
	}
	d, base, err := w.Links.Parent(name)
	if err != nil {
		return "", err
	}
	defer d.Close()
	err = d.Copy(base, hash)
	return hex.EncodeToString(hash.Sum(nil)), err
}

// List returns the names in a directory, sorted. A missing directory has none.
func (w *World) List(name string) ([]string, error) {
	name, err := w.place(name + "/.") // path.Join removes the dot of a path with a link
	if err != nil {
		return nil, err
	}
	name = path.Clean(name)
	names := map[string]bool{}
	if p, ok := w.overlaid(name); !ok || p.info.Kind == safefs.Directory && p.content == nil {
		if err := w.known(name, false); err != nil {
			return nil, err
		}
		d, err := w.Links.Open(name)
		if err == nil {
			defer d.Close()
			var list []string
			if list, err = d.List(); err == nil {
				for _, n := range list {
					names[n] = true
				}
			}
		}
		if err != nil && !isMissing(err) {
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
	// content marks it as new: the host has nothing below
	w.files[w.planned(name)] = planned{info: info, content: []byte{}}
}
