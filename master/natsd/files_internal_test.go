package natsd

import (
	"syscall"
	"testing"
)

func TestConnectionsLeaveFilesToTheStreams(t *testing.T) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	})
	for files, want := range map[uint64]int{1024: 768, 20_000: 20_000 - forFiles} {
		if files > was.Max {
			t.Skipf("at most %d files", was.Max)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: files, Max: was.Max}); err != nil {
			t.Fatal(err)
		}
		if got := maxConnections(); got != want {
			t.Errorf("with %d files: %d connections, want %d", files, got, want)
		}
	}
}
