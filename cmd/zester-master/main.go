// Command zester-master runs one master. It also runs a bus, unless --nats names one, and with --repo the reconciler of
// a config repo. The commands backup and restore copy what a master knows to a file and back.
package main

import (
	"os"

	"github.com/seed-c01c3da5/zester/cmd/daemon"
	"github.com/seed-c01c3da5/zester/reconciler/pulls"
)

func main() {
	if pulls.IsWorker() {
		os.Exit(pulls.Work(os.Stdin, os.Stdout))
	}
	os.Exit(daemon.Main("zester-master", "ZESTER_", defaults, backupCommand(), restoreCommand()))
}
