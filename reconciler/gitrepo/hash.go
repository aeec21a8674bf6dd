package gitrepo

import (
	"encoding/hex"
	"fmt"
)

// Hash names an object of a repository: a commit, a tree or the content of a
// file. It is comparable, so it can key a cache of parsed files.
type Hash [20]byte

// ParseHash reads the 40 hexadecimal digits of a hash.
func ParseHash(s string) (Hash, error) {
	var h Hash
	if len(s) != 2*len(h) {
		return Hash{}, fmt.Errorf("cannot parse hash %q: want %d hexadecimal digits", cut(s, 80), 2*len(h))
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil {
		return Hash{}, fmt.Errorf("cannot parse hash %q: %w", s, err)
	}
	return h, nil
}

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText gives what String does, so that logs and JSON can be read.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// IsZero reports whether h names nothing.
func (h Hash) IsZero() bool { return h == Hash{} }
