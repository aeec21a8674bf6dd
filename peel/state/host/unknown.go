//go:build linux

package host

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/safefs"
)

// unpackaged are directories in which packages put nothing.
var unpackaged = []string{"/home", "/media", "/mnt", "/root", "/run", "/srv", "/tmp", "/usr/local", "/var/tmp"}

// mayBring says what planned step may make a path that is not there, empty if none may.
func (w *World) mayBring(name string) string {
	if w.unknowable {
		return "a command or a package that would be run or installed may bring it"
	}
	if slices.ContainsFunc(unpackaged, func(dir string) bool { return isBelow(name, dir) }) {
		return ""
	}
	for _, p := range slices.Sorted(maps.Keys(w.packages)) {
		if w.packages[p] != "" {
			return "a package such as " + p + ", which would be installed, may bring it"
		}
	}
	return ""
}

// Lacks returns the error about something that the host does not have. It is an [UnknownError] if a planned step may bring it:
// the installation of a package or a command.
func (w *World) Lacks(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if why := w.mayBring("/"); why != "" {
		return &UnknownError{text + "; " + why}
	}
	return errors.New(text)
}

// mayMake returns an [UnknownError] if a planned command may make an account that is not there.
func (w *World) mayMake(kind, name string) error {
	if !w.unknowable {
		return nil
	}
	return &UnknownError{fmt.Sprintf("there is no %s %q on this host; %s", kind, name, w.mayBring("/"))}
}

// Doubt notes that nobody knows what becomes of a path and of what is below it.
func (w *World) Doubt(name, why string) { w.doubts[w.planned(name)] = why }

// known returns an [UnknownError] if nobody knows what is at a path, which no planned step makes. isThere says whether the host has it.
func (w *World) known(name string, isThere bool) error {
	for doubted, why := range w.doubts {
		if isBelow(name, doubted) {
			return &UnknownError{fmt.Sprintf("nobody knows what becomes of %s: %s", doubted, why)}
		}
	}
	if isThere {
		return nil
	}
	if why := w.mayBring(name); why != "" {
		return &UnknownError{fmt.Sprintf("%s is not there; %s", name, why)}
	}
	return nil
}

// RemovePackage plans that a package goes, with its files. Its configuration files go if purge is set; a directory that no other
// package has goes if nothing is left in it.
func (w *World) RemovePackage(name string, purge bool) {
	w.packages[name] = ""
	paths := packagePaths(name)
	kept := map[string]bool{}
	if !purge {
		for _, c := range conffiles(name) {
			kept[c] = true
		}
	}
	var directories []string
	for _, p := range paths {
		info, err := w.Stat(p)
		switch {
		case err != nil || kept[p] || info.Kind == safefs.Absent:
		case info.Kind == safefs.Directory:
			directories = append(directories, p)
		default:
			w.SetFile(p, safefs.Info{}, nil)
		}
	}
	if len(directories) == 0 {
		return
	}
	shared := othersPaths(name, directories)
	for _, d := range slices.Backward(directories) { // a list has a directory before what is in it
		if shared[d] {
			continue
		}
		left, err := w.List(d)
		switch {
		case err != nil:
			w.Doubt(d, "the package "+name+" would be removed")
		case len(left) == 0:
			w.SetFile(d, safefs.Info{}, nil)
		}
	}
}

// ReplacePackage plans another version of an installed package: nobody knows what its files are then.
func (w *World) ReplacePackage(name string) {
	for _, p := range packagePaths(name) {
		info, err := w.Stat(p)
		if err == nil && info.Kind != safefs.Absent && info.Kind != safefs.Directory {
			w.Doubt(p, "the package "+name+" would be upgraded")
		}
	}
}

const dpkgInfo = "/var/lib/dpkg/info/"

// packagePaths returns the files and directories of an installed Debian package.
func packagePaths(name string) (paths []string) {
	for _, list := range lists(name, "list") {
		data, _ := os.ReadFile(list)
		for line := range strings.Lines(string(data)) {
			if p := strings.TrimSpace(line); path.IsAbs(p) && p != "/." {
				paths = append(paths, p)
			}
		}
	}
	return paths
}

// conffiles returns the configuration files of an installed Debian package.
func conffiles(name string) (paths []string) {
	for _, list := range lists(name, "conffiles") {
		data, _ := os.ReadFile(list)
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line) // the path may follow a word such as remove-on-upgrade
			if len(f) > 0 {
				paths = append(paths, f[len(f)-1])
			}
		}
	}
	return paths
}

// lists returns the names of the files of dpkg about a package, with its architecture or without.
func lists(name, kind string) []string {
	plain, _, _ := strings.Cut(name, ":")
	found, _ := filepath.Glob(dpkgInfo + plain + ":*." + kind) // the pattern is valid: packages have plain names
	if _, err := os.Stat(dpkgInfo + plain + "." + kind); err == nil {
		found = append(found, dpkgInfo+plain+"."+kind)
	}
	return found
}

// othersPaths returns those of paths that another package has too.
func othersPaths(name string, paths []string) map[string]bool {
	own := lists(name, "list")
	shared := map[string]bool{}
	all, _ := filepath.Glob(dpkgInfo + "*.list")
	for _, list := range all {
		if slices.Contains(own, list) {
			continue
		}
		f, err := os.Open(list)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if p := lines.Text(); slices.Contains(paths, p) {
				shared[p] = true
			}
		}
		_ = f.Close()
	}
	return shared
}
