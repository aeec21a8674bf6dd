package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Why no credential is made.
var (
	ErrIssued  = errors.New("it has a credential already")
	ErrTaken   = errors.New("another peel is the same party on the bus")
	ErrRevoked = errors.New("its name was revoked")
)

// An Issue is one entry of the register of credentials, which is kept beside the keys: a file for each name on the bus.
// People have one space of names, whatever their role.
type Issue struct {
	Role    grants.Role `json:"role"`
	ID      string      `json:"id"` // as it was asked for: a peel's own ID, not its wire form
	Keys    []UserKey   `json:"keys"`
	Revoked time.Time   `json:"revoked,omitzero"`
}

// registerDir is in the directory of the keys.
const registerDir = "issued"

// Register enters that a credential is about to be made for entry.Keys with the keys in dir and returns the name to make it for. It
// refuses a second one for the same party with [ErrIssued], unless that is meant (again), one for a peel whose wire
// form another peel has with [ErrTaken], because on the bus both would be one, and one for a name that was revoked with
// [ErrRevoked].
func Register(dir string, entry Issue, again bool) (name string, err error) {
	name = entry.ID
	if entry.Role == grants.RolePeel {
		name = target.PeelID(entry.ID).Wire()
	}
	if err := grants.CheckName(entry.Role, name); err != nil {
		return "", err
	}
	if err := register(filepath.Join(dir, registerDir), name, entry, again); err != nil {
		return "", fmt.Errorf("cannot make a credential for the %s %s: %w", entry.Role, entry.ID, err)
	}
	return name, nil
}

// issueFile is where an entry is kept.
func issueFile(role grants.Role, name string) string {
	kind := string(role)
	if role.IsPerson() {
		kind = personFile
	}
	return kind + "." + name + ".json"
}

const personFile = "user"

// lockRegister makes the directory and lets one process at a time change what is in it, so that no key is forgotten: it
// could not be revoked.
func lockRegister(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return func() { _ = d.Close() }, nil
}

func register(dir, name string, entry Issue, again bool) error {
	unlock, err := lockRegister(dir)
	if err != nil {
		return err
	}
	defer unlock()
	path := filepath.Join(dir, issueFile(entry.Role, name))
	err = createJSON(path, entry)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	known, err := readIssue(path)
	if err != nil {
		return err
	}
	switch {
	case !known.Revoked.IsZero():
		return fmt.Errorf("%w at %s", ErrRevoked, known.Revoked.Format(time.RFC3339))
	case known.ID != entry.ID:
		return fmt.Errorf("%w: %s", ErrTaken, known.ID)
	case known.Role != entry.Role:
		return fmt.Errorf("%w, as %s", ErrIssued, known.Role)
	case !again && len(known.Keys) > 0:
		return fmt.Errorf("%w, of %s", ErrIssued, known.Keys[len(known.Keys)-1].Issued.Format(time.RFC3339))
	}
	known.Keys = append(current(known.Keys, time.Now()), entry.Keys...)
	return writeIssue(path, known)
}

// issued are the keys for which credentials of a peel were made in this directory.
func issued(dir string, id target.PeelID) ([]UserKey, error) {
	known, err := issuedAs(dir, id.Wire())
	if err != nil || known.ID != string(id) {
		return nil, err
	}
	return known.Keys, nil
}

// issuedAs returns the entry of a peel by its name on the bus, zero if there is none.
func issuedAs(dir, wireID string) (Issue, error) {
	known, err := readIssue(filepath.Join(dir, registerDir, issueFile(grants.RolePeel, wireID)))
	if errors.Is(err, fs.ErrNotExist) {
		return Issue{}, nil
	}
	return known, err
}

func readIssue(path string) (known Issue, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		if err = json.Unmarshal(data, &known); err != nil {
			err = fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
	}
	if err != nil {
		return known, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return known, nil
}

func writeIssue(path string, entry Issue) error {
	data, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, data, 0o600)
}

// closeIssue enters that a name was revoked, so that nothing is issued for it any more. Keys that were entered meanwhile stay,
// to be revoked with the others.
func closeIssue(dir string, u *User) error {
	dir = filepath.Join(dir, registerDir)
	unlock, err := lockRegister(dir)
	if err != nil {
		return err
	}
	defer unlock()
	path := filepath.Join(dir, issueFile(u.Role, u.Name))
	known, err := readIssue(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return writeIssue(path, Issue{Role: u.Role, ID: u.Name, Keys: united(u.Keys, known.Keys), Revoked: u.Revoked})
}

// withIssued adds to users those that are in the register alone, and the keys that are there alone.
func withIssued(dir string, users []User) ([]User, error) {
	files, err := filepath.Glob(filepath.Join(dir, registerDir, personFile+".*.json"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		known, err := readIssue(path)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(users, func(u User) bool { return u.Name == known.ID })
		if i < 0 {
			u := User{Name: known.ID, Role: known.Role, Keys: known.Keys}
			if len(known.Keys) > 0 {
				u.Created = known.Keys[0].Issued
			}
			users = append(users, u)
			continue
		}
		users[i].Keys = united(users[i].Keys, known.Keys)
	}
	slices.SortFunc(users, func(a, b User) int { return strings.Compare(a.Name, b.Name) })
	return users, nil
}

// united are the keys of two lists, each once.
func united(keys, more []UserKey) []UserKey {
	for _, k := range more {
		if !slices.ContainsFunc(keys, func(other UserKey) bool { return other.Public == k.Public }) {
			keys = append(keys, k)
		}
	}
	return keys
}

// createJSON makes a whole file or none. Of several at once one succeeds; the others get [fs.ErrExist].
func createJSON(path string, v any) (err error) {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Link(tmp.Name(), path)
}
