package master

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

const runIDLength = 12

// An identity distinguishes one run of a master from all others. The file run.id in the data directory holds the ID of
// the newest run, by which the next run recognises the jobs that it left. The file is locked while the run lives, so an
// ID that a run finds there belongs to a run that has ended.
type identity struct {
	run, earlier string // earlier is empty in a new data directory
	file         *os.File
}

func newIdentity(dir string) (*identity, error) {
	f, err := os.OpenFile(filepath.Join(dir, "run.id"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot begin to run: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot run in the data directory %s: another master uses it (%w)", dir,
			err), f.Close())
	}
	id := &identity{run: rand.Text()[:runIDLength], file: f}
	earlier, err := io.ReadAll(io.LimitReader(f, runIDLength))
	if err == nil {
		_, err = f.WriteAt([]byte(id.run), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot begin to run: %w", err), f.Close())
	}
	id.earlier = string(earlier)
	return id, nil
}

func (id *identity) end() { _ = id.file.Close() }
