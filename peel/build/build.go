// Package build says which build of zester a program is. Call [Read].
package build

import (
	"cmp"
	"runtime/debug"
)

// Values that .ci/package gives to the linker; empty in other builds, about which Go knows something.
var (
	release string // the version
	commit  string
	date    string
)

// Info describes the build of this program. Fields that the build does not know are empty, apart from Version.
type Info struct {
	Version string `json:"version"`          // "0.2.0" of a package, else what Go says; "(devel)" without either
	Commit  string `json:"commit,omitempty"` // 40 hex digits, with "+dirty" if files differed from the commit
	Date    string `json:"date,omitempty"`   // of the commit, RFC 3339
	Go      string `json:"go"`
}

// Read returns the build of this program.
func Read() Info {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return Info{Version: release, Commit: commit, Date: date}.or(info)
}

// or returns i with what info knows in the place of empty fields.
func (i Info) or(info *debug.BuildInfo) Info {
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	commit := set["vcs.revision"]
	if set["vcs.modified"] == "true" {
		commit += "+dirty"
	}

	i.Version = cmp.Or(i.Version, info.Main.Version, "(devel)")
	i.Commit = cmp.Or(i.Commit, commit)
	i.Date = cmp.Or(i.Date, set["vcs.time"])
	i.Go = info.GoVersion
	return i
}
