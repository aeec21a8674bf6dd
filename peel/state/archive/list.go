//go:build linux

package archive

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/safefs"
)

const symlink = fs.ModeSymlink

// A listing is the content of an archive that may be extracted.
type listing struct {
	entries []entry
	index   map[string]int
}

// list reads a whole archive and checks it. The directories that it leaves out are in the listing.
func list(s *source) (*listing, error) {
	l := &listing{index: map[string]int{}}
	err := s.each(func(e entry, content io.Reader) error {
		if err := l.add(e); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, content)
		return err
	})
	if err == nil {
		err = l.check()
	}
	return l, err
}

func (l *listing) add(e entry) error {
	if dir := path.Dir(e.Name); dir != "." {
		if _, known := l.index[dir]; !known {
			if err := l.add(entry{Name: dir, Kind: safefs.Directory, Mode: 0o755}); err != nil {
				return err
			}
		}
	}
	if len(l.entries) >= maxEntries {
		return fmt.Errorf("it has more than %d files", maxEntries)
	}
	switch e.Kind { // no setuid, and nothing that others write
	case safefs.File:
		e.Mode = e.Mode&0o755 | 0o600
	case safefs.Directory:
		e.Mode, e.Size = e.Mode&0o755|0o700, 0
	case safefs.Symlink:
		e.Mode, e.Size = 0, 0
	}
	if i, known := l.index[e.Name]; known {
		if e.Kind != safefs.Directory || l.entries[i].Kind != safefs.Directory {
			return fmt.Errorf("it has %.200q twice", e.Name)
		}
		l.entries[i] = e
		return nil
	}
	l.index[e.Name] = len(l.entries)
	l.entries = append(l.entries, e)
	return nil
}

// check refuses names that lead out of the directory of the archive, through links of the archive as well.
func (l *listing) check() error {
	copied := int64(0) // bytes of hard links, which become files
	for i, e := range l.entries {
		if dir := path.Dir(e.Name); dir != "." && l.entries[l.index[dir]].Kind != safefs.Directory {
			return fmt.Errorf("%.200q is below %.200q, which is no directory", e.Name, dir)
		}
		if e.Kind == safefs.Symlink && !staysBelow(e) {
			return fmt.Errorf("%.200q is a link to %.200q, which may be outside of the archive", e.Name, e.Target)
		}
		if e.same == "" {
			continue
		}
		of, known := l.index[e.same]
		if !known || of >= i || l.entries[of].Kind != safefs.File || l.entries[of].same != "" {
			return fmt.Errorf("%.200q is a hard link to %.200q, which is no file before it", e.Name, e.same)
		}
		if copied += l.entries[of].Size; copied > maxBytes {
			return errTooLarge
		}
	}
	return nil
}

// staysBelow reports whether a link leads to a name in the archive. Its target has .. only at the beginning: behind
// another link of the archive that would lead elsewhere. No directory above a link is a link.
func staysBelow(e entry) bool {
	if e.Target == "" || len(e.Target) > maxName || path.IsAbs(e.Target) || strings.ContainsRune(e.Target, 0) {
		return false
	}
	target := strings.TrimSuffix(e.Target, "/")
	if target != path.Clean(target) {
		return false
	}
	to := path.Join(path.Dir(e.Name), target)
	return to != ".." && !strings.HasPrefix(to, "../")
}
