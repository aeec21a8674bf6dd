package gitrepo

import (
	"encoding/hex"
	"fmt"
)

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

// ParseHashes reads hashes as [ParseHash] does.
func ParseHashes[S ~string](all []S) ([]Hash, error) {
	out := make([]Hash, len(all))
	for i, s := range all {
		var err error
		if out[i], err = ParseHash(string(s)); err != nil {
			return nil, err
		}
	}
	return out, nil
}
