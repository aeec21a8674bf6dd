// Command zester-master runs one master, the bus if none is named, and the reconciler of a config repo.
package main

import (
	"os"

	"github.com/seed-c01c3da5/zester/cmd/daemon"
)

func main() { os.Exit(daemon.Main("zester-master", defaults)) }
