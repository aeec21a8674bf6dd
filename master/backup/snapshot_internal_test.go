package backup

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestACopyThatDoesNotFitIsRefused(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "copy"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := checkRoom(f, 1); err != nil {
		t.Errorf("a byte: %v", err)
	}
	for _, n := range []uint64{1 << 60, math.MaxUint64} {
		if err := checkRoom(f, n); err == nil || !strings.Contains(err.Error(), "MiB free") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
