//go:build linux

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"
)

// memory is what the peel knows of earlier runs. It is on disk before a run changes the host.
type memory struct {
	file  string
	dirty bool
	fresh []string // states that owe a reaction since the last call of owe
	// Owed holds, for each state that has to react, the states whose changes it has not reacted to.
	Owed map[string][]string `json:"owed,omitempty"`
	// Acted holds, for a service that was told to react, the stamp of its unit before that. A crash leaves it here.
	Acted map[string]string `json:"acted,omitempty"`
	// Begun counts, for the command of a state, how often it began since it last ended. The end of the peel cut off the
	// others.
	Begun map[string]int `json:"begun,omitempty"`
	// Held holds, for each state, the hash of what was wanted when it last held.
	Held map[string]string `json:"held,omitempty"`
}

// newMemory returns an empty memory that is not stored.
func newMemory() *memory {
	return &memory{
		Owed:  map[string][]string{},
		Acted: map[string]string{},
		Begun: map[string]int{},
		Held:  map[string]string{},
	}
}

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
			return nil, fmt.Errorf("cannot read what states owe: %s: %w; remove the file if no reaction is missing",
				m.file, err)
		}
	}
	if m.Owed == nil {
		m.Owed = map[string][]string{}
	}
	if m.Acted == nil {
		m.Acted = map[string]string{}
	}
	if m.Begun == nil {
		m.Begun = map[string]int{}
	}
	if m.Held == nil {
		m.Held = map[string]string{}
	}
	return m, nil
}

// save stores what changed since the last save, unless the memory is one that is not stored.
func (m *memory) save() error {
	if m.file == "" || !m.dirty {
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
	m.dirty = false
	return nil
}

// owe notes that reactors have to react to a change of a state.
func (m *memory) owe(state string, reactors []string) {
	m.fresh = nil
	for _, r := range reactors {
		m.act(r, "") // what was done before is no reaction to this change
		if !slices.Contains(m.Owed[r], state) {
			m.Owed[r] = append(m.Owed[r], state)
			m.fresh = append(m.fresh, r)
			m.dirty = true
		}
	}
}

// disown takes back the last call of owe: the state did not change. What was owed before stays.
func (m *memory) disown(state string) {
	for _, r := range m.fresh {
		m.Owed[r] = slices.DeleteFunc(m.Owed[r], func(name string) bool { return name == state })
		if len(m.Owed[r]) == 0 {
			delete(m.Owed, r)
		}
		m.dirty = true
	}
}

// act notes the stamp of a service that is about to react; empty: it is not.
func (m *memory) act(service, stamp string) {
	if m.Acted[service] == stamp {
		return
	}
	m.Acted[service], m.dirty = stamp, true
	if stamp == "" {
		delete(m.Acted, service)
	}
}

// begin notes that the command of a state is about to run.
func (m *memory) begin(state string) {
	m.Begun[state]++
	m.dirty = true
}

// end notes that the command of a state ended, and reports whether it had begun.
func (m *memory) end(state string) bool {
	if _, begun := m.Begun[state]; !begun {
		return false
	}
	delete(m.Begun, state)
	m.dirty = true
	return true
}

// settle removes what a state owes and reports whether it owed anything.
func (m *memory) settle(state string) bool {
	m.act(state, "")
	if _, owed := m.Owed[state]; !owed {
		return false
	}
	delete(m.Owed, state)
	m.dirty = true
	return true
}

// holds notes that a state holds with what is wanted now.
func (m *memory) holds(state, wanted string) {
	if m.Held[state] != wanted {
		m.Held[state], m.dirty = wanted, true
	}
}

// keep removes what is stored of states that are not in the request for all states.
func (m *memory) keep(q Request) {
	names := make(map[string]bool, len(q.Set))
	for _, s := range q.Set {
		names[s.Name] = true
	}
	for _, b := range q.Broken {
		names[b.Name] = true
	}
	gone := func(name string) bool { return !names[name] }
	for _, stored := range []map[string]string{m.Acted, m.Held} {
		before := len(stored)
		maps.DeleteFunc(stored, func(name, _ string) bool { return gone(name) })
		m.dirty = m.dirty || len(stored) < before
	}
	before := len(m.Owed) + len(m.Begun)
	maps.DeleteFunc(m.Owed, func(name string, _ []string) bool { return gone(name) })
	maps.DeleteFunc(m.Begun, func(name string, _ int) bool { return gone(name) })
	m.dirty = m.dirty || len(m.Owed)+len(m.Begun) < before
}
