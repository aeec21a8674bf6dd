package scheduler

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// A begun is the record of one run. Its file is flushed to the disk before the run begins, and removed when the state file
// has the run's end and its report is stored. A file that a process finds at its start is of a run that the last process
// did not complete.
type begun struct {
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
	runEnd
}

// A runEnd is added to the record when the run has ended, and once more when its report is stored.
type runEnd struct {
	Ended    time.Time `json:"ended,omitzero"`
	Success  bool      `json:"success,omitempty"`
	Error    string    `json:"error,omitempty"`
	Reported bool      `json:"reported,omitempty"`
}

const (
	maxBegun      = 64 << 10 // limit of a record's size in bytes
	interruptedBy = "interrupted: the peel was killed or its host went down while it ran"
)

func (s *Scheduler) runDir() string { return s.o.StateFile + ".runs" }

// runFile returns the path of a run's record.
func (s *Scheduler) runFile(id wire.JID) string { return filepath.Join(s.runDir(), string(id)+".json") }

// recordBegin writes the record of a run and flushes it. If the disk refuses it, such as a full one, the run begins
// without. Runs that start together flush at the same time, which the file system does in one go.
func (s *Scheduler) recordBegin(r *run) {
	if s.o.StateFile == "" {
		return
	}
	f := r.fire
	file := s.runFile(f.JID)
	data, err := json.Marshal(begun{
		JID: f.JID, Entry: f.Name, Hash: r.hash, Timing: r.timing, Module: f.Entry.Module, ReturnJob: f.Entry.ReturnJob,
		Source: f.Source, Trigger: f.Trigger, Nominal: f.Nominal, Fired: f.Fired, Started: f.Started, Late: f.Late,
	})
	if err == nil {
		err = s.createRunFile(file, append(data, '\n'))
	}
	if err == nil {
		r.file = file
	}
	if (err != nil) != s.unrecorded.Swap(err != nil) {
		if err != nil {
			s.log.Error("runs begin without a record on disk: if the peel is killed, they leave no trace", "err", err)
		} else {
			s.log.Info("runs are recorded on disk again")
		}
	}
}

func (s *Scheduler) createRunFile(file string, data []byte) error {
	err := writeFile(file, data)
	if errors.Is(err, fs.ErrNotExist) { // the first run
		if err = os.Mkdir(s.runDir(), 0o700); err == nil || errors.Is(err, fs.ErrExist) { // of another run
			err = errors.Join(syncDir(filepath.Dir(s.runDir())), writeFile(file, data))
		}
	}
	if err == nil {
		err = syncDir(s.runDir())
	}
	if err != nil {
		_ = os.Remove(file) // it may not exist
	}
	return err
}

// recordEnd appends the end of a run to its record without a flush: after a power cut a run that has just ended may count
// as interrupted.
func (s *Scheduler) recordEnd(r *run, end runEnd) {
	if r.file == "" {
		return
	}
	data, err := json.Marshal(end)
	if err != nil {
		s.log.Error("end of a run not recorded", "entry", r.fire.Name, "err", err)
		return
	}
	f, err := os.OpenFile(r.file, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.Write(append(data, '\n'))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		s.log.Warn("end of a run not recorded: it counts as interrupted if the peel is killed within a second", "entry", r.fire.Name, "err", err)
	}
}

// loadBegun reads the records that the last process left, the oldest first. A record that was not written whole is of a
// run that did not begin.
func (s *Scheduler) loadBegun() ([]begun, error) {
	if s.o.StateFile == "" {
		return nil, nil
	}
	names, err := os.ReadDir(s.runDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []begun
	for _, name := range names {
		file := filepath.Join(s.runDir(), name.Name())
		b, err := readBegun(file)
		if err == nil && file == s.runFile(b.JID) {
			list = append(list, b)
			continue
		}
		if !errors.Is(err, errNotWhole) {
			s.log.Warn("record of a run cannot be read, it is removed", "file", file, "err", err)
		}
		if err := os.RemoveAll(file); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b begun) int { return a.Started.Compare(b.Started) })
	return list, nil
}

func readBegun(file string) (begun, error) {
	f, err := os.Open(file)
	if err != nil {
		return begun{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBegun))
	if err != nil {
		return begun{}, err
	}
	return parseBegun(data)
}

var errNotWhole = errors.New("its first line is not complete")

// parseBegun reads a record. An incomplete last line counts as not written.
func parseBegun(data []byte) (begun, error) {
	first, rest, whole := bytes.Cut(data, []byte("\n"))
	if !whole {
		return begun{}, errNotWhole
	}
	var b begun
	if err := json.Unmarshal(first, &b); err != nil {
		return begun{}, err
	}
	if _, err := wire.ParseJID(string(b.JID)); err != nil {
		return begun{}, err
	}
	b.runEnd = runEnd{}
	for line := range bytes.Lines(rest) {
		var end runEnd
		if json.Unmarshal(line, &end) != nil {
			break
		}
		b.runEnd = end
	}
	return b, nil
}

// removeBegun removes records of runs whose end is stored.
func removeBegun(files []string) error {
	var errs []error
	for _, file := range files {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// takeOver adds a run that the last process did not complete to the entry's history, as interrupted if its record has no
// end.
func (o *owner) takeOver(b begun, now instant) {
	e := o.entries[b.Entry]
	if e == nil {
		e = newRemembered(b.Entry, History{}, now)
		o.entries[b.Entry] = e
	}
	r := &run{
		e: e, hash: b.Hash, timing: b.Timing, file: o.s.runFile(b.JID),
		fire: Fire{
			JID: b.JID, Name: b.Entry, Source: b.Source, Trigger: b.Trigger, Nominal: b.Nominal, Fired: b.Fired,
			Started: b.Started, Late: b.Late, Attempt: 1,
			Entry: &schedule.Entry{Name: b.Entry, Module: b.Module, ReturnJob: b.ReturnJob},
		},
		result: wire.Result{Success: b.Success, Error: b.Error},
		ended:  instant{wall: b.Ended},
	}
	if b.Ended.IsZero() {
		r.result = wire.Result{Outcome: wire.Interrupted, Error: interruptedBy}
		o.s.log.Warn("run was interrupted", "entry", b.Entry, "jid", b.JID, "trigger", b.Trigger, "nominal", b.Nominal, "started", b.Started)
	}
	if !slices.ContainsFunc(e.Last, func(p RunRecord) bool { return p.Run == b.JID }) {
		if b.Started.After(e.Started) {
			e.Fired, e.Started = b.Fired, b.Started
		}
		if b.Nominal.After(e.Nominal) {
			e.Nominal = b.Nominal
		}
		e.record(r)
		e.count(now)
	}
	if b.Reported || o.s.o.Report == nil || !b.ReturnJob.Wants(b.Success) {
		o.settled = append(o.settled, r.file)
		return
	}
	o.unreported = append(o.unreported, r)
}

// reportOlder reports the runs of the last process, one after the other. The report has the arguments if the entry has not
// changed.
func (o *owner) reportOlder() {
	runs := o.unreported
	o.unreported, o.reporting = nil, o.reporting+len(runs)
	for _, r := range runs {
		if spec := o.set[r.fire.Name]; spec != nil && spec.Hash() == r.hash {
			r.fire.Entry = spec
		}
	}
	go func() {
		for _, r := range runs {
			o.s.store(r)
			o.s.hand(o.s.reported, r)
		}
	}()
}
