//go:build linux

package system

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// pipEnvironment keeps pip from reading the configuration of a user, and from asking a person.
var pipEnvironment = map[string]string{
	"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}

// Pip plans pip.installed: the virtual environment has the packages. What it has is read from its directory, so a test
// runs no program.
func Pip(ctx context.Context, w *host.World, run Program, a *state.PipInstalled) ([]host.Step, error) {
	sites, err := sitePackages(w, a.Venv)
	if err != nil {
		return nil, err
	}
	if a.User == "" {
		if err := checkPrograms(w, a.Venv, sites); err != nil {
			return nil, err
		}
	}
	have, err := pythonPackages(w, sites)
	if err != nil {
		return nil, err
	}
	python, err := w.Stat(path.Join(a.Venv, "bin/python"))
	if err != nil {
		return nil, err
	}
	var steps []host.Step
	// An environment without pip is one that python3 -m venv could not finish.
	if _, finished := have["pip"]; python.Kind == safefs.Absent || !finished {
		if _, err := exec.LookPath("python3"); err != nil {
			return nil, w.Lacks("python3 is not installed on this host")
		}
		steps = append(steps, host.Step{
			Change: host.Change{Do: "create", What: a.Venv, After: "virtual environment"},
			Apply: func(ctx context.Context) error {
				_, err := run(ctx, a.User, pipEnvironment, "python3", "-m", "venv", "--", a.Venv)
				return explainVenv(err)
			},
		})
	}
	install := pipCall(a)
	var missing []host.Step
	for _, p := range a.Packages() {
		version, ok := have[state.PythonName(p.Name)]
		if ok && (p.Version == "" || isSameVersion(version, p.Version)) {
			continue
		}
		install = append(install, pipName(p))
		missing = append(missing, host.Step{
			Change: host.Change{Do: "install", What: p.Name, Before: version, After: p.Version},
		})
	}
	if len(missing) > 0 { // one call installs all of them
		missing[0].Apply = func(ctx context.Context) error {
			_, err := run(ctx, a.User, pipEnvironment, install...)
			return errors.Join(err, ctx.Err())
		}
	}
	steps = append(steps, missing...)
	if len(steps) > 0 {
		steps[len(steps)-1].Predict = func(w *host.World) { w.Doubt(a.Venv, "pip would write there") }
	}
	return steps, nil
}

// pipCall returns the call that installs packages, without their names.
func pipCall(a *state.PipInstalled) []string {
	call := []string{path.Join(a.Venv, "bin/python"), "-I", "-m", "pip", "install", "--quiet"}
	switch {
	case a.Index != "":
		call = append(call, "--index-url", a.Index)
	case a.FindLinks != "":
		call = append(call, "--no-index", "--find-links", a.FindLinks)
	}
	return append(call, "--")
}

func pipName(p state.PythonPackage) string {
	name := p.Name
	if p.Extras != "" {
		name += "[" + p.Extras + "]"
	}
	if p.Version != "" {
		name += "==" + p.Version
	}
	return name
}

func explainVenv(err error) error {
	if err != nil && strings.Contains(err.Error(), "ensurepip") {
		return fmt.Errorf("%w; on Debian the package python3-venv has what is missing", err)
	}
	return err
}

// checkPrograms is an error if another user than root can replace what root would run in a virtual environment: its
// Python, and the packages that Python reads before it begins with pip.
func checkPrograms(w *host.World, venv string, sites []string) error {
	names := []string{path.Join(venv, "bin/python"), path.Join(venv, "pyvenv.cfg")}
	for _, site := range sites {
		names = append(names, path.Join(site, "pip/__main__.py"))
	}
	for _, name := range names {
		if err := checkDirectory(name); err != nil {
			return err
		}
		switch f, err := w.Stat(name); {
		case err != nil:
			return err
		case f.Kind == safefs.Absent, f.UID == 0 && (f.Kind != safefs.File || f.Mode&0o022 == 0):
		default:
			const text = "another user can change %s, which root would run; name the user in the argument user"
			return fmt.Errorf(text, name)
		}
	}
	return nil
}

// sitePackages returns the directories of a virtual environment that hold packages: one for each version of Python.
func sitePackages(w *host.World, venv string) ([]string, error) {
	versions, err := w.List(path.Join(venv, "lib"))
	if err != nil {
		return nil, err
	}
	var sites []string
	for _, version := range versions {
		if strings.HasPrefix(version, "python") {
			sites = append(sites, path.Join(venv, "lib", version, "site-packages"))
		}
	}
	return sites, nil
}

// pythonPackages returns the versions of the packages in directories by name, as the names of their directories
// NAME-VERSION.dist-info say.
func pythonPackages(w *host.World, sites []string) (map[string]string, error) {
	have := map[string]string{}
	for _, site := range sites {
		names, err := w.List(site)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			base, isInfo := strings.CutSuffix(n, ".dist-info")
			name, version, hasVersion := strings.Cut(base, "-")
			if isInfo && hasVersion {
				have[state.PythonName(name)] = version
			}
		}
	}
	return have, nil
}

// isSameVersion reports whether two versions are one: zeros at the end count for nothing.
func isSameVersion(a, b string) bool {
	short := func(v string) string {
		v = strings.ToLower(v)
		for strings.HasSuffix(v, ".0") {
			v = strings.TrimSuffix(v, ".0")
		}
		return v
	}
	return short(a) == short(b)
}
