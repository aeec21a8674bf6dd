//go:build linux

package file

import (
	"fmt"
	"os/user"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
)

// A Description is what file.stat says of a path.
type Description struct {
	Path     string     `json:"path"`
	Kind     string     `json:"kind"`           // "file", "directory", "symbolic link", …; "absent" if there is nothing
	Mode     string     `json:"mode,omitempty"` // octal digits
	User     string     `json:"user,omitempty"` // the name, or the number if it has none
	Group    string     `json:"group,omitempty"`
	Size     int64      `json:"size,omitempty"`   // of a file, bytes
	Target   string     `json:"target,omitempty"` // of a symbolic link
	Modified *time.Time `json:"modified,omitempty"`
}

// Describe describes a file without following it.
func Describe(name string) (Description, error) {
	d := Description{Path: name}
	if !path.IsAbs(name) || path.Clean(name) != name {
		return d, fmt.Errorf("%q is not an absolute path, or has . or .. in it", name)
	}
	info, err := host.New().Stat(name)
	if err != nil {
		return d, err
	}
	d.Kind = strings.TrimPrefix(info.Kind.String(), "a ")
	if info.Kind == safefs.Absent {
		return d, nil
	}
	modified := info.Modified.UTC()
	d.Mode, d.Target, d.Modified = fmt.Sprintf("%04o", info.Mode), info.Target, &modified
	if info.Kind == safefs.File {
		d.Size = info.Size
	}
	d.User, d.Group = strconv.FormatUint(uint64(info.UID), 10), strconv.FormatUint(uint64(info.GID), 10)
	if u, err := user.LookupId(d.User); err == nil {
		d.User = u.Username
	}
	if g, err := user.LookupGroupId(d.Group); err == nil {
		d.Group = g.Name
	}
	return d, nil
}
