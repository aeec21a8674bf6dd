// File staterun.go makes and keeps a peel's report on its newest run of all its states. A peel calls [StateRunOf] after
// the run, [StateRunFile.Store], and sends what [StateRunFile.Newest] returns until it is confirmed.

package report

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/google/renameio/v2"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// A StateRunFile holds the encoded report on the newest run of all states, so that a restart does not lose it while the
// bus cannot be reached.
type StateRunFile struct {
	Path string
	mu   sync.Mutex
}

// Store replaces the report.
func (f *StateRunFile) Store(report []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return renameio.WriteFile(f.Path, report, 0o600)
}

// Newest returns the report, nil if there was no run.
func (f *StateRunFile) Newest() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Last returns the stored report decoded, a zero one if there is none.
func (f *StateRunFile) Last() (last wire.StateRun, err error) {
	data, err := f.Newest()
	if err == nil && len(data) > 0 {
		err = canon.Unmarshal(data, &last)
	}
	return last, err
}
