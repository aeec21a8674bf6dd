//go:build linux

package system

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/file"
	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// Mount plans mount.mounted: its directory, the mount, and then its line in /etc/fstab. A line that cannot be mounted
// could end the next boot in an emergency shell.
func Mount(ctx context.Context, w *host.World, a *state.MountMounted) ([]host.Step, error) {
	steps, err := mountPoint(ctx, w, a)
	if err != nil {
		return nil, err
	}
	var line []host.Step
	if a.Persist == nil || *a.Persist {
		match := `^\s*[^#\s]\S*\s+` + regexp.QuoteMeta(a.Name) + `\s`
		line, err = file.Line(w, &state.FileLine{Path: "/etc/fstab", Line: fstab(a), Match: match})
		if err != nil {
			return nil, err
		}
	}
	if w.IsMounted(a.Name) {
		return append(steps, line...), nil
	}

	argv := []string{"mount", "-t", a.FSType, "-o", options(a), "--", a.Device, a.Name}
	steps = append(steps, host.Step{
		Change: host.Change{Do: "mount", What: a.Name, After: a.Device},
		Apply: func(ctx context.Context) error {
			_, err := run(ctx, "", argv...)
			return err
		},
		Predict: func(w *host.World) { w.SetMounted(a.Name) },
	})
	return append(steps, line...), nil
}

// mountPoint plans the directory of a mount.
func mountPoint(ctx context.Context, w *host.World, a *state.MountMounted) ([]host.Step, error) {
	isDir, err := w.IsDirectory(a.Name)
	switch {
	case err != nil || isDir:
		return nil, err
	case !a.MakeDir:
		return nil, w.Lacks("the directory %s does not exist; makedir: true makes it", a.Name)
	}
	return file.Directory(ctx, w, &state.FileDirectory{Path: a.Name, MakeDirs: true}, nil)
}

// options returns the options of a mount as one word.
func options(a *state.MountMounted) string {
	if len(a.Opts) == 0 {
		return "defaults"
	}
	return strings.Join(a.Opts, ",")
}

// fstab returns the line of a mount, as fstab(5) says.
func fstab(a *state.MountMounted) string {
	var dump, pass uint32
	if a.Dump != nil {
		dump = *a.Dump
	}
	if a.Pass != nil {
		pass = *a.Pass
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%d", a.Device, a.Name, a.FSType, options(a), dump, pass)
}
