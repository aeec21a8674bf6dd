// Command zester-master runs one master, the bus if none is named, and the reconciler of a config repo.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/seed-c01c3da5/zester/cmd/daemon"
	"github.com/seed-c01c3da5/zester/master"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	cfg := defaults()
	check, err := daemon.Load("zester-master", args, cfg, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	var level slog.LevelVar
	log := daemon.Logger(&level)
	var o master.Options
	if err == nil {
		level.Set(cfg.LogLevel)
		o, err = cfg.options(log)
	}
	var m *master.Master
	if err == nil {
		m, err = master.New(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "zester:", err)
		return daemon.ExitUsage
	}
	if check {
		fmt.Printf("the configuration of master %s is valid\n", o.ID)
		return 0
	}
	hangup := func() {
		again := defaults()
		if _, err := daemon.Load("zester-master", args, again, os.Stderr); err != nil {
			log.Error("configuration not read again", "err", err)
			return
		}
		level.Set(again.LogLevel)
		log.Info("configuration read again: the log level is in force, the rest at the next start")
	}
	return daemon.Main(m.Run, hangup)
}
