package keystore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Errors of [Register].
var (
	ErrIssued  = errors.New("it has a credential already")
	ErrTaken   = errors.New("another peel is the same party on the bus")
	ErrRevoked = errors.New("its name was revoked")
)

// An Entry of the register has the keys of one party, for which credentials were made. The register has a file for each
// name on the bus, beside the keys, so that a credential can be made while no bus runs. People have one space of names,
// whatever their role.
type Entry struct {
	Role    grants.Role      `json:"role"`
	ID      string           `json:"id"` // as it was requested: a peel's own ID, not its wire form
	Keys    []credential.Key `json:"keys"`
	Revoked time.Time        `json:"revoked,omitzero"`
	// EndsMade is true if the revocation of a person ends what the person made, too.
	EndsMade bool `json:"ends_made,omitempty"`
}

// registerDir is a directory in the directory of the keys.
const registerDir = "issued"

// Register records that a credential is about to be made for entry.Keys with the keys in dir, and returns the name to
// make it for. The error is [ErrIssued] if the party has a credential, unless again is set; [ErrTaken] if another peel
// has the same wire form, because on the bus both would be one; [ErrRevoked] if the name was revoked. A key that is in
// the register gets the later end. A login in another role replaces the keys of earlier logins, which have been
// revoked.
func Register(dir string, entry Entry, again bool) (name string, err error) {
	name = entry.ID
	if entry.Role == grants.RolePeel {
		name = target.PeelID(entry.ID).Wire()
	}
	if err := grants.CheckName(entry.Role, name); err != nil {
		return "", err
	}
	if err := register(dir, name, entry, again); err != nil {
		return "", fmt.Errorf("cannot make a credential for the %s %s: %w", entry.Role, entry.ID, err)
	}
	return name, nil
}

// entryFile returns the file of an entry, by the name on the bus or a pattern of such names.
func entryFile(dir string, role grants.Role, name string) string {
	kind := string(role)
	if role.IsPerson() {
		kind = "user"
	}
	return filepath.Join(dir, registerDir, kind+"."+name+".json")
}

// lockRegister makes the register if it is missing and locks it for one process, so that no key is lost. A lost key
// could not be revoked.
func lockRegister(dir string) (unlock func(), err error) {
	dir = filepath.Join(dir, registerDir)
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

func register(dir, name string, entry Entry, again bool) error {
	unlock, err := lockRegister(dir)
	if err != nil {
		return err
	}
	defer unlock()
	path := entryFile(dir, entry.Role, name)
	err = createJSON(path, entry)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	known, err := readEntry(path)
	if err != nil {
		return err
	}
	switch {
	case !known.Revoked.IsZero():
		return fmt.Errorf("%w at %s", ErrRevoked, known.Revoked.Format(time.RFC3339))
	case known.ID != entry.ID:
		return fmt.Errorf("%w: %s", ErrTaken, known.ID)
	case known.Role != entry.Role && ofLogins(known.Keys) && ofLogins(entry.Keys):
		known.Role, known.Keys = entry.Role, nil
	case known.Role != entry.Role:
		return fmt.Errorf("%w, as %s", ErrIssued, known.Role)
	case !again && len(known.Keys) > 0:
		return fmt.Errorf("%w, of %s", ErrIssued, known.Keys[len(known.Keys)-1].Issued.Format(time.RFC3339))
	}
	known.Keys = credential.Current(credential.Merge(known.Keys, entry.Keys), time.Now())
	return writeEntry(path, known)
}

// ofLogins reports whether keys that have not expired are all of zester login.
func ofLogins(keys []credential.Key) bool {
	current := credential.Current(keys, time.Now())
	return !slices.ContainsFunc(current, func(k credential.Key) bool { return !k.OfLogin() })
}

// Registered returns the entry of a party by its name on the bus, which [grants.CheckName] allows; zero if there is
// none.
func Registered(dir string, role grants.Role, name string) (Entry, error) {
	known, err := readEntry(entryFile(dir, role, name))
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{}, nil
	}
	return known, err
}

// Entries returns all entries of a role, or of all people for a role of people.
func Entries(dir string, role grants.Role) (all []Entry, err error) {
	files, err := filepath.Glob(entryFile(dir, role, "*"))
	for _, path := range files {
		known, err := readEntry(path)
		if err != nil {
			return nil, err
		}
		all = append(all, known)
	}
	return all, err
}

// Close records that the name of a person or master was revoked: nothing is issued for it again. Keys that were
// registered meanwhile stay, to be revoked with the others.
func Close(dir string, entry Entry) error {
	unlock, err := lockRegister(dir)
	if err != nil {
		return err
	}
	defer unlock()
	path := entryFile(dir, entry.Role, entry.ID)
	known, err := readEntry(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entry.Keys = credential.Merge(entry.Keys, known.Keys)
	entry.EndsMade = entry.EndsMade || known.EndsMade
	if known.Role != "" {
		entry.Role = known.Role // the role of its keys
	}
	return writeEntry(path, entry)
}

func readEntry(path string) (known Entry, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		if err = json.Unmarshal(data, &known); err != nil {
			err = fmt.Errorf("%w: %w", bucket.ErrUnreadable, err)
		}
	}
	if err != nil {
		return known, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return known, nil
}

func writeEntry(path string, entry Entry) error {
	data, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, data, 0o600)
}

// createJSON makes a complete file or none. Of several concurrent calls one succeeds; the others get [fs.ErrExist].
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
