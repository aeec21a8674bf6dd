//go:build linux

package pkg

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// configuration is where packages have the files that people edit. No policy allows another place.
const configuration = "/etc"

// maxLooked bounds the files that are looked at for one list.
const maxLooked = 100_000

// asides are the ends of the names of files that package managers leave beside an edited one.
var asides = []string{
	".dpkg-dist", ".dpkg-old", ".dpkg-new", ".ucf-dist", ".ucf-old", ".rpmnew", ".rpmsave", ".rpmorig",
}

// putAside returns the files below dir that a package manager has left beside an edited one, with their times. What
// cannot be read is left out.
func putAside(dir string) map[string]time.Time {
	found, looked := map[string]time.Time{}, 0
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if looked++; looked > maxLooked {
			return fs.SkipAll
		}
		if err != nil || !slices.Contains(asides, filepath.Ext(path)) || !e.Type().IsRegular() {
			return nil
		}
		if info, err := e.Info(); err == nil {
			found[path] = info.ModTime()
		}
		return nil
	})
	return found
}

// addAside notes the files that were put aside since before was read.
func (m *Manager) addAside(before map[string]time.Time) {
	for path, at := range putAside(m.etc) {
		if was, there := before[path]; !there || !was.Equal(at) {
			m.aside[path] = true
		}
	}
}

// Aside returns a text about the files that transactions have put aside since the last call; empty if there are none.
func (m *Manager) Aside() string {
	const named = 10
	paths := slices.Sorted(maps.Keys(m.aside))
	clear(m.aside)
	if len(paths) == 0 {
		return ""
	}
	text := strings.Join(paths[:min(named, len(paths))], ", ")
	if n := len(paths) - named; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return "the package has another configuration than this host; compare the files that it left: " + text
}
