package gitrepo

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io/fs"
)

// Hash names an object of a repository: a commit, a tree or the content of a
// file. It is comparable, so it can key a cache of parsed files.
type Hash [20]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText returns the digits of String, for logs and JSON.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// IsZero reports whether h names nothing.
func (h Hash) IsZero() bool { return h == Hash{} }

// TreeEntry is one line of a tree object.
type TreeEntry struct {
	Name string
	Mode fs.FileMode // a directory, regular, a symlink or irregular
	Hash Hash
	sub  *dir // of a directory in a Tree, else nil
}

// ParseTree reads a tree object: lines of octal mode, space, name, NUL and 20
// bytes of hash. A mode that Git does not write becomes ModeIrregular, as the
// mode of a submodule does; such an entry is never read.
func ParseTree(data []byte) ([]TreeEntry, error) {
	var entries []TreeEntry
	for len(data) > 0 {
		mode, rest, ok := bytes.Cut(data, []byte(" "))
		if !ok || len(mode) < 1 || len(mode) > 7 {
			return nil, fmt.Errorf("no mode at entry %d", len(entries)+1)
		}
		name, rest, ok := bytes.Cut(rest, []byte{0})
		if !ok || len(rest) < len(Hash{}) {
			return nil, fmt.Errorf("cut short at entry %d", len(entries)+1)
		}
		e := TreeEntry{Name: string(name), Mode: entryMode(string(mode))}
		data = rest[copy(e.Hash[:], rest):]
		entries = append(entries, e)
	}
	return entries, nil
}

func entryMode(octal string) fs.FileMode {
	switch octal {
	case "40000", "040000":
		return fs.ModeDir | 0o755
	case "100644", "100664":
		return 0o644
	case "100755":
		return 0o755
	case "120000":
		return fs.ModeSymlink | 0o777
	default:
		return fs.ModeIrregular
	}
}
