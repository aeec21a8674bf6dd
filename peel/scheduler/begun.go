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
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// A begun is the record of one run. Its file is on the disk before the run begins, and is removed when the state file has
// the run's end and its report is stored: what a process finds when it starts, the process before did not see through.
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
	maxBegun      = 64 << 10 // bytes of a record that are read
	beganSuffix   = ".json"
	interruptedBy = "interrupted: the peel was killed or its host went down while it ran"
)

// runFile is where the record of a run is; empty if nothing is kept on disk.
func (s *Scheduler) runFile(id wire.JID) string {
	if s.o.StateFile == "" {
		return ""
	}
	return filepath.Join(s.o.StateFile+".runs", string(id)+beganSuffix)
}

// recordBegin puts the record of a run on the disk. A run goes on where that is not possible, such as on a full disk.
func (s *Scheduler) recordBegin(r *run) {
	file := s.runFile(r.fire.JID)
	if file == "" {
		return
	}
	f := r.fire
	data, err := json.Marshal(begun{
		JID: f.JID, Entry: f.Name, Hash: r.hash, Timing: r.timing, Module: f.Entry.Module, ReturnJob: f.Entry.ReturnJob,
		Source: f.Source, Trigger: f.Trigger, Nominal: f.Nominal, Fired: f.Fired, Started: f.Started, Late: f.Late,
	})
	if err == nil {
		data = append(data, '\n')
		err = replace(file, data)
	}
	if errors.Is(err, fs.ErrNotExist) && os.Mkdir(filepath.Dir(file), 0o700) == nil {
		err = replace(file, data)
	}
	if err == nil {
		r.file = file
	}
	if (err != nil) != s.unrecorded.Swap(err != nil) {
		if err != nil {
			s.log.Error("runs begin without a record on disk: those that a kill cuts off would leave no trace", "err", err)
		} else {
			s.log.Info("runs are recorded on disk again")
		}
	}
}

// recordEnd adds to the record of a run. It is not flushed: after a power cut a run that has just ended may count as
// interrupted.
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
		s.log.Warn("end of a run not recorded, a kill within the next second makes it count as interrupted", "entry", r.fire.Name, "err", err)
	}
}

// loadBegun reads the records of runs that the process before left, the oldest first.
func (s *Scheduler) loadBegun() ([]begun, error) {
	if s.o.StateFile == "" {
		return nil, nil
	}
	dir := s.o.StateFile + ".runs"
	names, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []begun
	for _, name := range names {
		file := filepath.Join(dir, name.Name())
		b, err := readBegun(file)
		if err == nil && file == s.runFile(b.JID) {
			list = append(list, b)
			continue
		}
		if strings.HasSuffix(file, beganSuffix) {
			s.log.Warn("record of a run cannot be read, it is removed", "file", file, "err", err)
		} // else the run has not begun
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

// parseBegun reads a record. A last line that a crash cut short counts as not written.
func parseBegun(data []byte) (begun, error) {
	first, rest, whole := bytes.Cut(data, []byte("\n"))
	if !whole {
		return begun{}, errors.New("it is cut off")
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

// takeOver takes over a run that the process before did not see through: its end becomes part of the entry's history, as
// interrupted if it has none.
func (o *owner) takeOver(b begun, now instant) {
	e := o.entries[b.Entry]
	if e == nil {
		e = remembered(b.Entry, History{}, now)
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
	if !slices.ContainsFunc(e.Last, func(p Past) bool { return p.Run == b.JID }) {
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

// reportOlder reports the runs of the process before, one after the other. The arguments are known if the entry is still
// the same.
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
