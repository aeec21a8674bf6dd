package gitrepo

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Commit holds the header and the message of a commit. Its author chose all of
// them: texts are made printable and cut, not verified.
type Commit struct {
	Hash    Hash
	Parents []Hash
	// Author and Email name the author, at most 200 bytes each.
	Author string
	Email  string
	// Time is when the author wrote it, Committed when it was committed;
	// either may be wrong. Order commits by ancestry, not by time.
	Time      time.Time
	Committed time.Time
	// Message is the whole message, at most 16 KiB.
	Message string

	tree Hash
	size int64 // of the object in bytes
}

// Subject returns the first line of the message, at most 200 bytes.
func (c Commit) Subject() string {
	first, _, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
	return oneLine(first, maxName)
}

const (
	maxName       = 200
	maxCommitText = 16 << 10
)

// commit reads a commit of the store.
func (s *store) commit(h Hash) (Commit, error) {
	data, size, err := s.Read(plumbing.CommitObject, h, maxCommit)
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

// withoutText returns the first bytes of a long commit object in a form that
// parses: the header up to the committer, and the message if the bytes reach it.
func withoutText(data []byte) []byte {
	if bytes.Contains(data, []byte("\n\n")) {
		return data // the message is cut
	}
	at := bytes.Index(data, []byte("\ncommitter "))
	line := bytes.IndexByte(data[at+1:], '\n')
	if at < 0 || line < 0 {
		return data // which does not parse
	}
	return append(slices.Clone(data[:at+1+line]), "\n\n"...) // without longer headers
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

// Tree reads one tree of the store. object.Tree of go-git is not used: it
// forgives modes and orders that Git does not write.
func (s *store) Tree(h Hash) ([]TreeEntry, error) {
	data, _, err := s.Read(plumbing.TreeObject, h, maxTree)
	if err != nil {
		return nil, err
	}
	entries, err := ParseTree(data)
	if err != nil {
		return nil, fmt.Errorf("cannot parse tree %s: %w", h, err)
	}
	return entries, nil
}
