// Package fence lets a peel run each job at most once per epoch, across crashes.
//
// A master sends a request again when it hears nothing, and so does a master that takes a job over; the bus may
// deliver twice. The fence therefore keeps the highest epoch of each job that the peel admitted: an equal one is a
// duplicate, a lower one comes from a master that has lost the job, a higher one runs. [Fence.Admit] says [Accept]
// only when the record is on the disk, so whatever runs was recorded before. A crash between the two loses a run,
// which the master sees as a missing return; it never doubles one.
//
// The fence also knows which admitted jobs have no stored result: [Fence.Finish] records that a result is stored, and
// after a crash [Fence.Unfinished] lists the jobs that were interrupted.
//
// The record is the newest [Capacity] jobs by the time of their last admission; older ones fall out, in the same
// order before and after a restart.
//
// # File
//
// A header, then slots of equal size for twice the capacity: job, kind, number, checksum, or zeros where nothing was
// written yet. The file has its full length from the start, so one that was cut short is told from one that is young.
// An admission writes the next slot and flushes it. The end of a job writes a slot without a flush: if the host loses it,
// the job is listed as unfinished, although its result is stored. A full file is replaced by a new one with the same
// records, under the old name.
// An unreadable slot at the very end of the used ones was being written when the peel or the host died: its job was
// not admitted, and the next admission takes the slot. Anything else that cannot be read is damage: records of
// admitted jobs are lost.
//
// # Damage
//
// A damaged file is moved aside, what can be read of it is kept, and a floor is recorded: unknown jobs that were
// made before the damage was found, or up to [Skew] after it by a clock that runs ahead, are refused with
// [ErrDamaged], because they may have run. Jobs made later run as always, so a peel heals by itself, and refusals are
// loud meanwhile. A file that is missing altogether is that of a new peel.
//
// A lock file beside it keeps a second process out, which would admit a job twice.
package fence

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// Capacity is how many jobs a fence remembers.
const Capacity = 4096

// Skew is how far the clock that made a job's ID may be ahead of the peel's, where that matters.
const Skew = time.Minute

// A Verdict is what a fence says to a request.
type Verdict uint8

// The verdicts. Only an accepted request may run.
const (
	Refuse    Verdict = iota // with an error: the request could not be recorded
	Accept                   // new, or of a higher epoch, and on the disk
	Duplicate                // of the epoch that was admitted: acknowledge again, do not run
	Stale                    // of a lower epoch: its master has lost the job
)

// ErrDamaged marks the refusal of a job that may have run before: the record of it may have been lost.
var ErrDamaged = errors.New("the record of admitted jobs was damaged")

// A Fence is safe for concurrent use.
type Fence struct {
	damage error

	mu     sync.Mutex
	table  *table
	epochs map[wire.JID]uint64
	order  []wire.JID        // by last admission, oldest first
	open   map[wire.JID]bool // those without a stored result
	floor  time.Time         // unknown jobs made before are refused; zero: none
}

// Open reads the fence in the file, which is made if it does not exist, with mode 0600. It fails if another process
// has the file open, or the file cannot be read; a damaged file is no failure, see [Fence.Damage].
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
			return nil, errors.Join(fmt.Errorf("cannot replace the damaged record of admitted jobs: %w", err), t.close())
		}
	}
	return f, nil
}

// Damage says what Open found wrong with the file and where the file is now; nil if it was sound. It wraps
// [ErrDamaged].
func (f *Fence) Damage() error { return f.damage }

// Close releases the file.
func (f *Fence) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.table.close()
}

// Admit judges a request for a job. Accept is recorded on the disk when it returns. An error comes with Refuse: the
// disk did not take the record, or the job may have run before ([ErrDamaged]); nothing has changed then.
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
		return Refuse, fmt.Errorf("cannot admit job %s: %w after it was made, so it may have run already", jid, ErrDamaged)
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

// apply takes a record into memory. What Open reads and what Admit writes pass through here in the same order, so a
// restart changes neither what is known nor what falls out next.
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
			return // the end of a job leaves its place in the order
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

// records are what a file must hold for Open to come to this state.
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
