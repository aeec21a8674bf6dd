// Command zester-peel is the agent of one host: it runs the schedule that Git says and the jobs that masters send.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/seed-c01c3da5/zester/cmd/daemon"
	"github.com/seed-c01c3da5/zester/peel"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	cfg := defaults()
	check, err := daemon.Load("zester-peel", args, cfg, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	var level slog.LevelVar
	log := daemon.Logger(&level)
	var o peel.Options
	if err == nil {
		level.Set(cfg.LogLevel)
		o, err = cfg.options(log)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "zester:", err)
		return daemon.ExitUsage
	}
	if check {
		fmt.Printf("the configuration of peel %s is valid\n", o.ID)
		return 0
	}
	hangup := func() {
		again := defaults()
		if _, err := daemon.Load("zester-peel", args, again, os.Stderr); err != nil {
			log.Error("configuration not read again", "err", err)
			return
		}
		level.Set(again.LogLevel)
		log.Info("configuration read again: the log level is in force, the rest at the next start")
	}
	return daemon.Main(func(ctx context.Context) error {
		p, err := peel.New(o)
		if err != nil {
			return err
		}
		daemon.Ready()
		return p.Run(ctx)
	}, hangup)
}
