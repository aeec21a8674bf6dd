package plan

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/sops"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

const (
	policyFile  = "zester.yaml"
	topFile     = "top.yaml"
	topDir      = "top.d"
	settingsDir = "settings"
)

// maxNesting leaves room for the message that carries settings within the limit of the encoding.
const maxNesting = canon.MaxDepth - 4

var lfsPointer = []byte("version https://git-lfs.github.com/spec/")

// file is one file of a revision as far as it can be read. Revisions share it.
type file struct {
	path string
	sum  any // of the content: two files of one path and equal sums are equal
	node *strictyaml.Node
	// entries are those of the schedule section, by name, null ones included.
	entries map[string]strictyaml.Pair
	// written are entries as the file has them, which with secrets is encrypted.
	written map[string]strictyaml.Pair
	// parsed are those of entries that a signature took as they are; signatures share them.
	parsed map[string]*schedule.Entry
	reason Reason
	errs   strictyaml.Errors
	// odd says why there is nothing to read: a symbolic link, a submodule. It is an error only if the file is needed.
	odd string
	// encrypted tells that it is a file of SOPS.
	encrypted bool
	// unchecked: it is encrypted, and its MAC was not checked because there is no identity.
	unchecked bool
}

func (f *file) refuse(reason Reason, at strictyaml.Pos, msg string) *file {
	f.reason, f.errs = reason, append(f.errs, strictyaml.Error{Pos: at, Msg: msg})
	return f
}

// dir is a directory with all files below it.
type dir struct {
	sum   any // of all that is below, nil if the tree does not tell
	files map[string]*file
	all   []*file // with those of the directories below
	subs  []string
}

func (d *dir) add(name string, f *file) {
	d.files[name], d.all = f, append(d.all, f)
}

// reader reads one revision and takes over what the ones before had already.
type reader struct {
	tree   fs.FS
	before []map[string]*dir // by path, of earlier revisions
	now    map[string]*dir
}

// dir reads a directory and all below it. A missing one is empty.
func (r *reader) dir(name string, load func(*file, []byte)) (*dir, error) {
	info, err := fs.Lstat(r.tree, name)
	if errors.Is(err, fs.ErrNotExist) {
		return &dir{}, nil
	}
	if err != nil {
		return nil, cannotRead(name, err)
	}
	if !info.IsDir() {
		return &dir{}, nil
	}
	return r.walk(name, info.Sys(), load)
}

func (r *reader) walk(name string, sum any, load func(*file, []byte)) (*dir, error) {
	for _, before := range r.before {
		if d := before[name]; d != nil && sum != nil && d.sum == sum {
			r.reuse(name, d, before)
			return d, nil
		}
	}
	entries, err := fs.ReadDir(r.tree, name)
	if err != nil {
		return nil, cannotRead(name, err)
	}
	d := &dir{sum: sum, files: make(map[string]*file, len(entries))}
	r.now[name] = d
	for _, e := range entries {
		below := name + "/" + e.Name()
		if why := unsafe(e.Name()); why != "" {
			f := &file{path: below}
			f.refuse(Invalid, strictyaml.Pos{File: shown(below)}, fmt.Sprintf("the name %q has %s", e.Name(), why))
			d.add(e.Name(), f)
			continue
		}
		if e.Type().IsRegular() && !isYAML(below) {
			continue
		}
		if !fs.ValidPath(below) {
			d.all = append(d.all, &file{path: strings.ToValidUTF8(below, "\uFFFD"), odd: "has a name that is not UTF-8, which no reference can hold"})
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, cannotRead(below, err)
		}
		if e.IsDir() {
			sub, err := r.walk(below, info.Sys(), load)
			if err != nil {
				return nil, err
			}
			d.subs = append(d.subs, below)
			d.all = append(d.all, sub.all...)
			continue
		}
		f, err := r.file(below, info, load)
		if err != nil {
			return nil, err
		}
		d.add(e.Name(), f)
	}
	return d, nil
}

func (r *reader) reuse(name string, d *dir, before map[string]*dir) {
	r.now[name] = d
	for _, sub := range d.subs {
		r.reuse(sub, before[sub], before)
	}
}

// isYAML accepts both endings, one of which is then refused with a hint.
func isYAML(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return ext == ".yaml" || ext == ".yml"
}

// known finds a file of an earlier revision.
func (r *reader) known(name string, sum any) *file {
	for _, before := range r.before {
		if d := before[path.Dir(name)]; d != nil {
			if f := d.files[path.Base(name)]; f != nil && f.sum == sum {
				return f
			}
		}
	}
	return nil
}

// single reads a file outside the directories that are walked; nil if there is none.
func (r *reader) single(name string, load func(*file, []byte)) (*file, error) {
	info, err := fs.Lstat(r.tree, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, cannotRead(name, err)
	}
	root := r.now["."]
	if root == nil {
		root = &dir{files: map[string]*file{}}
		r.now["."] = root
	}
	f, err := r.file(name, info, load)
	root.files[name] = f
	return f, err
}

func (r *reader) file(name string, info fs.FileInfo, load func(*file, []byte)) (*file, error) {
	f := &file{path: name, sum: info.Sys()}
	whole := strictyaml.Pos{File: name}
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		f.odd = "is a symbolic link, which is not followed"
		return f, nil
	case mode.IsDir():
		f.odd = "is a directory"
		return f, nil
	case !mode.IsRegular():
		f.odd = "is a submodule or of an unknown mode, which is not looked into"
		return f, nil
	case path.Ext(name) != ".yaml":
		return f.refuse(Invalid, whole, fmt.Sprintf("settings end in .yaml; rename it to %s.yaml", strings.TrimSuffix(name, path.Ext(name)))), nil
	case info.Size() > strictyaml.MaxSize:
		return f.refuse(TooLarge, whole, fmt.Sprintf("%d bytes, the limit is %d", info.Size(), strictyaml.MaxSize)), nil
	}
	if f.sum != nil {
		if known := r.known(name, f.sum); known != nil {
			return known, nil
		}
	}
	data, err := fs.ReadFile(r.tree, name)
	if err != nil {
		return nil, cannotRead(name, err)
	}
	if f.sum == nil {
		f.sum = sha256.Sum256(data)
		if known := r.known(name, f.sum); known != nil {
			return known, nil
		}
	}
	if bytes.HasPrefix(data, lfsPointer) {
		return f.refuse(LFSPointer, strictyaml.Pos{File: name, Line: 1, Column: 1}, "it is a pointer of Git LFS: the content is not in the repo"), nil
	}
	load(f, data)
	return f, nil
}

func cannotRead(name string, err error) error { return fmt.Errorf("cannot read %s: %w", name, err) }

func loadPlain(f *file, data []byte) {
	node, err := strictyaml.Parse(f.path, data)
	if err != nil {
		f.reason, f.errs = Invalid, asErrors(f.path, err)
		return
	}
	f.node = node
}

// loadSettings checks what can be checked of one settings file, whether a peel uses it or not.
func (c *Compiler) loadSettings(f *file, data []byte) {
	loadPlain(f, data)
	switch {
	case f.node == nil:
		return
	case f.node.Kind == strictyaml.Null:
		f.node = &strictyaml.Node{Kind: strictyaml.Map, Pos: f.node.Pos}
		return
	case f.node.Kind != strictyaml.Map:
		f.refuse(Invalid, f.node.Pos, f.node.Mismatch("a map of settings"))
		return
	}
	if n := nesting(f.node); n > maxNesting {
		f.refuse(Invalid, f.node.Pos, fmt.Sprintf("nested %d levels deep, the limit is %d", n, maxNesting))
		return
	}
	written := f.node.Get("schedule")
	if f.encrypted = sops.Encrypted(f.node); f.encrypted && !c.decrypt(f) {
		return
	}
	section := f.node.Get("schedule")
	if section == nil {
		return
	}
	if err := schedule.CheckFields(section); err != nil {
		f.reason, f.errs = Invalid, asErrors(f.path, err)
	}
	f.entries, f.parsed = byName(section), map[string]*schedule.Entry{}
	f.written = f.entries
	if section != written {
		f.written = byName(written)
	}
}

func byName(section *strictyaml.Node) map[string]strictyaml.Pair {
	entries := make(map[string]strictyaml.Pair, len(section.Map))
	for _, p := range section.Map {
		entries[p.Key] = p
	}
	return entries
}

// decrypt puts the secrets of a file in their place, with an identity if the compiler has been given any.
func (c *Compiler) decrypt(f *file) bool {
	open := sops.Veil
	f.unchecked = !c.identified
	if c.identified {
		open = func(doc *strictyaml.Node) (*strictyaml.Node, error) { return sops.Decrypt(doc, c.ring) }
	}
	node, err := open(f.node)
	if err != nil {
		f.reason, f.errs = Undecryptable, asErrors(f.path, err)
		return false
	}
	f.node = node
	return true
}

// asErrors makes the errors of one file from what a parser returned.
func asErrors(name string, err error) strictyaml.Errors {
	if errs, ok := errors.AsType[strictyaml.Errors](err); ok {
		return errs
	}
	return strictyaml.Errors{{Pos: strictyaml.Pos{File: name}, Msg: err.Error()}}
}

// settingsPath is the file that a reference names.
func settingsPath(ref string) string {
	return settingsDir + "/" + strings.ReplaceAll(ref, ".", "/") + ".yaml"
}

// nameable reports whether a reference can name a settings file.
func nameable(path string) bool {
	stem := strings.TrimSuffix(strings.TrimPrefix(path, settingsDir+"/"), ".yaml")
	return settingsDir+"/"+stem+".yaml" == path && !strings.ContainsFunc(stem, isUnnameable)
}

// referenceTo is the reference that names a settings file, if it has letters that a reference may have.
func referenceTo(name string) string {
	name = strings.TrimSuffix(strings.TrimPrefix(name, settingsDir+"/"), ".yaml")
	return strings.Map(func(c rune) rune {
		switch {
		case c == '/':
			return '.'
		case isUnnameable(c):
			return '?'
		}
		return c
	}, name)
}

func isUnnameable(c rune) bool {
	return c > 'z' || !('A' <= c && c <= 'Z' || 'a' <= c || '0' <= c && c <= '9' || c == '_' || c == '/' || c == '-')
}
