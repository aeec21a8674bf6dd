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

// KernelParameter plans sysctl.present: the kernel gets the value, and then [state.SysctlFile] sets it at boot, so no
// value that the kernel refuses is stored.
func KernelParameter(ctx context.Context, w *host.World, a *state.SysctlPresent) ([]host.Step, error) {
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

	var steps []host.Step
	if fields(string(before)) != fields(a.Value) {
		change := host.Change{Do: "set", What: a.Name, Before: fields(string(before)), After: fields(a.Value)}
		steps = append(steps, host.Step{
			Change:  change,
			Apply:   func(context.Context) error { return os.WriteFile(live, []byte(a.Value+"\n"), 0) },
			Predict: func(w *host.World) { w.SetFile(live, info, []byte(a.Value+"\n")) },
		})
	}
	stored, err := storedParameter(ctx, w, a)
	return append(steps, stored...), err
}

// storedParameter plans the line of a parameter in [state.SysctlFile], and the directory of the file, which a host
// without procps lacks.
func storedParameter(ctx context.Context, w *host.World, a *state.SysctlPresent) ([]host.Step, error) {
	dir := path.Dir(state.SysctlFile)
	isDir, err := w.IsDirectory(dir)
	if err != nil {
		return nil, err
	}
	text := a.Name + " = " + a.Value
	if !isDir {
		content := text + "\n"
		return file.Managed(ctx, w, &state.FileManaged{Path: state.SysctlFile, Content: &content, MakeDirs: true},
			file.Inputs{})
	}
	return file.Line(w, &state.FileLine{
		Path: state.SysctlFile, Line: text, Match: `^\s*-?` + regexp.QuoteMeta(a.Name) + `\s*=`,
	})
}

// fields returns a value with one blank between its words: the kernel writes tabs.
func fields(value string) string { return strings.Join(strings.Fields(value), " ") }
