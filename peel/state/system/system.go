//go:build linux

// Package system has the functions of states for parts of a host that are neither files nor packages:
// [KernelParameter], [Zone], [Mount], [Answers], [Git.Latest] and [Pip] return the steps that are missing.
//
// Known gaps: a mount whose options differ gets a new line in /etc/fstab and is not mounted again. A program that runs
// reads a new zone of the host when it starts again.
package system

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/file"
	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// zoneinfo has the zones of the host.
const zoneinfo = "/usr/share/zoneinfo"

// Zone plans timezone.system: /etc/localtime is a link to the zone, and /etc/timezone, where a host has it, names it.
func Zone(ctx context.Context, w *host.World, a *state.TimezoneSystem) ([]host.Step, error) {
	name := path.Join(zoneinfo, a.Name)
	info, err := w.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Kind != safefs.File && info.Kind != safefs.Symlink {
		return nil, w.Lacks("there is no zone %s on this host; the package tzdata has the zones", a.Name)
	}

	steps, err := file.Link(w, &state.FileSymlink{Path: "/etc/localtime", Target: name, Force: true})
	if err != nil {
		return nil, err
	}
	old, err := w.Stat("/etc/timezone")
	if err != nil || old.Kind == safefs.Absent {
		return steps, err
	}
	content := a.Name + "\n"
	more, err := file.Managed(ctx, w, &state.FileManaged{Path: "/etc/timezone", Content: &content}, file.Inputs{})
	return append(steps, more...), err
}

// run runs a program with an input. Its output is in the error.
func run(ctx context.Context, stdin string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = host.Environment()
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %.2000s", strings.Join(argv, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(out), nil
}
