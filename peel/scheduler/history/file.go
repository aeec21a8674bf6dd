package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// stateVersion is the version of the format of the state file.
const stateVersion = 1

type stateFile struct {
	V       int                `json:"v"`
	Entries map[string]History `json:"entries"`
}

// lastSuffix is added to the name of the state file for the state before the newest one.
const lastSuffix = ".last"

// Load reads the history of all entries by name. It is empty if there is no state file, and if path is empty. A file that cannot
// be parsed is renamed to "<path>.bad", with a warning, and the state before it counts. damage then says what was lost, for people.
func Load(path string, log *slog.Logger) (entries map[string]History, damage string, err error) {
	if path == "" {
		return nil, "", nil
	}
	entries, bad, err := read(path)
	if err == nil && bad == nil || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return entries, "", err
	}
	last, lastBad, lastErr := read(path + lastSuffix)
	if err != nil && errors.Is(lastErr, fs.ErrNotExist) {
		return nil, "", nil // the first start
	}
	isKept := lastErr == nil && lastBad == nil
	if err != nil && isKept {
		return last, "", nil // a crash came between the two names
	}
	damage = "the scheduler's state cannot be read, the history starts empty: pauses and counts of runs are lost"
	if isKept {
		damage = "the scheduler's state cannot be read, the state before it counts: what changed in its last second is lost"
	}
	aside := path + ".bad"
	log.Warn(damage, "moved_to", aside, "err", errors.Join(bad, lastBad))
	if err := os.Rename(path, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("cannot move the scheduler's state aside: %w", err)
	}
	return last, damage, nil
}

// read reads a state file. bad is why it cannot be parsed.
func read(path string) (entries map[string]History, bad, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the scheduler's state: %w", err)
	}
	var f stateFile
	bad = json.Unmarshal(data, &f)
	if bad == nil && f.V > stateVersion {
		bad = fmt.Errorf("its format has version %d, this build knows up to %d", f.V, stateVersion)
	}
	if bad != nil {
		return nil, bad, nil
	}
	return f.Entries, nil, nil
}

// errRecordsLeft is wrapped by the error of a write that has stored the state.
var errRecordsLeft = errors.New("cannot remove records of runs that the scheduler's state has")

// Store replaces the state file, and keeps the old one beside it: a crash leaves the old state or the new one. Then it removes the record files in settled. If path
// is empty it does nothing.
func Store(path string, entries map[string]History, settled []string) error {
	if path == "" {
		return nil
	}
	data, err := json.Marshal(stateFile{V: stateVersion, Entries: entries})
	if err == nil {
		err = replace(path, data)
	}
	if err != nil {
		return fmt.Errorf("cannot store the scheduler's state: %w", err)
	}
	if err := removeFiles(settled); err != nil {
		return fmt.Errorf("%w: %w", errRecordsLeft, err)
	}
	return nil
}

// replace writes a file under another name, and renames the old file and the new one.
func replace(path string, data []byte) error {
	next := path + ".new"
	if err := writeFile(next, data); err != nil {
		return err
	}
	if err := os.Rename(path, path+lastSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// writeFile writes a file and flushes it. The name is on the disk after [syncDir].
func writeFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
