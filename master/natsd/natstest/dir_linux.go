package natstest

import (
	"os"
	"syscall"
	"testing"
)

const (
	memoryFiles = "/dev/shm"
	memoryLeast = 2 << 30 // bytes that are free: the streams of a bus may reserve room
)

// shortLived is a directory for what a bubble stores, which nobody reads after the test: in memory where there is room.
// A disk takes longer to make a dozen streams than most tests to run.
func shortLived(t testing.TB) string {
	t.Helper()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memoryFiles, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < memoryLeast {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memoryFiles, "zester-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
