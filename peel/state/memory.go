//go:build linux

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"
)

// memory is what the peel knows of earlier runs. It is on disk before a run changes the host.
type memory struct {
	file string
	// Owed holds, for each state that has to react, the states whose changes it has not reacted to.
	Owed map[string][]string `json:"owed,omitempty"`
	// Held holds, for each state, the hash of what was wanted when it last held.
	Held map[string]string `json:"held,omitempty"`
}

// newMemory returns an empty memory that is not stored.
func newMemory() *memory { return &memory{Owed: map[string][]string{}, Held: map[string]string{}} }

func loadMemory(dir string) (*memory, error) {
	m := newMemory()
	m.file = filepath.Join(dir, "memory.json")
	data, err := os.ReadFile(m.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("cannot read what states owe: %w", err)
	default:
		if err := json.Unmarshal(data, m); err != nil {
			return nil, fmt.Errorf("cannot read what states owe: %s: %w; remove the file if no reaction is missing", m.file, err)
		}
	}
	if m.Owed == nil {
		m.Owed = map[string][]string{}
	}
	if m.Held == nil {
		m.Held = map[string]string{}
	}
	return m, nil
}

// save stores the memory, unless it is one that is not stored.
func (m *memory) save() error {
	if m.file == "" {
		return nil
	}
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(m.file), 0o700); err != nil {
		return err
	}
	if err := renameio.WriteFile(m.file, data, 0o600); err != nil {
		return fmt.Errorf("cannot store what states owe: %w", err)
	}
	return nil
}

// owe stores that reactors have to react to a change of a state. It reports whether anything is new.
func (m *memory) owe(state string, reactors []string) (isNew bool) {
	for _, r := range reactors {
		if !slices.Contains(m.Owed[r], state) {
			m.Owed[r], isNew = append(m.Owed[r], state), true
		}
	}
	return isNew
}

// keep forgets states that are not in the set any more.
func (m *memory) keep(names map[string]bool) {
	for name := range m.Owed {
		if !names[name] {
			delete(m.Owed, name)
		}
	}
	for name := range m.Held {
		if !names[name] {
			delete(m.Held, name)
		}
	}
}
