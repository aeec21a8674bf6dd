package swarm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
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
	if zester := filepath.Join(f.r.o.Programs, "zester"); isFile(zester) {
		began := time.Now()
		for range starts {
			if err := exec.CommandContext(ctx, zester, "version").Run(); err != nil {
				return fmt.Errorf("cannot run zester version: %w", err)
			}
		}
		f.r.figure("zester version", "ms", time.Since(began).Seconds()*1000/starts)
	}
	if f.r.o.Idle == 0 || !isFile(filepath.Join(f.r.o.Programs, "zester-peel")) {
		return nil
	}
	return f.idlePeel(ctx)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
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
	wakes := wakeUps(cmd.Process.Pid)
	if err := pauseUntil(ctx, time.Now().Add(f.r.o.Idle)); err != nil {
		return err
	}
	wakes = wakeUps(cmd.Process.Pid) - wakes
	f.r.figure("idle peel process: resident", "MiB", resident(cmd.Process.Pid)/1024)
	f.r.figure("idle peel process: of that, anonymous", "MiB", statusOf(cmd.Process.Pid, "RssAnon")/1024)
	f.r.figure("idle peel process: wake-ups of its threads", "1/s", wakes/f.r.o.Idle.Seconds())
	return nil
}

// awaitSettings waits for a report of applied settings.
func awaitSettings(ctx context.Context, reports *nats.Subscription) error {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
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
	keys, err := keystore.Open(f.r.keys("master"))
	if err != nil {
		return nil, err
	}
	creds, err := keys.Creds(grants.RolePeel, realID.Wire(), 0)
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

// wakeUps returns how often the threads of a process have been woken.
func wakeUps(pid int) (n float64) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, file := range files {
		n += field(file, "voluntary_ctxt_switches")
	}
	return n
}

// resident returns the resident memory of a process in KiB, 0 if it is not known.
func resident(pid int) float64 { return statusOf(pid, "VmRSS") }

func statusOf(pid int, name string) float64 { return field(fmt.Sprintf("/proc/%d/status", pid), name) }

// field returns a number of a file with lines such as "VmRSS: 12 kB", 0 if it is not known.
func field(file, name string) float64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if rest, ok := strings.CutPrefix(string(line), name+":"); ok {
			if n, err := strconv.ParseFloat(strings.Fields(rest)[0], 64); err == nil {
				return n
			}
		}
	}
	return 0
}
