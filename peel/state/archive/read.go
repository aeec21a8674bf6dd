//go:build linux

package archive

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/safefs"
)

// Limits of an archive.
const (
	maxEntries = 50_000
	maxBytes   = 4 << 30  // of all contents together
	maxRatio   = 200      // of what is extracted to what the archive has, beyond freeBytes
	freeBytes  = 64 << 20 // that any archive may have
	maxName    = 4096     // bytes of a name or target
)

// An entry is a file, directory or link of an archive, and after it was extracted what it is on the host.
type entry struct {
	Name     string      `json:"name"` // below the directory of the state, clean
	Kind     safefs.Kind `json:"kind"`
	Mode     uint32      `json:"mode,omitempty"`
	Size     int64       `json:"size,omitempty"`
	Target   string      `json:"target,omitempty"`   // of a symbolic link
	Modified int64       `json:"modified,omitempty"` // of a file, in nanoseconds since 1970

	same string // of a hard link: the name of the other entry
}

// A source is an archive that is read several times.
type source struct {
	data   io.ReaderAt
	size   int64
	format string // ending of the name
	strip  uint32
}

// each calls visit with each entry that is left after strip, and with its content.
func (s *source) each(visit func(e entry, content io.Reader) error) error {
	left := &budget{left: min(maxBytes, freeBytes+maxRatio*s.size)}
	if s.format == ".zip" {
		return s.eachOfZip(left, visit)
	}
	var data io.Reader = io.NewSectionReader(s.data, 0, s.size)
	if s.format != ".tar" {
		unpacked, err := gzip.NewReader(data)
		if err != nil {
			return fmt.Errorf("it is no gzip file: %w", err)
		}
		data = unpacked
	}
	files := tar.NewReader(left.reader(data))
	contents := &budget{left: left.left} // a sparse file has more bytes than the archive
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it is no tar archive: %w", err)
		}
		e := entry{Name: h.Name, Mode: uint32(h.Mode), Size: h.Size, Target: h.Linkname}
		switch h.Typeflag {
		case tar.TypeReg:
			e.Kind = safefs.File
		case tar.TypeDir:
			e.Kind = safefs.Directory
		case tar.TypeSymlink:
			e.Kind = safefs.Symlink
		case tar.TypeLink:
			e.Kind, e.same = safefs.File, h.Linkname
		case tar.TypeXGlobalHeader:
			continue
		default:
			return fmt.Errorf("%.200q is a device or a pipe", h.Name)
		}
		if err := s.visit(e, contents.reader(files), visit); err != nil {
			return err
		}
	}
}

func (s *source) eachOfZip(left *budget, visit func(e entry, content io.Reader) error) error {
	files, err := zip.NewReader(s.data, s.size)
	if err != nil {
		return fmt.Errorf("it is no zip archive: %w", err)
	}
	for _, f := range files.File {
		content, err := f.Open()
		if err != nil {
			return fmt.Errorf("%.200q: %w", f.Name, err)
		}
		mode := f.Mode()
		e := entry{Name: f.Name, Mode: uint32(mode.Perm()), Size: int64(f.UncompressedSize64)}
		limited := left.reader(content)
		switch {
		case mode.IsDir():
			e.Kind = safefs.Directory
		case mode.IsRegular():
			e.Kind = safefs.File
		case mode.Type() == symlink:
			var target []byte
			target, err = io.ReadAll(io.LimitReader(limited, maxName+1))
			e.Kind, e.Target, e.Size = safefs.Symlink, string(target), 0
		default:
			err = fmt.Errorf("%.200q is a device or a pipe", f.Name)
		}
		if err == nil {
			err = s.visit(e, limited, visit)
		}
		if err = errors.Join(err, content.Close()); err != nil {
			return err
		}
	}
	return nil
}

// visit calls visit with an entry under the name that it gets on the host.
func (s *source) visit(e entry, content io.Reader, visit func(e entry, content io.Reader) error) error {
	name, err := s.nameOf(e.Name)
	if err != nil || name == "" {
		return err
	}
	e.Name = name
	if e.same != "" {
		if e.same, err = s.nameOf(e.same); err != nil {
			return err
		}
	}
	return visit(e, content)
}

// nameOf returns the clean name of an entry without the directories that are left out, empty if nothing is left.
func (s *source) nameOf(written string) (string, error) {
	name := path.Clean(written)
	if len(written) > maxName || path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../") ||
		strings.ContainsAny(name, "\x00\\") {
		return "", fmt.Errorf("%.200q is no name below the directory of the archive", written)
	}
	for range s.strip {
		_, name, _ = strings.Cut(name, "/")
	}
	if name == "." {
		name = ""
	}
	return name, nil
}

// A budget bounds the bytes of an archive that is unpacked.
type budget struct{ left int64 }

// errTooLarge is the error of an archive that has more bytes than it may.
var errTooLarge = fmt.Errorf("it has more than %d bytes, or more than %d times its size", int64(maxBytes), maxRatio)

func (b *budget) reader(r io.Reader) io.Reader { return budgetReader{b, r} }

type budgetReader struct {
	budget *budget
	r      io.Reader
}

func (r budgetReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if r.budget.left -= int64(n); r.budget.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
