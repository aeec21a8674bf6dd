package peel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/google/renameio/v2"

	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	removalFile = "removed"        // in the data directory, of the host that was removed from the fleet
	wipeSends   = 10 * time.Second // to send what the outbox holds before it is deleted
)

// A RemovedError is the error of [Peel.Run] after peel.wipe, and of [New] on the same host from then on.
type RemovedError struct {
	Dir  string        `json:"-"` // the data directory
	Peel target.PeelID `json:"peel"`
	By   string        `json:"by"` // the user
	JID  wire.JID      `json:"jid"`
	Time time.Time     `json:"time"`
}

func (e *RemovedError) Error() string {
	return fmt.Sprintf("%s was removed from the fleet by %s at %s, with job %s: remove %s to let this host join again",
		e.Peel, e.By, e.Time.Format(time.RFC3339), e.JID, filepath.Join(e.Dir, removalFile))
}

// A removal is what has happened of the removal of this host.
type removal struct {
	recorded atomic.Pointer[RemovedError] // nil until it is on the disk
	stored   chan struct{}                // closed when the result of peel.wipe is stored
}

// wipe records that this host is removed from the fleet, and stops the peel when the result is stored. From the record
// on no entry starts, in the next process neither, so a host that dies before its data are deleted runs nothing.
func (p *Peel) wipe(ctx context.Context, call module.Call) (any, error) {
	switch {
	case call.User == "":
		return nil, errors.New("a schedule cannot remove its host from the fleet")
	case call.Args["peel"] != string(p.o.ID):
		return nil, fmt.Errorf("the argument peel has to be %s, the ID of this peel: nothing is deleted", p.o.ID)
	case call.AfterStored == nil:
		return nil, errors.New("nothing is deleted: the result would not be stored")
	}
	removed := &RemovedError{
		Dir: p.o.DataDir, Peel: p.o.ID, By: call.User, JID: call.JID, Time: time.Now().UTC().Truncate(time.Second),
	}
	data, err := json.Marshal(removed)
	if err != nil {
		return nil, err
	}

	if _, _, err := p.sched.Quiet(ctx, true, 0); err != nil {
		return nil, err
	}
	err = renameio.WriteFile(p.path(removalFile), append(data, '\n'), 0o600)
	if err == nil {
		err = syncDir(p.o.DataDir)
	}
	if err != nil {
		err = fmt.Errorf("cannot record that this host is removed, nothing is deleted: %w", err)
		return nil, errors.Join(err, os.RemoveAll(p.path(removalFile)), p.sched.Loud(ctx))
	}

	p.log.Warn("this host is removed from the fleet: the peel stops and deletes its data", "user", call.User,
		"jid", call.JID, "dir", p.o.DataDir)
	if p.removal.recorded.CompareAndSwap(nil, removed) { // no other job has removed it
		call.AfterStored(func() { close(p.removal.stored) })
	}
	return map[string]any{"data_dir": p.o.DataDir}, nil
}

// awaitRemoval ends the run by leave when the result of peel.wipe is stored.
func (p *Peel) awaitRemoval(ctx context.Context, leave context.CancelCauseFunc) {
	select {
	case <-p.removal.stored:
		leave(p.removal.recorded.Load())
	case <-ctx.Done():
	}
}

// sendAll waits until the outbox is empty, for a bounded time: its files are deleted next.
func (p *Peel) sendAll() {
	limit := time.NewTimer(wipeSends)
	defer limit.Stop()
	tick := time.NewTicker(replaceInterval)
	defer tick.Stop()

	for p.outbox.Len() > 0 {
		select {
		case <-tick.C:
		case <-limit.C:
			p.log.Warn("results are deleted before they were sent", "results", p.outbox.Len())
			return
		}
	}
}

// DeleteData deletes what is in the data directory of a peel, except the record that its host was removed. Call it when
// all that writes there has stopped.
func DeleteData(dir string) error {
	all, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot delete the data of the peel: %w", err)
	}
	for _, f := range all {
		if f.Name() == removalFile {
			continue
		}
		if e := os.RemoveAll(filepath.Join(dir, f.Name())); e != nil {
			err = errors.Join(err, fmt.Errorf("cannot delete data of the peel: %w", e))
		}
	}
	return errors.Join(err, syncDir(dir))
}

// checkRemoval returns a [RemovedError] if the host was removed from the fleet. It deletes the data that a process
// which died has left.
func checkRemoval(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, removalFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	removal := &RemovedError{Dir: dir}
	if err == nil {
		err = json.Unmarshal(data, removal)
	}
	if err != nil {
		return fmt.Errorf("cannot read whether this host was removed from the fleet: %w", err)
	}
	return errors.Join(removal, DeleteData(dir))
}
