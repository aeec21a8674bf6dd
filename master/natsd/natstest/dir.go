package natstest

import (
	"os"
	"strings"
	"testing"
)

const memoryFiles = "/dev/shm"

// InMemory runs the tests of a package with all their temporary files in memory, and returns their exit code. The
// stores flush every write, which takes longer on a busy disk than most tests. The files stay on disk if memory has no
// room or does not allow programs, and in a process started by a test, whose files are in memory already.
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

// shortLived returns a directory that is removed after the test: in memory if there is room.
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
