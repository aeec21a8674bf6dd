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
	"strconv"
	"sync"

	"github.com/google/renameio/v2"

	"github.com/seed-c01c3da5/zester/peel/mask"
)

// runName is the format of the name of a file with a result.
const runName = "%012d"

// keptHighstateRuns is how many results stay on the disk.
const keptHighstateRuns = 20

// runs are the newest results on the disk. The names of their files are numbers of one width, which grow.
type runs struct {
	dir string
	mu  sync.Mutex // guards the files
}

// store stores a result, in which secrets are masked, and removes the oldest.
func (s *runs) store(r *Result) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	names, err := s.namesLocked()
	if err != nil {
		return err
	}
	number := uint64(1)
	if len(names) > 0 {
		last, _ := strconv.ParseUint(names[len(names)-1], 10, 64) // namesLocked returns numbers alone
		number = last + 1
	}
	name := fmt.Sprintf(runName, number)
	if err := renameio.WriteFile(filepath.Join(s.dir, name), data, 0o600); err != nil {
		return err
	}
	for _, old := range names[:max(0, len(names)+1-keptHighstateRuns)] {
		err = errors.Join(err, os.Remove(filepath.Join(s.dir, old)))
	}
	return err
}

// namesLocked returns the names of the results, oldest first.
func (s *runs) namesLocked() (names []string, err error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if n, err := strconv.ParseUint(e.Name(), 10, 64); err == nil && e.Name() == fmt.Sprintf(runName, n) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

// newest returns the newest result, nil if there is none.
func (s *runs) newest() (*Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names, err := s.namesLocked()
	if err != nil || len(names) == 0 {
		return nil, err
	}
	name := filepath.Join(s.dir, names[len(names)-1])
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r := &Result{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, err)
	}
	return r, nil
}

// masked returns a result with the secrets in its texts replaced.
func masked(r *Result, m *mask.Mask) *Result {
	out := *r
	out.Owed = slices.Clone(r.Owed)
	for i, name := range out.Owed {
		out.Owed[i] = m.Text(name)
	}
	out.States = slices.Clone(r.States)
	for i := range out.States {
		o := &out.States[i]
		o.State, o.Comment, o.Changes = m.Text(o.State), m.Text(o.Comment), slices.Clone(o.Changes)
		for j := range o.Changes {
			c := &o.Changes[j]
			for _, text := range []*string{&c.Do, &c.What, &c.Before, &c.After, &c.Diff} {
				*text = m.Text(*text)
			}
		}
	}
	return &out
}
