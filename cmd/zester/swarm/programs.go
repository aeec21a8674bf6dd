package swarm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/cmd/zester/swarm/worker"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// realID is the ID of the peel that runs as the program zester-peel.
const realID target.PeelID = "real-peel"

// starts is how often a program is started to measure its start.
const starts = 20

// programs measures the programs in Options.Programs: the start of zester, and zester-peel without work.
func (f *fleet) programs(ctx context.Context) error {
	if f.r.o.Programs == "" {
		return nil
	}
	if zester := filepath.Join(f.r.o.Programs, "zester"); ProcessExists(zester) {
		began := time.Now()
		for range starts {
			if err := exec.CommandContext(ctx, zester, "version").Run(); err != nil {
				return fmt.Errorf("cannot run zester version: %w", err)
			}
		}
		f.r.figure("zester version", "ms", time.Since(began).Seconds()*1000/starts)
	}
	if f.r.o.Idle == 0 || !ProcessExists(filepath.Join(f.r.o.Programs, "zester-peel")) {
		return nil
	}
	return f.idlePeel(ctx)
}

// idlePeel starts zester-peel, waits until it has applied its settings, and measures it without work.
func (f *fleet) idlePeel(ctx context.Context) (err error) {
	cmd, err := f.peelProgram(ctx)
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	reports, err := f.nc.SubscribeSync(wire.SettingsApplied(realID.Wire()))
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start zester-peel: %w", err)
	}
	defer func() {
		err = errors.Join(err, cmd.Process.Signal(syscall.SIGTERM))
		if e := cmd.Wait(); e != nil {
			err = errors.Join(err, fmt.Errorf("zester-peel: %w: %.500s", e, bytes.TrimSpace(stderr.Bytes())))
		}
	}()
	if err := awaitSettings(ctx, reports); err != nil {
		return fmt.Errorf("zester-peel has not applied its settings: %w", err)
	}
	wakes := WakeUps(cmd.Process.Pid)
	if err := pauseUntil(ctx, time.Now().Add(f.r.o.Idle)); err != nil {
		return err
	}
	wakes = WakeUps(cmd.Process.Pid) - wakes
	f.r.figure("idle peel process: resident", "MiB", Resident(cmd.Process.Pid)/1024)
	f.r.figure("idle peel process: of that, anonymous", "MiB", HostStatus(cmd.Process.Pid, "RssAnon")/1024)
	f.r.figure("idle peel process: wake-ups of its threads", "1/s", wakes/f.r.o.Idle.Seconds())
	return nil
}

// awaitSettings waits for a report of applied settings.
func awaitSettings(ctx context.Context, reports *nats.Subscription) error {
	ctx, cancel := context.WithTimeout(ctx, worker.WaitLimit)
	defer cancel()
	for {
		msg, err := reports.NextMsgWithContext(ctx)
		if err != nil {
			return err
		}
		if report, err := wire.DecodeApplied(msg); err != nil || report.Commit != "" {
			return err
		}
	}
}

func (f *fleet) peelProgram(ctx context.Context) (*exec.Cmd, error) {
	creds, err := worker.Credential(f.r.keys("master"), grants.RolePeel, realID.Wire())
	if err != nil {
		return nil, err
	}
	file := f.r.path("real.creds")
	if err := os.WriteFile(file, creds, 0o600); err != nil {
		return nil, err
	}
	args := []string{"--id", string(realID), "--data-dir", f.r.path("real"), "--url", f.info.URL, "--creds", file}
	if f.info.CA != "" {
		args = append(args, "--ca", f.info.CA)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(f.r.o.Programs, "zester-peel"), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd, nil
}
