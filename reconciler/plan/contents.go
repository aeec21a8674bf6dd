// File contents.go reads the files below files/ of a revision, whose contents states name. Begin with a [ContentCache],
// which remembers what it read of the last two revisions, and call [ContentCache.Begin] for each revision.
//
// A [Content] has the hash, size and key of a file and what is wrong with it. The content itself is not kept:
// [ContentReader.Read] reads it again when it is published or compared.
//
// Guarantees:
//   - A symbolic link is never followed, and nothing outside files/ is read.
//   - A file of sops is secret: its hash and key are masked wherever they are shown.
//   - A returned error is about reading the tree; what is wrong with a file is in its Content.

package plan

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/content"
	"github.com/seed-c01c3da5/zester/settings/sops"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/state/mustache"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// maxFiles is the highest number of files that one directory of a file.recurse may have.
const maxFiles = 10_000

// A Content describes a file below files/.
type Content struct {
	Path string // with the prefix files/
	content.File
	Masked string // in place of the hash and the key of a secret content; empty if it is not secret
	Reason Reason // of Problem
	// Problem says why the file cannot be used, such as "is a symbolic link"; empty if it can.
	Problem string
}

// A ContentCache remembers the contents of the last two revisions whose contents differ. It is not safe for concurrent
// use.
type ContentCache struct {
	known [2]known
	sum   any // of the contents of the newest revision
}

// known holds contents and errors of templates by path and the hash that the tree gives the file.
type known struct {
	contents  map[place]Content
	templates map[place]string
}

type place struct {
	path string
	sum  any
}

func newKnown() known {
	return known{contents: map[place]Content{}, templates: map[place]string{}}
}

// A ContentReader reads the contents of one revision.
type ContentReader struct {
	tree   fs.FS
	ring   *sops.Ring
	masked bool
	before [2]known
	now    known
	asked  map[request][]Content
	sum    any // of the contents of the revision, after Sum
}

// A request is a source without its position.
type request struct {
	path          string
	dir, template bool
}

// Begin returns a reader of the revision in tree. If masked is set, secret contents are not decrypted, and such a
// content can be compared and shown but not published; otherwise the identities of ring decrypt them.
func (c *ContentCache) Begin(tree fs.FS, ring *sops.Ring, masked bool) *ContentReader {
	return &ContentReader{
		tree:   tree,
		ring:   ring,
		masked: masked,
		before: c.known,
		now:    newKnown(),
		asked:  map[request][]Content{},
	}
}

// Keep remembers what a reader has read.
func (c *ContentCache) Keep(r *ContentReader) {
	if r.sum == nil || r.sum != c.sum {
		c.known, c.sum = [2]known{r.now, c.known[0]}, r.sum
		return
	}
	maps.Copy(c.known[0].contents, r.now.contents)
	maps.Copy(c.known[0].templates, r.now.templates)
}

// Sum identifies all contents of the revision; nil if the tree does not say it.
func (r *ContentReader) Sum() (any, error) {
	info, err := fs.Lstat(r.tree, state.FilesDir)
	if errors.Is(err, fs.ErrNotExist) {
		return "none", nil
	}
	if err != nil {
		return nil, CannotRead(state.FilesDir, err)
	}
	r.sum = info.Sys()
	return r.sum, nil
}

// All returns the contents that a source names: one file, or all files of a directory and below, sorted by path. For a
// template it also checks the text. If a Problem is about the source as a whole, there is one Content with its path.
func (r *ContentReader) All(s state.Source) ([]Content, error) {
	at := request{s.Path, s.Dir, s.Template}
	if all, ok := r.asked[at]; ok {
		return all, nil
	}
	all, err := r.all(s)
	if err == nil {
		r.asked[at] = all
	}
	return all, err
}

func (r *ContentReader) all(s state.Source) ([]Content, error) {
	if why, err := r.link(s.Path); why != "" || err != nil {
		return refused(s.Path, Invalid, why), err
	}
	info, err := fs.Lstat(r.tree, s.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		near, err := r.near(s.Path)
		return refused(s.Path, Invalid, "does not exist in the config repo"+near), err
	case err != nil:
		return nil, CannotRead(s.Path, err)
	case s.Dir && !info.IsDir():
		return refused(s.Path, Invalid, "is a file; file.recurse takes a directory"), nil
	case !s.Dir && info.IsDir():
		return refused(s.Path, Invalid, "is a directory; file.recurse takes directories"), nil
	case s.Dir:
		return r.dir(s)
	}
	c, err := r.file(s.Path, info, s.Template)
	return []Content{c}, err
}

func refused(path string, reason Reason, why string) []Content {
	return []Content{{Path: path, Reason: reason, Problem: why}}
}

// link says that a directory above a path is a symbolic link.
func (r *ContentReader) link(name string) (why string, err error) {
	for i, c := range name {
		if c != '/' {
			continue
		}
		info, err := fs.Lstat(r.tree, name[:i])
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		if err != nil {
			return "", CannotRead(name[:i], err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Sprintf("is below %s, a symbolic link, which is not followed", name[:i]), nil
		}
	}
	return "", nil
}

// near suggests a file in the same directory.
func (r *ContentReader) near(name string) (string, error) {
	entries, err := fs.ReadDir(r.tree, path.Dir(name))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return "", CannotRead(path.Dir(name), err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = path.Join(path.Dir(name), e.Name())
	}
	return strictyaml.Suggest(name, names), nil
}

func (r *ContentReader) dir(s state.Source) ([]Content, error) {
	var all []Content
	err := fs.WalkDir(r.tree, s.Path, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return CannotRead(name, err)
		}
		if d.IsDir() {
			return nil
		}
		if len(all) == maxFiles {
			all = refused(s.Path, TooLarge, fmt.Sprintf("has more than %d files", maxFiles))
			return fs.SkipAll
		}
		info, err := d.Info()
		if err != nil {
			return CannotRead(name, err)
		}
		c, err := r.file(name, info, s.Template)
		all = append(all, c)
		return err
	})
	return all, err
}

// file describes one file. Files that did not change since the last two revisions are not read.
func (r *ContentReader) file(name string, info fs.FileInfo, template bool) (Content, error) {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return Content{Path: name, Reason: Invalid, Problem: "is a symbolic link, which is not followed"}, nil
	case !info.Mode().IsRegular():
		return Content{Path: name, Reason: Invalid, Problem: "is no regular file"}, nil
	case info.Size() > 2*content.MaxFile: // a file of sops is longer than its content
		return tooLarge(name, info.Size()), nil
	}
	at := place{name, info.Sys()}
	c, ok := r.known(at)
	var plain []byte
	if !ok || at.sum == nil {
		var err error
		if c, plain, err = r.read(name); err != nil {
			return c, err
		}
	}
	if c.Mode = "0644"; info.Mode()&0o111 != 0 {
		c.Mode = "0755"
	}
	if at.sum != nil {
		r.now.contents[at] = c
	}
	if template && c.Problem == "" {
		return r.checkTemplate(c, at, plain)
	}
	return c, nil
}

func tooLarge(name string, size int64) Content {
	return Content{
		Path:    name,
		Reason:  TooLarge,
		Problem: fmt.Sprintf("has %d bytes, the limit is %d", size, int64(content.MaxFile)),
	}
}

func (r *ContentReader) known(at place) (Content, bool) {
	for _, before := range append(r.before[:], r.now) {
		if c, ok := before.contents[at]; ok {
			return c, true
		}
	}
	return Content{}, false
}

// checkTemplate sets the Problem of a content that is no template. plain is nil if it was not read yet.
func (r *ContentReader) checkTemplate(c Content, at place, plain []byte) (Content, error) {
	if c.Masked != "" && r.masked {
		return c, nil // nobody has decrypted it
	}
	problem, ok := "", false
	for _, before := range append(r.before[:], r.now) {
		if problem, ok = before.templates[at]; ok && at.sum != nil {
			break
		}
	}
	if !ok || at.sum == nil {
		if plain == nil {
			var err error
			if _, plain, err = r.read(c.Path); err != nil {
				return c, err
			}
		}
		if _, err := mustache.Parse(c.Path, string(plain)); err != nil {
			problem = "is no template: " + err.Error()
		}
	}
	if at.sum != nil {
		r.now.templates[at] = problem
	}
	c.Reason, c.Problem = Invalid, problem
	return c, nil
}

// Read returns the content of a file that All has returned without a Problem. Without identities a secret content is an
// error.
func (r *ContentReader) Read(name string) (plain []byte, c Content, err error) {
	c, plain, err = r.read(name)
	switch {
	case err != nil:
	case c.Problem != "":
		err = fmt.Errorf("%s %s", name, c.Problem)
	case plain == nil && c.Masked != "":
		err = fmt.Errorf("%s is secret and was not decrypted", name)
	}
	return plain, c, err
}

// Seal returns the sealed content of a file.
func (r *ContentReader) Seal(name string) (content.File, []byte, error) {
	plain, c, err := r.Read(name)
	if err != nil {
		return content.File{}, nil, err
	}
	salt, err := r.salt(name, c)
	if err != nil {
		return content.File{}, nil, err
	}
	f, sealed := content.Seal(plain, salt)
	return f, sealed, nil
}

// read reads and describes a file, without its mode.
func (r *ContentReader) read(name string) (c Content, plain []byte, err error) {
	data, err := fs.ReadFile(r.tree, name)
	if err != nil {
		return c, nil, CannotRead(name, err)
	}
	c.Path = name
	if IsLFSPointer(data) {
		c.Reason, c.Problem = LFSPointer, "is a pointer of Git LFS: the content is not in the repo"
		return c, nil, nil
	}
	doc := sopsDocument(name, data)
	if doc != nil {
		return r.secret(c, doc, data)
	}
	if isSealed(data) {
		c.Reason = Invalid
		c.Problem = "has values that sops encrypted, but is no YAML or JSON of sops: hosts would get them encrypted; " +
			"encrypt the file as a whole: sops encrypt --input-type binary"
		return c, nil, nil
	}
	if len(data) > content.MaxFile {
		return tooLarge(name, int64(len(data))), nil, nil
	}
	c.File, _ = content.Seal(data, nil)
	return c, data, nil
}

// isSealed reports whether a file looks as if sops wrote it. In the forms dotenv and ini it is no document.
func isSealed(data []byte) bool {
	return bytes.Contains(data, []byte("sops")) && bytes.Contains(data, []byte("ENC[AES256_GCM"))
}

// sopsDocument returns the document of a file of sops, nil for any other file.
func sopsDocument(name string, data []byte) *strictyaml.Node {
	if !isSealed(data) {
		return nil
	}
	doc, err := strictyaml.ParseWithin(name,
		data, strictyaml.Limits{Size: 2 * content.MaxFile, Nodes: strictyaml.MaxNodes})
	if err != nil || !sops.Encrypted(doc) {
		return nil
	}
	return doc
}

// secret describes a file that sops has encrypted as a whole.
func (r *ContentReader) secret(c Content, doc *strictyaml.Node, data []byte) (Content, []byte, error) {
	invalid := func(reason Reason, why string) (Content, []byte, error) {
		c.Reason, c.Problem = reason, why
		return c, nil, nil
	}
	if len(doc.Map) != 2 || doc.Get("data") == nil {
		return invalid(
			Invalid, "is a file of sops with a structure; encrypt it as a whole: sops encrypt --input-type binary",
		)
	}
	open := func(n *strictyaml.Node) (*strictyaml.Node, error) { return sops.Decrypt(n, r.ring) }
	if r.masked {
		open = sops.Masked
	}
	node, err := open(doc)
	if err != nil {
		return invalid(Undecryptable, "cannot be decrypted: "+strings.TrimPrefix(err.Error(), c.Path+":"))
	}
	c.Masked, _ = node.Get("data").Value.(string)
	if r.masked {
		c.File = content.File{Blob: fmt.Sprintf("%x", sha256.Sum256(data))}
		return c, nil, nil
	}
	text, ok := node.Get("data").Secret.(string)
	if !ok {
		return invalid(Undecryptable, "has no encrypted text under the key data")
	}
	if len(text) > content.MaxFile {
		return tooLarge(c.Path, int64(len(text))), nil, nil
	}
	salt, err := sops.Salt(doc, r.ring)
	if err != nil {
		return invalid(Undecryptable, "cannot be decrypted: "+err.Error())
	}
	c.File, _ = content.Seal([]byte(text), salt)
	return c, []byte(text), nil
}

// salt returns the salt with which a content is sealed, nil if it is not secret.
func (r *ContentReader) salt(name string, c Content) ([]byte, error) {
	if c.Masked == "" {
		return nil, nil
	}
	data, err := fs.ReadFile(r.tree, name)
	if err != nil {
		return nil, CannotRead(name, err)
	}
	doc := sopsDocument(name, data)
	if doc == nil {
		return nil, fmt.Errorf("%s has changed while it was read", name)
	}
	return sops.Salt(doc, r.ring)
}
