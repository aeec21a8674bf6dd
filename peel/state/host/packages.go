//go:build linux

package host

import (
	"slices"

	"github.com/seed-c01c3da5/zester/peel/state/safefs"
)

// PackageFiles is what a package manager knows about the files of an installed package.
type PackageFiles struct {
	Paths  []string // files and directories, a directory before what is in it
	Kept   []string // files that stay if the package goes and is not purged
	Copies []string // files that the manager may make of edited ones if the package goes
	Shared []string // directories that another package has too
}

// Package returns the version that planned steps give a package, empty if they remove it.
func (w *World) Package(name string) (version string, planned bool) {
	version, planned = w.packages[name]
	return version, planned
}

// SetPackage plans the version of a package.
func (w *World) SetPackage(name, version string) { w.packages[name] = version }

// RemovePackage plans that a package goes, with its files. Those that are kept go if purge is set; a directory that no
// other package has goes if nothing is left in it.
func (w *World) RemovePackage(name string, files PackageFiles, purge bool) {
	w.packages[name] = ""
	why := "the package " + name + " would be removed"
	var directories []string
	for _, p := range files.Paths {
		w.removed[p] = name
		info, err := w.Stat(p)
		switch {
		case err != nil || !purge && slices.Contains(files.Kept, p) || info.Kind == safefs.Absent:
		case info.Kind == safefs.Directory:
			directories = append(directories, p)
		default:
			w.SetFile(p, safefs.Info{}, nil)
		}
	}
	for _, p := range files.Copies {
		w.Doubt(p, why)
	}
	for _, d := range slices.Backward(directories) {
		if slices.Contains(files.Shared, d) {
			continue
		}
		left, err := w.List(d)
		switch {
		case err != nil:
			w.Doubt(d, why)
		case len(left) == 0:
			w.SetFile(d, safefs.Info{}, nil)
		}
	}
}

// ReplacePackage plans another version of an installed package: nobody knows what its files are then.
func (w *World) ReplacePackage(name string, files PackageFiles) {
	for _, p := range files.Paths {
		info, err := w.Stat(p)
		if err == nil && info.Kind != safefs.Absent && info.Kind != safefs.Directory {
			w.Doubt(p, "the package "+name+" would be upgraded")
		}
	}
}
