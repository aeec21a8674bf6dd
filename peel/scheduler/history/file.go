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

// Load reads the history of all entries by name. It is empty if there is no state file, and if path is empty. A file that cannot
// be parsed is renamed to "<path>.bad", with a warning.
func Load(path string, log *slog.Logger) (map[string]History, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the scheduler's state: %w", err)
	}
	var f stateFile
	err = json.Unmarshal(data, &f)
	if err == nil && f.V > stateVersion {
		err = fmt.Errorf("its format has version %d, this build knows up to %d", f.V, stateVersion)
	}
	if err == nil {
		return f.Entries, nil
	}
	aside := path + ".bad"
	log.Warn("the scheduler's state cannot be read, the history starts empty", "moved_to", aside, "err", err)
	if err := os.Rename(path, aside); err != nil {
		return nil, fmt.Errorf("cannot move the scheduler's state aside: %w", err)
	}
	return nil, nil
}

// Store replaces the state file: a crash leaves the old file or the new one. Then it removes the record files in settled. If path
// is empty it does nothing.
func Store(path string, entries map[string]History, settled []string) error {
	if path == "" {
		return nil
	}
	data, err := json.Marshal(stateFile{V: stateVersion, Entries: entries})
	if err == nil {
		err = replace(path, data)
	}
	if err == nil {
		err = removeFiles(settled)
	}
	if err != nil {
		return fmt.Errorf("cannot store the scheduler's state: %w", err)
	}
	return nil
}

// replace writes a file under another name and renames it: a crash leaves the old content or the new one.
func replace(path string, data []byte) error {
	next := path + ".new"
	if err := writeFile(next, data); err != nil {
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
