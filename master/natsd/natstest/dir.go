package natstest

import (
	"os"
	"strings"
	"testing"
)

const memoryFiles = "/dev/shm"

// InMemory runs the tests of a package with all their temporary files in memory, and returns their exit code. What stores syncs
// at every step, and a disk that others use takes longer for that than most tests to run. The files stay on disk where memory
// has no room or programs cannot be started from it, and in a process that a test starts, whose files are in memory already.
func InMemory(m *testing.M) int {
	if !memory() || !startsPrograms() || strings.HasPrefix(os.Getenv("TMPDIR"), memoryFiles) {
		return m.Run()
	}
	dir, err := os.MkdirTemp(memoryFiles, "zester-test-")
	if err != nil {
		return m.Run()
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv("TMPDIR", dir); err != nil {
		panic(err)
	}
	return m.Run()
}

// shortLived is a directory for what a bubble stores, which nobody reads after the test: in memory where there is room.
func shortLived(t testing.TB) string {
	t.Helper()
	if !memory() {
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
