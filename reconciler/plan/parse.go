// File parse.go reads the files of a revision of the config repo and parses each of them. Begin with a [FileCache],
// which keeps the files of the last two revisions, and call [FileCache.Begin] for each revision.
//
// The mistakes in a file are in its [File]; a returned error is about reading the tree. Nothing here knows the peels.

package plan

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/salt"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/sops"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// A Reason names the kind of an error in one word, for a status.
type Reason string

// The reasons for which a file cannot be used.
const (
	Invalid       Reason = "Invalid"       // any other mistake
	LFSPointer    Reason = "LFSPointer"    // the content of a file is not in the repo
	TooLarge      Reason = "TooLarge"      // a file or a document is over its limit
	Undecryptable Reason = "Undecryptable" // a secret cannot be decrypted, or its file was tampered with
)

// maxNesting is below the limit of the encoding, as a document adds levels around the settings.
const maxNesting = canon.MaxDepth - 4

var lfsPointer = []byte("version https://git-lfs.github.com/spec/")

// A File is one file of a revision. Revisions share it.
type File struct {
	Path string
	// Node is the document, with placeholders for secrets; nil if there are Errs or an Oddity.
	Node *strictyaml.Node
	// Entries are the entries of the schedule section, by name, with those that are null.
	Entries map[string]strictyaml.Pair
	// States are the states of the file by name, with those that are null.
	States map[string]strictyaml.Pair
	// Source are the entries and states before decryption, as [Origins] names them.
	Source map[string]strictyaml.Pair
	// Parsed are the entries of this file that no other file changes in some signature; signatures share them.
	Parsed map[string]*schedule.Entry
	Reason Reason
	Errs   strictyaml.Errors
	// Oddity says why the file cannot be read, such as "is a symbolic link, which is not followed". It is an error only
	// if the file is needed.
	Oddity string
	// Encrypted reports that it is a file of SOPS.
	Encrypted bool
	// Unchecked reports that it is encrypted and that its MAC was not checked, because there is no identity.
	Unchecked bool

	sum  any // of the content: two files with the same path and sum are equal
	cost cost
}

func (f *File) refuse(reason Reason, at strictyaml.Pos, msg string) *File {
	f.Reason, f.Errs = reason, append(f.Errs, strictyaml.Error{Pos: at, Msg: msg})
	return f
}

// A Dir is a directory with all files below it.
type Dir struct {
	Files map[string]*File // by name
	All   []*File          // also the files of directories below

	sum  any // of the directory's content, nil if the tree has none
	cost cost
	subs []string
}

func (d *Dir) add(name string, f *File) {
	d.Files[name], d.All = f, append(d.All, f)
}

// A FileCache holds the parsed files of the last two revisions. It is not safe for concurrent use.
type FileCache struct {
	dirs [2]map[string]*Dir // by path, newest first
}

// Begin returns a reader of the revision in tree. If [fs.FileInfo.Sys] of a file or directory is a comparable value
// that a revision in the cache had too, it counts as equal and is not read again.
func (c *FileCache) Begin(tree fs.FS) *Revision {
	return &Revision{Tree: tree, before: c.dirs, now: map[string]*Dir{}}
}

// Keep puts a revision that was read into the cache.
func (c *FileCache) Keep(r *Revision) { c.dirs = [2]map[string]*Dir{r.now, c.dirs[0]} }

// A Revision reads one revision, and reuses equal files of earlier ones.
type Revision struct {
	Tree fs.FS
	// Ended returns an error when no further file is wanted; nil: all are.
	Ended func() error

	before [2]map[string]*Dir // by path
	now    map[string]*Dir
	cost   cost
}

// The budget of one revision. A tree may name one file under many paths, so the limits of single files do not bound it.
// A value takes about 130 bytes of memory.
const (
	maxBytes   = 256 << 20
	maxValues  = 3_000_000
	fileValues = 10 // that a file counts for beside its own
)

// cost is what files take from the budget of a revision.
type cost struct{ bytes, values int }

// A BudgetError says that a revision is too large as a whole. It is not read any further.
type BudgetError struct {
	Mistake strictyaml.Error // at the file with which it is
}

func (e *BudgetError) Error() string { return e.Mistake.Error() }

// charge adds a cost that arises at a path.
func (r *Revision) charge(name string, c cost) error {
	r.cost.bytes += c.bytes
	r.cost.values += c.values
	if r.cost.bytes <= maxBytes && r.cost.values <= maxValues {
		return nil
	}
	return &BudgetError{strictyaml.Error{Pos: strictyaml.Pos{File: Printable(name)}, Msg: fmt.Sprintf(
		"with it the revision has more than %d MiB or %d values in all its settings files", maxBytes>>20, maxValues)}}
}

// count returns the number of values of a document.
func count(n *strictyaml.Node) int {
	if n == nil {
		return 0
	}
	values := 1
	for _, item := range n.List {
		values += count(item)
	}
	for _, pair := range n.Map {
		values += 1 + count(pair.Value)
	}
	return values
}

// A LoadFiles parses the content of a file.
type LoadFiles func(f *File, data []byte)

// Dir reads a directory and all below it. A missing one is empty.
func (r *Revision) Dir(name string, load LoadFiles) (*Dir, error) {
	info, err := fs.Lstat(r.Tree, name)
	if errors.Is(err, fs.ErrNotExist) {
		return &Dir{}, nil
	}
	if err != nil {
		return nil, CannotRead(name, err)
	}
	if !info.IsDir() {
		return &Dir{}, nil
	}
	return r.walk(name, info.Sys(), load)
}

func (r *Revision) walk(name string, sum any, load LoadFiles) (*Dir, error) {
	for _, before := range r.before {
		if d := before[name]; d != nil && sum != nil && d.sum == sum {
			r.reuse(name, d, before)
			return d, r.charge(name, d.cost)
		}
	}
	entries, err := fs.ReadDir(r.Tree, name)
	if err != nil {
		return nil, CannotRead(name, err)
	}
	d, before := &Dir{sum: sum, Files: make(map[string]*File, len(entries))}, r.cost
	r.now[name] = d
	for _, e := range entries {
		if err := r.add(d, name+"/"+e.Name(), e, load); err != nil {
			return nil, err
		}
	}
	d.cost = cost{r.cost.bytes - before.bytes, r.cost.values - before.values}
	return d, nil
}

// add reads an entry of a directory, and all below it.
func (r *Revision) add(d *Dir, below string, e fs.DirEntry, load LoadFiles) error {
	if r.Ended != nil {
		if err := r.Ended(); err != nil {
			return err
		}
	}
	if why := unsafeCharacter(e.Name()); why != "" {
		f := &File{Path: below}
		f.refuse(Invalid, strictyaml.Pos{File: Printable(below)}, fmt.Sprintf("the name %q has %s", e.Name(), why))
		d.add(e.Name(), f)
		return nil
	}
	if e.Type().IsRegular() && path.Ext(below) == ".sls" {
		f := &File{Path: below}
		f.refuse(Invalid, strictyaml.Pos{File: below}, "an .sls file of Salt does nothing here; "+
			"zester guide salt says what to write")
		d.add(e.Name(), f)
		return nil
	}
	if e.Type().IsRegular() && !isYAML(below) {
		return nil
	}
	if !fs.ValidPath(below) {
		d.All = append(d.All, &File{
			Path:   strings.ToValidUTF8(below, "\uFFFD"),
			Oddity: "has a name that is not UTF-8, which no reference can hold",
		})
		return nil
	}
	info, err := e.Info()
	if err != nil {
		return CannotRead(below, err)
	}
	if e.IsDir() {
		sub, err := r.walk(below, info.Sys(), load)
		if err != nil {
			return err
		}
		d.subs = append(d.subs, below)
		d.All = append(d.All, sub.All...)
		return nil
	}
	f, err := r.file(below, info, load)
	if err != nil {
		return err
	}
	d.add(e.Name(), f)
	return nil
}

func (r *Revision) reuse(name string, d *Dir, before map[string]*Dir) {
	r.now[name] = d
	for _, sub := range d.subs {
		r.reuse(sub, before[sub], before)
	}
}

// isYAML reports whether a name ends in .yaml or .yml. The latter is refused later, with a hint.
func isYAML(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return ext == ".yaml" || ext == ".yml"
}

// known finds a file of an earlier revision.
func (r *Revision) known(name string, sum any) *File {
	for _, before := range r.before {
		if d := before[path.Dir(name)]; d != nil {
			if f := d.Files[path.Base(name)]; f != nil && f.sum == sum {
				return f
			}
		}
	}
	return nil
}

// File reads a file outside the directories that are walked; nil if there is none.
func (r *Revision) File(name string, load LoadFiles) (*File, error) {
	info, err := fs.Lstat(r.Tree, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, CannotRead(name, err)
	}
	root := r.now["."]
	if root == nil {
		root = &Dir{Files: map[string]*File{}}
		r.now["."] = root
	}
	f, err := r.file(name, info, load)
	if err != nil {
		return nil, err
	}
	root.Files[name] = f
	return f, nil
}

func (r *Revision) file(name string, info fs.FileInfo, load LoadFiles) (*File, error) {
	f := &File{Path: name, sum: info.Sys()}
	whole := strictyaml.Pos{File: name}
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		f.Oddity = "is a symbolic link, which is not followed"
		return f, nil
	case mode.IsDir():
		f.Oddity = "is a directory"
		return f, nil
	case !mode.IsRegular():
		f.Oddity = "is a submodule or of an unknown mode, which is not looked into"
		return f, nil
	case path.Ext(name) != ".yaml":
		return f.refuse(Invalid, whole,
			fmt.Sprintf("settings end in .yaml; rename it to %s.yaml", strings.TrimSuffix(name, path.Ext(name)))), nil
	case info.Size() > strictyaml.MaxSize:
		return f.refuse(TooLarge, whole, fmt.Sprintf("%d bytes, the limit is %d", info.Size(), strictyaml.MaxSize)), nil
	}
	if err := r.charge(name, cost{int(info.Size()), fileValues}); err != nil {
		return nil, err
	}
	if f.sum != nil {
		if known := r.known(name, f.sum); known != nil {
			return known, r.charge(name, known.cost)
		}
	}
	data, err := fs.ReadFile(r.Tree, name)
	if err != nil {
		return nil, CannotRead(name, err)
	}
	if f.sum == nil {
		f.sum = sha256.Sum256(data)
		if known := r.known(name, f.sum); known != nil {
			return known, r.charge(name, known.cost)
		}
	}
	if IsLFSPointer(data) {
		return f.refuse(LFSPointer, strictyaml.Pos{File: name, Line: 1, Column: 1},
			"it is a pointer of Git LFS: the content is not in the repo"), nil
	}
	load(f, data)
	f.cost.values = count(f.Node)
	return f, r.charge(name, f.cost)
}

// IsLFSPointer reports whether the content of a file is not in the repo but in a store of Git LFS.
func IsLFSPointer(data []byte) bool { return bytes.HasPrefix(data, lfsPointer) }

// CannotRead returns the error of reading a part of the tree.
func CannotRead(name string, err error) error { return fmt.Errorf("cannot read %s: %w", name, err) }

// Plain parses a file that is not a settings file.
func Plain(f *File, data []byte) {
	node, err := strictyaml.Parse(f.Path, data)
	if err != nil {
		f.Reason, f.Errs = Invalid, AsErrors(f.Path, err)
		return
	}
	f.Node = node
}

// Veiled parses a settings file with placeholders for its secrets. Nothing is decrypted, and no MAC is checked.
func Veiled(f *File, data []byte) {
	loadSettings(f, data, sops.Masked)
	f.Unchecked = f.Encrypted
}

// Decrypted returns a Load that decrypts settings files with the identities of ring, which may be nil.
func Decrypted(ring *sops.Ring) LoadFiles {
	return func(f *File, data []byte) {
		loadSettings(f, data, func(doc *strictyaml.Node) (*strictyaml.Node, error) { return sops.Decrypt(doc, ring) })
	}
}

// loadSettings parses and checks one settings file.
func loadSettings(f *File, data []byte, open func(*strictyaml.Node) (*strictyaml.Node, error)) {
	Plain(f, data)
	switch {
	case f.Node == nil:
		return
	case f.Node.Kind == strictyaml.Null:
		f.Node = &strictyaml.Node{Kind: strictyaml.Map, Pos: f.Node.Pos}
		return
	case f.Node.Kind != strictyaml.Map:
		f.refuse(Invalid, f.Node.Pos, f.Node.Mismatch("a map of settings"))
		return
	}
	if n := nesting(f.Node); n > maxNesting {
		f.refuse(Invalid, f.Node.Pos, fmt.Sprintf("nested %d levels deep, the limit is %d", n, maxNesting))
		return
	}
	written := f.Node
	if f.Encrypted = sops.Encrypted(f.Node); f.Encrypted {
		node, err := open(f.Node)
		if err != nil {
			f.Reason, f.Errs = Undecryptable, AsErrors(f.Path, err)
			return
		}
		f.Node = node
	}
	f.Source = Origins(written)
	f.checkStates()
	section := f.Node.Get("schedule")
	if section == nil {
		return
	}
	if err := schedule.CheckFields(section); err != nil {
		f.Reason, f.Errs = Invalid, append(f.Errs, AsErrors(f.Path, err)...)
	}
	f.Entries, f.Parsed = byName(section), map[string]*schedule.Entry{}
}

// checkStates checks the states of the file.
func (f *File) checkStates() {
	for _, p := range f.Node.Map {
		if p.Key == state.CompiledKey {
			f.refuse(Invalid, p.KeyPos, state.CompiledKey+" is reserved: the compiler writes it")
		}
		if why := salt.Misplaced(p, state.FunctionNames()); why != "" {
			f.refuse(Invalid, p.KeyPos, p.Key+": "+why)
		}
	}
	section := f.Node.Get(state.Key)
	if section == nil {
		return
	}
	if err := state.CheckFields(section); err != nil {
		f.Reason, f.Errs = Invalid, append(f.Errs, AsErrors(f.Path, err)...)
		return
	}
	f.Node = state.Normalize(f.Node)
	f.States = byName(f.Node.Get(state.Key))
}

// Origins returns the schedule entries and the states of a settings file, by the names under which documents hold their
// origins.
func Origins(doc *strictyaml.Node) map[string]strictyaml.Pair {
	all := map[string]strictyaml.Pair{}
	for _, section := range []struct{ key, prefix string }{{"schedule", ""}, {state.Key, settings.StateOrigin}} {
		if n := doc.Get(section.key); n != nil {
			for _, p := range n.Map {
				all[section.prefix+p.Key] = p
			}
		}
	}
	return all
}

func byName(section *strictyaml.Node) map[string]strictyaml.Pair {
	entries := make(map[string]strictyaml.Pair, len(section.Map))
	for _, p := range section.Map {
		entries[p.Key] = p
	}
	return entries
}

// AsErrors converts the error of a parser to errors about one file.
func AsErrors(name string, err error) strictyaml.Errors {
	if errs, ok := errors.AsType[strictyaml.Errors](err); ok {
		return errs
	}
	return strictyaml.Errors{{Pos: strictyaml.Pos{File: name}, Msg: err.Error()}}
}

// nesting returns the greatest depth of lists and maps in n.
func nesting(n *strictyaml.Node) int {
	deepest := 0
	for _, e := range n.List {
		deepest = max(deepest, nesting(e))
	}
	for _, p := range n.Map {
		deepest = max(deepest, nesting(p.Value))
	}
	if n.Kind == strictyaml.List || n.Kind == strictyaml.Map {
		deepest++
	}
	return deepest
}
