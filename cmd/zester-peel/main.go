// Command zester-peel is the agent of one host: it runs the schedule of the host and the jobs that masters send.
package main

import (
	"os"

	"github.com/seed-c01c3da5/zester/cmd/daemon"
)

func main() { os.Exit(daemon.Main("zester-peel", "ZESTER_PEEL_", defaults)) }
