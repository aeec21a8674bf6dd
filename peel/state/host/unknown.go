//go:build linux

package host

import (
	"errors"
	"fmt"
	"maps"
	"slices"
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

// Lacks returns the error about something that the host does not have. It is an [UnknownError] if a planned step may
// bring it: the installation of a package or a command.
func (w *World) Lacks(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if why := w.mayBring("/"); why != "" {
		return &UnknownError{text + "; " + why}
	}
	return errors.New(text)
}

// mayMake returns an [UnknownError] if a planned command or package may make an account that is not there: the scripts
// of packages make accounts.
func (w *World) mayMake(kind, name string) error {
	why := w.mayBring("/")
	if why == "" {
		return nil
	}
	return &UnknownError{fmt.Sprintf("there is no %s %q on this host; %s", kind, name, why)}
}

// Doubt notes that nobody knows what becomes of a path and of what is below it.
func (w *World) Doubt(name, why string) { w.doubts[w.planned(name)] = why }

// isDoubted reports whether nobody knows what becomes of a path.
func (w *World) isDoubted(name string) bool {
	for doubted := range w.doubts {
		if isBelow(name, doubted) {
			return true
		}
	}
	return false
}

// known returns an [UnknownError] if nobody knows what is at a path, which no planned step makes. isThere says whether
// the host has it.
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
