package history

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The records of runs whose end a write should have stored go with the next write that succeeds.
func TestRecordsAreRemovedAfterAWriteThatFailedOnce(t *testing.T) {
	dir := t.TempDir()
	record := filepath.Join(dir, "record")
	if err := os.WriteFile(record, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := NewSaver(filepath.Join(dir, "gone", "state"))
	s.Dirty, s.Settled = true, []string{record}
	histories := func() map[string]History { return nil }
	save := func(up time.Duration) error {
		s.Save(up, histories)
		err := <-s.Saved
		s.After(err, slog.New(slog.DiscardHandler))
		return err
	}
	if err := save(0); err == nil {
		t.Fatal("a file in a directory that does not exist is written")
	}
	if err := os.Mkdir(filepath.Join(dir, "gone"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := save(2 * time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(record); err == nil {
		t.Error("the record is still there")
	}
}
