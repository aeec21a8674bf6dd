package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// stateVersion is the version of the format of the state file.
const stateVersion = 1

type stateFile struct {
	V       int              `json:"v"`
	Marks   ledger.Marks     `json:"marks"`
	Entries map[string]entry `json:"entries"`
}

type entry struct {
	History
	From  time.Time     `json:"from,omitzero"`
	Marks []ledger.Mark `json:"marks,omitempty"`
	Runs  []byte        `json:"list,omitempty"`
}

// A State is what a process leaves to the next one.
type State struct {
	Entries map[string]History // by name
	Marks   ledger.Marks       // of the peel
}

func (f *stateFile) state() (s State, bad error) {
	s = State{make(map[string]History, len(f.Entries)), f.Marks}
	for name, e := range f.Entries {
		runs, err := ledger.ParseRuns(e.Runs)
		if err != nil {
			return State{}, err
		}
		e.List.From, e.List.Marks = e.From, e.Marks
		e.List.Restore(runs)
		s.Entries[name] = e.History
	}
	return s, nil
}

func (s State) file() *stateFile {
	f := &stateFile{stateVersion, s.Marks, make(map[string]entry, len(s.Entries))}
	for name, h := range s.Entries {
		f.Entries[name] = entry{h, h.List.From, h.List.Marks, ledger.AppendRuns(nil, h.List.Runs())}
	}
	return f
}

// lastSuffix is added to the name of the state file for the state before the newest one.
const lastSuffix = ".last"

// Load reads the history of all entries by name. It is empty if there is no state file, and if path is empty. A file that cannot
// be parsed is renamed to "<path>.bad", with a warning, and the state before it counts. damage then says what was lost, for people.
func Load(path string, log *slog.Logger) (state State, damage string, err error) {
	if path == "" {
		return State{}, "", nil
	}
	state, bad, err := read(path)
	if err == nil && bad == nil || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return state, "", err
	}
	last, lastBad, lastErr := read(path + lastSuffix)
	if err != nil && errors.Is(lastErr, fs.ErrNotExist) {
		return State{}, "", nil // the first start
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
		return State{}, "", fmt.Errorf("cannot move the scheduler's state aside: %w", err)
	}
	return last, damage, nil
}

// read reads a state file. bad is why it cannot be parsed.
func read(path string) (state State, bad, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return State{}, nil, fmt.Errorf("cannot read the scheduler's state: %w", err)
	}
	var f stateFile
	bad = json.Unmarshal(data, &f)
	if bad == nil && f.V > stateVersion {
		bad = fmt.Errorf("its format has version %d, this build knows up to %d", f.V, stateVersion)
	}
	if bad == nil {
		state, bad = f.state()
	}
	return state, bad, nil
}

// errRecordsLeft is wrapped by the error of a write that has stored the state.
var errRecordsLeft = errors.New("cannot remove records of runs that the scheduler's state has")

// Store replaces the state file, and keeps the old one beside it: a crash leaves the old state or the new one. Then it removes the record files in settled. If path
// is empty it does nothing.
func Store(path string, state State, settled []string) error {
	if path == "" {
		return nil
	}
	data, err := json.Marshal(state.file())
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
