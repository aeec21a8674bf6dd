package history

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
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
	histories := func() State { return State{} }
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

// A record that cannot be removed does not make the state a thing of the memory.
func TestAStateIsStoredAlsoIfARecordCannotBeRemoved(t *testing.T) {
	dir := t.TempDir()
	record := filepath.Join(dir, "record")
	if err := os.MkdirAll(filepath.Join(record, "full"), 0o700); err != nil { // a directory with a name in it
		t.Fatal(err)
	}
	s := NewSaver(filepath.Join(dir, "state"))
	stored := make(chan error, 1)
	s.Dirty, s.Settled, s.Waiting = true, []string{record}, []chan<- error{stored}
	var out bytes.Buffer
	save := func(up time.Duration) {
		s.Save(up, func() State { return State{} })
		s.After(<-s.Saved, slog.New(slog.NewTextHandler(&out, nil)))
	}
	save(0)
	if err := <-stored; err != nil {
		t.Errorf("the caller that waits is told %v", err)
	}
	if text := out.String(); strings.Contains(text, "in memory only") || !strings.Contains(text, "stay on the disk") {
		t.Errorf("logged %s", text)
	}
	if err := os.Remove(filepath.Join(record, "full")); err != nil {
		t.Fatal(err)
	}
	save(2 * time.Minute)
	if _, err := os.Stat(record); err == nil {
		t.Error("the record is still there")
	}
}
