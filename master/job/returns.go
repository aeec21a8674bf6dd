package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A RowState says what there is of one target of a job.
type RowState string

// The states of a target: the first three while its job runs, the others at the end.
const (
	RowWaiting     RowState = "waiting"     // nothing was heard of it yet
	RowAcked       RowState = "acked"       // it has the request
	RowUnreachable RowState = "unreachable" // it stayed silent for [UnreachableAfter]
	RowOK          RowState = "ok"
	RowFailed      RowState = "failed"
	RowMissing     RowState = "missing"  // it did not return in time
	RowRejected    RowState = "rejected" // it did not start the work
	RowCanceled    RowState = "canceled" // it was stopped
	RowSkipped     RowState = "skipped"  // the job ended before its request was sent
)

// UnreachableAfter is how long after its request a target that is silent counts as unreachable.
const UnreachableAfter = 10 * time.Second

// A Row is one target of a job and what it returned, if it has.
type Row struct {
	Peel   target.PeelID `json:"peel"`
	State  RowState      `json:"state"`
	Late   bool          `json:"late,omitempty"` // it returned after the job had ended
	Return *wire.Return  `json:"return,omitempty"`
}

// A RowsPage is some of the targets of a job, by ID. The next page begins after the last row.
type RowsPage struct {
	Job  Job   `json:"job"` // its summary, when the page was made
	Rows []Row `json:"rows"`
	More bool  `json:"more,omitempty"`
}

const (
	rowsInPage  = 256
	pageBytes   = 448 << 10 // of returns in a page that has more than one
	batchAtmost = 64
)

// CreateReturn stores what a peel returned for a job; data is the peel's message as it came. The first one stays.
func (s *Store) CreateReturn(ctx context.Context, jid wire.JID, peel target.PeelID, data []byte) error {
	if _, err := s.returns.Create(ctx, returnKey(jid, peel), data); err != nil && !errors.Is(err, jetstream.ErrKeyExists) {
		return fmt.Errorf("cannot store the return of %s for job %s: %w", peel, jid, err)
	}
	return nil
}

// Return reads what a peel returned for a job, nil if nothing is stored.
func (s *Store) Return(ctx context.Context, jid wire.JID, peel target.PeelID) (*wire.Return, error) {
	r, _, _, err := s.readReturn(ctx, jid, peel)
	return r, err
}

// readReturn also tells how large what is stored is, and since when, on the bus's clock.
func (s *Store) readReturn(ctx context.Context, jid wire.JID, peel target.PeelID) (r *wire.Return, size int, at time.Time, err error) {
	entry, err := s.returns.Get(ctx, returnKey(jid, peel))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, at, nil
	}
	if err != nil {
		return nil, 0, at, fmt.Errorf("cannot read the return of %s for job %s: %w", peel, jid, err)
	}
	got, err := wire.DecodeReturn(&nats.Msg{Subject: wire.ReturnOf(jid, peel.Wire()), Data: entry.Value()})
	if err != nil {
		return nil, 0, at, fmt.Errorf("cannot read the return of %s for job %s: %w", peel, jid, err)
	}
	return &got, len(entry.Value()), entry.Created(), nil
}

// Rows reads the targets of a job that follow after, with what they returned: a bounded number of them and of bytes,
// at least one. What a target returned after the job had ended is in its row as well, marked as late. It may lag behind
// a write of this moment on a cluster.
func (s *Store) Rows(ctx context.Context, jid wire.JID, after target.PeelID) (*RowsPage, error) {
	j, err := s.Get(ctx, jid)
	if err != nil {
		return nil, err
	}
	page := &RowsPage{Job: j.Summary()}
	rest := j.Targets
	if i, found := slices.BinarySearch(rest, after); found {
		rest = rest[i+1:]
	} else {
		rest = rest[i:]
	}
	bytes := 0
	for batch := 8; len(rest) > 0; batch = min(2*batch, batchAtmost) {
		ids := rest[:min(batch, len(rest))]
		rows, sizes, err := s.readRows(ctx, j, ids)
		if err != nil {
			return nil, err
		}
		for i, row := range rows {
			if bytes += sizes[i]; len(page.Rows) == rowsInPage || len(page.Rows) > 0 && bytes > pageBytes {
				page.More = true
				return page, nil
			}
			page.Rows = append(page.Rows, row)
		}
		rest = rest[len(ids):]
	}
	return page, nil
}

func (s *Store) readRows(ctx context.Context, j *Job, ids []target.PeelID) ([]Row, []int, error) {
	rows, sizes := make([]Row, len(ids)), make([]int, len(ids))
	published := j.Targets[:min(j.Published, len(j.Targets))]
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(inFlight)
	for i, id := range ids {
		g.Go(func() error {
			_, sent := slices.BinarySearch(published, id)
			var err error
			rows[i], sizes[i], err = s.readRow(ctx, j, id, sent || j.Scheduled())
			return err
		})
	}
	return rows, sizes, g.Wait()
}

// readRow reads one target. Sent says whether its request may have been.
func (s *Store) readRow(ctx context.Context, j *Job, id target.PeelID, sent bool) (Row, int, error) {
	row := Row{Peel: id}
	r, size, at, err := s.readReturn(ctx, j.JID, id)
	// A former owner that does not know it yet stores what it hears, also after the end.
	row.Late = r != nil && j.Status.Final() && j.ReturnCount < j.TargetCount && at.After(j.Written)
	if err == nil && r == nil && sent && j.Status.Final() {
		r, size, err = s.lateReturn(ctx, j.JID, id)
		row.Late = r != nil
	}
	row.Return, row.State = r, StateOf(j.Status, r)
	switch {
	case err != nil || r != nil:
	case !sent && j.Status.Final():
		row.State = RowSkipped
	case sent && !j.Status.Final():
		row.State, err = s.inFlight(ctx, j, id)
	}
	return row, size, err
}

// lateReturn reads what a target of a job that has ended returned since, nil if nothing. What the bus took and the
// owner would not have counted does not count here.
func (s *Store) lateReturn(ctx context.Context, jid wire.JID, id target.PeelID) (*wire.Return, int, error) {
	msg, err := s.last(ctx, wire.ReturnOf(jid, id.Wire()))
	if err != nil || msg == nil {
		return nil, 0, err
	}
	r, err := DecodeReturn(msg, id)
	if err != nil {
		return nil, 0, nil // a forged return is none
	}
	return &r, len(msg.Data), nil
}

// inFlight tells how far a target is that was sent its request and has not returned.
func (s *Store) inFlight(ctx context.Context, j *Job, id target.PeelID) (RowState, error) {
	msg, err := s.last(ctx, wire.AckOf(j.JID, id.Wire()))
	switch {
	case err != nil:
		return "", err
	case msg != nil:
		if a, err := wire.DecodeAck(msg); err == nil && a.Peel == id {
			return RowAcked, nil
		}
	}
	if time.Since(j.Sent) >= UnreachableAfter {
		return RowUnreachable, nil
	}
	return RowWaiting, nil
}

// DecodeReturn reads what the target id returned, after the checks that hold for every return of a job.
func DecodeReturn(msg *nats.Msg, id target.PeelID) (wire.Return, error) {
	if len(msg.Data) > MaxReturn {
		return wire.Return{}, fmt.Errorf("cannot accept %s: %d bytes, the limit is %d", msg.Subject, len(msg.Data), MaxReturn)
	}
	r, err := wire.DecodeReturn(msg)
	switch {
	case err != nil:
		return r, err
	case r.Peel != id:
		return r, fmt.Errorf("cannot accept %s: %w: it speaks for %q, the target is %q", msg.Subject, wire.ErrForged, r.Peel, id)
	case r.Success && r.Outcome != "":
		return r, fmt.Errorf("cannot accept %s: a success that is %q", msg.Subject, r.Outcome)
	}
	return r, nil
}

// Stored calls heard for every return of a job that is in the bucket.
func (s *Store) Stored(ctx context.Context, jid wire.JID, heard func(*nats.Msg)) error {
	watch, err := s.returns.Watch(ctx, string(jid)+".*", jetstream.IgnoreDeletes())
	if err != nil {
		return fmt.Errorf("cannot read the returns of job %s: %w", jid, err)
	}
	defer func() { _ = watch.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot read the returns of job %s: %w", jid, ctx.Err())
		case entry, ok := <-watch.Updates():
			if !ok {
				return fmt.Errorf("cannot read the returns of job %s: the bus ended the reading", jid)
			}
			if entry == nil {
				return nil
			}
			_, peel, _ := strings.Cut(entry.Key(), ".")
			heard(&nats.Msg{Subject: wire.ReturnOf(jid, peel), Data: entry.Value()})
		}
	}
}

// Count says how a job stands by the returns that are in the bucket.
func (s *Store) Count(ctx context.Context, j *Job) (End, error) {
	end := End{Targets: j.TargetCount, Canceled: j.Cancel != nil}
	targets := make(map[string]target.PeelID, len(j.Targets))
	for _, id := range j.Targets {
		targets[id.Wire()] = id
	}
	err := s.Stored(ctx, j.JID, func(msg *nats.Msg) {
		r, err := DecodeReturn(msg, targets[wire.Sender(msg.Subject)])
		if err != nil {
			return
		}
		end.Returned++
		if r.Success {
			end.Succeeded++
		}
		if r.Outcome == wire.Canceled {
			end.Stopped++
		}
	})
	return end, err
}

// ReturnMessage is the message that stores what a peel returned for a job, for who waits for the acknowledgement of
// the bucket's stream himself. The first one stays; [StoredBefore] tells that from the answer to another.
func ReturnMessage(jid wire.JID, peel target.PeelID, data []byte) *nats.Msg {
	return &nats.Msg{
		Subject: "$KV." + returnsBucket + "." + returnKey(jid, peel), Data: data,
		Header: nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"0"}},
	}
}

// StoredBefore reports whether the error code in a stream's answer says that a return of the peel is in the bucket
// already. One that is on its way there does not count: it may still be lost.
func StoredBefore(code int) bool { return code == int(jetstream.JSErrCodeStreamWrongLastSequence) }

// StateOf is the state of a target that was sent the request of a job with that status; r is what it returned, nil if
// it has not.
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

// returnKey is the key of a return. Peels whose IDs have the same wire form share it, and are one peel on the bus.
func returnKey(jid wire.JID, peel target.PeelID) string { return string(jid) + "." + peel.Wire() }
