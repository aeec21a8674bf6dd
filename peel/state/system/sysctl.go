//go:build linux

package system

import (
	"context"
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/file"
	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// maxValue bounds the value of a kernel parameter.
const maxValue = 64 << 10

// KernelParameter plans sysctl.present: the kernel has the value, and [state.SysctlFile] sets it at boot.
func KernelParameter(w *host.World, a *state.SysctlPresent) ([]host.Step, error) {
	live := path.Join("/proc/sys", a.Parameter())
	info, err := w.Stat(live)
	if err != nil {
		return nil, err
	}
	if info.Kind != safefs.File {
		return nil, w.Lacks("this kernel has no parameter %s", a.Name)
	}
	before, err := w.Read(live, maxValue)
	if err != nil {
		return nil, err
	}

	line := &state.FileLine{
		Path: state.SysctlFile, Line: a.Name + " = " + a.Value, Match: `^\s*-?` + regexp.QuoteMeta(a.Name) + `\s*=`,
	}
	steps, err := file.Line(w, line)
	if err != nil || fields(string(before)) == fields(a.Value) {
		return steps, err
	}
	change := host.Change{Do: "set", What: a.Name, Before: fields(string(before)), After: fields(a.Value)}
	return append(steps, host.Step{
		Change:  change,
		Apply:   func(context.Context) error { return os.WriteFile(live, []byte(a.Value+"\n"), 0) },
		Predict: func(w *host.World) { w.SetFile(live, info, []byte(a.Value+"\n")) },
	}), nil
}

// fields returns a value with one blank between its words: the kernel writes tabs.
func fields(value string) string { return strings.Join(strings.Fields(value), " ") }
