// Package fence ensures that a peel runs each job at most once per epoch, across crashes. Call [Open], then
// [Fence.Admit] before each run and [Fence.Finish] after its result is stored.
//
// A master repeats a request if it receives no acknowledgement, a master that takes over a job repeats it too, and the
// bus may deliver a message twice. The fence therefore records the highest admitted epoch of each job. An equal epoch
// is a duplicate, a lower one comes from a master that no longer owns the job, and a higher one runs. Admit returns
// [Accept] only after the record is on the disk, so every run is recorded before it starts. A crash between the two
// loses a run, which the master sees as a missing return; it never repeats one.
//
// After a crash [Fence.Unfinished] lists the jobs that were interrupted: admitted jobs without a stored result.
//
// The fence remembers the [Capacity] most recently admitted jobs; it forgets older jobs in the same order before and
// after a restart.
//
// # File
//
// The file has a header and slots of equal size for twice the capacity. A slot is job, kind, number and checksum, or
// zeros if it is free. The file has its full length from the start, so a truncated file is recognised.
// An admission writes the next slot and flushes it. The end of a job writes a slot without a flush: if the host loses
// it, the job is listed as unfinished, although its result is stored. A full file is replaced by a new one with the
// current records.
// If only the last used slot is unreadable, the peel or the host crashed during that write: the job was not admitted,
// and the next admission overwrites the slot. Every other unreadable slot is damage: records of admitted jobs are lost.
//
// # Damage
//
// A damaged file is copied to a file of its own, and its readable records are kept. The fence also records a floor:
// unknown jobs that were created before the damage was found, or up to [Skew] later by a clock that is ahead, are
// refused with [ErrDamaged], because they may have run. Jobs created later run, so a peel recovers by itself. A missing
// file means a new peel.
//
// A lock file keeps a second process from using the same fence.
//
// Known gap: a job that is admitted again after [Capacity] others may run twice at the same epoch.
package fence

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// Capacity is the number of jobs that a fence remembers.
const Capacity = 4096

// Skew is how far a master's clock may be ahead of the peel's clock. It matters only after damage.
const Skew = time.Minute

// A Verdict is the decision about a request.
type Verdict uint8

// The verdicts. Only an accepted request may run.
const (
	Refuse    Verdict = iota // an error: the request could not be recorded
	Accept                   // a new job or a higher epoch; it is recorded on the disk
	Duplicate                // the admitted epoch: acknowledge again, do not run
	Stale                    // a lower epoch: its master no longer owns the job
)

// ErrDamaged: the job may have run before, as the record of it may be lost.
var ErrDamaged = errors.New("the record of admitted jobs was damaged")

// A Fence is safe for concurrent use.
type Fence struct {
	damage error

	mu     sync.Mutex
	table  *table
	epochs map[wire.JID]uint64
	order  []wire.JID        // by last admission, oldest first
	open   map[wire.JID]bool // jobs without a stored result
	floor  time.Time         // unknown jobs created before are refused; zero is no floor
}

// Open opens the fence in a file, and creates it with mode 0600 if it does not exist. It returns an error if another
// process has the file open, or the file cannot be read. A damaged file is not an error, see [Fence.Damage].
func Open(path string) (*Fence, error) {
	t, found, err := openTable(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the record of admitted jobs: %w", err)
	}
	f := &Fence{
		table:  t,
		epochs: make(map[wire.JID]uint64, min(len(found.records), Capacity+1)),
		order:  make([]wire.JID, 0, len(found.records)),
		open:   map[wire.JID]bool{},
	}
	for _, r := range found.records {
		f.apply(r)
	}
	if found.damage != nil {
		f.apply(floorRecord(time.Now()))
		f.damage = fmt.Errorf("%w: %w; the file is kept as %s, unknown jobs made before %s are refused",
			ErrDamaged, found.damage, t.aside(), f.floor.Add(Skew).UTC().Format(time.RFC3339))
		if err := f.table.replace(f.records()); err != nil {
			return nil, errors.Join(fmt.Errorf("cannot replace the damaged record of admitted jobs: %w", err),
				t.close())
		}
	}
	return f, nil
}

// Damage returns the damage that Open found in the file and the place of the copy, or nil. The error wraps
// [ErrDamaged].
func (f *Fence) Damage() error { return f.damage }

// Close releases the file.
func (f *Fence) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.table.close()
}

// Admit decides whether a request for a job may run. If it returns Accept, the admission is on the disk. It returns
// Refuse and an error if the disk refused the record or the job may have run before ([ErrDamaged]); nothing has changed
// then.
func (f *Fence) Admit(jid wire.JID, epoch uint64) (Verdict, error) {
	if _, err := wire.ParseJID(string(jid)); err != nil {
		return Refuse, fmt.Errorf("cannot admit a job: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	known, ok := f.epochs[jid]
	switch {
	case ok && epoch == known:
		return Duplicate, nil
	case ok && epoch < known:
		return Stale, nil
	case !ok && !f.floor.IsZero() && jid.Time().Before(f.floor.Add(Skew)):
		return Refuse, fmt.Errorf("cannot admit job %s: %w after it was made, so it may have run already", jid,
			ErrDamaged)
	}
	r := record{kind: unfinished, jid: jid, number: epoch}
	if err := f.store(r); err != nil {
		return Refuse, fmt.Errorf("cannot admit job %s: %w", jid, err)
	}
	f.apply(r)
	return Accept, nil
}

// An Admission is a job that was admitted at an epoch.
type Admission struct {
	JID   wire.JID
	Epoch uint64
}

// Unfinished returns the admitted jobs without a stored result, in the order of their admission. Right after Open these
// are the jobs that the last process did not finish, and perhaps jobs whose result it stored just before it died.
func (f *Fence) Unfinished() (all []Admission) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, jid := range f.order {
		if f.open[jid] {
			all = append(all, Admission{jid, f.epochs[jid]})
		}
	}
	return all
}

// IsUnfinished reports whether a job was admitted and has no stored result.
func (f *Fence) IsUnfinished(jid wire.JID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open[jid]
}

// Finish records that the result of a job is stored. It does nothing unless the job is unfinished at that epoch.
func (f *Fence) Finish(jid wire.JID, epoch uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.open[jid] || f.epochs[jid] != epoch {
		return nil
	}
	r := record{kind: finished, jid: jid, number: epoch}
	if err := f.store(r); err != nil {
		return fmt.Errorf("cannot record the end of job %s: %w", jid, err)
	}
	f.apply(r)
	return nil
}

func (f *Fence) store(r record) error {
	if f.table.full() {
		if err := f.table.replace(f.records()); err != nil {
			return err
		}
	}
	return f.table.append(r)
}

// apply updates the memory by a record. Open applies records in the order in which Admit and Finish wrote them, so a
// restart changes neither the known jobs nor the order in which they are forgotten.
func (f *Fence) apply(r record) {
	if r.kind == boundary {
		f.floor = time.Unix(int64(r.number), 0)
		return
	}
	epoch, known := f.epochs[r.jid]
	if r.kind == unfinished {
		f.open[r.jid] = true
	} else {
		delete(f.open, r.jid)
		if known && epoch == r.number {
			return // the end of a job does not change the order
		}
	}
	if known {
		i := slices.Index(f.order, r.jid)
		f.order = slices.Delete(f.order, i, i+1)
	}
	f.epochs[r.jid] = r.number
	f.order = append(f.order, r.jid)
	if len(f.order) > Capacity {
		delete(f.epochs, f.order[0])
		delete(f.open, f.order[0])
		f.order = f.order[1:]
	}
}

// records returns the records from which Open restores this state.
func (f *Fence) records() []record {
	records := make([]record, 0, len(f.order)+1)
	if !f.floor.IsZero() {
		records = append(records, floorRecord(f.floor))
	}
	for _, jid := range f.order {
		r := record{kind: finished, jid: jid, number: f.epochs[jid]}
		if f.open[jid] {
			r.kind = unfinished
		}
		records = append(records, r)
	}
	return records
}
