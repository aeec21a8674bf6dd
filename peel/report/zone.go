package report

import (
	"bytes"
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/zoneinfo"
)

// ZoneName returns the IANA name of a zone. That of the host comes from its configuration; it is "Local" if that has no
// name.
func ZoneName(zone *time.Location) string {
	if zone != time.Local {
		return zone.String()
	}
	if name, ok := os.LookupEnv("TZ"); ok {
		return cmp.Or(strings.TrimPrefix(name, ":"), "UTC")
	}
	return cmp.Or(hostZone("/", time.Now()), zone.String())
}

// hostZone returns the name of the zone of the host whose files are below root; empty if it has none. The file
// /etc/localtime is a link to the zone, or a copy of it: then it is the zone that /etc/timezone names if that is the
// same zone, else the first one with the same content.
func hostZone(root string, now time.Time) string {
	file, err := filepath.EvalSymlinks(filepath.Join(root, "etc/localtime"))
	if err != nil {
		return ""
	}
	if _, name, ok := strings.Cut(file, "zoneinfo/"); ok {
		return name
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	zone, err := time.LoadLocationFromTZData("", data)
	if err != nil {
		return ""
	}
	if text, err := os.ReadFile(filepath.Join(root, "etc/timezone")); err == nil {
		name := strings.TrimSpace(string(text))
		if named, err := zoneinfo.Load(name); err == nil && name != "" && areSame(zone, named, now) {
			return name
		}
	}
	return sameContent(filepath.Join(root, "usr/share/zoneinfo"), data)
}

// areSame reports whether two zones have the same offsets from UTC for the next two years.
func areSame(a, b *time.Location, now time.Time) bool {
	for at, end := now, now.AddDate(2, 0, 0); at.Before(end); {
		_, x := at.In(a).Zone()
		_, y := at.In(b).Zone()
		if x != y {
			return false
		}
		next := end
		for _, l := range []*time.Location{a, b} {
			if _, until := at.In(l).ZoneBounds(); until.After(at) && until.Before(next) {
				next = until
			}
		}
		at = next
	}
	return true
}

// sameContent returns the name of the first file in a tree of zones that has the content.
func sameContent(dir string, data []byte) (name string) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // a zone that cannot be read is not found
		case e.IsDir() && (e.Name() == "posix" || e.Name() == "right"): // the same zones again
			return fs.SkipDir
		case !e.Type().IsRegular() || e.Name() == "posixrules" || e.Name() == "localtime":
			return nil
		}
		if info, err := e.Info(); err != nil || info.Size() != int64(len(data)) {
			return nil
		}
		if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, data) {
			name, _ = filepath.Rel(dir, path)
			return fs.SkipAll
		}
		return nil
	})
	return name
}
