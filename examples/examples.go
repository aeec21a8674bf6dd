// Package examples holds config repos, configuration files that work as they stand, and what large fleets need.
// The demo makes its config repo from [Fleet], and tests run every file here.
package examples

import (
	"embed"
	"io/fs"
)

//go:embed all:fleet
var files embed.FS

// Fleet returns the config repo of the demo: a top file with every kind of target, and the settings that it names.
func Fleet() fs.FS {
	fleet, err := fs.Sub(files, "fleet")
	if err != nil {
		panic(err) // the path is a constant that the embed directive has checked
	}
	return fleet
}
