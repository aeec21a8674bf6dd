package job

import (
	"context"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A RowState is the state of one target of a job.
type RowState string

// The states of a target: the first two while its job runs, the others when it has returned or the job has ended.
const (
	RowWaiting RowState = "waiting" // it has not returned yet
	// it has not returned yet and is offline; the API of a master sets it, a [Store] does not
	RowUnreachable RowState = "unreachable"
	RowOK          RowState = "ok"
	RowFailed      RowState = "failed"
	RowMissing     RowState = "missing"  // it did not return in time
	RowRejected    RowState = "rejected" // it did not start the work
	RowCanceled    RowState = "canceled" // it was stopped
	RowSkipped     RowState = "skipped"  // the job ended before its request was sent
)

// A Row is one target of a job and what it returned, if it has.
type Row struct {
	Peel   target.PeelID `json:"peel"`
	State  RowState      `json:"state"`
	Late   bool          `json:"late,omitempty"` // it returned after the job had ended
	Return *wire.Return  `json:"return,omitempty"`
}

// A RowsPage is some of the targets of a job, by ID.
type RowsPage struct {
	Job  Job           `json:"job" doc:"When the page was made, without targets and arguments."`
	Rows []Row         `json:"rows" doc:"A target that has not returned is waiting, or unreachable if it is offline."`
	Next target.PeelID `json:"next,omitempty" doc:"The cursor of the next page; absent on the last."`
	// Keys are those of the peels of Rows that have a receipt, if they were asked for.
	Keys map[target.PeelID][]credential.PeelKey `json:"keys,omitempty" doc:"Public nkeys of the credentials of peels."`
}

const (
	rowsInPage = 1024
	pageBytes  = 448 << 10 // of a page that has more than one row
	rowBytes   = 64        // of a row, beside its peel's ID and return
	leastBatch = 16        // rows that are read at first: their returns may be large
	mostBatch  = 256       // that are read at a time, as the next may be larger
)

// Rows reads the targets of a job that follow after, with what they returned: a bounded number of them and of bytes,
// at least one. What a target returned after the job had ended is in its row as well, marked as late. It may lag behind
// a write of this moment on a cluster.
func (s *Store) Rows(ctx context.Context, jid wire.JID, after target.PeelID) (page *RowsPage, err error) {
	defer wrap(&err, "cannot read the targets of job %s", jid)
	j, err := s.get(ctx, jid)
	if err != nil {
		return nil, err
	}
	var ids []target.PeelID
	var place int
	err = s.withTargets(ctx, j, func(found *Job) (err error) {
		j = found
		ids, place, err = s.targetsFrom(ctx, j, after)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(ids) > 0 && ids[0] == after {
		ids, place = ids[1:], place+1
	}
	page = &RowsPage{Job: j.Summary()}
	bytes := 0
	for batch := leastBatch; len(ids) > 0; batch = min(4*batch, mostBatch, fitting(len(page.Rows), bytes)) {
		part := ids[:min(batch, len(ids))]
		rows, err := s.readRows(ctx, j, part, place)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if bytes += rowBytes + len(row.Peel) + row.size; len(page.Rows) == rowsInPage ||
				len(page.Rows) > 0 && bytes > pageBytes {
				page.Next = page.Rows[len(page.Rows)-1].Peel
				return page, nil
			}
			page.Rows = append(page.Rows, row.Row)
		}
		ids, place = ids[len(part):], place+len(part)
	}
	return page, nil
}

// fitting is how many rows are to be read to see a page to its end, if they are as large as those that it has.
func fitting(rows, bytes int) int {
	return 1 + min(rowsInPage-rows, (pageBytes-bytes)*rows/bytes)
}

// sizedRow is a row with the bytes of its return.
type sizedRow struct {
	Row
	size int
}

// readRows reads targets of a job that follow each other, in one request to the bus. Place is the index of the first of
// them among the job's targets.
func (s *Store) readRows(ctx context.Context, j *Job, ids []target.PeelID, place int) ([]sizedRow, error) {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = returnSubject(j.JID, id)
	}
	stored, err := s.newestReturns(ctx, keys)
	if err != nil {
		return nil, err
	}
	if j.Status.Final() && len(stored) < len(ids) {
		if err := s.askLeader(ctx, j, keys, stored); err != nil {
			return nil, err
		}
	}
	rows := make([]sizedRow, len(ids))
	for i, id := range ids {
		m, returned := stored[keys[i]]
		sent := place+i < j.Published || j.Scheduled()
		rows[i].Row = Row{Peel: id, State: StateOf(j.Status, nil)}
		switch {
		case returned:
			r := ReadReturn(j.JID, id, m.Data)
			rows[i] = sizedRow{Row{id, StateOf(j.Status, r), isLate(j, &m), r}, len(m.Data)}
		case !sent && j.Status.Final():
			rows[i].State = RowSkipped
		}
	}
	return rows, nil
}

// isLate reports whether a return came after the end of its job.
func isLate(j *Job, m *bucket.Message) bool {
	switch {
	case !j.Status.Final() || j.ReturnCount == j.TargetCount:
		return false
	case j.LastReturn == 0 && j.ReturnCount > 0: // a record of an earlier version
		return m.Stored.After(j.Written)
	}
	return m.Sequence > j.LastReturn
}

// StateOf returns the state of a target that was sent the request of a job with that status; r is what it returned, nil
// if it has not.
func StateOf(status Status, r *wire.Return) RowState {
	switch {
	case r != nil && r.Success:
		return RowOK
	case r != nil && r.Outcome == wire.Rejected:
		return RowRejected
	case r != nil && r.Outcome == wire.Canceled:
		return RowCanceled
	case r != nil:
		return RowFailed
	case status.Final():
		return RowMissing
	}
	return RowWaiting
}
