package peel

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/google/renameio/v2"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A stateRunFile holds the encoded report on the newest run of all states, so that a restart does not lose it while the bus
// cannot be reached.
type stateRunFile struct {
	path string
	mu   sync.Mutex
}

func (f *stateRunFile) store(report []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return renameio.WriteFile(f.path, report, 0o600)
}

// newest returns the report, nil if there was no run.
func (f *stateRunFile) newest() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// sendStateRun reports whether the report has to be sent again.
func (p *Peel) sendStateRun(send func(subject string, data []byte) bool) (again bool) {
	data, err := p.stateRun.newest()
	if err != nil {
		p.log.Error("report on the newest run of states cannot be read", "err", err)
	}
	return len(data) > 0 && !send(wire.StateRunOf(p.o.ID.Wire()), data)
}
