package keystore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
)

// Notes reads what was done with the keys in a folder: revocations and the entries of the register, by their paths in
// the folder. The folder must have the operator key of a backup, whose files are given by their paths.
func Notes(dir string, backup map[string][]byte) (map[string][]byte, error) {
	operator, err := os.ReadFile(filepath.Join(dir, operatorFile))
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(operator, backup[operatorFile]) {
		return nil, errors.New("its keys are not those of the backup")
	}

	names, err := fs.Glob(os.DirFS(dir), registerDir+"/*.json")
	if err != nil {
		return nil, err
	}
	notes := map[string][]byte{}
	for _, name := range append(names, revokedFile) {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		notes[name] = data
	}
	return notes, nil
}

// Join adds to a note, which may be nil, what another one of the same name has. What one of the two names as revoked
// stays revoked.
func Join(name string, own, other []byte) (joined []byte, err error) {
	switch {
	case own == nil:
		return other, nil
	case name == revokedFile:
		joined, err = joinRevoked(own, other)
	default:
		joined, err = joinEntries(own, other)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot join two copies of %s: %w: %w", name, bucket.ErrUnreadable, err)
	}
	return joined, nil
}

func joinRevoked(own, other []byte) ([]byte, error) {
	var all, more map[grants.Role]map[string]credential.End
	if err := errors.Join(json.Unmarshal(own, &all), json.Unmarshal(other, &more)); err != nil {
		return nil, err
	}
	if all == nil {
		all = map[grants.Role]map[string]credential.End{}
	}
	for role, ends := range more {
		joined := map[string]credential.End{}
		maps.Copy(joined, ends)
		maps.Copy(joined, all[role])
		all[role] = joined
	}
	return json.Marshal(all)
}

func joinEntries(own, other []byte) ([]byte, error) {
	var entry, more Entry
	if err := errors.Join(json.Unmarshal(own, &entry), json.Unmarshal(other, &more)); err != nil {
		return nil, err
	}
	entry.Keys = credential.Merge(entry.Keys, more.Keys)
	if entry.Revoked.IsZero() {
		entry.Revoked = more.Revoked
	}
	entry.EndsMade = entry.EndsMade || more.EndsMade
	return json.Marshal(entry)
}
