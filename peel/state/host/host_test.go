//go:build linux

package host

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestAPlannedOwnerReadsNoContent: a test that only changes the owner or mode of files takes no memory by their sizes.
func TestAPlannedOwnerReadsNoContent(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	name := dir + "/large"
	if err := os.WriteFile(name, []byte("begin"), 0o644); err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
	w := New()
	info, err := w.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	info.Mode = 0o600
	w.SetInfo(name, info)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 1<<20 {
		t.Errorf("%d bytes were taken", taken)
	}
	if got, err := w.Stat(name); err != nil || got.Mode != 0o600 || got.Size != size {
		t.Errorf("%+v, %v", got, err)
	}
	// The content is still that of the host, until a step plans another.
	if err := os.Truncate(name, 5); err != nil {
		t.Fatal(err)
	}
	if data, err := w.Read(name, 100); err != nil || string(data) != "begin" {
		t.Errorf("%q, %v", data, err)
	}
	w.SetFile(name, info, []byte("other"))
	w.SetInfo(name, info)
	if data, err := w.Read(name, 100); err != nil || string(data) != "other" {
		t.Errorf("%q, %v", data, err)
	}
}
