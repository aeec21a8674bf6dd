package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestACredentialThatOthersCanReadIsRefused(t *testing.T) {
	for mode, want := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: true, 0o644: false, 0o602: false, 0o620: false} {
		file := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(file, []byte("hunter2\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		_, err := ReadSecret(file)
		if (err == nil) != want || err != nil && (!strings.Contains(err.Error(), "chmod 600 "+file) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%#o: %v", mode, err)
		}
	}
}
