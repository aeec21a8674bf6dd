package scheduler_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler"
)

// usual has twenty entries: six fire every five minutes, six every hour, four every night and four by intervals.
func usual() string {
	var text strings.Builder
	for i := range 6 {
		fmt.Fprintf(&text, "often-%d: {module: test.ping, cron: \"*/5 * * * *\", splay: 30s}\n", i)
		fmt.Fprintf(&text, "hourly-%d: {module: test.ping, cron: \"%d * * * *\", splay: 5m}\n", i, 10*i)
	}
	for i := range 4 {
		fmt.Fprintf(&text, "nightly-%d: {module: test.ping, cron: \"30 %d * * *\", splay: 15m}\n", i, i)
		fmt.Fprintf(&text, "interval-%d: {module: test.ping, interval: %dm}\n", i, 15*(i+1))
	}
	return text.String()
}

// A run writes what it has changed, and not all that is known of its entry. The third day is measured, as lists
// forget then.
func TestADayOfTwentyEntriesWritesLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures what is written")
	}
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "state")
		booted, id := time.Now(), "c4a5bd1e-7d5c-4a44-9c7e-8c0f4c1b3a52"
		h := start(t, scheduler.Options{
			Zone: time.UTC, StateFile: file,
			Boot:   func() (string, time.Duration) { return id, time.Since(booted) },
			Source: func(string) scheduler.Source { return scheduler.Source{Commit: strings.Repeat("c", 40)} },
		})
		defer h.shut()
		h.apply(parse(t, usual()))
		time.Sleep(48 * time.Hour)
		before := len(h.all())
		appended, rewritten := written(t, file, 24*time.Hour)
		runs := len(h.all()) - before
		t.Logf("%d runs: %d bytes appended, %d in new files", runs, appended, rewritten)
		if runs < 2000 || appended > 3e6 || rewritten > 3e6 {
			t.Errorf("%d runs in a day have appended %d bytes, and %d were in new files", runs, appended, rewritten)
		}
	})
}

// written returns how many bytes were appended to a file in a time, and how many files that replaced it had.
func written(t *testing.T, file string, in time.Duration) (appended, rewritten int64) {
	t.Helper()
	var last os.FileInfo
	for end := time.Now().Add(in); time.Now().Before(end); time.Sleep(10 * time.Second) {
		synctest.Wait()
		now, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case last != nil && os.SameFile(last, now):
			appended += now.Size() - last.Size()
		case last != nil:
			rewritten += now.Size()
		}
		last = now
	}
	return appended, rewritten
}
