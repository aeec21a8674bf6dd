package archive

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/content"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// maxPacked bounds the packed files of a revision, in bytes.
const maxPacked = 16 << 20

// errTooLarge: the packed files of a revision are over maxPacked.
var errTooLarge = fmt.Errorf("its files take more than %d MiB, packed", maxPacked>>20)

// pack returns a zip archive of the files that a revision is compiled from, without other files. A content that
// states name is an empty file with its [content.File] as a comment.
func pack(tree fs.FS, contents map[string]content.File) ([]byte, error) {
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	err := Walk(tree, func(name string, info fs.FileInfo) error {
		err := add(archive, tree, name, info, contents)
		if err == nil && b.Len() > maxPacked {
			err = errTooLarge
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if b.Len() > maxPacked {
		return nil, errTooLarge
	}
	return b.Bytes(), nil
}

// Walk calls f for each file that a revision is compiled from, in the order of their names, until f returns an error.
// It leaves out files that are too large to be compiled.
func Walk(tree fs.FS, f func(name string, info fs.FileInfo) error) error {
	return fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && !isCompiledDir(name):
			return fs.SkipDir
		case d.IsDir() || !d.Type().IsRegular() || !isCompiled(name):
			return nil
		}
		info, err := d.Info()
		most := int64(strictyaml.MaxSize)
		if isBelow(name, state.FilesDir) {
			most = 2 * content.MaxFile
		}
		if err != nil || info.Size() > most {
			return err
		}
		return f(name, info)
	})
}

// add adds a file to a packed revision.
func add(archive *zip.Writer, tree fs.FS, name string, info fs.FileInfo, contents map[string]content.File) error {
	data, err := fs.ReadFile(tree, name)
	if err != nil {
		return err
	}
	h := &zip.FileHeader{Name: name, Method: zip.Deflate}
	h.SetMode(info.Mode().Perm())
	if f, ok := contents[name]; ok {
		// a file of sops is packed: its key would open it without the identities
		if public, _ := content.Seal(data, nil); public.Blob == f.Blob {
			reference, err := canon.Marshal(f)
			if err != nil {
				return err
			}
			h.Comment, data = string(reference), nil
		}
	}
	w, err := archive.CreateHeader(h)
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// isCompiledDir reports whether a folder may hold files that a revision is compiled from.
func isCompiledDir(name string) bool {
	return name == "." || name == "top.d" || isBelow(name, "settings") || isBelow(name, state.FilesDir)
}

func isBelow(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// isCompiled reports whether a revision is compiled from a file of a folder that isCompiledDir accepts.
func isCompiled(name string) bool {
	if !utf8.ValidString(name) {
		return false
	}
	if isBelow(name, state.FilesDir) {
		return true
	}
	if path.Ext(name) != ".yaml" {
		return false
	}
	return strings.Contains(name, "/") || name == "top.yaml" || name == "zester.yaml"
}

// unpack returns the revision with the files that pack has packed. read returns a content that the revision refers to.
func (e *Entry) unpack(packed []byte, read func(content.File) ([]byte, error)) (*Revision, error) {
	r, err := e.header()
	if err != nil {
		return nil, err
	}
	files, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err == nil {
		r.Contents, err = references(files)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read stored revision %s: %w", e.Commit.Short(), err)
	}
	r.Tree = &tree{files, r.Contents, read}
	return r, nil
}

// references returns the contents to which a packed revision refers, by path.
func references(files *zip.Reader) (map[string]content.File, error) {
	all := map[string]content.File{}
	for _, file := range files.File {
		if file.Comment == "" {
			continue
		}
		var f content.File
		err := canon.Unmarshal([]byte(file.Comment), &f)
		if err == nil {
			err = f.Check()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name, err)
		}
		all[file.Name] = f
	}
	return all, nil
}

// A tree has the files of a stored revision. It reads the contents to which the revision refers from the bus.
type tree struct {
	*zip.Reader
	contents map[string]content.File
	read     func(content.File) ([]byte, error)
}

// ReadFile returns the content of a file.
func (t *tree) ReadFile(name string) ([]byte, error) {
	f, ok := t.contents[name]
	if !ok {
		return fs.ReadFile(t.Reader, name)
	}
	data, err := t.read(f)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return data, nil
}

// header returns the revision without its files.
func (e *Entry) header() (*Revision, error) {
	hash, err := gitrepo.ParseHash(string(e.Commit))
	if err != nil {
		return nil, err
	}
	c := gitrepo.Commit{Hash: hash, Author: e.Author, Email: e.Email, Message: e.Message, Time: e.Time}
	return &Revision{Commit: c, Safety: e.Safety}, nil
}
