package keystore_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

// private gives a copied key directory the modes that it must have.
func private(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
