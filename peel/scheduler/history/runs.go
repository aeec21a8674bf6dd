package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// An OpenRun is the record of one run. Its file is flushed to the disk before the run begins, and removed when the state file
// has the run's end and its report is stored. A process that finds a file at its start
// completes the run in place of the last process.
type OpenRun struct {
	JID       wire.JID           `json:"jid"`
	Entry     string             `json:"entry"`
	Hash      string             `json:"hash"`   // of the entry
	Timing    string             `json:"timing"` // hash of the entry's timing
	Module    string             `json:"module"`
	ReturnJob schedule.ReturnJob `json:"return_job"`
	Source    Source             `json:"source,omitzero"`
	Trigger   Trigger            `json:"trigger"`
	Nominal   time.Time          `json:"nominal"`
	Fired     time.Time          `json:"fired"`
	Started   time.Time          `json:"started"`
	Late      bool               `json:"late,omitempty"`
	Listed    ledger.Fire        `json:"listed,omitzero"` // as it is in the list of the entry
	RunEnd
}

// A RunEnd is added to the record when the run has ended, and once more when its report is stored.
type RunEnd struct {
	Ended    time.Time `json:"ended,omitzero"`
	Success  bool      `json:"success,omitempty"`
	Error    string    `json:"error,omitempty"`
	Reported bool      `json:"reported,omitempty"`
}

const maxRunFile = 64 << 10 // limit of a record's size in bytes

// A RunDir is the path of the directory with the records of runs. If empty, nothing is kept on disk.
type RunDir string

// RunDirOf returns the directory that belongs to a state file.
func RunDirOf(stateFile string) RunDir {
	if stateFile == "" {
		return ""
	}
	return RunDir(stateFile + ".runs")
}

// File returns the path of a run's record.
func (d RunDir) File(id wire.JID) string { return filepath.Join(string(d), string(id)+".json") }

// Create writes the record of a run, flushes it and returns its path. The path is empty if there is no record, which is no
// error if d is empty. Runs that start together flush at the same time, which the file system does in one go.
func (d RunDir) Create(r OpenRun) (file string, err error) {
	if d == "" {
		return "", nil
	}
	data, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	file = d.File(r.JID)
	if err := d.write(file, append(data, '\n')); err != nil {
		return "", err
	}
	return file, nil
}

func (d RunDir) write(file string, data []byte) error {
	err := writeFile(file, data)
	if errors.Is(err, fs.ErrNotExist) { // the first run
		if err = os.Mkdir(string(d), 0o700); err == nil || errors.Is(err, fs.ErrExist) { // of another run
			err = errors.Join(syncDir(filepath.Dir(string(d))), writeFile(file, data))
		}
	}
	if err == nil {
		err = syncDir(string(d))
	}
	if err != nil {
		_ = os.Remove(file) // it may not exist
	}
	return err
}

// AppendEnd appends the end of a run to its record without a flush. If file is empty it does nothing.
func AppendEnd(file string, end RunEnd) error {
	if file == "" {
		return nil
	}
	data, err := json.Marshal(end)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.Write(append(data, '\n'))
		err = errors.Join(err, f.Close())
	}
	return err
}

// Load reads the records of runs, the oldest first. It removes those that it cannot read, with a warning, and those that were
// not written whole, as their runs did not begin.
func (d RunDir) Load(log *slog.Logger) ([]OpenRun, error) {
	if d == "" {
		return nil, nil
	}
	names, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []OpenRun
	for _, name := range names {
		file := filepath.Join(string(d), name.Name())
		b, err := readOpenRun(file)
		if err == nil && file == d.File(b.JID) {
			list = append(list, b)
			continue
		}
		if !errors.Is(err, errNotWhole) {
			log.Warn("record of a run cannot be read, it is removed", "file", file, "err", err)
		}
		if err := os.RemoveAll(file); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b OpenRun) int { return a.Started.Compare(b.Started) })
	return list, nil
}

func readOpenRun(file string) (OpenRun, error) {
	f, err := os.Open(file)
	if err != nil {
		return OpenRun{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRunFile))
	if err != nil {
		return OpenRun{}, err
	}
	return parseOpenRun(data)
}

var errNotWhole = errors.New("its first line is not complete")

// parseOpenRun reads a record. An incomplete last line counts as not written.
func parseOpenRun(data []byte) (OpenRun, error) {
	first, rest, whole := bytes.Cut(data, []byte("\n"))
	if !whole {
		return OpenRun{}, errNotWhole
	}
	var b OpenRun
	if err := json.Unmarshal(first, &b); err != nil {
		return OpenRun{}, err
	}
	if _, err := wire.ParseJID(string(b.JID)); err != nil {
		return OpenRun{}, err
	}
	b.RunEnd = RunEnd{}
	for line := range bytes.Lines(rest) {
		var end RunEnd
		if json.Unmarshal(line, &end) != nil {
			break
		}
		b.RunEnd = end
	}
	return b, nil
}

// removeFiles removes records of runs whose end is stored.
func removeFiles(files []string) error {
	var errs []error
	for _, file := range files {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
