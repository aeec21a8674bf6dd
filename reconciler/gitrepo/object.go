package gitrepo

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Commit is what a commit says about itself. Names and message come from
// whoever made it: they are made printable and cut, not verified.
type Commit struct {
	Hash    Hash
	Parents []Hash
	// Author and Email say who wrote the change, at most 200 bytes each.
	Author string
	Email  string
	// Time is when the author wrote it, Committed when it was put on the
	// branch; either may lie. Order commits by ancestry, never by these.
	Time      time.Time
	Committed time.Time
	// Message is the whole message, at most 16 KiB.
	Message string

	tree Hash
	size int64 // of the object in bytes
}

// Subject is the first line of the message, at most 200 bytes.
func (c Commit) Subject() string {
	first, _, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
	return oneLine(first, maxName)
}

const (
	maxName       = 200
	maxCommitText = 16 << 10
)

// withoutText returns a commit object that parses, made of the first bytes of
// one: the header up to the committer, and no message unless it was reached.
func withoutText(data []byte) []byte {
	if bytes.Contains(data, []byte("\n\n")) {
		return data // the message is cut
	}
	at := bytes.Index(data, []byte("\ncommitter "))
	if at < 0 {
		return data // which does not parse
	}
	line := bytes.IndexByte(data[at+1:], '\n')
	if line < 0 {
		return data
	}
	return append(slices.Clone(data[:at+1+line]), "\n\n"...) // without headers that may be as long as they like
}

// parseCommit reads a commit object whose hash was checked.
func parseCommit(h Hash, data []byte) (Commit, error) {
	raw := &plumbing.MemoryObject{}
	raw.SetType(plumbing.CommitObject)
	if _, err := raw.Write(data); err != nil {
		return Commit{}, err
	}
	var c object.Commit
	if err := c.Decode(raw); err != nil {
		return Commit{}, fmt.Errorf("cannot parse commit %s: %w", h, err)
	}
	if c.TreeHash.IsZero() {
		return Commit{}, fmt.Errorf("cannot parse commit %s: it names no tree", h)
	}
	out := Commit{
		Hash:      h,
		Author:    oneLine(c.Author.Name, maxName),
		Email:     oneLine(c.Author.Email, maxName),
		Time:      c.Author.When,
		Committed: c.Committer.When,
		Message:   cut(printable(c.Message), maxCommitText),
		tree:      Hash(c.TreeHash),
	}
	for _, p := range c.ParentHashes {
		out.Parents = append(out.Parents, Hash(p))
	}
	return out, nil
}

// entry is one line of a tree object.
type entry struct {
	name string
	mode fs.FileMode // of Git's: directory, regular, symlink or irregular
	hash Hash
}

// parseTree reads a tree object: lines of octal mode, space, name, NUL and 20
// bytes of hash. A mode that Git does not write becomes ModeIrregular, like
// that of a submodule, so that nothing is ever read through it.
func parseTree(data []byte) ([]entry, error) {
	var entries []entry
	for len(data) > 0 {
		space := bytes.IndexByte(data, ' ')
		if space < 1 || space > 7 {
			return nil, fmt.Errorf("no mode at entry %d", len(entries)+1)
		}
		mode := entryMode(string(data[:space]))
		data = data[space+1:]
		end := bytes.IndexByte(data, 0)
		if end < 0 || len(data) < end+1+len(Hash{}) {
			return nil, fmt.Errorf("cut short at entry %d", len(entries)+1)
		}
		e := entry{name: string(data[:end]), mode: mode}
		data = data[end+1+copy(e.hash[:], data[end+1:]):]
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

// commit reads a commit of the store.
func (s *store) commit(h Hash) (Commit, error) {
	data, size, err := s.begin(plumbing.CommitObject, h, maxCommit)
	if err != nil {
		return Commit{}, err
	}
	if size > int64(len(data)) {
		data = withoutText(data)
	}
	c, err := parseCommit(h, data)
	c.size = size
	return c, err
}

// tree reads one tree of the store.
func (s *store) tree(h Hash) ([]entry, error) {
	data, err := s.read(plumbing.TreeObject, h, maxTree)
	if err != nil {
		return nil, err
	}
	entries, err := parseTree(data)
	if err != nil {
		return nil, fmt.Errorf("cannot parse tree %s: %w", h, err)
	}
	return entries, nil
}
