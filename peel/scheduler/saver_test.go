package scheduler

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// Runs whose end a write should have stored are closed by the next write that succeeds.
func TestRunsAreClosedAfterAWriteThatFailedOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	log := slog.New(slog.DiscardHandler)
	store, _, err := OpenStore(filepath.Join(dir, "state"), log)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSaver(store)
	id := wire.NewJID()
	if store.Begin(OpenRun{JID: id, Entry: "e"}) == nil {
		t.Fatal("a file in a directory that does not exist is written")
	}
	s.Dirty, s.Settled = true, []wire.JID{id}
	save := func(up time.Duration) error {
		s.Save(up, func() Change {
			return Change{State: StoredState{Entries: map[string]History{"e": {Progress: Progress{Counts: Counts{Runs: 1}}}}}, Dirty: []string{"e"}}
		})
		err := <-s.Saved
		s.After(err, time.Unix(7, 0), log)
		return err
	}
	if save(0) == nil || s.Memory.Unix() != 7 {
		t.Fatalf("written although the directory does not exist; in memory since %v", s.Memory)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := save(2 * time.Minute); err != nil || !s.Memory.IsZero() {
		t.Fatal(err, s.Memory)
	}
	store, state, err := OpenStore(filepath.Join(dir, "state"), log)
	if err != nil || store.Damage() != "" || len(state.Open) > 0 || state.Entries["e"].Runs != 1 {
		t.Errorf("%+v, %q, %v", state, store.Damage(), err)
	}
}
