package main

import (
	"os"
	"testing"

	"github.com/seed-c01c3da5/zester/cmd/daemon"
	"github.com/seed-c01c3da5/zester/master/api"
)

func TestTheMasterThatIsAServiceIsFoundWhereItsFileCanBeRead(t *testing.T) {
	dir := t.TempDir()
	if got, want := dataDir(dir), daemon.DataDir(); got != want {
		t.Errorf("without a master there: %s, want %s", got, want)
	}

	if err := api.WriteRunInfo(dir, api.RunInfo{URL: "tls://127.0.0.1:4222", Creds: "c", PID: os.Getpid()}); err != nil {
		t.Fatal(err)
	}
	if got := dataDir(dir); got != dir {
		t.Errorf("with a master there: %s, want %s", got, dir)
	}
}
