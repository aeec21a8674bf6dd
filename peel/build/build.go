// Package build says which build of zester a program is. Call [Read].
package build

import "runtime/debug"

// release is the version that .ci/package gives to the linker; empty in other builds.
var release string

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
		return of(release, &debug.BuildInfo{})
	}
	return of(release, info)
}

func of(release string, info *debug.BuildInfo) Info {
	i := Info{Version: release, Go: info.GoVersion}
	if i.Version == "" {
		i.Version = info.Main.Version
	}
	if i.Version == "" {
		i.Version = "(devel)"
	}

	changed := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Commit = s.Value
		case "vcs.time":
			i.Date = s.Value
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	if changed {
		i.Commit += "+dirty"
	}
	return i
}
