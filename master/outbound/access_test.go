package outbound

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "12": 12 * time.Second, "-3": 0, "x": 0, "99999999": time.Hour,
		now.Add(time.Minute).Format(http.TimeFormat):     time.Minute,
		now.Add(-time.Minute).Format(http.TimeFormat):    0,
		now.Add(100 * time.Hour).Format(http.TimeFormat): time.Hour,
	} {
		if got := RetryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("Retry-After %q is %v, want %v", value, got, want)
		}
	}
}
