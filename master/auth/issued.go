package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// Why no credential is made.
var (
	ErrIssued = errors.New("it has a credential already")
	ErrTaken  = errors.New("another peel is the same party on the bus")
)

// An Issue is one entry of the register of credentials, which is kept beside the keys: a file for each name on the bus.
type Issue struct {
	Role  Role        `json:"role"`
	ID    string      `json:"id"` // as it was asked for: a peel's own ID, not its wire form
	Times []time.Time `json:"issued"`
}

// registerDir is in the directory of the keys.
const registerDir = "issued"

// Register enters that a credential is about to be made with the keys in dir and returns the name to make it for. It
// refuses a second one for the same party with [ErrIssued], unless that is meant (again), and one for a peel whose wire
// form another peel has with [ErrTaken]: on the bus both would be one.
func Register(dir string, role Role, id string, again bool) (name string, err error) {
	name = id
	if role == RolePeel {
		name = target.PeelID(id).Wire()
	}
	if err := checkName(role, name); err != nil {
		return "", err
	}
	if err := register(filepath.Join(dir, registerDir), name, Issue{Role: role, ID: id, Times: []time.Time{time.Now().UTC()}}, again); err != nil {
		return "", fmt.Errorf("cannot make a credential for the %s %s: %w", role, id, err)
	}
	return name, nil
}

func register(dir, name string, entry Issue, again bool) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, string(entry.Role)+"."+name+".json")
	err := createJSON(path, entry)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var known Issue
	if err := json.Unmarshal(data, &known); err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	switch {
	case known.ID != entry.ID:
		return fmt.Errorf("%w: %s", ErrTaken, known.ID)
	case !again && len(known.Times) > 0:
		return fmt.Errorf("%w, of %s", ErrIssued, known.Times[len(known.Times)-1].Format(time.RFC3339))
	}
	known.Times = append(known.Times, entry.Times...)
	if data, err = json.Marshal(known); err != nil {
		return err
	}
	return renameio.WriteFile(path, data, 0o600)
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
