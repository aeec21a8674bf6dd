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
	"github.com/seed-c01c3da5/zester/settings/content"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// maxPacked bounds the packed files of a revision, in bytes.
const maxPacked = 16 << 20

// errTooLarge: the packed files of a revision are over maxPacked.
var errTooLarge = fmt.Errorf("its files take more than %d MiB, packed", maxPacked>>20)

// pack returns a zip archive of the files that a revision is compiled from, without other files.
func pack(tree fs.FS) ([]byte, error) {
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
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
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: name, Method: zip.Deflate}
		header.SetMode(info.Mode().Perm())
		w, err := archive.CreateHeader(header)
		if err == nil {
			_, err = w.Write(data)
		}
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

// unpack returns the revision with the files that pack has packed.
func (e *Entry) unpack(packed []byte) (*Revision, error) {
	r, err := e.header()
	if err != nil {
		return nil, err
	}
	if r.Tree, err = zip.NewReader(bytes.NewReader(packed), int64(len(packed))); err != nil {
		return nil, fmt.Errorf("cannot read stored revision %s: %w", e.Commit.Short(), err)
	}
	return r, nil
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
